// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The overhead of an injection, and how late it begins: the paper's first two
//! safeguards measure both before each experiment.
//!
//! A process of sandbag ([`collector`]) suffers events of a known length and does
//! nothing but read the clock. What it misses beyond that length is the overhead:
//! the timer's interrupt, the way into the signal handler and out of it, and arming
//! the next timer.

use sandbag_linux::clock;
use serde::{Deserialize, Serialize};

use crate::inside::collector::{self, CollectorSetup, Gap};
use crate::inside::error::{Error, Result};
use crate::inside::library::LibraryDir;
use crate::inside::plan::{InsideOptions, PlanFile, PlanStart, Portion};
use crate::replay::{PlanColumn, PlannedEvent};

/// Events that are injected, their length and their distance, ns.
const EVENTS: u64 = 300;
const LENGTH_NS: u64 = 50_000;
const APART_NS: u64 = 400_000;
/// The process goes on for this long after the last, ns.
const AFTER_NS: u64 = 2_000_000;
/// A start that is later is not due to the timer, ns.
const ON_TIME_NS: u64 = 100_000;
/// Nor is one later than this multiple of the 99th percentile, as beside a program; on a busy
/// machine that is not the timer's either.
const TIMES_START_99: u64 = 10;
/// A longer lead is not due to a hypervisor's timer, ns.
const LEAD_NS: u64 = 10_000;

/// What was measured, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Overhead {
    /// Lost time beyond the length of an event, median. Shorter events cannot be
    /// injected.
    #[serde(rename = "overhead_ns")]
    pub injection_ns: u64,
    /// Part of it after the event, median.
    pub exit_ns: u64,
    /// The program is interrupted this long before the timer is due, median: KVM
    /// takes the CPU for the timer early (`lapic_timer_advance_ns`).
    pub lead_ns: u64,
    /// Start error of the events, median: the accuracy of this machine's timers.
    #[serde(rename = "start_p50_ns")]
    pub start_ns: u64,
    /// 90th percentile of the start error.
    #[serde(rename = "start_p90_ns")]
    pub start_90_ns: u64,
    /// 99th percentile of the start error.
    #[serde(rename = "start_p99_ns")]
    pub start_99_ns: u64,
    /// An event that follows sooner is injected together with the one before: a
    /// timer would be late for half of them.
    pub least_gap_ns: u64,
    /// Number of events measured.
    pub events: u64,
}

impl Overhead {
    /// Options of a plan with the first safeguard (`overhead`) and the second
    /// (`interval`).
    pub fn guarded(measured: Option<Self>, overhead: bool, interval: bool) -> InsideOptions {
        let of = |on: bool, ns: fn(Self) -> u64| measured.filter(|_| on).map_or(0, ns);
        InsideOptions {
            overhead_ns: of(overhead, |o| o.injection_ns),
            exit_ns: of(overhead, |o| o.exit_ns),
            lead_ns: of(overhead, |o| o.lead_ns),
            on_time_ns: of(overhead, |_| ON_TIME_NS),
            least_gap_ns: of(interval, |o| o.least_gap_ns),
            away_ns: of(true, |o| {
                TIMES_START_99
                    .saturating_mul(o.start_99_ns)
                    .clamp(ON_TIME_NS, TIMES_START_99 * ON_TIME_NS)
            }),
            supervisor: Some(std::process::id()),
            ..InsideOptions::default()
        }
    }
}

/// Measures on a CPU (kernel number), or any; as a real-time task of a priority, or
/// an ordinary one. Takes some 150 ms.
///
/// # Errors
/// There is no place for the plan, or the process failed.
pub fn measure(place: &LibraryDir, cpu: Option<u32>, real_time: Option<u8>) -> Result<Overhead> {
    let path = place.dir().join("overhead");
    let length_ns = EVENTS * APART_NS;
    let column = PlanColumn {
        known_ns: length_ns,
        events: (0..EVENTS)
            .map(|n| PlannedEvent::new(n * APART_NS, LENGTH_NS))
            .collect(),
    };
    let options = InsideOptions {
        begin: PlanStart::EachStart,
        slots: Some(1),
        ..InsideOptions::default()
    };
    let mut plan = PlanFile::create(&path, &[column], &[Portion::whole(0, length_ns)], &options)?;
    plan.begin(clock::monotonic())?;
    let setup = CollectorSetup {
        cpu,
        real_time,
        begin_ns: None,
        length_ns: length_ns + AFTER_NS,
        threshold_ns: LENGTH_NS / 2,
        room: 2 * EVENTS as usize,
    };
    let process = collector::start(setup, &path, 0).map_err(Error::file("/proc/self/exe"))?;
    let report = collector::finish(process)?;
    let booked = plan.outcome()?.total();
    let _ = std::fs::remove_file(&path);
    // Shorter gaps are the host's.
    let is_event = |gap: &Gap| gap.length_ns >= LENGTH_NS && gap.exit_ns < gap.length_ns;
    let gaps: Vec<Gap> = report.gaps.into_iter().filter(is_event).collect();
    let median = |of: fn(&Gap) -> u64| middle(gaps.iter().map(of).collect());
    let measured = || {
        let injection_ns = median(|gap| gap.length_ns)? - LENGTH_NS;
        let start_ns = booked.start.quantile(50.0)?;
        Some(Overhead {
            injection_ns,
            exit_ns: median(|gap| gap.exit_ns)?.min(injection_ns),
            lead_ns: median(|gap| gap.lead_ns)?.min(LEAD_NS),
            start_ns,
            start_90_ns: booked.start.quantile(90.0)?,
            start_99_ns: booked.start.quantile(99.0)?,
            least_gap_ns: start_ns.min(ON_TIME_NS),
            events: booked.length.count(),
        })
    };
    measured().ok_or_else(|| {
        Error::Collector(format!(
            "the overhead of an injection could not be measured: {} of {EVENTS} events were \
             injected",
            booked.length.count()
        ))
    })
}

/// The median; of an even number the mean of the middle two, rounded down.
fn middle(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some(u64::midpoint(lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Also one that was measured while others had the CPU.
    #[test]
    fn what_is_late_follows_the_timers_and_not_other_tasks() {
        for (start_99_ns, away_ns) in [
            (2_000, 100_000),
            (50_000, 500_000),
            (7_000_000, 1_000_000),
            (u64::MAX, 1_000_000),
        ] {
            let measured = Overhead {
                start_99_ns,
                ..Overhead::default()
            };
            let options = Overhead::guarded(Some(measured), false, false);
            assert_eq!(options.away_ns, away_ns);
        }
        assert_eq!(Overhead::guarded(None, true, true).away_ns, 0);
    }
}
