// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The overhead of an injection on this CPU.
//!
//! An ordinary thread beside the injector reads the clock and records its gaps. The
//! injector sleeps until a deadline and sleeps again: an event of length 0. The gap of
//! the thread is the overhead; the lateness of the wake-up is the timer's latency, as
//! cyclictest measures it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use sandbag_linux::clock::{monotonic, sleep_until};
use sandbag_linux::perf::IdleTimers;
use sandbag_linux::sched::{self, Attributes};
use sandbag_stats::{chance, quantile};

use super::InjectorNoise;
use crate::replay::touched;

/// Wake-ups to measure.
const WAKES: usize = 200;
/// Least distance of two; the largest is twice that.
const APART_NS: u64 = 300_000;
/// Wake-ups after a sleep, with no thread beside the injector.
const IDLE_WAKES: usize = 20;
/// Least length of such a sleep; the longest is twice that. A CPU that sleeps for 1 ms wakes up
/// three times as quickly as after 10 ms, and in some seconds four times after 4 to 8 ms, when
/// the host still polls for it.
const IDLE_NS: u64 = 15_000_000;
/// Near deadlines to measure.
const NEAR: usize = 100;
const NEAR_NS: u64 = 1_000;
/// Shorter gaps are not recorded.
const GAP_NS: u64 = 500;
/// Room for gaps.
const GAPS: usize = 50_000;
/// Fewer matches are not used.
const FEWEST: usize = 5;
/// Deadlines are moved by at most this, ns: a larger delay is not due to the timer.
const MOST_SHIFT_NS: i64 = 10_000;
/// Before all other ordinary tasks.
const MOST_NICE: i32 = -20;
/// Gaps longer than this many times the shortest include other tasks.
const ALONE: u64 = 2;

/// A thread on the injector's CPU that spins and records its gaps.
pub struct GapSpinner {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<(u64, u64)>>>,
}

