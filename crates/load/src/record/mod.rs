// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records the load of each CPU as a profile.
//!
//! A [`Recorder`] samples `/proc/stat` at absolute deadlines and writes one
//! row of a native profile per interval, at once, so that a recording that is
//! killed is whole up to its last row. With the clock of a command
//! ([`CommandClock`]) it records the *opposing* load: what everything except
//! the command put on the CPUs, KRASH's measurement around a program.
//!
//! `/proc/stat` counts in ticks of 10 ms: a row of 100 ms tells a load to about
//! ten points and a row of 1 s to about one. Rounding errors do not add up.

mod clock;
mod notes;
mod recorder;
mod report;
mod track;

pub use clock::{LiveClock, RecordClock, Wake};
pub use recorder::Recorder;
pub use report::{CpuReport, RecordReport};
pub use sandbag_linux::command_clock::CommandClock;

use std::io;

use sandbag_linux::CpuList;

/// The shortest interval: ten ticks of `/proc/stat`, ns.
pub const MIN_INTERVAL_NS: u64 = 100_000_000;

/// What is recorded, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordOptions {
    /// Length of a row; at least [`MIN_INTERVAL_NS`].
    pub interval_ns: u64,
    /// Length of the recording; without it, until stopped. A rest shorter
    /// than [`MIN_INTERVAL_NS`] becomes part of the last row, or after a late
    /// sample a row of that length: no recording is shorter than this.
    pub duration_ns: Option<u64>,
    /// The CPUs that get a column, online or not; without it, those online
    /// at the beginning.
    pub cpus: Option<CpuList>,
    /// Steal counts as load.
    pub steal_as_load: bool,
    /// Name of the machine, for the head of the file.
    pub host: Option<String>,
}

pub type Result<T> = std::result::Result<T, Error>;

/// A failed recording. What was written before stays and can be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Kernel(#[from] sandbag_linux::Error),
    #[error("write the recording: {0}; whole rows that were written before can be read")]
    Output(#[source] io::Error),
    #[error("wait for the next sample: {0}")]
    Wait(#[source] io::Error),
}

impl sandbag_ui::ExitStatus for Error {}
