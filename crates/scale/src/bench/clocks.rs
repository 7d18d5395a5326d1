// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far the clocks of ranks are apart: one asks the other what time it is, and
//! the question that came back soonest counts (Hoefler, Schneider and Lumsdaine,
//! "Accurately measuring collective operations at massive scale", 2008; as in
//! SKaMPI and NetGauge). What the answer took to come is not known, only that it
//! took no longer than the whole: half of that is what the offset may be wrong.

use serde::Serialize;

use sandbag_jitter::replay::clock::ReplayClock;

/// Ranks that can send each other a number.
pub trait Messages {
    /// To another.
    fn send(&mut self, to: u32, value: u64);

    /// From another; waits for it.
    fn receive(&mut self, from: u32) -> u64;
}

/// A rank's clock, held against that of the first rank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Offset {
    /// When, by the first rank's clock, ns.
    pub at_ns: u64,
    /// How much more the rank's showed, ns.
    pub ahead_ns: i64,
    /// How much of that may be the way of the message, ns.
    pub error_ns: u64,
}

/// Questions to each rank.
const QUESTIONS: u32 = 200;
/// All of them together, at most, where there are many ranks.
const MOST: u32 = 100_000;
/// The fewest.
const FEWEST: u32 = 20;

/// Holds the clocks of all ranks against that of the first, which has them in
/// the end; nobody else has any. All call this together.
pub fn compare(
    who: &mut impl Messages,
    rank: u32,
    ranks: u32,
    clock: &impl ReplayClock,
) -> Vec<Offset> {
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

    /// The other rank, whose clock is 1 ms ahead; ways take 300 ns there and
    /// 200 back, every tenth question longer.
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
    fn the_soonest_answer_counts() {
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
