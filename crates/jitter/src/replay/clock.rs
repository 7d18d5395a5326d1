// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clocks of programs that poll.

use std::time::Duration;

use crate::Fault;
use crate::collect::counter::{self, Moment};
use sandbag_linux::{Root, clock};

pub trait ReplayClock {
    /// The time since a fixed point, ns; it never goes back.
    fn now_ns(&self) -> u64;
}

/// `CLOCK_MONOTONIC`: 20 to 50 ns a reading, without a system call.
#[derive(Debug, Clone, Copy, Default)]
pub struct Monotonic;

impl ReplayClock for Monotonic {
    #[inline]
    fn now_ns(&self) -> u64 {
        clock::monotonic()
    }
}

/// The clock of a test, or of a program.
impl<F: Fn() -> u64> ReplayClock for F {
    #[inline]
    fn now_ns(&self) -> u64 {
        self()
    }
}

/// The processor's counter as a clock: about 10 ns a reading. It is calibrated once
/// against `CLOCK_MONOTONIC`, so that the two drift by some parts per million.
#[derive(Debug, Clone, Copy)]
pub struct Counter {
    begin_counts: u64,
    begin_ns: u64,
    /// In units of 2^-32 ns.
    ns_per_count: u64,
}

/// A slower counter is wrong, counts in a second.
const SLOWEST: f64 = 1e6;

impl Counter {
    /// Compares both clocks over a time; 100 ms give an error of 1 ppm.
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

/// Tries, of which the shortest counts.
const TRIES: usize = 200;

/// The counter and `CLOCK_MONOTONIC`, ns, at the same moment to tens of nanoseconds.
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
        // Far more than the expected error, for shared machines.
        assert!(ours + 500_000 > before && ours < after + 500_000);
    }

    #[test]
    fn a_function_is_a_clock() {
        let clock = || 7u64;
        assert_eq!(clock.now_ns(), 7);
    }
}
