// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An injector process on each CPU, which takes it from the task that runs there.
//!
//! ```text
//!   team --place--> injector: takes its class, measures its overhead
//!        <-ready--
//!        --plan, go--> sleeps until an event is due, spins for its length
//!        <-what became of each event, in shared memory
//! ```
//!
//! An injector dies with its parent (PR_SET_PDEATHSIG), and the kernel kills one that
//! spins for a second without sleeping (RLIMIT_RTTIME). It changes nothing on the
//! machine, so there is nothing to undo.

mod board;
pub mod injector;
mod measure;
mod request;
mod seat;
mod team;

use serde::{Deserialize, Serialize};

use crate::replay::limit::LeftOut;
use crate::replay::outcome::RankOutcome;
pub use request::{Ask, Want};
pub use team::Team;

/// First argument of an injector's process.
pub const INJECTOR_VERB: &str = "__injector";

/// Scheduling class of an injector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InjectorClass {
    /// A real-time task (SCHED_FIFO): it runs at once, and until it is done.
    Fifo {
        /// 1 (lowest) to 99.
        priority: u8,
    },
    /// An ordinary task. When it is preempted it spins for longer, so that the
    /// length of an event is its own CPU time.
    Fair,
}

impl InjectorClass {
    /// The name in records.
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

/// Overhead and wake-up latency of an injector on its CPU, measured with an ordinary
/// task that spins there; times in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InjectorNoise {
    /// Time that the task lost beyond the length of an event, median where no other
    /// task ran. 0 if it could not be measured.
    pub overhead_ns: u64,
    /// Part of it before the injector reads its clock, median.
    pub lead_ns: u64,
    /// From the due time to the interruption of the task, median; below 0 under
    /// hypervisors that take the CPU before a timer is due (KVM's
    /// lapic_timer_advance_ns). Deadlines are moved by it.
    pub began_late_ns: i64,
    /// From a near deadline to the wake-up, median: the timer's least interval.
    pub least_interval_ns: u64,
    /// Wake-up latency, as cyclictest shows it.
    pub wake_p50_ns: u64,
    pub wake_p90_ns: u64,
    pub wake_p99_ns: u64,
    pub wake_most_ns: u64,
    /// The same where no task spins: of a CPU that is idle. 0 if it was not measured.
    #[serde(default)]
    pub idle_wake_p90_ns: u64,
    /// Events are late beyond this. See [`Self::set_limits`].
    #[serde(default)]
    pub late_ns: u64,
    /// Events that were due while the CPU was idle are late beyond this. 0 where it cannot be
    /// seen whether it was.
    #[serde(default)]
    pub late_idle_ns: u64,
    /// Number of wake-ups.
    pub wakes: u64,
    /// Wake-ups that the other task saw.
    pub seen: u64,
}

/// An event is late beyond this many times the 99th percentile of the wake-ups beside a busy
/// task, or, on a CPU that was idle, the 90th percentile of those of an idle CPU. The latter
/// change: events were up to 11 times as late as that (docs/results/jitter/idle.md).
const TIMES_USUAL: u64 = 10;
/// A real-time task that begins later was kept off the CPU, also where that was usual while wake-ups
/// were measured. As inside a program.
const MOST_REAL_TIME_NS: u64 = 1_000_000;

impl InjectorNoise {
    /// Sets the limits beyond which events have been kept off the CPU. `sees_idle`: it is known
    /// of each event whether the CPU was idle when it was due. If not, the larger one holds.
    pub fn set_limits(&mut self, class: InjectorClass, sees_idle: bool) {
        let most_ns = match class {
            InjectorClass::Fair => u64::MAX,
            InjectorClass::Fifo { .. } => MOST_REAL_TIME_NS,
        };
        let limit_ns = |wake_ns: u64| wake_ns.saturating_mul(TIMES_USUAL).min(most_ns);
        let busy_ns = limit_ns(self.wake_p99_ns);
        let idle_ns = busy_ns.max(limit_ns(self.idle_wake_p90_ns));
        (self.late_ns, self.late_idle_ns) = if sees_idle {
            (busy_ns, idle_ns)
        } else {
            (idle_ns, 0)
        };
    }

    /// Whether an event that began so late had been kept off the CPU.
    pub fn is_late(&self, late_ns: u64, was_idle: impl FnOnce() -> bool) -> bool {
        late_ns > self.late_ns && (late_ns > self.late_idle_ns || !was_idle())
    }
}

/// State of an injector at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    #[default]
    Well,
    /// Its CPU went offline.
    Displaced,
    /// It ended early, with its status.
    Died(String),
}

/// The outcome of one CPU.
#[derive(Debug, Clone)]
pub struct CpuOutcome {
    pub cpu: u32,
    pub measured: InjectorNoise,
    pub outcome: RankOutcome,
    /// What the limit would leave out of a whole portion.
    pub left_out: LeftOut,
    /// Length of the run, ns.
    pub ran_ns: u64,
    /// The injector did not run for this long while events were due: it was
    /// stopped, or had no CPU. Without pauses of the whole run, ns.
    pub stood_ns: u64,
    pub health: Health,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_may_be_as_late_as_an_idle_cpu_wakes_up() {
        let limits_of = |class, wake_p99_ns, idle_wake_p90_ns, sees_idle| {
            let mut noise = InjectorNoise {
                wake_p99_ns,
                idle_wake_p90_ns,
                ..InjectorNoise::default()
            };
            noise.set_limits(class, sees_idle);
            (noise.late_ns, noise.late_idle_ns)
        };
        let limits =
            |wake_ns, idle_ns, sees| limits_of(InjectorClass::Fair, wake_ns, idle_ns, sees);
        // A virtual CPU, one that never sleeps, and one whose host is busy.
        assert_eq!(limits(5_500, 108_000, true), (55_000, 1_080_000));
        assert_eq!(limits(5_500, 108_000, false), (1_080_000, 0));
        assert_eq!(limits(5_500, 5_000, false), (55_000, 0));
        assert_eq!(limits(5_500, 5_000, true), (55_000, 55_000));
        assert_eq!(limits(2_000_000, 900_000, false), (20_000_000, 0));
        assert_eq!(limits(u64::MAX, 1, false), (u64::MAX, 0));
        // What keeps a real-time task off the CPU is no excuse for it.
        let limits = |wake_ns, idle_ns, sees| {
            let class = InjectorClass::Fifo { priority: 1 };
            limits_of(class, wake_ns, idle_ns, sees)
        };
        assert_eq!(limits(5_500, 51_000, true), (55_000, 510_000));
        assert_eq!(limits(5_500, 108_000, true), (55_000, 1_000_000));
        assert_eq!(limits(3_980_000, 4_000_000, true), (1_000_000, 1_000_000));
    }

    #[test]
    fn a_late_event_is_one_of_a_busy_cpu_or_far_later() {
        let mut noise = InjectorNoise {
            wake_p99_ns: 5,
            idle_wake_p90_ns: 100,
            ..InjectorNoise::default()
        };
        for (sees_idle, late_ns, idle, is_late) in [
            (true, 50, false, false),
            (true, 51, false, true),
            (true, 51, true, false),
            (true, 1000, true, false),
            (true, 1001, true, true),
            (false, 1000, false, false),
            (false, 1001, true, true),
        ] {
            noise.set_limits(InjectorClass::Fair, sees_idle);
            let found = noise.is_late(late_ns, || sees_idle && idle);
            assert_eq!(found, is_late, "{sees_idle} {late_ns} {idle}");
        }
    }
}
