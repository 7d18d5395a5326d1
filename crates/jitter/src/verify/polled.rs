// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `jitter verify` of a program that polls: a thread on each CPU polls as often as it
//! can, and records its gaps itself.

use std::thread;
use std::time::Duration;

use sandbag_linux::sched::{self, Attributes};
use sandbag_linux::{CpuList, clock};

use crate::replay::outcome::RankOutcome;
use crate::replay::{PlannedEvent, PolledReplay, Result, touched};
use crate::verify::{CpuRow, ReplayTrace, VerifyRun, due_within, join, observed};
use sandbag_linux::clock::Clock;
use sandbag_linux::counter::Counter;

/// From the start of the threads to the beginning, ns.
const START_NS: u64 = 50_000_000;

/// Replays by polling.
///
/// # Errors
/// A CPU or the priority is denied; the counter is no clock.
pub fn by_polling(run: &VerifyRun<'_>) -> Result<ReplayTrace> {
    let (portions, length_ns) = run.portions();
    let counter = Counter::calibrated(Duration::from_millis(100));
    let counter = counter.map_err(crate::Error::from)?;
    // All memory is allocated before the beginning is set.
    let ready = portions.iter().map(|portion| {
        let asked: Vec<PlannedEvent> = due_within(portion, length_ns).collect();
        let polled = portion.polled(asked.len() + 1, 0);
        (
            asked,
            polled,
            touched(PlannedEvent::new(u64::MAX, 0), run.room),
        )
    });
    let ready: Vec<_> = run.cpus.iter().copied().zip(ready).collect();
    let ahead_ns = run.ahead_ns(START_NS);
    let begin_ns = counter.now_ns() + ahead_ns;
    // Asleep until shortly before.
    let wake_ns = clock::monotonic() + ahead_ns - START_NS / 10;
    let start = &|cpu: u32, asked: Vec<PlannedEvent>, polled, gaps| -> Result<CpuRow> {
        sched::set_affinity(0, &CpuList::from_iter([cpu]))?;
        if let Some(priority) = run.real_time {
            let priority = u32::from(priority);
            sched::set_attributes(0, Attributes::Fifo { priority })?;
        }
        clock::sleep_until(wake_ns);
        let threshold_ns = run.threshold_ns;
        let (seen, outcome) = poll(gaps, &counter, polled, begin_ns, length_ns, threshold_ns);
        let known = [(0, seen.full_ns.unwrap_or(u64::MAX))];
        Ok(CpuRow {
            cpu,
            asked: observed(asked.into_iter(), &known),
            until_ns: seen.full_ns.unwrap_or(length_ns),
            seen: seen.gaps,
            outcome,
        })
    };
    let rows: Vec<Result<CpuRow>> = thread::scope(|scope| {
        let threads: Vec<_> = ready
            .into_iter()
            .map(|(cpu, (asked, polled, seen))| {
                scope.spawn(move || start(cpu, asked, polled, seen))
            })
            .collect();
        let threads = threads.into_iter();
        threads
            .map(|thread| join(thread.join(), "a program that polls"))
            .collect()
    });
    let cpus: Vec<CpuRow> = rows.into_iter().collect::<Result<_>>()?;
    let known_ns = cpus.iter().map(|row| row.until_ns).sum::<u64>();
    Ok(ReplayTrace {
        method: "polled",
        length_ns,
        known_ns: known_ns / cpus.len().max(1) as u64,
        cpus,
        measured: Vec::new(),
    })
}

/// Gaps of the program, as many as have room.
struct GapRecord {
    /// When the run began, by the program's clock, ns.
    begin_ns: u64,
    gaps: Vec<PlannedEvent>,
    /// Begin of the first gap without room, ns of the run.
    full_ns: Option<u64>,
}

impl GapRecord {
    fn note(&mut self, from_ns: u64, until_ns: u64) {
        let due_ns = from_ns.saturating_sub(self.begin_ns);
        if self.gaps.len() < self.gaps.capacity() {
            self.gaps
                .push(PlannedEvent::new(due_ns, until_ns - from_ns));
        } else if self.full_ns.is_none() {
            self.full_ns = Some(due_ns);
        }
    }
}

