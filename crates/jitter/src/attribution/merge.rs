// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's record of a CPU and the events of the loop on it, merged.
//!
//! The loop runs at both ends of an event, so nothing is open there: whatever
//! the record says. An entry whose exit is missing ends with the event (or with
//! what it lies in), an exit without its entry is passed over, and a stretch
//! in which entries were lost costs the events that it touches, not those
//! after it.

use super::Cause;
use crate::{Span, TraceEvent};

/// An entry of the kernel's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// When, on the clock of the trace; does not descend.
    pub at_ns: u64,
    pub what: MarkKind,
}

/// What an entry says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkKind {
    /// An interrupt or soft interrupt begins; `key` is that of its end.
    Enter {
        /// The same for begin and end.
        key: u64,
        source: u32,
    },
    /// It ends.
    Leave {
        /// As of its begin.
        key: u64,
    },
    /// Another task than the loop gets the CPU.
    Task { source: u32 },
    /// The loop gets it.
    Loop,
    /// The loop met a page fault; when that ends is not written, but the loop
    /// goes on only after it.
    Fault { source: u32 },
    /// Something ends that took so long.
    Took {
        source: u32,
        /// How long, ns.
        ns: u64,
    },
}

/// What is open.
#[derive(Debug, Clone, Copy)]
struct Open {
    key: u64,
    source: u32,
    start_ns: u64,
}

/// Not keys of interrupts.
const TASK: u64 = u64::MAX;
const FAULT: u64 = u64::MAX - 1;

/// Merges, entry by entry.
#[derive(Debug)]
pub struct Merger<'a> {
    events: &'a [TraceEvent],
    open: Vec<Open>,
    /// Of the event at hand.
    current: Vec<Cause>,
    /// Entries were lost in the event at hand.
    torn: bool,
    from_ns: u64,
    last_ns: u64,
    known: Vec<Span>,
    merged: MergeResult,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MergeResult {
    /// As in [`CpuCauses`](super::CpuCauses).
    pub causes: Vec<Cause>,
    /// When the kernel's record is whole; ascending, without overlap.
    pub known: Vec<Span>,
    /// Begins that lie in no event.
    pub outside: u64,
}

impl<'a> Merger<'a> {
    /// For the events that were found in a stretch of time.
    #[must_use]
    pub fn new(span: Span, events: &'a [TraceEvent]) -> Self {
        Self {
            events,
            open: Vec::new(),
            current: Vec::new(),
            torn: false,
            from_ns: span.from_ns,
            last_ns: span.from_ns,
            known: vec![span],
            merged: MergeResult::default(),
        }
    }

    /// Takes the next entry.
    pub fn mark(&mut self, mark: Mark) {
        let begins = !matches!(mark.what, MarkKind::Leave { .. } | MarkKind::Loop);
        // Before the loop looked.
        if mark.at_ns < self.from_ns {
            self.merged.outside += u64::from(begins);
            return;
        }
        let at_ns = mark.at_ns.max(self.last_ns);
        self.end_events_before(at_ns);
        let before = std::mem::replace(&mut self.last_ns, at_ns);
        let within = self.events.first().filter(|event| event.start_ns <= at_ns);
        let Some(event) = within else {
            self.merged.outside += u64::from(begins);
            return;
        };
        match mark.what {
            MarkKind::Enter { key, source } => self.open.push(Open {
                key,
                source,
                start_ns: at_ns,
            }),
            MarkKind::Leave { key } => {
                if let Some(at) = self.open.iter().rposition(|open| open.key == key) {
                    self.close(at, at_ns);
                }
            }
            // Whatever was open belongs to the task that leaves, but for the
            // loop's own page fault, which may have to wait.
            MarkKind::Task { source } => {
                self.close(self.base(), at_ns);
                self.open.push(Open {
                    key: TASK,
                    source,
                    start_ns: at_ns,
                });
            }
            MarkKind::Loop => self.close(self.base(), at_ns),
            MarkKind::Fault { source } => {
                if self.open.is_empty() {
                    self.open.push(Open {
                        key: FAULT,
                        source,
                        start_ns: at_ns,
                    });
                }
            }
            MarkKind::Took { source, ns } => {
                // Nothing was written while it ran.
                let start_ns = at_ns.saturating_sub(ns).max(before).max(event.start_ns);
                self.current
                    .push(Cause::new(start_ns, at_ns - start_ns, source));
            }
        }
    }

