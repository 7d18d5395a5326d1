// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What injecting costs on this CPU, seen from both sides.
//!
//! An ordinary thread beside us reads the clock and notes when it was away. We
//! sleep to a deadline and go to sleep again: an event of no length. What the
//! thread lost is what injecting costs by itself; how late we woke is the
//! timer's spread, as cyclictest measures it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use sandbag_kernel::clock::{monotonic, sleep_until};
use sandbag_kernel::sched::{self, Attributes};

use super::Measured;
use crate::random;

/// Wake-ups to measure.
const WAKES: usize = 200;
/// One comes this long after another, and up to as much more.
const APART_NS: u64 = 300_000;
/// Near deadlines to measure.
const NEAR: usize = 100;
/// How near.
const NEAR_NS: u64 = 1_000;
/// The thread beside us notes when it was away for longer than this.
const GAP_NS: u64 = 500;
/// It notes no more than this.
const GAPS: usize = 50_000;
/// Fewer matches say nothing.
const FEWEST: usize = WAKES / 10;
/// Nobody ordinary is before it.
const MOST_NICE: i32 = -20;
/// Gaps of more than so many times the quickest tenth were not ours alone.
const ALONE: u64 = 3;

/// An ordinary thread on our CPU that spins and notes its gaps.
pub struct Beside {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<(u64, u64)>>>,
}

impl Beside {
    /// Starts it where the caller may run, with the caller's class: before the
    /// caller becomes a real-time task.
    ///
    /// # Errors
    /// A thread cannot be had.
    pub fn start() -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("beside".to_owned())
            .spawn(move || gaps(&seen))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }

    fn end(mut self) -> Vec<(u64, u64)> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take();
        thread.map_or_else(Vec::new, |thread| thread.join().unwrap_or_default())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn gaps(stop: &AtomicBool) -> Vec<(u64, u64)> {
    // Where others wait for the CPU it is to come to us first. Who may not be
    // that important is measured beside them.
    let _ = sched::set_attributes(
        0,
        Attributes::Fair {
            nice: MOST_NICE,
            slice_ns: 0,
        },
    );
    let mut gaps = vec![(u64::MAX, u64::MAX); GAPS];
    gaps.clear();
    let mut last = monotonic();
    while !stop.load(Ordering::Relaxed) {
        let now = monotonic();
        if now - last > GAP_NS && gaps.len() < GAPS {
            gaps.push((last, now));
        }
        last = now;
    }
    gaps
}

/// Measures; some 0.1 s.
pub fn measure(beside: Beside) -> Measured {
    let mut stamps = Vec::with_capacity(WAKES);
    let mut late = Vec::with_capacity(WAKES);
    for n in 0..WAKES as u64 {
        // Not in step with the kernel's tick.
        let deadline = monotonic() + APART_NS + random::below(0, 0, n, APART_NS);
        sleep_until(deadline);
        let start = monotonic();
        late.push(start - deadline);
        stamps.push((start, monotonic()));
    }
    let mut near = Vec::with_capacity(NEAR);
    for _ in 0..NEAR {
        let before = monotonic();
        sleep_until(before + NEAR_NS);
        near.push(monotonic() - before);
        // The thread beside us gets on.
        sleep_until(monotonic() + NEAR_NS * 100);
    }
    let gaps = beside.end();
    let lost = alone(lost(&stamps, &gaps));
    let (overhead_ns, lead_ns) = match lost.len() >= FEWEST {
        true => (
            quantile(lost.iter().map(|one| one.overhead_ns).collect(), 50),
            quantile(lost.iter().map(|one| one.lead_ns).collect(), 50),
        ),
        false => (0, 0),
    };
    Measured {
        overhead_ns,
        lead_ns,
        least_interval_ns: quantile(near, 50),
        wake_p50_ns: quantile(late.clone(), 50),
        wake_p90_ns: quantile(late.clone(), 90),
        wake_p99_ns: quantile(late.clone(), 99),
        wake_most_ns: quantile(late, 100),
        wakes: WAKES as u64,
        seen: lost.len() as u64,
    }
}

/// What one event of no length cost.
struct Lost {
    overhead_ns: u64,
    lead_ns: u64,
}

/// The gap in which each pair of stamps lies.
fn lost(stamps: &[(u64, u64)], gaps: &[(u64, u64)]) -> Vec<Lost> {
    let around = |(start, end): &(u64, u64)| {
        let place = gaps.partition_point(|(_, until)| until < end);
        let (from, until) = gaps.get(place).copied()?;
        (from <= *start).then(|| Lost {
            overhead_ns: (until - from) - (end - start),
            lead_ns: start - from,
        })
    };
    stamps.iter().filter_map(around).collect()
}

/// Those after which the thread beside us went on at once: where others wait
/// for the CPU, one of them may have had it first.
fn alone(lost: Vec<Lost>) -> Vec<Lost> {
    let all = lost.iter().map(|one| one.overhead_ns).collect();
    let most_ns = quantile(all, 10).saturating_mul(ALONE);
    let ours = lost.into_iter().filter(|one| one.overhead_ns <= most_ns);
    ours.collect()
}

fn quantile(mut values: Vec<u64>, part_pct: usize) -> u64 {
    values.sort_unstable();
    let rank = (values.len() * part_pct).div_ceil(100);
    values
        .get(rank.saturating_sub(1))
        .copied()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_is_the_gap_around_the_stamps() {
        let gaps = [(90, 130), (200, 205), (300, 380)];
        let all = lost(&[(100, 104), (203, 209), (350, 370), (900, 901)], &gaps);
        let pairs: Vec<(u64, u64)> = all.iter().map(|l| (l.overhead_ns, l.lead_ns)).collect();
        // The second is not within its gap, the last has none.
        assert_eq!(pairs, [(36, 10), (60, 50)]);
    }

    #[test]
    fn gaps_in_which_others_ran_do_not_count() {
        let lost = |overhead_ns| Lost {
            overhead_ns,
            lead_ns: 1,
        };
        let all = [3_000_000, 10, 11, 4_000_000, 12, 31, 29].map(lost);
        let ours: Vec<u64> = alone(all.into()).iter().map(|l| l.overhead_ns).collect();
        assert_eq!(ours, [10, 11, 12, 29]);
    }

    #[test]
    fn quantiles_of_few_values() {
        assert_eq!(quantile(vec![5, 1, 9], 50), 5);
        assert_eq!(quantile(vec![5, 1, 9], 100), 9);
        assert_eq!(quantile(Vec::new(), 50), 0);
    }

    #[test]
    fn it_measures_something() {
        // Ordinary tasks, wherever they run.
        let measured = measure(Beside::start().unwrap());
        assert!(measured.wake_p50_ns <= measured.wake_p99_ns);
        assert!(measured.wake_p99_ns <= measured.wake_most_ns);
        assert!(measured.least_interval_ns >= NEAR_NS);
    }
}
