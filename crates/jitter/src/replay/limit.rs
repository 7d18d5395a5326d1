// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The limit of a replay: at most [`MOST_NS`] of any second of a CPU.
//!
//! The kernel leaves real-time tasks 950 ms of a second
//! (/proc/sys/kernel/sched_rt_runtime_us) and stops all of them for the rest; a trace
//! with more jitter would stop the real-time tasks of others, too, and where that
//! limit is off, the machine.

use crate::replay::column::PlannedEvent;

/// Below the kernel's 950 ms, which include the switches.
pub const MOST_NS: u64 = 940_000_000;
const WINDOW_NS: u64 = 1_000_000_000;
/// Resolution of the account.
const SLOT_NS: u64 = 10_000_000;
const SLOTS: usize = (WINDOW_NS / SLOT_NS) as usize + 1;

/// Account of the last second; it does not allocate.
#[derive(Debug, Clone)]
pub struct Limit {
    taken_ns: [u64; SLOTS],
    /// The latest slot in use.
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
    /// Takes as much of an event's length as the limit allows, and returns it. A time
    /// before the latest counts as the latest.
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

    /// Clears the slots after the latest, up to this one.
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

/// Events beyond the limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Left out.
    pub events: u64,
    pub shortened: u64,
    /// Length left out in all, ns.
    pub ns: u64,
}

impl LeftOut {
    pub fn any(&self) -> bool {
        self.events + self.shortened > 0
    }
}

/// Splits events, which are in order and cost `overhead_ns` beyond their length, into
/// those within the limit and the rest.
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
    fn events_are_left_as_they_are_shortened_or_left_out() {
        let event = PlannedEvent::new;
        let left_out = |events, shortened, ns| LeftOut {
            events,
            shortened,
            ns,
        };
        let ordinary: Vec<PlannedEvent> = (0..10_000).map(|i| event(i * MS, MS / 10)).collect();
        assert_eq!(cut(&ordinary, 5_000), (ordinary, LeftOut::default()));
        let long = [event(3, 5_000 * MS)];
        let shorter = vec![event(3, MOST_NS)];
        assert_eq!(
            cut(&long, 0),
            (shorter, left_out(0, 1, 5_000 * MS - MOST_NS))
        );
        let events = [
            event(0, 900 * MS),
            event(900 * MS, 60 * MS),
            event(961 * MS, MS),
        ];
        let shorter = vec![event(0, 900 * MS), event(900 * MS, 40 * MS)];
        assert_eq!(cut(&events, 0), (shorter, left_out(1, 1, 21 * MS)));
    }

    #[test]
    fn after_a_second_there_is_room_again() {
        let mut limit = Limit::default();
        assert_eq!(limit.allow(0, 2_000 * MS), MOST_NS);
        assert_eq!(limit.allow(MOST_NS, 100 * MS), 0);
        // A slot more than a second after the first was taken.
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
