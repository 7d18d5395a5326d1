// SPDX-License-Identifier: Apache-2.0 OR MIT
//! node_exporter's CPU time as Prometheus gives it out: the JSON of its HTTP
//! API ([`matrix`]) and text with time stamps ([`text`]).
//!
//! ```text
//! node_cpu_seconds_total{cpu="0",instance="vm:9100",mode="idle"} 10870.69
//! ```
//!
//! One series per CPU and mode. All of them list series after series, so the
//! machine that is wanted is held in memory ([`store`]), 16 bytes per value and
//! at most 1 GiB, and then read moment by moment ([`samples`]).

mod kind;
mod labels;
mod matrix;
mod samples;
mod store;
#[cfg(test)]
mod tests;
mod text;

pub(super) use matrix::READER as MATRIX;
pub(super) use text::READER as TEXT;
