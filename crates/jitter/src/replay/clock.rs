// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clock that a program asks.

use std::time::Duration;

use crate::Fault;
use crate::collect::counter::{self, Moment};
use sandbag_linux::{Root, clock};

/// Says what time it is, ns; never goes back.
pub trait ReplayClock {
    /// The time now, ns since a point that stays the same.
    fn now_ns(&self) -> u64;
}

/// `CLOCK_MONOTONIC`: some 20 to 50 ns a reading, without a system call.
#[derive(Debug, Clone, Copy, Default)]
pub struct Monotonic;

impl ReplayClock for Monotonic {
    #[inline]
    fn now_ns(&self) -> u64 {
        clock::monotonic()
    }
}

/// Anything that counts: the clock of a test, or a program's own.
impl<F: Fn() -> u64> ReplayClock for F {
    #[inline]
    fn now_ns(&self) -> u64 {
        self()
    }
}

/// The processor's counter as a clock that begins where `CLOCK_MONOTONIC` is:
/// about 10 ns a reading. It is held against the kernel's clock once, so that
/// the two part by some parts per million.
#[derive(Debug, Clone, Copy)]
pub struct Counter {
    begin_counts: u64,
    begin_ns: u64,
    /// Nanoseconds of a count, 2^-32.
    ns_per_count: u64,
}

/// A counter below this is held to be wrong, counts in a second.
const SLOWEST: f64 = 1e6;

impl Counter {
    /// Looks at both clocks for so long: 100 ms are good to a part in a
    /// million.
    ///
    /// # Errors
    /// The counter is no clock here ([`Fault::NoCounter`]).
    pub fn calibrated(over: Duration) -> Result<Self, Fault> {
        counter::check(&Root::default())?;
        let first = Moment::now();
        std::thread::sleep(over);
        let second = Moment::now();
        let rate = first.rate(second);
        if !rate.is_finite() || rate < SLOWEST {
            return Err(Fault::NoCounter(format!("it counts {rate:.0} in a second")));
        }
        // Between two readings of the counter, as `Moment` does it.
        let (begin_counts, begin_ns) = paired_times();
        Ok(Self {
            begin_counts,
            begin_ns,
            ns_per_count: (1e9 / rate * (1u64 << 32) as f64) as u64,
        })
    }

    /// The time of a reading of the counter, ns.
    #[inline]
    #[must_use]
    pub fn at_ns(&self, counts: u64) -> u64 {
        let passed = u128::from(counts.saturating_sub(self.begin_counts));
        self.begin_ns + ((passed * u128::from(self.ns_per_count)) >> 32) as u64
    }
}

impl ReplayClock for Counter {
    #[inline]
    fn now_ns(&self) -> u64 {
        self.at_ns(counter::now())
    }
}

/// Tries, of which the one counts that took least.
const TRIES: usize = 200;

/// The counter and `CLOCK_MONOTONIC`, ns, at the same moment to some tens of
/// nanoseconds.
#[must_use]
pub fn paired_times() -> (u64, u64) {
    let tries = (0..TRIES).map(|_| {
        let before = counter::now();
        let ns = clock::monotonic();
        let took = counter::now().saturating_sub(before);
        (took, before + took / 2, ns)
    });
    let best = tries.min_by_key(|(took, ..)| *took);
    best.map_or_else(
        || (counter::now(), clock::monotonic()),
        |(_, counts, ns)| (counts, ns),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_keeps_step_with_the_kernel_s_clock() {
        let Ok(clock) = Counter::calibrated(Duration::from_millis(50)) else {
            // No constant counter: nothing to hold against it.
            return;
        };
        std::thread::sleep(Duration::from_millis(20));
        let before = Monotonic.now_ns();
        let ours = clock.now_ns();
        let after = Monotonic.now_ns();
        // Far more than it should be off, for shared machines.
        assert!(ours + 500_000 > before && ours < after + 500_000);
    }

    #[test]
    fn a_function_is_a_clock() {
        let clock = || 7u64;
        assert_eq!(clock.now_ns(), 7);
    }
}
