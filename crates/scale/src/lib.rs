// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The effect of OS jitter on a bulk-synchronous program (De, Kothari and Mann, "A
//! trace-driven emulation framework to predict scalability of large clusters in presence of
//! OS jitter", Cluster 2008): every rank computes for a quantum, then all wait for the last.
//!
//! [`predict`] computes the slowdown on any number of ranks from a trace of one node. It is
//! pure: no clock, no files, the same figures for a seed and any number of threads.
//!
//! [`mod@bench`] measures the slowdown on the ranks of this machine, as processes of its own
//! into which it injects jitter.
//!
//! Units: nanoseconds (`_ns`), percent of the time without noise (`_pct`).

pub mod bench;
mod chance;
pub mod command;
mod error;
pub mod file;
#[cfg(test)]
mod fixture;
pub mod predict;

pub use error::{Error, Result};
