// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Causes of the events of a trace.
//!
//! The loop sees that it did not run, not what ran. The kernel records when it enters and
//! leaves interrupts and tasks, on the clock that the loop reads. A [`Cause`] is the time
//! from such an entry to the exit, within an event. Causes are nested (an interrupt within
//! a task) or disjoint: the *gross* time of one is its length, its *net* time excludes
//! those inside. The rest of an event with causes is entry and exit of the kernel or the
//! hypervisor; an event without a cause, while the kernel was watched, is due to the
//! hypervisor or the hardware.
//!
//! All here is pure; [`collect`](crate::collect) asks the kernel.

pub mod cause;
mod explain;
mod merge;
mod processes;
mod table;
#[cfg(test)]
mod tests;

pub use crate::causes::{
    Attribution, AttributionMethod, AttributionSummary, Cause, Count, CpuCauses, CpuCounters,
    MAX_NAME, NoiseOrigin, ProcessInfo, SourceKind, Sources,
};
pub use explain::{EventExplanation, RowSubject, Share, explain};
pub use merge::{Mark, MarkKind, MergeResult, Merger};
pub use processes::{ProcessRow, processes};
pub use table::{SourceRow, by_cpu, foremost, table};
