// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process per CPU that takes it from whoever runs there.
//!
//! ```text
//!   team --place--> injector: takes its class, measures what it costs
//!        <-ready--
//!        --plan, go--> sleeps until an event is due, spins for its length
//!        <-what became of each event, in shared memory
//! ```
//!
//! An injector dies with whoever started it (PR_SET_PDEATHSIG), and the kernel
//! kills one that spins for a second without sleeping (RLIMIT_RTTIME). It
//! changes nothing on the machine, so there is nothing to undo.

pub mod ask;
pub mod beside;
mod board;
mod cpu_share;
pub mod injector;
mod measure;
pub mod outcome;
mod seat;
pub mod team;
pub mod verify;

use serde::{Deserialize, Serialize};

/// First argument of an injector's process.
pub const INJECTOR_VERB: &str = "__injector";

/// How an injector gets its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InjectorClass {
    /// A real-time task (SCHED_FIFO): at once, and until it is done.
    Fifo {
        /// 1 (lowest) to 99.
        priority: u8,
    },
    /// An ordinary task: when the scheduler gives it the CPU. What another
    /// takes away from it meanwhile is spun later, so that the length is its
    /// own CPU time.
    Fair,
}

impl InjectorClass {
    /// As records have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fifo { .. } => "fifo",
            Self::Fair => "fair",
        }
    }
}

impl std::fmt::Display for InjectorClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fifo { priority } => write!(f, "fifo, priority {priority}"),
            Self::Fair => f.write_str("fair"),
        }
    }
}

/// What an injector measured of itself on its CPU, beside an ordinary task
/// that spins there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InjectorNoise {
    /// What the other lost beyond the length of an event, median where nobody
    /// else ran, ns: the floor. 0 if it could not be seen.
    pub overhead_ns: u64,
    /// Of that, before the injector reads its clock, median, ns.
    pub lead_ns: u64,
    /// So much later than due the other began to lose, median, ns; below 0:
    /// earlier, as under hypervisors that take the CPU for a timer before it
    /// is due (KVM's lapic_timer_advance_ns). Deadlines are moved by it.
    pub began_late_ns: i64,
    /// From a deadline that is near to the wake-up, median, ns: the timer's
    /// least interval.
    pub least_interval_ns: u64,
    /// Wake-ups after their deadline, as cyclictest shows them, ns.
    pub wake_p50_ns: u64,
    pub wake_p90_ns: u64,
    pub wake_p99_ns: u64,
    /// The latest.
    pub wake_most_ns: u64,
    /// Wake-ups that were measured.
    pub wakes: u64,
    /// Of those, how many the other task saw.
    pub seen: u64,
}
