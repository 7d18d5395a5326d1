// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part of a trace that one rank replays.

use std::sync::Arc;

use sandbag_stats::chance;

use crate::replay::column::{PlanColumn, PlannedEvent};
use crate::replay::sync::Sync;

/// A stretch of a column from a position on, which continues at the column's
/// beginning. Ranks share the column.
#[derive(Debug, Clone)]
pub struct Portion {
    pub(crate) column: Arc<PlanColumn>,
    /// Its beginning on the column's axis, ns; below `known_ns`.
    pub(crate) offset_ns: u64,
    /// Not longer than the axis, ns.
    pub(crate) length_ns: u64,
    /// All times are multiplied by this.
    pub(crate) factor: f64,
    /// Begins again when it is used up.
    pub(crate) repeat: bool,
    pub(crate) sync: Sync,
    pub(crate) seed: u64,
}

/// Random stream of the positions of phases.
pub(crate) const PHASES: u64 = 1;

impl Portion {
    /// Its beginning in the known time of its CPU, ns.
    pub fn offset_ns(&self) -> u64 {
        self.offset_ns
    }

    /// Position in the known time of its CPU after `passed_ns`, without the factor.
    pub fn position_ns(&self, passed_ns: u64) -> u64 {
        let within_ns = if self.repeat {
            passed_ns % self.length_ns.max(1)
        } else {
            passed_ns
        };
        self.offset_ns + within_ns
    }

    /// Length with the factor, ns.
    pub fn length_ns(&self) -> u64 {
        self.scaled(self.length_ns)
    }

    /// Whether it begins again when it is used up.
    pub fn repeats(&self) -> bool {
        self.repeat
    }

    /// Without repetition.
    pub fn once(&self) -> Self {
        Self {
            repeat: false,
            ..self.clone()
        }
    }

    /// Its events, by due time since the beginning; endless if it repeats and has an
    /// event.
    pub fn events(&self) -> Events {
        Events::new(self.clone())
    }

    /// The portion of all ranks from a phase (counted from 0) on that sets a common
    /// position ([`Sync::Phases`]).
    pub fn at_phase(&self, phase: u64) -> Option<Self> {
        let Sync::Phases(every) = self.sync else {
            return None;
        };
        let every = u64::from(every.max(1));
        phase
            .is_multiple_of(every)
            .then(|| self.of_reset(phase / every))
    }

    /// The whole column from a random position on, repeated; the same for all ranks.
    fn of_reset(&self, reset: u64) -> Self {
        let known_ns = self.column.known_ns;
        Self {
            offset_ns: chance::draw(self.seed, PHASES, reset, known_ns),
            length_ns: known_ns,
            repeat: true,
            ..self.clone()
        }
    }

    pub(crate) fn scaled(&self, ns: u64) -> u64 {
        if self.factor == 1.0 {
            ns
        } else {
            (ns as f64 * self.factor) as u64
        }
    }
}

/// See [`Portion::events`].
#[derive(Debug, Clone)]
pub struct Events {
    portion: Portion,
    /// Of the next event in the column.
    index: usize,
    /// Length of the axis once its end is passed, ns.
    lap_ns: u64,
    /// Rest of an event that is under way where the portion begins.
    rest_ns: Option<u64>,
    /// Begin of this repetition, without the factor, ns.
    begun_ns: u64,
    /// Events of this repetition so far.
    yielded: u64,
}

impl Events {
    pub(crate) fn new(portion: Portion) -> Self {
        let mut events = Self {
            portion,
            index: 0,
            lap_ns: 0,
            rest_ns: None,
            begun_ns: 0,
            yielded: 0,
        };
        events.seek();
        events
    }

    fn seek(&mut self) {
        let Portion {
            column, offset_ns, ..
        } = &self.portion;
        self.index = column
            .events
            .partition_point(|event| event.due_ns < *offset_ns);
        self.lap_ns = 0;
        self.yielded = 0;
        let under_way = self.index.checked_sub(1).map(|i| column.events[i]);
        self.rest_ns = under_way
            .map(|event| event.end_ns().saturating_sub(*offset_ns))
            .filter(|rest| *rest > 0);
    }

    fn scaled(&mut self, due_ns: u64, length_ns: u64) -> PlannedEvent {
        self.yielded += 1;
        let due_ns = self.begun_ns + due_ns;
        let begin = self.portion.scaled(due_ns);
        // Both ends are scaled, so that neighbours do not overlap.
        PlannedEvent::new(begin, self.portion.scaled(due_ns + length_ns) - begin)
    }
}

impl Iterator for Events {
    type Item = PlannedEvent;

