// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Never all of a CPU: in no second are more than [`MOST_NS`] taken from it.
//!
//! The kernel leaves real-time tasks 950 ms of a second
//! (/proc/sys/kernel/sched_rt_runtime_us) and stops all of them for the rest;
//! a trace that asks for more would stop others' real-time tasks, too, and
//! where somebody has lifted that limit it would stop the machine.

use crate::replay::column::PlannedEvent;

/// What may be taken of a second: below the kernel's 950 ms, which also count
/// the switches.
pub const MOST_NS: u64 = 940_000_000;
/// That second.
const WINDOW_NS: u64 = 1_000_000_000;
/// What is taken is known by pieces of this length.
const SLOT_NS: u64 = 10_000_000;
/// Pieces that a second touches.
const SLOTS: usize = (WINDOW_NS / SLOT_NS) as usize + 1;

/// What was taken in the last second; bounded memory, no allocation.
#[derive(Debug, Clone)]
pub struct Limit {
    taken_ns: [u64; SLOTS],
    /// The latest piece of which something is known.
    latest: u64,
}

impl Default for Limit {
    fn default() -> Self {
        Self {
            taken_ns: [0; SLOTS],
            latest: 0,
        }
    }
}

impl Limit {
    /// How much of an event of this length may be suffered from then on; that
    /// much is taken. Times do not go back; one that does counts as the latest.
    pub fn allow(&mut self, at_ns: u64, length_ns: u64) -> u64 {
        let at_ns = at_ns.max(self.latest * SLOT_NS);
        self.forget(at_ns / SLOT_NS);
        let taken: u64 = self.taken_ns.iter().sum();
        let allowed_ns = length_ns.min(MOST_NS.saturating_sub(taken));
        let end_ns = at_ns.saturating_add(allowed_ns);
        let mut from_ns = at_ns;
        while from_ns < end_ns {
            let slot = from_ns / SLOT_NS;
            self.forget(slot);
            let until_ns = ((slot + 1) * SLOT_NS).min(end_ns);
            self.taken_ns[(slot % SLOTS as u64) as usize] += until_ns - from_ns;
            from_ns = until_ns;
        }
        allowed_ns
    }

    /// Pieces from the latest to this one are new.
    fn forget(&mut self, slot: u64) {
        if slot <= self.latest {
            return;
        }
        let fresh = (slot - self.latest).min(SLOTS as u64);
        for new in slot + 1 - fresh..=slot {
            self.taken_ns[(new % SLOTS as u64) as usize] = 0;
        }
        self.latest = slot;
    }
}

/// What the limit left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Events that were left out.
    pub events: u64,
    /// Events that were made shorter.
    pub shortened: u64,
    /// By how much in all, ns.
    pub ns: u64,
}

impl LeftOut {
    /// Whether it left out anything.
    #[must_use]
    pub fn any(&self) -> bool {
        self.events + self.shortened > 0
    }
}

/// What of these events, which are in order, may be suffered if each costs
/// `overhead_ns` beyond its length, and what not.
#[must_use]
pub fn cut(events: &[PlannedEvent], overhead_ns: u64) -> (Vec<PlannedEvent>, LeftOut) {
    let mut limit = Limit::default();
    let mut left_out = LeftOut::default();
    let mut all = Vec::with_capacity(events.len());
    for event in events {
        let whole_ns = event.length_ns.saturating_add(overhead_ns);
        let allowed_ns = limit.allow(event.due_ns, whole_ns);
        let length_ns = allowed_ns.saturating_sub(overhead_ns);
        if allowed_ns < whole_ns {
            match length_ns {
                0 => left_out.events += 1,
                _ => left_out.shortened += 1,
            }
            left_out.ns += event.length_ns - length_ns;
        }
        if length_ns > 0 {
            let due_ns = event.due_ns;
            all.push(PlannedEvent { due_ns, length_ns });
        }
    }
    (all, left_out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn an_ordinary_trace_is_left_as_it_is() {
        let events: Vec<PlannedEvent> = (0..10_000)
            .map(|i| PlannedEvent::new(i * MS, MS / 10))
            .collect();
        let (all, left_out) = cut(&events, 5_000);
        assert_eq!(all, events);
        assert_eq!(left_out, LeftOut::default());
    }

    #[test]
    fn an_event_longer_than_a_second_is_cut() {
        let events = [PlannedEvent::new(3, 5_000 * MS)];
        let (all, left_out) = cut(&events, 0);
        assert_eq!(all[0].length_ns, MOST_NS);
        assert_eq!(
            left_out,
            LeftOut {
                events: 0,
                shortened: 1,
                ns: 5_000 * MS - MOST_NS
            }
        );
    }

    #[test]
    fn what_is_shortened_is_told_from_what_is_left_out() {
        let event = PlannedEvent::new;
        let events = [
            event(0, 900 * MS),
            event(900 * MS, 60 * MS),
            event(961 * MS, MS),
        ];
        let (all, left_out) = cut(&events, 0);
        assert_eq!(all, [event(0, 900 * MS), event(900 * MS, 40 * MS)]);
        assert_eq!(
            left_out,
            LeftOut {
                events: 1,
                shortened: 1,
                ns: 21 * MS
            }
        );
    }

    #[test]
    fn after_a_second_there_is_room_again() {
        let mut limit = Limit::default();
        assert_eq!(limit.allow(0, 2_000 * MS), MOST_NS);
        assert_eq!(limit.allow(MOST_NS, 100 * MS), 0);
        // A piece more than a second after the first was taken.
        assert_eq!(limit.allow(1_015 * MS, 100 * MS), 10 * MS);
        assert_eq!(limit.allow(1_000_000 * MS, 2_000 * MS), MOST_NS);
    }

    proptest! {
        #[test]
        fn in_no_second_is_too_much_taken(
            parts in prop::collection::vec((0u64..400, 0u64..600), 1..60),
        ) {
            let mut limit = Limit::default();
            let mut at = 0;
            let mut taken: Vec<(u64, u64)> = Vec::new();
            for (gap, length) in parts {
                at += gap * MS;
                let allowed = limit.allow(at, length * MS);
                prop_assert!(allowed <= length * MS);
                taken.push((at, at + allowed));
                at += allowed;
            }
            // Windows that end where an event does hold the most.
            for (_, end) in &taken {
                let begin = end.saturating_sub(WINDOW_NS);
                let sum: u64 = taken
                    .iter()
                    .map(|(a, b)| (*b).min(*end).saturating_sub((*a).max(begin)))
                    .sum();
                prop_assert!(sum <= MOST_NS, "{sum}");
            }
        }
    }
}
