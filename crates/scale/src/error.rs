// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why nothing can be predicted or measured.

use sandbag_ui::{ExitStatus, exit};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// See the module's text. Lower case, no final stop.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option is out of its range.
    #[error("{what} is {found}, expected {expected}")]
    Option {
        /// Its name.
        what: &'static str,
        /// What was given.
        found: String,
        /// What would do.
        expected: &'static str,
    },
    /// The trace cannot show events as short as the quantum.
    #[error(
        "a quantum of {} is shorter than what the trace can show (events above {}): take a longer \
         quantum",
        time(*quantum_ns),
        time(*detectable_ns as u64)
    )]
    BelowDetectable {
        /// The quantum.
        quantum_ns: u64,
        /// The shortest event that could have been seen.
        detectable_ns: f64,
    },
    /// No window fits.
    #[error(
        "no stretch of the trace in which events were looked for is long enough for {what} of {} \
         without its events (the longest is {} with them): record for longer, or without rounds",
        time(*needed_ns),
        time(*longest_ns)
    )]
    TooShort {
        /// What had to fit.
        what: &'static str,
        /// How long it is.
        needed_ns: u64,
        /// The longest stretch.
        longest_ns: u64,
    },
    /// A node of more CPUs than were recorded together.
    #[error(
        "a node of {group} ranks needs as many CPUs that were recorded together, and the trace \
         holds {held}: take a group of at most {held}, or record more CPUs"
    )]
    Group {
        /// Ranks of a node.
        group: u32,
        /// CPUs of the trace.
        held: usize,
    },
    /// Nodes of which each has its own time.
    #[error(
        "nodes of several traces have no position in common, so they cannot be synchronised: take \
         --sync none, or each trace for itself"
    )]
    NothingCommon,
    /// How far ranks drift apart is not known.
    #[error(
        "how far ranks that were synchronised drift apart has to be said (--drift): `scale bench \
         --virtual` prints how far their noise takes them"
    )]
    NoDrift,
    /// No work would end.
    #[error(
        "noise takes {noise_pct:.1} % of a CPU of the trace, and so nothing is left to the work: take a \
         trace with less than {most_pct} %"
    )]
    NoRoom {
        /// Of the CPU that has most, percent.
        noise_pct: f64,
        /// So much can be had, percent.
        most_pct: f64,
    },
    /// The system did not do what was asked.
    #[error("{call}: {cause}")]
    Call {
        /// Which call, or who.
        call: &'static str,
        /// What it said.
        cause: String,
    },
}

/// With a unit.
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
