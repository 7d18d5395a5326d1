// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the events of a replay in a recording made beside it.

use serde::{Deserialize, Serialize};

use crate::replay::PlannedEvent;

/// What counts as the same event.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Tolerance {
    /// Begin before the due time, ns: the error of the clocks.
    pub early_ns: u64,
    /// Begin after the due time, ns.
    pub late_ns: u64,
    /// Error of the length, ns...
    pub length_ns: u64,
    /// ...or as a part of the length, whichever is larger.
    pub length_share: f64,
}

impl Default for Tolerance {
    fn default() -> Self {
        Self {
            early_ns: 5_000,
            late_ns: 50_000,
            length_ns: 5_000,
            length_share: 0.1,
        }
    }
}

impl Tolerance {
    fn starts(&self, asked: PlannedEvent, seen: PlannedEvent) -> bool {
        seen.due_ns.saturating_add(self.early_ns) >= asked.due_ns
            && seen.due_ns <= asked.due_ns.saturating_add(self.late_ns)
    }

    fn is_as_long(&self, asked: PlannedEvent, seen: PlannedEvent) -> bool {
        let share_ns = (asked.length_ns as f64 * self.length_share) as u64;
        asked.length_ns.abs_diff(seen.length_ns) <= self.length_ns.max(share_ns)
    }
}

/// Pairs of events: places of the one that was due and of the one that was recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matches {
    /// With the same begin and length.
    pub same: Vec<(usize, usize)>,
    /// With the same begin only.
    pub other_length: Vec<(usize, usize)>,
    /// Recorded, and not due.
    pub rest: Vec<usize>,
}

/// Finds each event that was due among those that were recorded. Both are in order; an
/// event is found once. First come events of the same length, the nearest of them, so
/// that a short event of the host beside a long one of ours is not taken for it.
pub fn match_events(
    asked: &[PlannedEvent],
    seen: &[PlannedEvent],
    tolerance: Tolerance,
) -> Matches {
    let mut found = vec![false; asked.len()];
    let mut taken = vec![false; seen.len()];
    let mut matches = Matches::default();
    for same in [true, false] {
        let mut from = 0;
        for (place, event) in asked.iter().enumerate() {
            if found[place] {
                continue;
            }
            let earliest = event.due_ns.saturating_sub(tolerance.early_ns);
            from += seen[from..].partition_point(|one| one.due_ns < earliest);
            let near = seen[from..]
                .iter()
                .enumerate()
                .map(|(i, one)| (from + i, *one))
                .take_while(|(_, one)| tolerance.starts(*event, *one));
            let fits = |(i, one): &(usize, PlannedEvent)| {
                !taken[*i] && (!same || tolerance.is_as_long(*event, *one))
            };
            let best = near.filter(fits).min_by_key(|(_, one)| {
                let apart = event.due_ns.abs_diff(one.due_ns);
                let longer = event.length_ns.abs_diff(one.length_ns);
                if same {
                    (apart, longer)
                } else {
                    (longer, apart)
                }
            });
            if let Some((i, _)) = best {
                (taken[i], found[place]) = (true, true);
                let pairs = if same {
                    &mut matches.same
                } else {
                    &mut matches.other_length
                };
                pairs.push((place, i));
            }
        }
    }
    matches.rest = (0..seen.len()).filter(|i| !taken[*i]).collect();
    matches
}

impl Matches {
    /// All with the same begin.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        self.same.iter().chain(&self.other_length).copied()
    }
}

/// Classes of lengths in a decade.
const PER_DECADE: f64 = 20.0;