/// The program: reads the clock, polls, suffers. Its gaps, for which it has the room that
/// it is given, and what it suffered.
fn poll(
    gaps: Vec<PlannedEvent>,
    clock: &impl Clock,
    mut polled: PolledReplay,
    begin_ns: u64,
    length_ns: u64,
    threshold_ns: f64,
) -> (GapRecord, RankOutcome) {
    let threshold_ns = threshold_ns.ceil() as u64;
    while clock.now_ns() < begin_ns {
        std::hint::spin_loop();
    }
    // Later only if the thread had no CPU.
    let begin_ns = clock.now_ns();
    let end_ns = begin_ns + length_ns;
    let mut seen = GapRecord {
        begin_ns,
        gaps,
        full_ns: None,
    };
    polled.begin(begin_ns);
    // What the host takes from here on is a gap.
    let mut last = begin_ns;
    while last < end_ns {
        let mut now = clock.now_ns();
        // An event is one gap. Events that are due after the end are not suffered.
        while now < end_ns
            && let Some(until_ns) = polled.poll(now)
        {
            let start = now;
            // The host had the CPU when it came due.
            if start - last > threshold_ns {
                seen.note(last, start);
            }
            // An event that is longer than the rest of the run ends with it: beside a
            // real-time task nothing else has the CPU meanwhile.
            let until_ns = until_ns.min(end_ns);
            while now < until_ns {
                now = clock.now_ns();
            }
            seen.note(start, now);
            last = now;
        }
        if now - last > threshold_ns {
            seen.note(last, now);
        }
        last = now;
    }
    (seen, polled.into_outcome())
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;
    use crate::fixture::is_skipped_without_counter;
    use crate::replay::{ReplayOptions, ReplayPlan};
    use crate::{CpuTrace, Span, TraceEvent};

    fn plan(known_ns: u64, events: Vec<TraceEvent>) -> ReplayPlan {
        let trace = CpuTrace {
            cpu: 0,
            known: vec![Span::new(0, known_ns)],
            events,
        };
        ReplayPlan::new(&[&trace], &ReplayOptions::WHOLE).unwrap()
    }

    /// 2 ms every 10 ms, of 200 ms: far longer than noise of the host.
    fn every_10_ms() -> ReplayPlan {
        let events = (0..20).map(|i| TraceEvent::new(i * 10_000_000 + 1_000_000, 2_000_000));
        plan(200_000_000, events.collect())
    }

    /// A program whose steps take 100 ns, and from which the host takes the CPU at
    /// these times for these lengths (ns).
    fn polled_with(away: &[(u64, u64)]) -> (Vec<PlannedEvent>, RankOutcome) {
        let (seen, outcome) = polled_with_room(100, away);
        assert_eq!(seen.full_ns, None);
        (seen.gaps, outcome)
    }

    fn polled_with_room(room: usize, away: &[(u64, u64)]) -> (GapRecord, RankOutcome) {
        let now = Cell::new(0u64);
        let away = RefCell::new(away.iter().peekable());
        let clock = || {
            now.set(now.get() + 100);
            if let Some((_, ns)) = away.borrow_mut().next_if(|(at, _)| now.get() >= *at) {
                now.set(now.get() + ns);
            }
            now.get()
        };
        let polled = every_10_ms().rank(0).polled(21, 0);
        let gaps = Vec::with_capacity(room);
        poll(gaps, &clock, polled, 1_000, 200_000_000, 1_000.0)
    }

    #[test]
    fn a_program_records_until_a_gap_finds_no_room() {
        let (seen, outcome) = polled_with_room(5, &[]);
        assert_eq!((outcome.counts.injected, seen.gaps.len()), (20, 5));
        assert!(seen.full_ns.unwrap().abs_diff(51_000_000) < 300);
    }

    #[test]
    fn a_program_with_the_cpu_for_itself_records_each_event() {
        let (seen, outcome) = polled_with(&[]);
        assert_eq!((outcome.counts.injected, seen.len()), (20, 20));
        for (i, event) in seen.iter().enumerate() {
            let due_ns = i as u64 * 10_000_000 + 1_000_000;
            assert!(event.due_ns.abs_diff(due_ns) < 300, "{event:?}");
            assert!(event.length_ns.abs_diff(2_000_000) < 300, "{event:?}");
        }
    }

    #[test]
    fn a_gap_of_the_host_before_an_event_is_recorded_on_its_own() {
        // The fifth, due at 41 ms, comes 4 ms late because of the host.
        let (seen, outcome) = polled_with(&[(40_000_000, 5_000_000)]);
        assert_eq!((outcome.counts.injected, seen.len()), (20, 21));
        let (host, late) = (seen[4], seen[5]);
        // The clock began 1 us before the run.
        assert!(host.due_ns.abs_diff(40_000_000) < 1_500, "{host:?}");
        assert!(host.length_ns.abs_diff(5_000_000) < 300, "{host:?}");
        assert_eq!(late.due_ns, host.end_ns());
        assert!(late.length_ns.abs_diff(2_000_000) < 300, "{late:?}");
    }

    #[test]
    fn a_program_that_is_away_at_the_end_suffers_nothing_after_it() {
        // From the begin, from within the fourth event, and between two events, until after the
        // end.
        for (at, injected) in [(1_150, 0), (32_000_000, 3), (35_000_000, 4)] {
            let (seen, outcome) = polled_with(&[(at, 500_000_000)]);
            assert_eq!(outcome.counts.injected, injected);
            assert_eq!(seen.len() as u64, injected + 1);
            let last = seen.last().unwrap();
            assert!(last.due_ns < at && last.end_ns() > 500_000_000);
        }
    }

    /// On a CPU of this thread.
    fn on_this_machine(plan: &ReplayPlan, most: Duration) -> ReplayTrace {
        let cpu = sched::affinity(0).unwrap().iter().next().unwrap();
        let run = VerifyRun {
            cpus: &[cpu],
            plan,
            most,
            threshold_ns: 1000.0,
            real_time: None,
            room: 1_000_000,
        };
        by_polling(&run).unwrap()
    }

    #[test]
    fn a_program_that_polls_records_what_was_due() {
        if is_skipped_without_counter("a_program_that_polls_records_what_was_due") {
            return;
        }
        let replayed = on_this_machine(&every_10_ms(), Duration::from_secs(9));
        let row = &replayed.cpus[0];
        assert_eq!(row.asked.len(), 20);
        // Other tasks may make events longer and later, and the last ones too late.
        let injected = row.outcome.counts.injected;
        let long = row.seen.iter().filter(|event| event.length_ns >= 2_000_000);
        assert!(long.count() as u64 >= injected, "{:?}", row.seen);
        // For each 10 ms without the CPU one event may be too late, and one more at
        // the end.
        let missed = 20u64.checked_sub(injected).expect("no more than asked for");
        let seen: u64 = row.seen.iter().map(|event| event.length_ns).sum();
        let away_ns = seen.saturating_sub(injected * 2_000_000);
        assert!(
            away_ns + 15_000_000 >= missed * 10_000_000,
            "{missed} missed, the host had the CPU for {away_ns} ns: {:?}",
            row.seen
        );
    }

    #[test]
    fn an_event_that_is_longer_than_the_run_ends_with_it() {
        let plan = plan(
            60_000_000_000,
            vec![TraceEvent::new(5_000_000, 50_000_000_000)],
        );
        if is_skipped_without_counter("an_event_that_is_longer_than_the_run_ends_with_it") {
            return;
        }
        let begin = std::time::Instant::now();
        let replayed = on_this_machine(&plan, Duration::from_millis(60));
        assert!(begin.elapsed() < Duration::from_secs(20));
        assert_eq!(replayed.length_ns, 60_000_000);
        let row = &replayed.cpus[0];
        // It is not over, so it is not counted.
        assert_eq!(row.outcome.counts.injected, 0);
        // However late it began, it ends with the run.
        let last = row.seen.last().unwrap();
        assert!(last.end_ns() >= 60_000_000, "{:?}", row.seen);
        assert!(row.seen.iter().all(|event| event.due_ns < 60_000_000));
    }
}
