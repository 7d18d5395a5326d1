// SPDX-License-Identifier: Apache-2.0 OR MIT

use proptest::prelude::*;

use super::*;
use crate::fixture::events;
use crate::{CpuTrace, Span, TraceEvent};

fn task(name: &str, number: u32) -> NoiseOrigin {
    NoiseOrigin::new(SourceKind::Task, name, Some(number))
}

fn irq(name: &str, number: u32) -> NoiseOrigin {
    NoiseOrigin::new(SourceKind::Irq, name, Some(number))
}

fn causes(all: &[(u64, u64, u32)]) -> Vec<Cause> {
    let cause = |(start, length, source): &(u64, u64, u32)| Cause::new(*start, *length, *source);
    all.iter().map(cause).collect()
}

fn any_events() -> impl Strategy<Value = Vec<TraceEvent>> {
    prop::collection::vec((0u64..500, 0u64..300), 0..20).prop_map(|parts| {
        let mut at = 0;
        let event = |(gap, length)| {
            let this = TraceEvent::new(at + gap, length);
            at = this.end_ns();
            this
        };
        parts.into_iter().map(event).collect()
    })
}

fn order(cause: &Cause) -> (u64, std::cmp::Reverse<u64>) {
    (cause.start_ns, std::cmp::Reverse(cause.length_ns))
}

fn any_causes() -> impl Strategy<Value = Vec<Cause>> {
    prop::collection::vec((0u64..5000, 0u64..400, 0u32..4), 0..60).prop_map(|parts| {
        let causes = parts
            .into_iter()
            .map(|(start, length, of)| Cause::new(start, length, of));
        let mut causes: Vec<Cause> = causes.collect();
        causes.sort_by_key(order);
        causes
    })
}

#[test]
fn a_source_has_one_place() {
    let mut sources = Sources::default();
    let places = ["a", "b", "a"].map(|name| sources.place(task(name, 7)));
    assert_eq!(places, [0, 1, 0]);
    sources.place(task(&"ä".repeat(200), 7));
    assert_eq!(sources.all()[2].name.len(), 254);
}

#[test]
fn net_time_excludes_causes_inside() {
    // A task, in it an interrupt, in that another, then a soft one; one of the next event.
    let causes = causes(&[
        (110, 80, 0),
        (120, 30, 1),
        (130, 10, 2),
        (150, 20, 3),
        (305, 5, 1),
    ]);
    let of = CpuCauses::new(0, vec![Span::new(0, 1000)], causes);
    let events = events(&[(100, 100), (300, 50), (400, 10), (995, 10)]);
    let all: Vec<EventExplanation> = explain(&events, &of).collect();
    let nets: Vec<(u64, u32)> = all[0].causes.iter().map(|s| (s.net_ns, s.depth)).collect();
    assert_eq!(nets, [(30, 0), (20, 1), (10, 2), (20, 1)]);
    assert_eq!((all[0].left_ns, all[1].left_ns), (20, 45));
    assert!(all[2].known && all[2].causes.is_empty() && all[2].left_ns == 10);
    assert!(!all[3].known);
}