/// Lengths without those of the host alone: of each class as many are removed as were
/// recorded without a replay, `times` as often (the recordings may differ in length).
pub fn without_host(seen_ns: &[u64], host_ns: &[u64], times: f64) -> Vec<u64> {
    let size = |ns: &u64| ((*ns).max(1) as f64).log10() * PER_DECADE;
    let mut of_host = std::collections::BTreeMap::<i64, f64>::new();
    for ns in host_ns {
        *of_host.entry(size(ns) as i64).or_default() += times;
    }
    let keeps = |ns: &&u64| match of_host.get_mut(&(size(ns) as i64)) {
        Some(left) if *left >= 0.5 => {
            *left -= 1.0;
            false
        }
        _ => true,
    };
    seen_ns.iter().filter(keeps).copied().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixture::planned;

    const TOLERANCE: Tolerance = Tolerance {
        early_ns: 10,
        late_ns: 100,
        length_ns: 20,
        length_share: 0.1,
    };

    #[test]
    fn an_event_is_found_where_it_should_be() {
        let asked = planned(&[(1000, 500), (5000, 500), (9000, 500)]);
        // The second is a little too long, the third far too late.
        let seen = planned(&[(1030, 510), (4995, 600), (9200, 500)]);
        let matches = match_events(&asked, &seen, TOLERANCE);
        assert_eq!(matches.same, [(0, 0)]);
        assert_eq!(matches.other_length, [(1, 1)]);
        assert_eq!(matches.rest, [2]);
        assert_eq!(matches.pairs().count(), 2);
    }

    #[test]
    fn a_short_event_of_the_host_beside_is_not_taken_for_ours() {
        let asked = planned(&[(1000, 500)]);
        let seen = planned(&[(995, 3), (1040, 505), (1090, 480)]);
        let matches = match_events(&asked, &seen, TOLERANCE);
        assert_eq!(matches.same, [(0, 1)]);
        assert_eq!(matches.rest, [0, 2]);
    }

    #[test]
    fn one_that_was_seen_is_found_once() {
        let asked = planned(&[(1000, 50), (1020, 50)]);
        let seen = planned(&[(1030, 50)]);
        let matches = match_events(&asked, &seen, TOLERANCE);
        assert_eq!((matches.same.len(), matches.other_length.len()), (1, 0));
    }

    #[test]
    fn what_the_host_does_is_taken_off_by_size() {
        let seen = [100, 101, 102, 5_000, 70_000];
        assert_eq!(without_host(&seen, &[101, 102], 1.0), [102, 5_000, 70_000]);
        // A recording of half the length saw half as much.
        assert_eq!(without_host(&seen, &[101], 2.0), [102, 5_000, 70_000]);
        assert_eq!(without_host(&seen, &[900], 1.0), seen);
        assert!(without_host(&[], &[900], 1.0).is_empty());
    }

    proptest! {
        #[test]
        fn a_perfect_replay_is_found_whole(
            parts in prop::collection::vec((200u64..400, 1u64..100), 1..50),
            shift in 0u64..90,
        ) {
            let mut at = 0;
            let asked: Vec<PlannedEvent> = parts.iter().map(|(gap, length_ns)| {
                let due_ns = at + gap;
                at = due_ns + length_ns;
                PlannedEvent { due_ns, length_ns: *length_ns }
            }).collect();
            let late = |event: &PlannedEvent| PlannedEvent { due_ns: event.due_ns + shift, ..*event };
            let seen: Vec<PlannedEvent> = asked.iter().map(late).collect();
            let matches = match_events(&asked, &seen, TOLERANCE);
            prop_assert_eq!(matches.same.len(), asked.len());
            prop_assert!(matches.rest.is_empty());
        }

        #[test]
        fn everything_seen_is_somewhere(
            asked in prop::collection::vec((0u64..3000, 1u64..300), 0..40),
            seen in prop::collection::vec((0u64..3000, 1u64..300), 0..40),
        ) {
            let sorted = |mut pairs: Vec<(u64, u64)>| { pairs.sort_unstable(); planned(&pairs) };
            let (asked, seen) = (sorted(asked), sorted(seen));
            let m = match_events(&asked, &seen, TOLERANCE);
            prop_assert_eq!(m.same.len() + m.other_length.len() + m.rest.len(), seen.len());
            prop_assert!(m.same.len() + m.other_length.len() <= asked.len());
        }
    }
}