impl GapSpinner {
    /// Starts it on the caller's CPUs: an ordinary thread before the caller becomes a
    /// real-time task; else a real-time task of the lowest priority, which ordinary
    /// tasks cannot preempt.
    ///
    /// # Errors
    /// A thread cannot be had.
    pub fn start(real_time: bool) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("beside".to_owned())
            .spawn(move || gaps(&seen, real_time))?;
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

impl Drop for GapSpinner {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn gaps(stop: &AtomicBool, real_time: bool) -> Vec<(u64, u64)> {
    let class = if real_time {
        Attributes::Fifo { priority: 1 }
    } else {
        // Before others that wait for the CPU, where that is permitted.
        Attributes::Fair {
            nice: MOST_NICE,
            slice_ns: 0,
        }
    };
    let _ = sched::set_attributes(0, class);
    let mut gaps = touched((u64::MAX, u64::MAX), GAPS);
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

/// Whether the thread saw so few wake-ups that other tasks must have had the CPU.
pub fn is_crowded(measured: InjectorNoise) -> bool {
    measured.seen * 10 < measured.wakes
}

/// The 90th percentile of the wake-ups of a CPU that nothing else wants, ns: it has to leave
/// its idle state first, and a virtual CPU has to be scheduled by the host. And whether the
/// timers show most of them to be such: other timers of the CPU show some. Measured for 0.45 s.
pub fn wake_from_idle(idle_timers: Option<&IdleTimers>) -> (u64, bool) {
    let mut seen = 0;
    let mut wake = |n| {
        let deadline = monotonic() + IDLE_NS + chance::draw(0, 1, n, IDLE_NS);
        sleep_until(deadline);
        let late = monotonic().saturating_sub(deadline);
        seen += usize::from(idle_timers.is_some_and(|timers| timers.last() >= deadline));
        late
    };
    let mut late: Vec<u64> = (0..IDLE_WAKES as u64).map(&mut wake).collect();
    late.sort_unstable();
    (
        quantile(&late, 90.0).unwrap_or_default(),
        seen * 2 > IDLE_WAKES,
    )
}

/// Measures, for 0.1 s.
pub fn measure(beside: GapSpinner) -> InjectorNoise {
    let mut stamps = Vec::with_capacity(WAKES);
    let mut late = Vec::with_capacity(WAKES);
    for n in 0..WAKES as u64 {
        // At random times within the kernel's tick.
        let deadline = monotonic() + APART_NS + chance::draw(0, 0, n, APART_NS);
        sleep_until(deadline);
        let start = monotonic();
        late.push(start - deadline);
        stamps.push(EventStamps {
            deadline,
            start,
            end: monotonic(),
        });
    }
    let mut near = Vec::with_capacity(NEAR);
    for _ in 0..NEAR {
        let before = monotonic();
        sleep_until(before + NEAR_NS);
        near.push(monotonic() - before);
        // Time for the thread.
        sleep_until(monotonic() + NEAR_NS * 100);
    }
    let gaps = beside.end();
    let lost = isolate(event_costs(&stamps, &gaps));
    let lost = if lost.len() >= FEWEST {
        lost
    } else {
        Vec::new()
    };
    late.sort_unstable();
    let late = |part_pct| quantile(&late, part_pct).unwrap_or_default();
    let began: Vec<i64> = lost.iter().map(|one| one.began_late_ns).collect();
    let ns = |of: fn(&EventCost) -> u64| middle(lost.iter().map(of).collect());
    InjectorNoise {
        overhead_ns: ns(|one| one.overhead_ns),
        lead_ns: ns(|one| one.lead_ns),
        began_late_ns: middle(began).clamp(-MOST_SHIFT_NS, MOST_SHIFT_NS),
        least_interval_ns: middle(near),
        wake_p50_ns: late(50.0),
        wake_p90_ns: late(90.0),
        wake_p99_ns: late(99.0),
        wake_most_ns: late(100.0),
        wakes: WAKES as u64,
        seen: lost.len() as u64,
        ..InjectorNoise::default()
    }
}

/// The lower median; 0 of none.
fn middle<T: Copy + Ord + Default>(mut values: Vec<T>) -> T {
    values.sort_unstable();
    quantile(&values, 50.0).unwrap_or_default()
}

/// One event of length 0, by our clock, ns.
#[derive(Debug, Clone, Copy)]
struct EventStamps {
    deadline: u64,
    start: u64,
    end: u64,
}

struct EventCost {
    began_late_ns: i64,
    overhead_ns: u64,
    lead_ns: u64,
}

/// The cost of each event that lies within a gap.
fn event_costs(stamps: &[EventStamps], gaps: &[(u64, u64)]) -> Vec<EventCost> {
    let around = |stamps: &EventStamps| {
        let EventStamps {
            deadline,
            start,
            end,
        } = *stamps;
        let place = gaps.partition_point(|(_, until)| *until < end);
        let (from, until) = gaps.get(place).copied()?;
        (from <= start).then(|| EventCost {
            began_late_ns: from.wrapping_sub(deadline).cast_signed(),
            overhead_ns: (until - from) - (end - start),
            lead_ns: start - from,
        })
    };
    stamps.iter().filter_map(around).collect()
}

/// Events after which the thread continued at once: other tasks that wait for the CPU
/// may have had it first.
fn isolate(lost: Vec<EventCost>) -> Vec<EventCost> {
    let least_ns = lost.iter().map(|one| one.overhead_ns).min();
    let most_ns = least_ns.unwrap_or(0).saturating_mul(ALONE);
    let ours = lost.into_iter().filter(|one| one.overhead_ns <= most_ns);
    ours.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_is_the_gap_around_the_stamps() {
        let gaps = [(90, 130), (200, 205), (300, 380)];
        let stamps = [(100, 104), (203, 209), (350, 370), (900, 901)];
        let stamps = stamps.map(|(start, end)| EventStamps {
            deadline: start - 9,
            start,
            end,
        });
        let all = event_costs(&stamps, &gaps);
        assert_eq!(all[0].began_late_ns, -1);
        let pairs: Vec<(u64, u64)> = all.iter().map(|l| (l.overhead_ns, l.lead_ns)).collect();
        // The second is not within its gap, the last has none.
        assert_eq!(pairs, [(36, 10), (60, 50)]);
    }

    #[test]
    fn gaps_in_which_others_ran_do_not_count() {
        let lost = |overhead_ns| EventCost {
            began_late_ns: 0,
            overhead_ns,
            lead_ns: 1,
        };
        let all = [3_000_000, 10, 11, 4_000_000, 12, 31, 19].map(lost);
        let ours: Vec<u64> = isolate(all.into()).iter().map(|l| l.overhead_ns).collect();
        assert_eq!(ours, [10, 11, 12, 19]);
    }

    #[test]
    fn it_measures_something() {
        // Ordinary tasks, wherever they run.
        let measured = measure(GapSpinner::start(false).unwrap());
        assert!(measured.wake_p50_ns <= measured.wake_p99_ns);
        assert!(measured.wake_p99_ns <= measured.wake_most_ns);
        assert!(measured.least_interval_ns >= NEAR_NS);
        let (p90_ns, seen) = wake_from_idle(None);
        assert!(p90_ns > 0 && !seen);
    }
}
