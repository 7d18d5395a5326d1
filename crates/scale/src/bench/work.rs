// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The work: a linear congruential generator. It uses no memory and cannot be predicted by
//! the CPU, so its duration depends on the CPU's speed only.

use sandbag_jitter::replay::PolledReplay;
use sandbag_linux::clock::Clock;

use crate::{Error, Result};

/// x = (a x + b) mod p, with the multiplier of Lewis, Goodman and Miller (1969);
/// the paper names no constants.
#[derive(Debug, Clone, Copy)]
pub struct Lcg(u64);

const A: u64 = 16_807;
const B: u64 = 1;
const P: u64 = (1 << 31) - 1;
/// Steps between two readings of the clock.
const STEPS: u32 = 8;

impl Default for Lcg {
    fn default() -> Self {
        Self(1)
    }
}

impl Lcg {
    #[inline(always)]
    fn steps(&mut self) {
        for _ in 0..STEPS {
            self.0 = (A * self.0 + B) % P;
        }
    }

    /// Runs iterations of a few steps each. Between them the clock is read and an event that
    /// is due runs, one at a time: work ends even where noise leaves hardly any time. Without
    /// jitter these are the same instructions with a replay that has no events: a loop of its
    /// own takes another time, on emulated CPUs up to three times as long.
    #[inline(never)]
    pub fn work(&mut self, iterations: u64, clock: &impl Clock, polled: &mut PolledReplay) {
        for _ in 0..iterations {
            self.steps();
            polled.suffer_one(clock);
        }
        std::hint::black_box(self.0);
    }
}

/// Trials for each guess of the number of iterations; fewer if a quantum is long.
const TRIALS: u64 = 60;
/// Trials for each guess, at least.
const FEWEST: u64 = 3;
/// Duration of all trials of a guess, about, ns.
const TRIALS_NS: u64 = 100_000_000;
/// Guesses, at most; no more once the error is below one part in [`GOOD`] of a quantum.
const GUESSES: usize = 6;
const GOOD: u64 = 2000;

/// Iterations that take a quantum on this CPU undisturbed (the shortest of many trials
/// counts), and their duration, ns. Fails for a quantum that is too short.
pub fn calibrate(quantum_ns: u64, clock: &impl Clock) -> Result<(u64, u64)> {
    let mut lcg = Lcg::default();
    let mut quiet = PolledReplay::without_events();
    let mut took = |iterations: u64| {
        let count = (TRIALS_NS / quantum_ns.max(1)).clamp(FEWEST, TRIALS);
        let trials = (0..count).map(|_| {
            let begin = clock.now_ns();
            lcg.work(iterations, clock, &mut quiet);
            clock.now_ns() - begin
        });
        trials.min().unwrap_or(0).max(1)
    };
    let mut iterations = 1000;
    let mut best_ns = took(iterations);
    for _ in 0..GUESSES {
        if best_ns.abs_diff(quantum_ns) <= quantum_ns / GOOD {
            break;
        }
        let next = (iterations as f64 * quantum_ns as f64 / best_ns as f64).round();
        iterations = next.clamp(1.0, 1e12) as u64;
        best_ns = took(iterations);
    }
    match iterations {
        0..10 => Err(too_short(quantum_ns)),
        _ => Ok((iterations, best_ns)),
    }
}

pub(super) fn too_short(quantum_ns: u64) -> Error {
    Error::Option {
        what: "the quantum",
        found: format!("{quantum_ns} ns"),
        expected: "at least ten iterations of the work, some hundreds of ns",
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn the_quantum_is_met_on_an_even_clock() {
        // Each reading takes 25 ns of this clock, work itself none.
        let now = Cell::new(0u64);
        let clock = || {
            now.set(now.get() + 25);
            now.get()
        };
        let (iterations, took) = calibrate(100_000, &clock).unwrap();
        assert!((3_990..=4_000).contains(&iterations), "{iterations}");
        assert!(took.abs_diff(100_000) <= 50, "{took}");
        assert!(calibrate(100, &clock).is_err());
    }
}
