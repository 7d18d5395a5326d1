// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The counter of a processor that programs can read, as a clock.
//!
//! Its rate is found by comparison with `CLOCK_MONOTONIC_RAW`, which NTP does not adjust, at
//! two moments.

use std::time::Duration;

use crate::clock::{self, Clock, Nanos};
use crate::{Error, Root};

/// Why the counter is no clock.
#[derive(Debug, thiserror::Error)]
pub enum CounterError {
    #[error(transparent)]
    Kernel(#[from] Error),
    #[error("no clock: {0}")]
    Unusable(String),
}

/// Reads the counter, without waiting for what was begun before.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn now() -> u64 {
    // SAFETY: every x86-64 processor has it; the kernel may forbid it to
    // programs (PR_SET_TSC), then the program ends by a signal.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub fn now() -> u64 {
    let value: u64;
    // SAFETY: Linux lets programs read the virtual counter.
    unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack)) };
    value
}

/// What makes the counter of an x86 processor a clock: it neither follows the
/// frequency nor stands still in sleep states.
const FLAGS: [&str; 2] = ["constant_tsc", "nonstop_tsc"];

/// Whether the counter is a clock.
pub fn check(root: &Root) -> Result<(), CounterError> {
    if cfg!(not(target_arch = "x86_64")) {
        return Ok(());
    }
    let text = root.read("/proc/cpuinfo")?;
    let flags = text
        .lines()
        .find_map(|line| line.strip_prefix("flags"))
        .unwrap_or_default();
    let missing: Vec<&str> = FLAGS
        .into_iter()
        .filter(|flag| !flags.split_whitespace().any(|word| word == *flag))
        .collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(CounterError::Unusable(format!(
            "{} is not among the flags of /proc/cpuinfo, so it may stand still or change its rate",
            missing.join(" and ")
        )))
    }
}

/// Tries, of which the shortest counts.
const TRIES: usize = 200;

/// The counter and another clock at the same moment, to tens of nanoseconds.
fn paired(other: fn() -> Nanos) -> (u64, Nanos) {
    let tries = (0..TRIES).map(|_| {
        let before = now();
        let ns = other();
        let took = now().wrapping_sub(before);
        (took, before.wrapping_add(took / 2), ns)
    });
    let best = tries.min_by_key(|(took, ..)| *took);
    best.map_or_else(|| (now(), other()), |(_, counts, ns)| (counts, ns))
}

/// The counter and `CLOCK_MONOTONIC`, ns, at the same moment.
pub fn paired_times() -> (u64, Nanos) {
    paired(clock::monotonic)
}

/// The counter and the clock that is not adjusted, at the same moment.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    pub counts: u64,
    /// `CLOCK_MONOTONIC_RAW`, ns.
    pub raw_ns: Nanos,
}

impl Moment {
    pub fn now() -> Self {
        let (counts, raw_ns) = paired(clock::monotonic_raw);
        Self { counts, raw_ns }
    }

    /// Counts in a second between two moments.
    pub fn rate(self, later: Self) -> f64 {
        let counts = later.counts.wrapping_sub(self.counts) as f64;
        let ns = later.raw_ns.saturating_sub(self.raw_ns).max(1) as f64;
        counts / ns * 1e9
    }
}

/// The counter as a clock: about 10 ns a reading. It is calibrated once against
/// `CLOCK_MONOTONIC`, so that the two drift by some parts per million.
#[derive(Debug, Clone, Copy)]
pub struct Counter {
    begin_counts: u64,
    begin_ns: Nanos,
    /// In units of 2^-32 ns.
    ns_per_count: u64,
}

/// A slower counter is wrong, counts in a second.
const SLOWEST: f64 = 1e6;

impl Counter {
    /// Compares both clocks over a time; 100 ms give an error of 1 ppm.
    pub fn calibrated(over: Duration) -> Result<Self, CounterError> {
        check(&Root::default())?;
        let first = Moment::now();
        std::thread::sleep(over);
        let rate = first.rate(Moment::now());
        if !rate.is_finite() || rate < SLOWEST {
            let found = format!("it counts {rate:.0} in a second");
            return Err(CounterError::Unusable(found));
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
    pub fn at_ns(&self, counts: u64) -> Nanos {
        let passed = u128::from(counts.saturating_sub(self.begin_counts));
        self.begin_ns + ((passed * u128::from(self.ns_per_count)) >> 32) as u64
    }
}

impl Clock for Counter {
    #[inline]
    fn now_ns(&self) -> Nanos {
        self.at_ns(now())
    }
}

#[cfg(test)]
#[path = "../tests/support/skipped.rs"]
mod skipped;

#[cfg(test)]
mod tests {
    use super::skipped::say_skipped;
    use super::*;
    use crate::clock::Monotonic;

    fn tree(flags: &str) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("proc")).unwrap();
        let text = format!("processor\t: 0\nflags\t\t: fpu {flags} sse\n");
        std::fs::write(dir.path().join("proc/cpuinfo"), text).unwrap();
        let root = Root::at(dir.path());
        (dir, root)
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_counter_that_may_stand_still_is_refused() {
        let (_dir, root) = tree("constant_tsc nonstop_tsc");
        check(&root).unwrap();
        let (_dir, root) = tree("constant_tsc");
        let error = check(&root).unwrap_err().to_string();
        assert!(error.contains("nonstop_tsc is not"), "{error}");
    }

    #[test]
    fn the_counter_keeps_step_with_the_kernel_s_clock() {
        if let Err(CounterError::Unusable(why)) = check(&Root::default()) {
            say_skipped("the_counter_keeps_step_with_the_kernel_s_clock", why);
            return;
        }
        let clock = Counter::calibrated(Duration::from_millis(50)).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let before = Monotonic.now_ns();
        let ours = clock.now_ns();
        let after = Monotonic.now_ns();
        // Far more than the expected error, for shared machines.
        assert!(ours + 500_000 > before && ours < after + 500_000);
    }
}
