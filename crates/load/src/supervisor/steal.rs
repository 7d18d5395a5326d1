// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much the hypervisor withheld, finer than the kernel prints it. Pure.
//!
//! `/proc/stat` counts steal in ticks of 10 ms: in a window of 1 s one tick
//! more or less moves a load of 50 % by half a point, though the time was
//! withheld in many small parts over many windows. A burner sees the steal
//! that hits it while it runs, to the nanosecond, but no other. So what it
//! saw, divided by the share of the time in which it ran, is taken as the
//! course *between* ticks, and the kernel's counter as the truth: the sum
//! never leaves the band of one tick around it.

/// The steal of one CPU since the start of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct StealEstimate {
    total_ns: f64,
    ticks_ns: u64,
}

impl StealEstimate {
    /// Adds a window: `counted_ns` by the kernel's ticks, `seen_ns` by the
    /// burner in the `share` (0 to 1) of the time in which it ran. Returns
    /// the steal of the window, ns.
    pub fn add(&mut self, counted_ns: u64, seen_ns: u64, share: f64, tick_ns: u64) -> u64 {
        self.ticks_ns += counted_ns;
        let before = self.total_ns;
        let seen = if share > 0.0 {
            seen_ns as f64 / share.max(0.01)
        } else {
            0.0
        };
        let (least, most) = (
            self.ticks_ns.saturating_sub(tick_ns) as f64,
            (self.ticks_ns + tick_ns) as f64,
        );
        self.total_ns = (before + seen).clamp(least, most).max(before);
        (self.total_ns - before).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TICK: u64 = 10_000_000;

    #[test]
    fn a_tick_that_took_many_windows_to_fill_is_spread() {
        let mut steal = StealEstimate::default();
        let windows: Vec<u64> = (0..10)
            .map(|n| steal.add(if n == 9 { TICK } else { 0 }, 500_000, 0.5, TICK))
            .collect();
        assert_eq!(windows, [1_000_000; 10]);
    }

    #[test]
    fn what_the_burner_did_not_see_comes_with_the_ticks() {
        let mut steal = StealEstimate::default();
        let sum: u64 = (0..10).map(|_| steal.add(3 * TICK, 0, 0.5, TICK)).sum();
        assert_eq!(sum, 29 * TICK);
    }

    proptest! {
        #[test]
        fn the_sum_stays_within_one_tick_of_the_counter(
            windows in prop::collection::vec((0u64..5, 0u64..50_000_000, 0.0f64..1.0), 1..50),
        ) {
            let mut steal = StealEstimate::default();
            let (mut sum, mut counted) = (0i64, 0i64);
            for (ticks, seen, share) in windows {
                counted += (ticks * TICK) as i64;
                sum += steal.add(ticks * TICK, seen, share, TICK) as i64;
                prop_assert!((sum - counted).abs() <= TICK as i64 + 50);
            }
        }
    }
}
