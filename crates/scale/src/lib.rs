// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What OS jitter does to a bulk-synchronous program (De, Kothari and Mann, "A
//! trace-driven emulation framework to predict scalability of large clusters in
//! presence of OS jitter", Cluster 2008): every rank computes for a quantum,
//! then all wait for the last.
//!
//! [`predict`] says how much slower such a program is on ranks that nobody has,
//! from a trace of one node. It is pure: no clock, no files, the same figures
//! for a seed whatever the number of threads.
//!
//! [`mod@bench`] measures it on the ranks that there are, by processes of its own, and
//! injects jitter while it does.
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
