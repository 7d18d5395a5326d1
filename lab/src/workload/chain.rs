// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computation that neither a compiler shortens nor a cache matters to: a
//! chain of multiplications, each of which needs the one before. Its rate is
//! that of the CPU which it is given.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Steps between two looks at the clock: some 20 us.
const BATCH: u64 = 10_000;

/// Knuth's multiplier, The Art of Computer Programming 2, 3.3.4, and increment.
const STEP: Affine = Affine {
    multiplier: 6_364_136_223_846_793_005,
    increment: 1_442_695_040_888_963_407,
};

/// x -> multiplier * x + increment, modulo 2^64.
#[derive(Clone, Copy)]
struct Affine {
    multiplier: u64,
    increment: u64,
}

impl Affine {
    fn of(self, x: u64) -> u64 {
        self.multiplier.wrapping_mul(x).wrapping_add(self.increment)
    }

    fn after(self, first: Self) -> Self {
        Self {
            multiplier: self.multiplier.wrapping_mul(first.multiplier),
            increment: self.of(first.increment),
        }
    }
}

/// The end of the chain after `count` steps, without taking them: what [`steps`] must
/// return.
pub fn end(mut count: u64) -> u64 {
    let (mut x, mut power) = (1, STEP);
    while count > 0 {
        if count & 1 == 1 {
            x = power.of(x);
        }
        power = power.after(power);
        count >>= 1;
    }
    x
}

/// Takes `count` steps; the end of the chain, which depends on all of them.
pub fn steps(count: u64) -> u64 {
    let mut x = black_box(1u64);
    for _ in 0..count {
        x = STEP.of(x);
    }
    black_box(x)
}

/// Steps that this CPU takes within `time`, at the speed that it has now.
pub fn in_time(time: Duration) -> u64 {
    let begin = Instant::now();
    let mut count = 0;
    while begin.elapsed() < time {
        let _ = steps(BATCH);
        count += BATCH;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_is_the_generators() {
        assert_eq!(steps(0), 1);
        let once = 6_364_136_223_846_793_005u64.wrapping_add(1_442_695_040_888_963_407);
        assert_eq!(steps(1), once);
        assert_ne!(steps(2), steps(3));
    }

    #[test]
    fn its_end_is_known_without_taking_the_steps() {
        for count in [0, 1, 2, 3, 7, 1000, 65_537] {
            assert_eq!(end(count), steps(count), "{count}");
        }
    }

    #[test]
    fn some_steps_fit_into_a_millisecond() {
        assert!(in_time(Duration::from_millis(1)) >= BATCH);
    }
}
