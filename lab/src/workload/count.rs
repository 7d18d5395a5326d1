// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Work for a given time: how many steps of the chain get done, and what CPU time they
//! cost.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use sandbag_linux::clock;

use super::tasks::own_processes;
use super::{WorkReport, chain};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum CountKind {
    /// A process each
    #[default]
    Processes,
    /// Threads of one process
    Threads,
    /// One thread that computes, sleeps, and computes, each for a third
    Sleep,
}

const STEPS: &str = "steps_per_s";
const CPU: &str = "cpu_share";

/// What was done per second in which the tasks could work.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counted {
    steps: u64,
    cpu_s: f64,
    wall_s: f64,
}

impl Counted {
    pub fn steps(&self) -> u64 {
        self.steps
    }

    pub fn figures(&self) -> BTreeMap<String, f64> {
        let wall_s = self.wall_s.max(1e-9);
        BTreeMap::from([
            (STEPS.to_owned(), self.steps as f64 / wall_s),
            (CPU.to_owned(), self.cpu_s / wall_s),
        ])
    }

    /// Of a process, by its report.
    fn of(report: &WorkReport) -> Option<Self> {
        let wall_s = report.amount as f64 / report.figures.get(STEPS)?;
        Some(Self {
            steps: report.amount,
            cpu_s: report.figures.get(CPU)? * wall_s,
            wall_s,
        })
    }
}

/// Steps between two looks at the clock: some 50 us.
const BATCH: u64 = 20_000;

fn count(time: Duration) -> Counted {
    let (begin, cpu) = (Instant::now(), clock::thread_cpu());
    let mut steps = 0;
    while begin.elapsed() < time {
        let _ = chain::steps(BATCH);
        steps += BATCH;
    }
    Counted {
        steps,
        cpu_s: (clock::thread_cpu() - cpu) as f64 / 1e9,
        wall_s: begin.elapsed().as_secs_f64(),
    }
}

pub fn run(kind: CountKind, tasks: u64, time: Duration) -> Result<Counted> {
    let mut all = match kind {
        CountKind::Processes if tasks > 1 => processes(tasks, time)?,
        CountKind::Processes => vec![count(time)],
        CountKind::Threads => std::thread::scope(|scope| {
            let threads: Vec<_> = (0..tasks).map(|_| scope.spawn(|| count(time))).collect();
            threads.into_iter().filter_map(|t| t.join().ok()).collect()
        }),
        CountKind::Sleep => {
            let first = count(time / 3);
            std::thread::sleep(time / 3);
            vec![first, count(time / 3)]
        }
    };
    if let (CountKind::Sleep, [first, second]) = (kind, &mut all[..]) {
        // One after the other.
        second.wall_s += first.wall_s;
    }
    Ok(Counted {
        steps: all.iter().map(|done| done.steps).sum(),
        cpu_s: all.iter().map(|done| done.cpu_s).sum(),
        wall_s: all.iter().map(|done| done.wall_s).fold(0.0, f64::max),
    })
}

fn processes(tasks: u64, time: Duration) -> Result<Vec<Counted>> {
    let millis = time.as_millis().to_string();
    let reports = own_processes(tasks, &["count", "--within", &millis])?;
    let all = reports.iter().map(Counted::of).collect::<Option<_>>();
    all.context("a process of the work has no figures")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_the_time_it_is_given() {
        let done = run(CountKind::Sleep, 1, Duration::from_millis(30)).unwrap();
        assert!(done.steps > 0 && done.steps.is_multiple_of(BATCH));
        assert!(done.wall_s >= 0.02 && done.cpu_s <= done.wall_s);
        let report = WorkReport {
            figures: done.figures(),
            ..WorkReport::of(done.steps, true)
        };
        let again = Counted::of(&report).unwrap();
        assert!((again.cpu_s - done.cpu_s).abs() < 1e-9);
    }
}
