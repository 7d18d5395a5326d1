// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The counter that the loop reads, and what it is worth in nanoseconds.
//!
//! The counter is compared with `CLOCK_MONOTONIC_RAW`, which NTP does not adjust, at the
//! begin and at the end.

use sandbag_linux::Root;

use crate::{Fault, LoopClock};

#[cfg(target_arch = "x86_64")]
pub const CLOCK: LoopClock = LoopClock::Tsc;
#[cfg(target_arch = "aarch64")]
pub const CLOCK: LoopClock = LoopClock::Cntvct;

/// Reads the counter, without waiting for what was begun before: the loop does
/// nothing else.
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
pub fn check(root: &Root) -> Result<(), Fault> {
    if CLOCK != LoopClock::Tsc {
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
        Err(Fault::NoCounter(format!(
            "{} is not among the flags of /proc/cpuinfo, so it may stand still or change its rate",
            missing.join(" and ")
        )))
    }
}

/// The counter and the clock at the same moment.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    pub counts: u64,
    /// `CLOCK_MONOTONIC_RAW`, ns.
    pub raw_ns: u64,
}

/// Tries, of which the one is taken that took least.
const TRIES: usize = 200;

impl Moment {
    /// This moment, to some tens of nanoseconds.
    pub fn now() -> Self {
        let tries = (0..TRIES).map(|_| {
            let before = now();
            let raw_ns = raw_ns();
            let after = now();
            let took = after.wrapping_sub(before);
            (
                took,
                Self {
                    counts: before.wrapping_add(took / 2),
                    raw_ns,
                },
            )
        });
        let best = tries.min_by_key(|(took, _)| *took);
        best.map_or(
            Self {
                counts: now(),
                raw_ns: raw_ns(),
            },
            |(_, moment)| moment,
        )
    }

    /// Counts in a second between two moments.
    pub fn rate(self, later: Self) -> f64 {
        let counts = later.counts.wrapping_sub(self.counts) as f64;
        let ns = later.raw_ns.saturating_sub(self.raw_ns).max(1) as f64;
        counts / ns * 1e9
    }
}

fn raw_ns() -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `t` is valid for writing; the clock exists since 2.6.28.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &raw mut t) };
    t.tv_sec.cast_unsigned() * 1_000_000_000 + t.tv_nsec.cast_unsigned()
}

/// From counts to the nanoseconds of a trace.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// The counter at the trace's beginning.
    pub begin: u64,
    /// Counts in a second.
    pub rate: f64,
}

impl Scale {
    /// Nanoseconds from the beginning to a reading; 0 before it.
    pub fn since_begin(&self, counts: u64) -> u64 {
        self.length(counts.saturating_sub(self.begin))
    }

    /// Nanoseconds of a number of counts.
    pub fn length(&self, counts: u64) -> u64 {
        (counts as f64 * 1e9 / self.rate).round() as u64
    }

    /// The same, with what is below a nanosecond.
    pub fn fraction(&self, counts: f64) -> f64 {
        counts * 1e9 / self.rate
    }

    /// Counts in a time.
    pub fn counts(&self, ns: f64) -> u64 {
        (ns * self.rate / 1e9).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn the_counter_counts() {
        let first = Moment::now();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let second = Moment::now();
        let rate = first.rate(second);
        // 1 MHz to 10 GHz: Arm's counters are slow.
        assert!((1e6..1e10).contains(&rate), "{rate}");
        let scale = Scale {
            begin: first.counts,
            rate,
        };
        let ns = scale.since_begin(second.counts) as f64;
        let passed = (second.raw_ns - first.raw_ns) as f64;
        assert!((ns - passed).abs() <= 2.0, "{ns}, {passed}");
    }
}
