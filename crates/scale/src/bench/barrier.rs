// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where ranks wait for each other: shared memory here, MPI elsewhere.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::shared::Shared;

/// A barrier that also tells all what the first rank says.
pub trait Barrier {
    /// The number of this rank; 0 is the first.
    fn rank(&self) -> u32;

    /// How many there are.
    fn size(&self) -> u32;

    /// Waits until all are here; what the first rank says is for all. `idle` is
    /// called while it waits, as often as the way of waiting allows.
    fn wait(&mut self, says: u32, idle: &mut dyn FnMut());

    /// What the first rank said when all were here last. To be asked once after
    /// each wait, by all: it may be a message.
    fn said(&mut self) -> u32;
}

/// A barrier of processes that share memory: the last to arrive begins the next
/// generation and wakes those that sleep.
pub(super) struct Together<'a> {
    shared: &'a Shared,
    rank: u32,
    size: u32,
    /// Sleep while waiting: there are more ranks than CPUs.
    sleeps: bool,
    passed: u32,
}

/// Words of the shared memory, each in a cache line of its own.
const ARRIVED: usize = 0;
const GENERATION: usize = 32;
/// What the first rank said, by turns: it cannot be two barriers ahead.
const SAID: [usize; 2] = [64, 96];
/// Words that it needs.
pub(super) const WORDS: usize = 128;

impl<'a> Together<'a> {
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

impl Barrier for Together<'_> {
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
                match self.sleeps {
                    true => self.shared.sleep_while(GENERATION, generation),
                    false => std::hint::spin_loop(),
                }
            }
        }
    }

    fn said(&mut self) -> u32 {
        self.shared.words()[SAID[(self.passed % 2) as usize]].load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_passes_before_all_are_there() {
        for sleeps in [false, true] {
            let shared = Shared::new(WORDS + 1).unwrap();
            std::thread::scope(|scope| {
                for rank in 0..4 {
                    let shared = &shared;
                    scope.spawn(move || {
                        let mut barrier = Together::new(shared, rank, 4, sleeps);
                        let count = &shared.words()[WORDS];
                        for phase in 0..200u32 {
                            count.fetch_add(1, AcqRel);
                            barrier.wait(phase * 7, &mut || std::thread::yield_now());
                            assert_eq!(barrier.said(), phase * 7);
                            assert!(count.load(Acquire) >= (phase + 1) * 4);
                            barrier.wait(0, &mut || std::thread::yield_now());
                        }
                    });
                }
            });
            assert_eq!(shared.words()[WORDS].load(Acquire), 800);
        }
    }
}
