// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replay of OS jitter (De, Kothari and Mann, "A trace-driven emulation framework to
//! predict scalability of large clusters in presence of OS jitter", Cluster 2008,
//! JitterEmulator). A [`ReplayPlan`] assigns to each rank a [`Portion`] of a trace. A
//! rank injects its events itself by polling ([`PolledReplay`]), by timers inside its
//! processes ([`crate::inside`]), or processes beside it do ([`process`]). [`hold`]
//! runs such a [`Replay`], and each rank has a [`RankOutcome`].
//!
//! A program that polls often needs no timer and no process, and suffers each event
//! however short:
//!
//! ```
//! use sandbag_linux::clock::{Clock, Monotonic};
//! use sandbag_jitter::replay::{ReplayOptions, ReplayPlan};
//! use sandbag_jitter::{CpuTrace, Span, TraceEvent};
//!
//! // A millisecond of which 20 us are taken, as if it had been recorded.
//! let recorded = CpuTrace {
//!     cpu: 0,
//!     known: vec![Span { from_ns: 0, until_ns: 1_000_000 }],
//!     events: vec![TraceEvent { start_ns: 300_000, length_ns: 20_000 }],
//! };
//! let options = ReplayOptions { share: 1.0, ..ReplayOptions::default() };
//! let plan = ReplayPlan::new(&[&recorded], &options)?;
//!
//! let clock = Monotonic;
//! let mut polled = plan.rank(0).polled(1000, clock.now_ns());
//! // Until an event was met, however late: another task may have the CPU meanwhile.
//! while polled.outcome().counts.injected == 0 {
//!     // A step of the program's own work, and then:
//!     polled.suffer_one(&clock);
//! }
//! # Ok::<(), sandbag_jitter::replay::Error>(())
//! ```
//!
//! Units: nanoseconds (`_ns`). The patent note in docs/explanation/jitter.md is about the
//! scale factor; 1 is the default.

mod column;
mod error;
pub mod histogram;
pub mod hold;
pub mod limit;
pub mod outcome;
pub mod plan;
pub mod polling;
mod portion;
pub mod process;
pub mod safeguard;
mod sync;

pub use column::{PlanColumn, PlannedEvent};
pub use error::{Error, Result};
pub use hold::Replay;
pub use outcome::RankOutcome;
pub use plan::{ReplayOptions, ReplayPlan};
pub use polling::PolledReplay;
pub use portion::Portion;
pub use sync::Sync;

/// An empty vector whose memory is present: adding up to `room` values neither
/// allocates nor faults.
pub(crate) fn touched<T: Clone>(value: T, room: usize) -> Vec<T> {
    let mut all = vec![value; room];
    all.clear();
    all
}
