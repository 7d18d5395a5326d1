// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The events of one CPU on an axis of known time.
//!
//! The unknown time between rounds of a recording is cut out, so that it is never
//! taken for time without jitter.

use crate::{CpuTrace, Span, TraceEvent, common};

#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlannedEvent {
    /// Since the beginning of its column, portion or run, ns.
    pub due_ns: u64,
    pub length_ns: u64,
}

impl PlannedEvent {
    pub const fn new(due_ns: u64, length_ns: u64) -> Self {
        Self { due_ns, length_ns }
    }

    pub fn end_ns(&self) -> u64 {
        self.due_ns.saturating_add(self.length_ns)
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlanColumn {
    /// Length of the axis, ns.
    pub known_ns: u64,
    /// On the axis; ascending, without overlap, each longer than 0.
    pub events: Vec<PlannedEvent>,
}

impl PlanColumn {
    /// The parts of events within `known`. Both are ascending and without overlap, as
    /// in a [`CpuTrace`].
    pub fn new(known: &[Span], events: &[TraceEvent]) -> Self {
        let mut column = Self::default();
        let mut next = 0;
        let mut last_seen = None;
        for span in known {
            while events
                .get(next)
                .is_some_and(|event| event.end_ns() <= span.from_ns)
            {
                next += 1;
            }
            while let Some(event) = events.get(next).filter(|e| e.start_ns < span.until_ns) {
                let from_ns = event.start_ns.max(span.from_ns);
                let until_ns = event.end_ns().min(span.until_ns);
                let due_ns = column.known_ns + (from_ns - span.from_ns);
                let length_ns = until_ns.saturating_sub(from_ns);
                match column.events.last_mut() {
                    // One event in two adjacent spans.
                    Some(last) if last_seen == Some(next) && last.end_ns() == due_ns => {
                        last.length_ns += length_ns;
                    }
                    _ if length_ns > 0 => column.events.push(PlannedEvent { due_ns, length_ns }),
                    _ => {}
                }
                last_seen = Some(next);
                if event.end_ns() > span.until_ns {
                    // The next span may have the rest of it.
                    break;
                }
                next += 1;
            }
            column.known_ns += span.length_ns();
        }
        column
    }

    /// Length of all events, ns.
    pub fn noise_ns(&self) -> u64 {
        self.events.iter().map(|event| event.length_ns).sum()
    }
}

/// The time that is known of all these CPUs.
pub(crate) fn known_together(cpus: &[&CpuTrace]) -> Vec<Span> {
    let Some((first, others)) = cpus.split_first() else {
        return Vec::new();
    };
    others
        .iter()
        .fold(first.known.clone(), |both, cpu| common(&both, &cpu.known))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixture::{self, spans};

    #[test]
    fn events_lie_on_the_axis_as_far_as_they_are_known() {
        type Pairs<'a> = &'a [(u64, u64)];
        let cases: [(Pairs<'_>, Pairs<'_>, Pairs<'_>); 3] = [
            (
                &[(100, 200), (500, 600)],
                &[(110, 5), (150, 10), (520, 7)],
                &[(10, 5), (50, 10), (120, 7)],
            ),
            // Events begin before, end after, and lie over unknown time.
            (
                &[(100, 200), (300, 400)],
                &[(90, 20), (190, 120), (395, 50)],
                &[(0, 10), (90, 20), (195, 5)],
            ),
            // Adjacent spans do not divide an event.
            (&[(0, 100), (100, 200)], &[(90, 30)], &[(90, 30)]),
        ];
        for (known, events, expected) in cases {
            let column = PlanColumn::new(&spans(known), &fixture::events(events));
            assert_eq!(column.known_ns, 200);
            let pairs = column.events.iter().map(|e| (e.due_ns, e.length_ns));
            assert_eq!(pairs.collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn together_is_what_all_know() {
        let cpu = |known: Vec<Span>| CpuTrace {
            known,
            ..CpuTrace::default()
        };
        let a = cpu(vec![Span::new(0, 100), Span::new(200, 300)]);
        let b = cpu(vec![Span::new(10, 250)]);
        assert_eq!(
            known_together(&[&a, &b]),
            [Span::new(10, 100), Span::new(200, 250)]
        );
        assert_eq!(known_together(&[&a]), a.known);
        assert_eq!(known_together(&[&a, &cpu(Vec::new())]), []);
    }

    /// Ascending stretches from gaps and lengths.
    fn ascending(parts: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut at = 0;
        parts
            .iter()
            .map(|(gap, length)| {
                let from = at + gap;
                at = from + length;
                (from, at)
            })
            .collect()
    }

    proptest! {
        #[test]
        fn a_column_is_in_order_and_within_its_axis(
            known in prop::collection::vec((0u64..50, 1u64..50), 0..20),
            events in prop::collection::vec((0u64..20, 0u64..20), 0..60),
        ) {
            let known: Vec<Span> =
                ascending(&known).into_iter().map(|(a, b)| Span::new(a, b)).collect();
            let events: Vec<TraceEvent> =
                ascending(&events).into_iter().map(|(a, b)| TraceEvent::new(a, b - a)).collect();
            let column = PlanColumn::new(&known, &events);
            let mut last = 0;
            for event in &column.events {
                prop_assert!(event.due_ns >= last && event.length_ns > 0);
                last = event.end_ns();
            }
            prop_assert!(last <= column.known_ns);
            // Every nanosecond that is known and taken is there, no other.
            let taken: u64 = known
                .iter()
                .flat_map(|s| events.iter().map(move |e| {
                    e.end_ns().min(s.until_ns).saturating_sub(e.start_ns.max(s.from_ns))
                }))
                .sum();
            prop_assert_eq!(column.noise_ns(), taken);
        }
    }
}
