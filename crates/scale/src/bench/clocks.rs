// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Offsets between the clocks of ranks: the first rank asks another for its time, and the
//! question with the shortest round trip counts (Hoefler, Schneider and Lumsdaine,
//! "Accurately measuring collective operations at massive scale", 2008; as in SKaMPI and
//! NetGauge). The uncertainty of the offset is half of that round trip.

use serde::Serialize;

use sandbag_linux::clock::Clock;

/// Ranks that can send each other a number.
pub trait Messages {
    /// Sends to another rank.
    fn send(&mut self, to: u32, value: u64);

    /// Waits for a number from another rank.
    fn receive(&mut self, from: u32) -> u64;
}

/// A rank's clock, compared with that of the first rank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Offset {
    /// Time of the comparison by the first rank's clock, ns.
    pub at_ns: u64,
    /// Reading of the rank's clock less that, ns.
    pub ahead_ns: i64,
    /// Uncertainty of `ahead_ns`, ns.
    pub error_ns: u64,
}

impl From<[u64; 3]> for Offset {
    fn from([at_ns, ahead_ns, error_ns]: [u64; 3]) -> Self {
        Self {
            at_ns,
            ahead_ns: ahead_ns.cast_signed(),
            error_ns,
        }
    }
}

impl From<Offset> for [u64; 3] {
    fn from(offset: Offset) -> Self {
        [
            offset.at_ns,
            offset.ahead_ns.cast_unsigned(),
            offset.error_ns,
        ]
    }
}

/// Questions to each rank.
const QUESTIONS: u32 = 200;
/// Questions to all ranks together, at most.
const MOST: u32 = 100_000;
/// Questions to each rank, at least.
const FEWEST: u32 = 20;

/// Compares the clocks of all ranks with that of the first. The first rank gets the offsets,
/// the others an empty list. Collective: all ranks call it.
pub fn compare(who: &mut impl Messages, rank: u32, ranks: u32, clock: &impl Clock) -> Vec<Offset> {
    let questions = (MOST / ranks.max(1)).clamp(FEWEST, QUESTIONS);
    if rank > 0 {
        for _ in 0..questions {
            who.receive(0);
            who.send(0, clock.now_ns());
        }
        return Vec::new();
    }
    let mut all = vec![Offset {
        at_ns: clock.now_ns(),
        ..Offset::default()
    }];
    for other in 1..ranks {
        let tries = (0..questions).map(|_| {
            let before = clock.now_ns();
            who.send(other, before);
            let there = who.receive(other);
            let took = clock.now_ns().saturating_sub(before);
            let at_ns = before + took / 2;
            Offset {
                at_ns,
                ahead_ns: there.wrapping_sub(at_ns).cast_signed(),
                error_ns: took.div_ceil(2),
            }
        });
        all.extend(tries.min_by_key(|offset| offset.error_ns));
    }
    all
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// The other rank, whose clock is 1 ms ahead; a message takes 300 ns there and 200 back,
    /// except every tenth.
    struct SkewedRank<'a> {
        now: &'a Cell<u64>,
        asked: u64,
    }

    impl Messages for SkewedRank<'_> {
        fn send(&mut self, _to: u32, _value: u64) {
            self.asked += 1;
            let slow = if self.asked.is_multiple_of(10) {
                0
            } else {
                5_000
            };
            self.now.set(self.now.get() + 300 + slow);
        }

        fn receive(&mut self, _from: u32) -> u64 {
            let there = self.now.get() + 1_000_000;
            self.now.set(self.now.get() + 200);
            there
        }
    }

    #[test]
    fn the_shortest_round_trip_counts() {
        let now = Cell::new(77);
        let mut other = SkewedRank {
            now: &now,
            asked: 0,
        };
        let all = compare(&mut other, 0, 3, &|| now.get());
        assert_eq!(all.len(), 3);
        assert_eq!((all[0].ahead_ns, all[0].error_ns), (0, 0));
        for offset in &all[1..] {
            assert_eq!((offset.ahead_ns, offset.error_ns), (1_000_050, 250));
        }
        assert!(compare(&mut other, 1, 3, &|| now.get()).is_empty());
    }
}
