// SPDX-License-Identifier: Apache-2.0 OR MIT
//! OS jitter (De, Kothari and Mann, "Identifying sources of operating system
//! jitter through fine-grained kernel instrumentation" and "A trace-driven
//! emulation framework to predict scalability of large clusters in presence of
//! OS jitter", 2007 and 2008): what takes a CPU away from a program, recorded
//! event by event, described, and compared.
//!
//! An [`TraceEvent`] is a stretch of time in which a program that does nothing but
//! read the clock did not get to read it. A [`JitterTrace`] holds the events of
//! several CPUs on one clock, and the stretches in which they were looked for:
//! outside of those nothing is known, which is not the same as quiet.
//!
//! Units: nanoseconds (`_ns`) since the beginning of the trace.

pub mod attribution;
mod causes;
pub mod collect;
pub mod command;
mod distribution;
mod error;
#[cfg(test)]
mod fixture;
pub mod format;
pub mod import;
pub mod inside;
mod page;
#[cfg(test)]
#[path = "../../base/linux/tests/support/patience.rs"]
mod patience;
pub mod replay;
mod select;
#[cfg(test)]
#[path = "../../base/linux/tests/support/skipped.rs"]
mod skipped;
mod spans;
pub mod stats;
pub mod synth;
mod tables;
mod trace;
pub mod trace_file;
mod verify;

pub use distribution::{Bin, Causes, CpuCounts, Distribution, Quantile, Quantity, TailCount};
pub use error::{Error, Fault, Result};
pub use select::Selection;
pub use spans::{Span, common};
pub use trace::{CpuNotes, CpuTrace, JitterTrace, LoopClock, Notes, TraceEvent, TraceHeader};