    /// Entries before `until_ns` and after the last one were lost.
    pub fn lost(&mut self, until_ns: u64) {
        let from_ns = self.last_ns;
        if until_ns <= from_ns {
            return;
        }
        // The event that the stretch begins in, if any, and that it ends in.
        self.end_events_before(from_ns);
        let over = |event: &TraceEvent, ns| event.start_ns <= ns && event.end_ns() > ns;
        self.torn |= self
            .events
            .first()
            .is_some_and(|event| over(event, from_ns));
        self.end_events_before(until_ns);
        self.torn |= self
            .events
            .first()
            .is_some_and(|event| event.start_ns < until_ns);
        self.open.clear();
        self.last_ns = until_ns;
        if let Some(last) = self.known.pop() {
            let whole_ns = last.until_ns;
            if from_ns > last.from_ns {
                self.known.push(Span {
                    until_ns: from_ns.min(whole_ns),
                    ..last
                });
            }
            if until_ns < whole_ns {
                self.known.push(Span::new(until_ns, whole_ns));
            }
        }
    }

    /// All causes.
    #[must_use]
    pub fn finish(mut self) -> MergeResult {
        self.end_events_before(u64::MAX);
        self.merged.known = self.known;
        self.merged
    }

    /// An event of the loop ends at the reading after whatever is written in
    /// it, so an entry at its very end is its own.
    fn end_events_before(&mut self, at_ns: u64) {
        while let Some((event, rest)) = self.events.split_first()
            && event.end_ns() < at_ns
        {
            self.close(0, event.end_ns());
            let torn = std::mem::take(&mut self.torn);
            let mut causes = std::mem::take(&mut self.current);
            if !torn {
                causes.sort_by_key(|cause| (cause.start_ns, std::cmp::Reverse(cause.length_ns)));
                self.merged.causes.append(&mut causes);
            }
            causes.clear();
            self.current = causes;
            self.events = rest;
        }
    }

    /// Where the tasks begin among what is open.
    fn base(&self) -> usize {
        usize::from(self.open.first().is_some_and(|open| open.key == FAULT))
    }

