// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of prediction and benchmark.

use sandbag_ui::{ExitStatus, exit};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Lower case, no final stop.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{what} is {found}, expected {expected}")]
    Option {
        what: &'static str,
        found: String,
        expected: &'static str,
    },
    #[error(
        "a quantum of {} is shorter than what the trace can show (events above {}): take a longer \
         quantum",
        time(*quantum_ns),
        time(*detectable_ns as u64)
    )]
    BelowDetectable {
        quantum_ns: u64,
        /// The shortest event that could have been recorded.
        detectable_ns: f64,
    },
    #[error(
        "no stretch of the trace in which events were looked for is long enough for {what} of {} \
         without its events (the longest is {} with them): record for longer, or without rounds",
        time(*needed_ns),
        time(*longest_ns)
    )]
    TooShort {
        /// What had to fit.
        what: &'static str,
        needed_ns: u64,
        longest_ns: u64,
    },
    #[error(
        "a node of {group} ranks needs as many CPUs that were recorded together, and the trace \
         holds {held}: take a group of at most {held}, or record more CPUs"
    )]
    Group { group: u32, held: usize },
    #[error(
        "nodes of several traces have no position in common, so they cannot be synchronised: take \
         --sync none, or one trace at a time"
    )]
    NothingCommon,
    #[error(
        "--sync once and every:K need --drift, the distance that synchronised ranks drift apart: \
         `scale bench --virtual` prints how far their noise takes them"
    )]
    NoDrift,
    #[error(
        "noise takes {noise_pct:.1} % of a CPU of the trace, and so nothing is left to the work: take a \
         trace with less than {most_pct} %"
    )]
    NoRoom {
        /// Of the CPU with the most.
        noise_pct: f64,
        most_pct: f64,
    },
    #[error("{call}: {cause}")]
    Call { call: &'static str, cause: String },
}

/// A time with its unit.
fn time(ns: u64) -> String {
    format!("{:?}", std::time::Duration::from_nanos(ns))
}

impl ExitStatus for Error {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Call { .. } => exit::FAILED,
            _ => exit::USAGE,
        }
    }
}
