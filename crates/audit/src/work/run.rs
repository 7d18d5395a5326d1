// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run: a new thread on its CPU, and what it took.

use std::fs;
use std::thread;

use sandbag_linux::{CpuList, clock, sched};
use serde::{Deserialize, Serialize};

use super::test_work::{TestWork, WorkFault};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFigures {
    pub elapsed_ns: u64,
    /// What of the thread's CPU time is not system time.
    pub user_ns: u64,
    /// ru_stime.
    pub system_ns: u64,
    pub voluntary: u64,
    pub involuntary: u64,
    /// Time ready and waiting.
    pub waited_ns: u64,
    /// kHz right after it, where the kernel says it.
    pub frequency_khz: Option<u64>,
}

pub(super) fn run(work: &mut dyn TestWork, cpu: u32, units: u64) -> Result<RunFigures, WorkFault> {
    in_thread(cpu, || {
        let delay = waited_ns();
        let before = Usage::now();
        let outcome = work.run(units);
        let after = Usage::now();
        outcome.map_err(WorkFault::Work)?;
        let mut figures = after.figures_since(before);
        figures.waited_ns = waited_ns().saturating_sub(delay);
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq");
        figures.frequency_khz = fs::read_to_string(path)
            .ok()
            .and_then(|text| text.trim().parse().ok());
        Ok(figures)
    })
}

/// Warms the CPU in a thread whose times do not count.
pub(super) fn warm(work: &mut dyn TestWork, cpu: u32, units: u64) -> Result<(), WorkFault> {
    match units {
        0 => Ok(()),
        _ => in_thread(cpu, || work.run(units).map_err(WorkFault::Work)),
    }
}

/// Calls `body` in a thread of this CPU only, and makes sure that it stayed
/// there: the kernel lets a task run anywhere whose CPU goes offline.
fn in_thread<T: Send>(
    cpu: u32,
    body: impl FnOnce() -> Result<T, WorkFault> + Send,
) -> Result<T, WorkFault> {
    let only = CpuList::from_iter([cpu]);
    thread::scope(|scope| {
        let run = thread::Builder::new()
            .name(format!("audit-{cpu}"))
            .spawn_scoped(scope, || {
                sched::set_affinity(0, &only).map_err(|e| WorkFault::Displaced(e.to_string()))?;
                let outcome = body()?;
                let now = sched::affinity(0).map_err(|e| WorkFault::Displaced(e.to_string()))?;
                if now == only && sched::current_cpu() == cpu {
                    Ok(outcome)
                } else {
                    Err(WorkFault::Displaced(format!(
                        "the kernel let the run go from CPU {cpu} to {now}: it was taken offline, \
                     or our cpuset was changed"
                    )))
                }
            });
        match run.map(thread::ScopedJoinHandle::join) {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(WorkFault::Work("the run ended in a panic".to_owned())),
            Err(cause) => Err(WorkFault::Work(format!("no thread can be had: {cause}"))),
        }
    })
}

fn thread_usage() -> libc::rusage {
    // SAFETY: an all-zero rusage is one.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid for writing.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage
}

/// The clocks of a thread at a moment.
struct Usage {
    elapsed_ns: u64,
    cpu_ns: u64,
    system_ns: u64,
    voluntary: u64,
    involuntary: u64,
}

impl Usage {
    fn now() -> Self {
        // The order matters: asking for the thread's clock brings its time up to
        // date, which getrusage of a thread does not.
        let cpu_ns = clock::thread_cpu();
        let usage = thread_usage();
        let system = usage.ru_stime;
        Self {
            elapsed_ns: clock::monotonic(),
            cpu_ns,
            system_ns: system.tv_sec.unsigned_abs() * 1_000_000_000
                + system.tv_usec.unsigned_abs() * 1000,
            voluntary: usage.ru_nvcsw.unsigned_abs(),
            involuntary: usage.ru_nivcsw.unsigned_abs(),
        }
    }

    fn figures_since(&self, before: Self) -> RunFigures {
        let cpu_ns = self.cpu_ns.saturating_sub(before.cpu_ns);
        let system_ns = self.system_ns.saturating_sub(before.system_ns).min(cpu_ns);
        RunFigures {
            elapsed_ns: self.elapsed_ns.saturating_sub(before.elapsed_ns),
            user_ns: cpu_ns - system_ns,
            system_ns,
            voluntary: self.voluntary.saturating_sub(before.voluntary),
            involuntary: self.involuntary.saturating_sub(before.involuntary),
            ..RunFigures::default()
        }
    }
}

/// How long this thread was ready and waited; 0 where the kernel does not say.
fn waited_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let word = text.split_ascii_whitespace().nth(1);
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Of short runs that are in user and kernel mode by turns, in how many one of
/// both times is 0: where the kernel reads a clock at each change, in none,
/// where it looks at the tick, in nearly all.
pub(super) fn accounting(cpu: u32) -> Result<(u32, u32), WorkFault> {
    const RUNS: u32 = 20;
    const LENGTH_NS: u64 = 1_000_000;
    let mut zeros = 0;
    for _ in 0..RUNS {
        let (user, system) = in_thread(cpu, || {
            let begin = clock::thread_cpu();
            while clock::thread_cpu().saturating_sub(begin) < LENGTH_NS {
                for x in 0..200u32 {
                    std::hint::black_box(x);
                }
            }
            let _ = clock::thread_cpu();
            let usage = thread_usage();
            Ok((usage.ru_utime.tv_usec, usage.ru_stime.tv_usec))
        })?;
        zeros += u32::from(user == 0 || system == 0);
    }
    Ok((RUNS, zeros))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::compute::Vectors;

    #[test]
    fn a_run_says_what_it_took() {
        let cpu = sched::affinity(0).unwrap().iter().next().unwrap();
        let mut work = Vectors::new();
        warm(&mut work, cpu, 10).unwrap();
        let figures = run(&mut work, cpu, 2000).unwrap();
        let cpu_ns = figures.user_ns + figures.system_ns;
        assert!(
            cpu_ns > 100_000 && cpu_ns <= figures.elapsed_ns + 100_000,
            "{figures:?}"
        );
    }

    #[test]
    fn a_cpu_that_is_not_there_is_told() {
        let fault = run(&mut Vectors::new(), 8000, 1).unwrap_err();
        assert!(matches!(fault, WorkFault::Displaced(_)), "{fault:?}");
    }

    #[test]
    fn the_accounting_is_told_apart() {
        let cpu = sched::affinity(0).unwrap().iter().next().unwrap();
        let (runs, zeros) = accounting(cpu).unwrap();
        assert!(runs > 0 && zeros <= runs);
    }
}
