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
mod error;
mod notes;
mod options;
mod recorder;
mod report;
mod track;

pub use clock::{LiveClock, RecordClock, Wake};
pub use error::{Error, Result};
pub use options::{MIN_INTERVAL_NS, RecordOptions};
pub use recorder::{Recorder, StatSource};
pub use report::{CpuReport, RecordReport};
pub use sandbag_linux::command_clock::{CommandClock, CpuacctClock, PerfClock};
