// SPDX-License-Identifier: Apache-2.0 OR MIT
//! OS jitter replayed (De, Kothari and Mann, "A trace-driven emulation
//! framework to predict scalability of large clusters in presence of OS
//! jitter", Cluster 2008, JitterEmulator): a [`ReplayPlan`] says what each rank of a
//! program is to suffer of a trace; a rank suffers it by itself
//! ([`PolledReplay`]), or is made to by a process beside it (`process`).
//!
//! ```text
//!   trace --Plan--> Portion (one for each rank) --+--> Polled: the program asks
//!                                                 `--> safeguards --> process per CPU
//! ```
//!
//! A program that calls often needs no timer and no process, and suffers each
//! event of the trace however short:
//!
//! ```
//! use sandbag_jitter::replay::clock::{Clock, Monotonic};
//! use sandbag_jitter::replay::{Options, Plan};
//! use sandbag_jitter::{CpuTrace, Event, Span};
//!
//! // A millisecond of which 20 us are taken, as if it had been recorded.
//! let recorded = CpuTrace {
//!     cpu: 0,
//!     known: vec![Span { from_ns: 0, until_ns: 1_000_000 }],
//!     events: vec![Event { start_ns: 300_000, length_ns: 20_000 }],
//! };
//! let options = Options { share: 1.0, ..Options::default() };
//! let plan = Plan::new(&[&recorded], &options)?;
//!
//! let clock = Monotonic;
//! let mut polled = plan.rank(0).polled(1000, clock.now_ns());
//! while !polled.is_over(clock.now_ns()) {
//!     // A step of the program's own work, and then:
//!     polled.suffer(&clock);
//! }
//! assert!(polled.outcome().counts.injected >= 1);
//! # Ok::<(), sandbag_jitter::replay::Error>(())
//! ```
//!
//! Units: nanoseconds (`_ns`). The patent note in docs/explanation/jitter.md is about the
//! scale factor: 1 is the default and the one that is made good.

pub mod clock;
mod column;
mod error;
pub mod histogram;
pub mod limit;
pub mod matching;
pub mod outcome;
pub mod plan;
pub mod polling;
mod portion;
pub mod process;
pub mod safeguard;
mod sync;
pub mod verdict_row;

pub use column::{PlanColumn, PlannedEvent};
pub use error::{Error, Result};
pub use outcome::RankOutcome;
pub use plan::{ReplayOptions, ReplayPlan};
pub use polling::PolledReplay;
pub use portion::{Events, Portion};
pub use safeguard::Safeguards;
pub use sync::Sync;
