// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The barrier of ranks: in shared memory here, by MPI in `sandbag-mpi`.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::clocks::Messages;
use super::shared::Shared;

/// A barrier that also broadcasts a number of the first rank.
pub trait RankBarrier {
    /// The number of this rank; 0 is the first.
    fn rank(&self) -> u32;

    /// The number of ranks.
    fn size(&self) -> u32;

    /// Waits until all ranks are here; the first rank's `says` is broadcast. `idle` is called
    /// while it waits, as often as the way of waiting allows.
    fn wait(&mut self, says: u32, idle: &mut dyn FnMut());

    /// The number that the first rank gave to the last wait. Collective: all ranks call it once
    /// after each wait, because it may be a message.
    fn announcement(&mut self) -> u32;
}

/// A barrier in shared memory: the last rank to arrive begins the next generation and wakes
/// the sleeping ones.
pub(super) struct MemoryBarrier<'a> {
    shared: &'a Shared,
    rank: u32,
    size: u32,
    /// Sleep while waiting, because there are more ranks than CPUs.
    sleeps: bool,
    passed: u32,
}

/// Words of the shared memory, each in a cache line of its own.
const ARRIVED: usize = 0;
const GENERATION: usize = 32;
/// Number of the first rank, alternating: it cannot be two barriers ahead.
const SAID: [usize; 2] = [64, 96];
/// First word of the messages: for each rank one to it, one from it.
const BOXES: usize = 128;
const BOX: usize = 32;

/// Number of words for this number of ranks.
pub(super) const fn words(ranks: usize) -> usize {
    BOXES + 2 * BOX * ranks
}

impl<'a> MemoryBarrier<'a> {
    pub(super) fn new(shared: &'a Shared, rank: u32, size: u32, sleeps: bool) -> Self {
        Self {
            shared,
            rank,
            size,
            sleeps,
            passed: 0,
        }
    }
}

impl RankBarrier for MemoryBarrier<'_> {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn wait(&mut self, says: u32, idle: &mut dyn FnMut()) {
        let words = self.shared.words();
        self.passed = self.passed.wrapping_add(1);
        if self.rank == 0 {
            words[SAID[(self.passed % 2) as usize]].store(says, Relaxed);
        }
        let generation = words[GENERATION].load(Acquire);
        if words[ARRIVED].fetch_add(1, AcqRel) + 1 == self.size {
            words[ARRIVED].store(0, Relaxed);
            words[GENERATION].store(generation.wrapping_add(1), Release);
            if self.sleeps {
                self.shared.wake_all(GENERATION);
            }
        } else {
            while words[GENERATION].load(Acquire) == generation {
                idle();
                if self.sleeps {
                    self.shared.sleep_while(GENERATION, generation)
                } else {
                    std::hint::spin_loop()
                }
            }
        }
    }

    fn announcement(&mut self) -> u32 {
        self.shared.words()[SAID[(self.passed % 2) as usize]].load(Relaxed)
    }
}

/// One pair at a time; one of them is the first rank.
impl Messages for MemoryBarrier<'_> {
    fn send(&mut self, to: u32, value: u64) {
        let word = letter(self.rank, to);
        self.shared.put(word + 1, value);
        self.shared.words()[word].store(1, Release);
    }

    fn receive(&mut self, from: u32) -> u64 {
        let word = letter(from, self.rank);
        let sent = &self.shared.words()[word];
        // A message is taken before the next one is sent.
        while sent.load(Acquire) == 0 {
            std::hint::spin_loop();
        }
        let value = self.shared.take(word + 1);
        sent.store(0, Release);
        value
    }
}

/// The word of a message.
fn letter(from: u32, to: u32) -> usize {
    match from {
        0 => BOXES + 2 * BOX * to as usize,
        _ => BOXES + 2 * BOX * from as usize + BOX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rank_passes_before_all_arrive() {
        for sleeps in [false, true] {
            let shared = Shared::new(words(4) + 1).unwrap();
            std::thread::scope(|scope| {
                for rank in 0..4 {
                    let shared = &shared;
                    scope.spawn(move || {
                        let mut barrier = MemoryBarrier::new(shared, rank, 4, sleeps);
                        let count = &shared.words()[words(4)];
                        for phase in 0..200u32 {
                            count.fetch_add(1, AcqRel);
                            barrier.wait(phase * 7, &mut || std::thread::yield_now());
                            assert_eq!(barrier.announcement(), phase * 7);
                            assert!(count.load(Acquire) >= (phase + 1) * 4);
                            barrier.wait(0, &mut || std::thread::yield_now());
                        }
                    });
                }
            });
            assert_eq!(shared.words()[words(4)].load(Acquire), 800);
        }
    }

    #[test]
    fn the_first_rank_exchanges_messages_with_each() {
        let shared = Shared::new(words(3)).unwrap();
        std::thread::scope(|scope| {
            for rank in 1..3 {
                let shared = &shared;
                scope.spawn(move || {
                    let mut mine = MemoryBarrier::new(shared, rank, 3, false);
                    for _ in 0..100 {
                        let got = mine.receive(0);
                        mine.send(0, got + u64::from(rank));
                    }
                });
            }
            let mut first = MemoryBarrier::new(&shared, 0, 3, false);
            for number in 0..100u64 {
                for rank in 1..3 {
                    first.send(rank, number << 40);
                    assert_eq!(first.receive(rank), (number << 40) + u64::from(rank));
                }
            }
        });
    }
}
