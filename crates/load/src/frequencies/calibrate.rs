// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How fast a frequency really is: the time of a fixed amount of work.
//!
//! Advertised frequencies can be wrong: boost, rounding, a limit of power or
//! temperature. What counts for a program is how long its work takes.

use sandbag_linux::clock::{monotonic, sleep_until, thread_cpu};
use sandbag_linux::{CpuList, Result, sched};

/// What takes the times; a fake one in tests.
pub trait CalibrationBench {
    fn work(&mut self) -> u64;
    fn wait(&mut self);
}

/// Times that the work is done at each step; the shortest counts, for
/// interrupts only ever add.
const TRIES: usize = 5;

/// The speed of each step, the fastest being 1. `set` sets one, kHz.
pub fn calibrate(
    steps_khz: &[u64],
    mut set: impl FnMut(u64) -> Result<()>,
    bench: &mut dyn CalibrationBench,
) -> Result<Vec<f64>> {
    let mut times = Vec::with_capacity(steps_khz.len());
    for khz in steps_khz {
        set(*khz)?;
        bench.wait();
        let shortest = (0..TRIES).map(|_| bench.work()).min().unwrap_or(1);
        times.push(shortest.max(1));
    }
    let fastest = times.iter().copied().min().unwrap_or(1) as f64;
    Ok(times
        .into_iter()
        .map(|time| fastest / time as f64)
        .collect())
}

/// Rounds of the work: some 5 ms at 3 GHz.
const ROUNDS: u64 = 5_000_000;
/// Longer than any driver takes to change a frequency, ns.
const SETTLES_IN_NS: u64 = 20_000_000;

/// The real one, on the CPU where it is.
struct PerfClock;

impl CalibrationBench for PerfClock {
    fn work(&mut self) -> u64 {
        // In CPU time: the program that runs there already may have the CPU for a part of it.
        let begin = thread_cpu();
        let mut x = 1u64;
        for _ in 0..ROUNDS {
            // One dependent multiplication after the other: its time is a
            // fixed number of cycles.
            x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005) | 1);
        }
        std::hint::black_box(x);
        thread_cpu() - begin
    }

    fn wait(&mut self) {
        // Asleep also because a real-time task that never sleeps is killed.
        sleep_until(monotonic() + SETTLES_IN_NS);
    }
}

/// Runs `measure` pinned to a CPU; the thread's affinity is restored.
pub fn on_cpu<T>(
    cpu: u32,
    measure: impl FnOnce(&mut dyn CalibrationBench) -> Result<T>,
) -> Result<T> {
    let before = sched::affinity(0)?;
    sched::set_affinity(0, &CpuList::from_iter([cpu]))?;
    let outcome = measure(&mut PerfClock);
    sched::set_affinity(0, &before)?;
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    /// A CPU whose frequency is not always the one that was set.
    struct FakeCpu<'a> {
        now: &'a Cell<f64>,
        tries: u64,
    }

    impl CalibrationBench for FakeCpu<'_> {
        fn work(&mut self) -> u64 {
            self.tries += 1;
            // Every other try is interrupted.
            let interrupt = self.tries % 2 * 777_777;
            (1e13 / self.now.get()) as u64 + interrupt
        }

        fn wait(&mut self) {}
    }

    #[test]
    fn the_speed_is_that_of_the_work() {
        let now = Cell::new(0.0);
        let real = |khz: u64| match khz {
            // Advertised as much as others, and not reached.
            2_000_000 => 1_500_000.0,
            khz => khz as f64,
        };
        let mut bench = FakeCpu {
            now: &now,
            tries: 0,
        };
        let set = |khz| {
            now.set(real(khz));
            Ok(())
        };
        let speeds = calibrate(&[1_000_000, 2_000_000, 3_000_000], set, &mut bench).unwrap();
        for (speed, expected) in speeds.iter().zip([1.0 / 3.0, 0.5, 1.0]) {
            assert!((speed - expected).abs() < 1e-5, "{speeds:?}");
        }
    }

    #[test]
    fn the_real_clock_counts_and_the_thread_is_free_again() {
        let before = sched::affinity(0).unwrap();
        let cpu = before.iter().next().unwrap();
        let speeds = on_cpu(cpu, |bench| calibrate(&[1, 2], |_| Ok(()), bench)).unwrap();
        // One and the same frequency here, on a machine with other work.
        assert!(speeds.iter().all(|speed| *speed > 0.1), "{speeds:?}");
        assert_eq!(sched::affinity(0).unwrap(), before);
    }
    #[test]
    fn a_program_on_the_cpu_makes_no_step_slower() {
        let cpu = sched::affinity(0).unwrap().iter().next().unwrap();
        let (over, spins) = (AtomicBool::new(false), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    sched::set_affinity(0, &CpuList::from_iter([cpu])).unwrap();
                    spins.fetch_add(1, Ordering::Relaxed);
                    while !over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            while spins.load(Ordering::Relaxed) < 3 {
                std::thread::yield_now();
            }
            let works = on_cpu(cpu, |bench| {
                Ok([(); 8].map(|()| {
                    let before = thread_cpu();
                    (bench.work(), thread_cpu() - before)
                }))
            });
            over.store(true, Ordering::Relaxed);
            for (time, own) in works.unwrap() {
                assert!(time <= own, "{time} ns, of which it ran for {own}");
            }
        });
    }
}
