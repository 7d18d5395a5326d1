// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The paper's first two safeguards, for injection by timers: events that a timer
//! cannot inject are not tried, and counted.
//!
//! (1) An injection has an overhead: an event that is not longer is left out, and the
//! injector subtracts the overhead from all others.
//! (2) A timer has a least interval: an event that follows sooner is injected together
//! with the one before.
//!
//! The second comes first, so that short events in a row become one that is long
//! enough. The third, a random portion, is in [`crate::replay::plan`].

use crate::replay::column::PlannedEvent;
use crate::replay::outcome::EventCounts;

/// Measurements of the host; `None`: the safeguard is off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Safeguards {
    /// Overhead of an injection, ns.
    pub overhead_ns: Option<u64>,
    /// Least time from the end of an event to the next, ns.
    pub least_interval_ns: Option<u64>,
}

impl Safeguards {
    /// The events, which are in order, that can be injected; the others are counted by
    /// their reason.
    pub fn apply(
        &self,
        events: impl Iterator<Item = PlannedEvent>,
        counts: &mut EventCounts,
    ) -> Vec<PlannedEvent> {
        let mut all: Vec<PlannedEvent> = Vec::new();
        // Number of events in the last one.
        let mut together = 0;
        let interval_ns = self.least_interval_ns.unwrap_or(0);
        for event in events {
            counts.asked += 1;
            match all.last_mut() {
                Some(last)
                    if self.least_interval_ns.is_some()
                        && event.due_ns < last.end_ns().saturating_add(interval_ns) =>
                {
                    // Without the time between them.
                    last.length_ns += event.length_ns;
                    together += 1;
                }
                _ => {
                    self.close(&mut all, together, counts);
                    all.push(event);
                    together = 1;
                }
            }
        }
        self.close(&mut all, together, counts);
        all
    }

    /// Decides on the last, which is `together` events.
    fn close(&self, all: &mut Vec<PlannedEvent>, together: u64, counts: &mut EventCounts) {
        let Some(last) = all.last() else {
            return;
        };
        if together == 0 {
            return;
        }
        if self.overhead_ns.is_some_and(|ns| last.length_ns <= ns) {
            all.pop();
            counts.below_floor += together;
        } else {
            counts.merged += together - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixture::planned;

    fn apply(safeguards: Safeguards, pairs: &[(u64, u64)]) -> (Vec<PlannedEvent>, EventCounts) {
        let mut counts = EventCounts::default();
        let all = safeguards.apply(planned(pairs).into_iter(), &mut counts);
        (all, counts)
    }

    #[test]
    fn short_events_are_left_out_and_close_ones_are_merged() {
        let floor = Safeguards {
            overhead_ns: Some(100),
            least_interval_ns: None,
        };
        let both = Safeguards {
            least_interval_ns: Some(50),
            ..floor
        };
        type Pairs<'a> = &'a [(u64, u64)];
        let cases: [(Safeguards, Pairs<'_>, Pairs<'_>, [u64; 3]); 3] = [
            (
                Safeguards::default(),
                &[(0, 1), (2, 1), (4, 9)],
                &[(0, 1), (2, 1), (4, 9)],
                [3, 0, 0],
            ),
            (
                floor,
                &[(0, 100), (500, 101), (900, 3)],
                &[(500, 101)],
                [3, 0, 2],
            ),
            // Three short ones in a row are one that is long enough; two are not.
            (
                both,
                &[
                    (0, 40),
                    (60, 40),
                    (120, 40),
                    (1000, 40),
                    (1050, 40),
                    (5000, 200),
                ],
                &[(0, 120), (5000, 200)],
                [6, 2, 2],
            ),
        ];
        for (safeguards, pairs, expected, counted) in cases {
            let (all, counts) = apply(safeguards, pairs);
            assert_eq!(all, planned(expected));
            assert_eq!([counts.asked, counts.merged, counts.below_floor], counted);
        }
    }

    proptest! {
        #[test]
        fn every_event_is_accounted_for(
            parts in prop::collection::vec((0u64..300, 1u64..200), 0..100),
            overhead in prop::option::of(0u64..150),
            interval in prop::option::of(0u64..150),
        ) {
            let mut at = 0;
            let pairs: Vec<(u64, u64)> = parts.iter().map(|(gap, length)| {
                let due = at + gap;
                at = due + length;
                (due, *length)
            }).collect();
            let safeguards = Safeguards { overhead_ns: overhead, least_interval_ns: interval };
            let (all, counts) = apply(safeguards, &pairs);
            prop_assert_eq!(counts.asked, pairs.len() as u64);
            prop_assert_eq!(
                all.len() as u64 + counts.merged + counts.below_floor,
                counts.asked
            );
            for (a, b) in all.iter().zip(all.iter().skip(1)) {
                prop_assert!(b.due_ns >= a.end_ns() || interval.is_none());
            }
            prop_assert!(all.iter().all(|e| e.length_ns > overhead.unwrap_or(0)));
        }
    }
}
