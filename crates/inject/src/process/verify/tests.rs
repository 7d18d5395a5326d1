// SPDX-License-Identifier: Apache-2.0 OR MIT
use sandbag_jitter::{Event, Span};

use super::*;
use crate::plan::Options;

#[test]
fn a_program_that_asks_sees_what_was_asked_for() {
    // 2 ms every 10 ms: nothing of the host's comes near.
    let trace = CpuTrace {
        cpu: 0,
        known: vec![Span {
            from_ns: 0,
            until_ns: 200_000_000,
        }],
        events: (0..20)
            .map(|i| Event {
                start_ns: i * 10_000_000 + 1_000_000,
                length_ns: 2_000_000,
            })
            .collect(),
    };
    let options = Options {
        share: 1.0,
        random: false,
        ..Options::default()
    };
    let plan = Plan::new(&[&trace], &options).unwrap();
    let cpu = sched::affinity(0).unwrap().iter().next().unwrap();
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
    assert!((5..=20).contains(&injected), "{injected}");
}

#[test]
fn an_event_that_is_longer_than_the_run_ends_with_it() {
    let trace = CpuTrace {
        cpu: 0,
        known: vec![Span {
            from_ns: 0,
            until_ns: 60_000_000_000,
        }],
        events: vec![Event {
            start_ns: 5_000_000,
            length_ns: 50_000_000_000,
        }],
    };
    let options = Options {
        share: 1.0,
        random: false,
        ..Options::default()
    };
    let plan = Plan::new(&[&trace], &options).unwrap();
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
    let event = |due_ns, length_ns| Planned { due_ns, length_ns };
    let asked = vec![event(5, 10), event(20, 5), event(45, 10), event(60, 3)];
    let left = looked_at(asked, &[(0, 30), (50, 63)]);
    assert_eq!(left, [event(5, 10), event(20, 5), event(60, 3)]);
}

#[test]
fn a_recording_lies_where_it_was_made() {
    let cpu = sched::affinity(0).unwrap().iter().next().unwrap();
    let before = clock::monotonic();
    let (ready, is_ready) = channel();
    let look = Look {
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
