// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::cell::{Cell, RefCell};

use crate::{Span, TraceEvent};

use super::*;
use crate::replay::plan::ReplayOptions;

/// 2 ms every 10 ms, of 200 ms: nothing of the host's comes near.
fn every_10_ms() -> ReplayPlan {
    let trace = CpuTrace {
        cpu: 0,
        known: vec![Span::new(0, 200_000_000)],
        events: (0..20)
            .map(|i| TraceEvent::new(i * 10_000_000 + 1_000_000, 2_000_000))
            .collect(),
    };
    let options = ReplayOptions {
        share: 1.0,
        random: false,
        ..ReplayOptions::default()
    };
    ReplayPlan::new(&[&trace], &options).unwrap()
}

/// A program of which each step takes 100 ns, and from which the host takes
/// the CPU for so long (ns) when that time has come.
fn asked_by(away: &[(u64, u64)]) -> (Vec<PlannedEvent>, RankOutcome) {
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
    ask(Vec::new(), &clock, polled, 1_000, 200_000_000, 1_000.0)
}

#[test]
fn a_program_with_the_cpu_for_itself_sees_all() {
    let (seen, outcome) = asked_by(&[]);
    assert_eq!((outcome.counts.injected, seen.len()), (20, 20));
    for (i, event) in seen.iter().enumerate() {
        let due_ns = i as u64 * 10_000_000 + 1_000_000;
        assert!(event.due_ns.abs_diff(due_ns) < 300, "{event:?}");
        assert!(event.length_ns.abs_diff(2_000_000) < 300, "{event:?}");
    }
}

#[test]
fn what_the_host_took_before_an_event_is_an_absence_of_its_own() {
    // The fifth, due at 41 ms, comes 4 ms late, and the host has those.
    let (seen, outcome) = asked_by(&[(40_000_000, 5_000_000)]);
    assert_eq!((outcome.counts.injected, seen.len()), (20, 21));
    let (host, late) = (seen[4], seen[5]);
    // Its clock began 1 us before it did.
    assert!(host.due_ns.abs_diff(40_000_000) < 1_500, "{host:?}");
    assert!(host.length_ns.abs_diff(5_000_000) < 300, "{host:?}");
    assert_eq!(late.due_ns, host.end_ns());
    assert!(late.length_ns.abs_diff(2_000_000) < 300, "{late:?}");
}

#[test]
fn a_program_that_is_away_at_the_end_sees_nothing_after_it() {
    // From within the fourth event until long after the end.
    let (seen, outcome) = asked_by(&[(32_000_000, 500_000_000)]);
    assert_eq!((outcome.counts.injected, seen.len()), (3, 4));
    assert!(seen[3].due_ns < 32_000_000 && seen[3].end_ns() > 500_000_000);
    // Between two events: what came due meanwhile is not suffered.
    let (seen, outcome) = asked_by(&[(35_000_000, 500_000_000)]);
    assert_eq!((outcome.counts.injected, seen.len()), (4, 5));
    assert!(seen[4].due_ns < 35_000_000 && seen[4].end_ns() > 500_000_000);
}

#[test]
fn a_program_that_asks_sees_what_was_asked_for() {
    let cpu = sched::affinity(0).unwrap().iter().next().unwrap();
    let plan = every_10_ms();
    let replayed = match by_asking(&[cpu], &plan, Duration::from_secs(9), 1000.0, None) {
        Ok(replayed) => replayed,
        // No constant counter here.
        Err(Error::Collect(_)) => return,
        Err(error) => panic!("{error}"),
    };
    let row = &replayed.cpus[0];
    assert_eq!(row.asked.len(), 20);
    // Whoever else is here may make them longer and later, and the last
    // ones too late.
    let injected = row.outcome.counts.injected;
    let long = row.seen.iter().filter(|event| event.length_ns >= 2_000_000);
    assert!(long.count() as u64 >= injected, "{:?}", row.seen);
    // Who has the CPU makes up for them: for each 10 ms without it one may be
    // too late, and one more at the end.
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
    let trace = CpuTrace {
        cpu: 0,
        known: vec![Span::new(0, 60_000_000_000)],
        events: vec![TraceEvent::new(5_000_000, 50_000_000_000)],
    };
    let options = ReplayOptions {
        share: 1.0,
        random: false,
        ..ReplayOptions::default()
    };
    let plan = ReplayPlan::new(&[&trace], &options).unwrap();
    let cpu = sched::affinity(0).unwrap().iter().next().unwrap();
    let begin = std::time::Instant::now();
    let most = Duration::from_millis(60);
    let replayed = match by_asking(&[cpu], &plan, most, 1000.0, None) {
        Ok(replayed) => replayed,
        Err(Error::Collect(_)) => return,
        Err(error) => panic!("{error}"),
    };
    assert!(begin.elapsed() < Duration::from_secs(20));
    assert_eq!(replayed.length_ns, 60_000_000);
    let row = &replayed.cpus[0];
    // It is not over, so it is none of those that were suffered.
    assert_eq!(row.outcome.counts.injected, 0);
    // However late it began, it ends with the run.
    let last = row.seen.last().unwrap();
    assert!(last.end_ns() >= 60_000_000, "{:?}", row.seen);
    assert!(row.seen.iter().all(|event| event.due_ns < 60_000_000));
}

#[test]
fn only_what_was_looked_at_is_judged() {
    let event = PlannedEvent::new;
    let asked = vec![event(5, 10), event(20, 5), event(45, 10), event(60, 3)];
    let left = looked_at(asked, &[(0, 30), (50, 63)]);
    assert_eq!(left, [event(5, 10), event(20, 5), event(60, 3)]);
}

#[test]
fn a_recording_lies_where_it_was_made() {
    let cpu = sched::affinity(0).unwrap().iter().next().unwrap();
    let before = clock::monotonic();
    let (ready, is_ready) = channel();
    let look = NoiseCheck {
        threshold: Threshold::TimesLeast,
        real_time: None,
    };
    let Ok(collected) = collect(&[cpu], Duration::from_millis(100), look, ready) else {
        return;
    };
    assert!(is_ready.try_recv().is_ok());
    let after = clock::monotonic();
    assert!(before < collected.begin_ns && collected.begin_ns < after);
    assert!((0.99..1.01).contains(&collected.pace), "{}", collected.pace);
}