    fn next(&mut self) -> Option<PlannedEvent> {
        let (offset_ns, length_ns) = (self.portion.offset_ns, self.portion.length_ns);
        if let Some(rest) = self.rest_ns.take() {
            return Some(self.scaled(0, rest.min(length_ns)));
        }
        loop {
            let PlanColumn { known_ns, events } = &*self.portion.column;
            if events.is_empty() {
                return None;
            }
            let Some(event) = events.get(self.index).copied() else {
                self.index = 0;
                self.lap_ns += known_ns;
                continue;
            };
            let due_ns = self.lap_ns + event.due_ns - offset_ns;
            if due_ns < length_ns {
                self.index += 1;
                return Some(self.scaled(due_ns, event.length_ns.min(length_ns - due_ns)));
            }
            // Repetitions without an event would be endless.
            if !self.portion.repeat || self.yielded == 0 {
                return None;
            }
            self.begun_ns += length_ns;
            self.seek();
            if let Some(rest) = self.rest_ns.take() {
                return Some(self.scaled(0, rest.min(length_ns)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixture::planned;

    fn portion(events: &[(u64, u64)], known_ns: u64, offset_ns: u64, length_ns: u64) -> Portion {
        Portion {
            column: Arc::new(PlanColumn {
                known_ns,
                events: planned(events),
            }),
            offset_ns,
            length_ns,
            factor: 1.0,
            repeat: false,
            sync: Sync::None,
            seed: 0,
        }
    }

    fn pairs(portion: &Portion, most: usize) -> Vec<(u64, u64)> {
        let events = portion.events().take(most);
        events
            .map(|event| (event.due_ns, event.length_ns))
            .collect()
    }

    const TRACE: [(u64, u64); 3] = [(10, 5), (50, 20), (90, 4)];

    #[test]
    fn a_portion_is_a_stretch_of_the_trace() {
        let whole = portion(&TRACE, 100, 0, 100);
        assert_eq!(pairs(&whole, 9), TRACE);
        // Around the end.
        assert_eq!(pairs(&portion(&TRACE, 100, 80, 60), 9), [(10, 4), (30, 5)]);
        // From the middle of the second event to the middle of the third.
        let mut cut = portion(&TRACE, 100, 60, 31);
        assert_eq!(pairs(&cut, 9), [(0, 10), (30, 1)]);
        cut.repeat = true;
        assert_eq!(pairs(&cut, 4), [(0, 10), (30, 1), (31, 10), (61, 1)]);
        (cut.offset_ns, cut.length_ns) = (20, 10);
        assert_eq!(pairs(&cut, 4), []);
        assert_eq!(pairs(&portion(&[], 100, 5, 100), 4), []);
        let stretched = Portion {
            factor: 3.0,
            ..whole
        };
        assert_eq!(pairs(&stretched, 9), [(30, 15), (150, 60), (270, 12)]);
        assert_eq!(stretched.length_ns(), 300);
    }

    #[test]
    fn positions_of_phases_are_those_of_the_seed() {
        let one = portion(&TRACE, 100, 0, 30);
        let other = portion(&TRACE, 100, 70, 20);
        for reset in 0..50 {
            assert_eq!(
                one.of_reset(reset).offset_ns,
                other.of_reset(reset).offset_ns
            );
        }
        let moves = (0..50).filter(|n| one.of_reset(*n).offset_ns != one.of_reset(0).offset_ns);
        assert!(moves.count() > 30);
    }

    proptest! {
        #[test]
        fn a_portion_is_in_order_within_its_length_and_loses_nothing(
            gaps in prop::collection::vec((0u64..30, 1u64..30), 0..40),
            tail in 0u64..30,
            offset in 0u64..1000,
            length in 1u64..1000,
            factor in prop::sample::select(vec![1.0, 2.0, 2.5]),
        ) {
            let mut at = 0;
            let events: Vec<(u64, u64)> = gaps.iter().map(|(gap, length)| {
                let due = at + gap;
                at = due + length;
                (due, *length)
            }).collect();
            let known = (at + tail).max(1);
            let (offset, length) = (offset % known, length.min(known));
            let mut all = portion(&events, known, offset, length);
            all.factor = factor;
            let mut last = 0;
            let mut sum = 0;
            for event in all.events() {
                prop_assert!(event.due_ns >= last);
                last = event.end_ns();
                sum += event.length_ns;
            }
            prop_assert!(last <= all.length_ns());
            // By the nanosecond, around the end.
            let taken = (0..length).filter(|i| {
                let at = (offset + i) % known;
                events.iter().any(|(due, length)| (*due..due + length).contains(&at))
            }).count() as f64 * factor;
            prop_assert!((sum as f64 - taken).abs() <= events.len() as f64 + 1.0);
        }
    }
}
