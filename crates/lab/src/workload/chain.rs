// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computation that neither a compiler shortens nor a cache matters to: a
//! chain of multiplications, each of which needs the one before. Its rate is
//! that of the CPU which it is given.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Steps between two looks at the clock: some 20 us.
const BATCH: u64 = 10_000;

/// Takes so many steps; returns the end of the chain, which depends on all of
/// them.
#[must_use]
pub fn steps(count: u64) -> u64 {
    let mut x = black_box(1u64);
    for _ in 0..count {
        // Knuth's multiplier, The Art of Computer Programming 2, 3.3.4.
        x = x
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
    }
    black_box(x)
}

/// Steps that this CPU takes within `time`, at the speed that it has now.
#[must_use]
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
    fn some_steps_fit_into_a_millisecond() {
        assert!(in_time(Duration::from_millis(1)) >= BATCH);
    }
}
