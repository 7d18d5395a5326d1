// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A barrier between processes, in memory that they share: the last of the
//! parties to arrive lets all go on. Unlike pthread_barrier(3) a wait has a time
//! limit, for a party may be killed; after it the call counts as not made.

use std::sync::atomic::{AtomicU32, Ordering};

use sandbag_linux::clock::monotonic;
use sandbag_linux::shared;

/// All zero is a barrier without waiters.
#[repr(C)]
#[derive(Debug, Default)]
pub struct StartBarrier {
    arrived: AtomicU32,
    /// Counts the times that all went on; the futex.
    round: AtomicU32,
}

impl StartBarrier {
    /// Waits until `parties` arrived; whether they did before `until` (monotonic, ns).
    pub fn wait(&self, parties: u32, until: u64) -> bool {
        let round = self.round.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 >= parties {
            self.arrived.store(0, Ordering::Release);
            self.round.fetch_add(1, Ordering::AcqRel);
            shared::wake_all(self.round.as_ptr());
            return true;
        }
        while self.round.load(Ordering::Acquire) == round {
            if monotonic() >= until {
                // Who gives up takes his arrival back, unless all came now.
                let left = self
                    .arrived
                    .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1));
                return left.is_err() || self.round.load(Ordering::Acquire) != round;
            }
            shared::wait_on(self.round.as_ptr(), round, Some(until));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    const LONG: u64 = 10_000_000_000;

    #[test]
    fn nobody_is_a_round_ahead() {
        let barrier = StartBarrier::default();
        let done: [AtomicU64; 3] = Default::default();
        std::thread::scope(|scope| {
            for n in 0..3 {
                let (barrier, done) = (&barrier, &done);
                scope.spawn(move || {
                    for round in 1..=200 {
                        done[n].store(round, Ordering::SeqCst);
                        assert!(barrier.wait(3, monotonic() + LONG));
                        assert!(done.iter().all(|d| d.load(Ordering::SeqCst) >= round));
                        assert!(barrier.wait(3, monotonic() + LONG));
                    }
                });
            }
        });
    }

    #[test]
    fn a_party_that_never_comes_is_not_waited_for_for_ever() {
        let barrier = StartBarrier::default();
        assert!(!barrier.wait(2, monotonic() + 1_000_000));
        // And the one that gave up is not counted.
        assert!(!barrier.wait(2, monotonic() + 1_000_000));
        assert!(barrier.wait(1, monotonic() + 1_000_000));
    }
}