    /// Ends what is open from a place on, the innermost first.
    fn close(&mut self, from: usize, at_ns: u64) {
        for open in self.open.drain(from.min(self.open.len())..).rev() {
            self.current.push(Cause::new(
                open.start_ns,
                at_ns.saturating_sub(open.start_ns),
                open.source,
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribution::{CpuCauses, explain};
    use proptest::prelude::*;

    fn merge_all(events: &[TraceEvent], marks: &[(u64, MarkKind)]) -> MergeResult {
        let mut merger = Merger::new(Span::new(0, 10_000), events);
        for (at_ns, what) in marks {
            merger.mark(Mark {
                at_ns: *at_ns,
                what: *what,
            });
        }
        merger.finish()
    }

    /// Start, length, source.
    fn plain(merged: &MergeResult) -> Vec<(u64, u64, u32)> {
        let plain = |cause: &Cause| (cause.start_ns, cause.length_ns, cause.source);
        merged.causes.iter().map(plain).collect()
    }

    fn enter(key: u64) -> MarkKind {
        MarkKind::Enter {
            key,
            source: key as u32,
        }
    }

    fn leave(key: u64) -> MarkKind {
        MarkKind::Leave { key }
    }

    #[test]
    fn an_interrupt_a_soft_one_and_a_task() {
        let events = [TraceEvent::new(100, 100), TraceEvent::new(1000, 500)];
        let got = merge_all(
            &events,
            &[
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
            ],
        );
        assert_eq!(
            plain(&got),
            [
                (110, 20, 1),
                (140, 30, 2),
                (150, 10, 1),
                (1010, 20, 1),
                (1050, 150, 8),
                (1100, 20, 1),
                (1200, 200, 7)
            ]
        );
        assert_eq!(got.outside, 2);
        assert_eq!(got.known, [Span::new(0, 10_000)]);
    }

    #[test]
    fn what_was_before_the_loop_looked_is_outside() {
        let events = [TraceEvent::new(1000, 50)];
        let mut merger = Merger::new(Span::new(1000, 2000), &events);
        for (at_ns, what) in [(400, enter(1)), (500, leave(1)), (900, MarkKind::Loop)] {
            merger.mark(Mark { at_ns, what });
        }
        let got = merger.finish();
        assert_eq!((plain(&got), got.outside), (vec![], 1));
    }

    #[test]
    fn pairs_that_are_cut_off_end_with_what_they_lie_in() {
        let events = [TraceEvent::new(100, 100), TraceEvent::new(300, 100)];
        let got = merge_all(
            &events,
            &[
                // No begin; two without an end, of which one in the other.
                (110, leave(3)),
                (120, enter(1)),
                (140, enter(2)),
                (150, enter(4)),
                (160, leave(1)),
                (180, enter(5)),
                // The end comes when the event is over.
                (310, leave(5)),
            ],
        );
        assert_eq!(
            plain(&got),
            [(120, 40, 1), (140, 20, 2), (150, 10, 4), (180, 20, 5)]
        );
    }

    #[test]
    fn a_page_fault_lasts_as_long_as_its_event() {
        let events = [TraceEvent::new(100, 100)];
        let got = merge_all(
            &events,
            &[
                (110, MarkKind::Fault { source: 1 }),
                (120, MarkKind::Task { source: 2 }),
                (150, MarkKind::Loop),
                (200, MarkKind::Took { source: 3, ns: 500 }),
            ],
        );
        // An interrupt that cannot be masked began after what was written last.
        assert_eq!(plain(&got), [(110, 90, 1), (120, 30, 2), (150, 50, 3)]);
    }

    #[test]
    fn what_was_lost_costs_the_events_that_it_touches() {
        let events = [
            TraceEvent::new(100, 100),
            TraceEvent::new(300, 100),
            TraceEvent::new(500, 100),
            TraceEvent::new(700, 50),
        ];
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
        let mut merger = Merger::new(Span::new(50, 1000), &events);
        merger.lost(650);
        let got = merger.finish();
        assert_eq!(got.known, [Span::new(650, 1000)]);
        let mut merger = Merger::new(Span::new(50, 1000), &events);
        merger.lost(2000);
        assert_eq!(merger.finish().known, []);
    }

    fn any_what() -> impl Strategy<Value = MarkKind> {
        prop_oneof![
            (0u64..4).prop_map(enter),
            (0u64..4).prop_map(leave),
            (10u32..13).prop_map(|source| MarkKind::Task { source }),
            Just(MarkKind::Loop),
            Just(MarkKind::Fault { source: 20 }),
            (0u64..100).prop_map(|ns| MarkKind::Took { source: 21, ns }),
        ]
    }

    proptest! {
        /// Of entries in any order and with any of them missing.
        #[test]
        fn causes_lie_within_events_and_each_other(
            events in prop::collection::vec((0u64..200, 0u64..200), 0..20),
            marks in prop::collection::vec((0u64..40, any_what(), 0u8..30), 0..150),
        ) {
            let mut at = 0;
            let events: Vec<TraceEvent> = events.into_iter().map(|(gap, length)| {
                let this = TraceEvent::new(at + gap, length);
                at = this.end_ns();
                this
            }).collect();
            let mut merger = Merger::new(Span::new(0, 10_000), &events);
            at = 0;
            for (gap, what, lost) in marks {
                at += gap;
                match lost {
                    0 => merger.lost(at),
                    _ => merger.mark(Mark { at_ns: at, what }),
                }
            }
            let got = merger.finish();
            prop_assert!(got.causes.is_sorted_by_key(|c| (c.start_ns, std::cmp::Reverse(c.length_ns))));
            prop_assert!(got.known.windows(2).all(|pair| pair[0].until_ns <= pair[1].from_ns));
            // Within each other or apart: nothing is cut when they are nested.
            let of = CpuCauses::new(0, got.known.clone(), got.causes.clone());
            let back: Vec<Cause> = explain(&events, &of)
                .flat_map(|one| one.causes.into_iter().map(|share| share.cause))
                .collect();
            prop_assert_eq!(back, got.causes);
        }
    }
}