#[test]
fn rows_are_by_name_and_most_time_comes_first() {
    let span = Span::new(0, 1000);
    let events = events(&[(100, 100), (300, 10), (990, 10), (2000, 40)]);
    let causes = causes(&[(110, 50, 0), (120, 10, 1), (160, 30, 2), (301, 5, 1)]);
    let attribution = Attribution {
        sources: vec![task("cc1", 7), irq("local_timer", 236), task("cc1", 8)],
        cpus: vec![CpuCauses::new(3, vec![span], causes)],
        ..Attribution::default()
    };
    let rows = by_cpu(&CpuTrace::new(3, vec![span], events), &attribution);
    let rows: Vec<_> = rows
        .iter()
        .map(|r| {
            (
                r.who.names().0,
                r.events,
                r.times,
                r.gross_ns,
                r.net_ns,
                r.longest_ns,
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("cc1", 1, 2, 80, 70, 50),
            ("not watched", 1, 1, 40, 40, 40),
            ("entry and exit, or hypervisor", 2, 2, 25, 25, 20),
            ("local_timer", 2, 2, 15, 15, 10),
            ("hypervisor or hardware", 1, 1, 10, 10, 10),
        ]
    );
    let (shown, others) = foremost(&four_rows(), 1);
    let names: Vec<&str> = shown.iter().map(|row| row.who.names().0).collect();
    assert_eq!(names, ["a", "hypervisor or hardware"]);
    let (count, rest) = others.unwrap();
    assert_eq!(
        (count, rest.net_ns, rest.times, rest.longest_ns),
        (2, 18, 2, 10)
    );
    assert!(foremost(&four_rows(), 20).1.is_none());
}

/// Three named rows with 50, 10 and 8 ns, and one without a name.
fn four_rows() -> Vec<SourceRow> {
    let causes = causes(&[(0, 50, 0), (60, 10, 1), (80, 8, 2)]);
    let attribution = Attribution {
        sources: vec![task("a", 1), task("b", 2), task("c", 3)],
        cpus: vec![CpuCauses::new(0, vec![Span::new(0, 100)], causes)],
        ..Attribution::default()
    };
    let events = events(&[(0, 50), (60, 10), (80, 8), (95, 2)]);
    let cpu = CpuTrace::new(0, vec![Span::new(0, 100)], events);
    let mut rows = by_cpu(&cpu, &attribution);
    rows.retain(|row| row.net_ns > 0);
    rows
}

proptest! {
    /// Whatever a file holds.
    #[test]
    fn causes_take_no_more_than_their_event(
        events in any_events(),
        causes in any_causes(),
        known in prop::collection::vec((0u64..300, 1u64..3000), 0..5),
    ) {
        let mut at = 0;
        let known = known.into_iter().map(|(gap, length)| {
            let this = Span::new(at + gap, at + gap + length);
            at = this.until_ns;
            this
        }).collect();
        let of = CpuCauses::new(0, known, causes);
        for one in explain(&events, &of) {
            let net: u64 = one.causes.iter().map(|share| share.net_ns).sum();
            prop_assert_eq!(net + one.left_ns, one.event.length_ns);
            for share in &one.causes {
                prop_assert!(share.net_ns <= share.cause.length_ns);
                prop_assert!(share.cause.start_ns >= one.event.start_ns);
                prop_assert!(share.cause.end_ns() <= one.event.end_ns());
            }
            let within = of.known.iter().any(|span| {
                span.from_ns <= one.event.start_ns && one.event.end_ns() <= span.until_ns
            });
            prop_assert_eq!(one.known, within);
        }
    }

    #[test]
    fn rows_add_up_to_the_noise(events in any_events(), causes in any_causes()) {
        let end = events.last().map_or(0, TraceEvent::end_ns);
        let cpu = CpuTrace::new(0, vec![Span::new(0, end)], events);
        let attribution = Attribution {
            // One fewer than the causes refer to.
            sources: vec![irq("a", 1), irq("a", 2), task("a", 1)],
            cpus: vec![CpuCauses::new(0, vec![Span::new(0, 3000)], causes)],
            ..Attribution::default()
        };
        let rows = by_cpu(&cpu, &attribution);
        prop_assert_eq!(rows.iter().map(|row| row.net_ns).sum::<u64>(), cpu.noise_ns());
    }

    /// Of entries in any order and with any of them missing.
    #[test]
    fn merged_causes_lie_within_events_and_each_other(
        events in any_events(),
        marks in prop::collection::vec((0u64..40, any_mark(), 0u8..30), 0..150),
    ) {
        let mut merger = Merger::new(Span::new(0, 10_000), &events);
        let mut at_ns = 0;
        for (gap, what, lost) in marks {
            at_ns += gap;
            match lost {
                0 => merger.lost(at_ns),
                _ => merger.mark(Mark { at_ns, what }),
            }
        }
        let got = merger.finish();
        prop_assert!(got.causes.is_sorted_by_key(order));
        prop_assert!(got.known.windows(2).all(|pair| pair[0].until_ns <= pair[1].from_ns));
        // Within each other or apart: nothing is cut when they are nested.
        let of = CpuCauses::new(0, got.known, got.causes);
        let explained = explain(&events, &of).flat_map(|one| one.causes);
        let back: Vec<Cause> = explained.map(|share| share.cause).collect();
        prop_assert_eq!(back, of.causes);
    }
}

fn any_mark() -> impl Strategy<Value = MarkKind> {
    prop_oneof![
        (0u64..4).prop_map(enter),
        (0u64..4).prop_map(leave),
        (10u32..13).prop_map(|source| MarkKind::Task { source }),
        Just(MarkKind::Loop),
        Just(MarkKind::Fault { source: 20 }),
        (0u64..100).prop_map(|ns| MarkKind::Took { source: 21, ns }),
    ]
}

fn enter(key: u64) -> MarkKind {
    let source = key as u32;
    MarkKind::Enter { key, source }
}

fn leave(key: u64) -> MarkKind {
    MarkKind::Leave { key }
}

/// Merges marks of a span that begins at `from_ns` with events (start, length).
fn merge(from_ns: u64, events: &[(u64, u64)], marks: &[(u64, MarkKind)]) -> MergeResult {
    let events = self::events(events);
    let mut merger = Merger::new(Span::new(from_ns, 10_000), &events);
    for (at_ns, what) in marks {
        merger.mark(Mark {
            at_ns: *at_ns,
            what: *what,
        });
    }
    merger.finish()
}

fn plain(merged: &MergeResult) -> Vec<(u64, u64, u32)> {
    let plain = |cause: &Cause| (cause.start_ns, cause.length_ns, cause.source);
    merged.causes.iter().map(plain).collect()
}

#[test]
fn an_interrupt_a_soft_one_and_a_task() {
    let marks = [
        // At the begin of a round: outside.
        (5, MarkKind::Task { source: 9 }),
        (7, MarkKind::Loop),
        (110, enter(1)),
        (130, leave(1)),
        (140, enter(2)),
        (150, enter(1)),
        (160, leave(1)),
        (170, leave(2)),
        (1010, enter(1)),
        (1030, leave(1)),
        (1050, MarkKind::Task { source: 8 }),
        (1100, enter(1)),
        (1120, leave(1)),
        (1200, MarkKind::Task { source: 7 }),
        (1400, MarkKind::Loop),
        (2000, enter(1)),
        (2001, leave(1)),
    ];
    let got = merge(0, &[(100, 100), (1000, 500)], &marks);
    let first = [(110, 20, 1), (140, 30, 2), (150, 10, 1)];
    let second = [(1010, 20, 1), (1050, 150, 8), (1100, 20, 1), (1200, 200, 7)];
    assert_eq!(plain(&got), [&first[..], &second].concat());
    assert_eq!((got.outside, got.known), (2, vec![Span::new(0, 10_000)]));
}

#[test]
fn marks_before_the_recording_are_outside() {
    let marks = [(400, enter(1)), (500, leave(1)), (900, MarkKind::Loop)];
    let got = merge(1000, &[(1000, 50)], &marks);
    assert_eq!((plain(&got), got.outside), (vec![], 1));
}

#[test]
fn pairs_that_are_cut_off_end_with_their_surroundings() {
    let marks = [
        // No begin; two without an end, of which one in the other.
        (110, leave(3)),
        (120, enter(1)),
        (140, enter(2)),
        (150, enter(4)),
        (160, leave(1)),
        (180, enter(5)),
        // The end comes when the event is over.
        (310, leave(5)),
    ];
    let got = merge(0, &[(100, 100), (300, 100)], &marks);
    let expected = [(120, 40, 1), (140, 20, 2), (150, 10, 4), (180, 20, 5)];
    assert_eq!(plain(&got), expected);
}

#[test]
fn a_page_fault_lasts_as_long_as_its_event() {
    let marks = [
        (110, MarkKind::Fault { source: 1 }),
        (120, MarkKind::Task { source: 2 }),
        (150, MarkKind::Loop),
        (200, MarkKind::Took { source: 3, ns: 500 }),
    ];
    // The NMI began after the last mark.
    let expected = [(110, 90, 1), (120, 30, 2), (150, 50, 3)];
    assert_eq!(plain(&merge(0, &[(100, 100)], &marks)), expected);
}

#[test]
fn lost_entries_cost_the_events_that_they_touch() {
    let events = events(&[(100, 100), (300, 100), (500, 100), (700, 50)]);
    let mut merger = Merger::new(Span::new(0, 1000), &events);
    for (at_ns, what) in [(110, enter(1)), (120, leave(1)), (310, enter(1))] {
        merger.mark(Mark { at_ns, what });
    }
    merger.lost(520);
    for (at_ns, what) in [(530, enter(1)), (540, leave(1)), (710, enter(2))] {
        merger.mark(Mark { at_ns, what });
    }
    let got = merger.finish();
    assert_eq!(plain(&got), [(110, 10, 1), (710, 40, 2)]);
    assert_eq!(got.known, [Span::new(0, 310), Span::new(520, 1000)]);
    // From the begin, and to the end.
    for (until_ns, known) in [(650, vec![Span::new(650, 1000)]), (2000, vec![])] {
        let mut merger = Merger::new(Span::new(50, 1000), &events);
        merger.lost(until_ns);
        assert_eq!(merger.finish().known, known);
    }
}
