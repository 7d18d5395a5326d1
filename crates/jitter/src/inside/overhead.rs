// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an injection costs by itself, and how late it begins: the paper's
//! first two safeguards measure both before each experiment.
//!
//! The library, linked into ourselves, injects events of a known length into a
//! process of ours that does nothing but read the clock; what is missing there
//! beyond that length is the overhead: the interrupt of the timer, the way into
//! the signal handler and out of it, and arming the next. A process of its
//! own, because a process can load one plan.

use std::process::{Command, Stdio};
use std::time::Duration;

use sandbag_linux::sched::{self, Attributes};
use sandbag_linux::{CpuList, clock};

use crate::inside::api;
use crate::inside::error::{Error, Result};
use crate::inside::library::{LibraryDir, PLAN_VARIABLE, SELF_VARIABLE};
use crate::inside::plan::{InsideOptions, PlanFile, PlanStart, Portion};
use crate::replay::{PlanColumn, PlannedEvent};
use serde::{Deserialize, Serialize};

/// The first argument of the process that measures.
pub const VERB: &str = "__inside-overhead";

/// Events that are injected, their length and their distance, ns.
const EVENTS: u64 = 300;
const LENGTH_NS: u64 = 50_000;
const APART_NS: u64 = 400_000;

/// What was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Overhead {
    /// Beyond what is spun, median, ns. Events that are not longer cannot be
    /// injected.
    #[serde(rename = "overhead_ns")]
    pub injection_ns: u64,
    /// Of that, the way back into the program, median, ns.
    pub exit_ns: u64,
    /// The program is interrupted so much before the timer is due, median, ns:
    /// KVM takes the CPU for the timer early (`lapic_timer_advance_ns`).
    pub lead_ns: u64,
    /// How much too late events began, median, ns: what the timers of this
    /// machine can do.
    #[serde(rename = "start_p50_ns")]
    pub start_ns: u64,
    /// The same, 90 % of the events, ns.
    #[serde(rename = "start_p90_ns")]
    pub start_90_ns: u64,
    /// What follows an event sooner is better suffered together with it, ns: a
    /// timer would be late for half of them.
    pub least_gap_ns: u64,
    /// How many events say so.
    pub events: u64,
}

/// A timer is not later than this by itself: what is more is others' doing.
const GAP_NS: u64 = 100_000;

/// More is no hypervisor's timer.
const LEAD_NS: u64 = 10_000;

impl Overhead {
    /// A start that is not later is the timer's own doing, ns.
    #[must_use]
    pub fn on_time_ns(&self) -> u64 {
        GAP_NS
    }
}

/// Where and how it is measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OverheadSetup {
    /// On this CPU, kernel number; else where the process happens to run.
    pub cpu: Option<u32>,
    /// As a real-time task of this priority; else as an ordinary one.
    pub real_time: Option<u8>,
}

impl OverheadSetup {
    fn to_args(self) -> [String; 2] {
        let number = |number: Option<u32>| number.map_or("-".to_owned(), |n| n.to_string());
        [number(self.cpu), number(self.real_time.map(u32::from))]
    }

    fn from_args(arguments: &[String]) -> Self {
        let number = |place: usize| arguments.get(place)?.parse().ok();
        Self {
            cpu: number(0),
            real_time: number(1).and_then(|priority| u8::try_from(priority).ok()),
        }
    }
}

/// Measures in a process of our own program. Takes some 150 ms.
///
/// # Errors
/// There is no place for the plan, or the process failed.
pub fn measure(place: &LibraryDir, at: OverheadSetup) -> Result<Overhead> {
    let path = place.dir().join("overhead");
    let failed = |cause| Error::File {
        path: "/proc/self/exe".into(),
        cause,
    };
    let events = (0..EVENTS).map(|n| PlannedEvent::new(n * APART_NS, LENGTH_NS));
    let axis_ns = EVENTS * APART_NS;
    let column = PlanColumn {
        known_ns: axis_ns,
        events: events.collect(),
    };
    let portion = Portion {
        column: 0,
        offset_ns: 0,
        length_ns: axis_ns,
    };
    let options = InsideOptions {
        begin: PlanStart::EachStart,
        slots: 1,
        ..InsideOptions::default()
    };
    let mut plan = PlanFile::create(&path, &[column], &[portion], &options)?;
    plan.begin(clock::monotonic())?;
    let output = Command::new("/proc/self/exe")
        .arg(VERB)
        .args(at.to_args())
        .env(PLAN_VARIABLE, &path)
        // It is sandbag that is meant here.
        .env_remove(SELF_VARIABLE)
        .stdin(Stdio::null())
        .output()
        .map_err(failed)?;
    let booked = plan.outcome()?.total();
    let _ = std::fs::remove_file(&path);
    let said = String::from_utf8_lossy(&output.stdout);
    // Shorter ones were the host's.
    let seen: Vec<[u64; 3]> = said
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ').map(|word| word.parse().ok());
            Some([words.next()??, words.next()??, words.next()??])
        })
        .filter(|[gap, exit, _]| *gap >= LENGTH_NS && exit < gap)
        .collect();
    let of = |which: usize| middle(seen.iter().map(|one| one[which]).collect());
    let quantile = |part| booked.start.quantile(part);
    match (of(0), of(1), quantile(50.0), quantile(90.0)) {
        (Some(gap_ns), Some(exit_ns), Some(start_ns), Some(start_90_ns)) => Ok(Overhead {
            injection_ns: gap_ns - LENGTH_NS,
            exit_ns: exit_ns.min(gap_ns - LENGTH_NS),
            lead_ns: of(2).unwrap_or(0).min(LEAD_NS),
            start_ns,
            start_90_ns,
            least_gap_ns: start_ns.min(GAP_NS),
            events: booked.injected,
        }),
        _ => Err(Error::Plan(format!(
            "measuring what an injection costs failed: {} events, {}",
            booked.injected, output.status
        ))),
    }
}

/// The median; of an even number the mean of the middle two, rounded down.
fn middle(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some(u64::midpoint(lower, upper))
}

unsafe extern "C" {
    /// Of c/jitter.c: the last reading of the clock within an event, ns.
    safe fn sbj_last_ns() -> u64;
    /// When that event was due.
    safe fn sbj_last_due_ns() -> u64;
}

/// What the process does: prints the length of each gap between two readings
/// of the clock that an event could have made, how much of it came after the
/// event, and how much before it was due.
pub fn run(arguments: &[String]) {
    let at = OverheadSetup::from_args(arguments);
    // Where that is denied it is measured as it can be.
    if let Some(cpu) = at.cpu {
        let _ = sched::set_affinity(0, &CpuList::from_iter([cpu]));
    }
    if let Some(priority) = at.real_time {
        let priority = u32::from(priority);
        let _ = sched::set_attributes(0, Attributes::Fifo { priority });
    }
    if !api::init() {
        return;
    }
    let end = clock::monotonic() + EVENTS * APART_NS + Duration::from_millis(2).as_nanos() as u64;
    let mut gaps = Vec::with_capacity(2 * EVENTS as usize);
    let mut last = clock::monotonic();
    while last < end && gaps.len() < gaps.capacity() {
        let now = clock::monotonic();
        if now - last > LENGTH_NS / 2 {
            gaps.push([
                now - last,
                now.saturating_sub(sbj_last_ns()),
                sbj_last_due_ns().saturating_sub(last),
            ]);
        }
        last = now;
    }
    for [gap, exit, lead] in gaps {
        println!("{gap} {exit} {lead}");
    }
}
