// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program that is slowed: counts what it gets done, and what it cost.
//!
//! The work is the lab's chain of multiplications, so its rate is that of the
//! CPUs it was given.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::workload::chain;
use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use sandbag_linux::clock;
use serde::{Deserialize, Serialize};

/// What the tasks are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkKind {
    /// A process each.
    Processes,
    /// Threads of one process.
    Threads,
    /// One thread that computes, sleeps, and computes, each for a third.
    Sleep,
}

impl WorkKind {
    /// As the command line calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::Threads => "threads",
            Self::Sleep => "sleep",
        }
    }
}

/// Count work for some time, and print it as JSON
#[derive(Debug, Args)]
pub struct WorkArgs {
    /// Tasks at the same time
    #[arg(long, default_value_t = 1)]
    tasks: u32,
    /// What they are
    #[arg(long, value_enum, default_value_t = WorkKind::Processes)]
    kind: WorkKind,
    /// How long, milliseconds
    #[arg(long, default_value_t = 2000)]
    millis: u64,
}

/// What was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkDone {
    /// Steps of the chain.
    pub steps: u64,
    /// CPU time of the tasks, ns.
    pub cpu_ns: u64,
    /// Time in which they could work, ns.
    pub wall_ns: u64,
}

/// Steps between two looks at the clock: some 50 us.
const BATCH: u64 = 20_000;

fn count(until: Instant) -> WorkDone {
    let (begin, cpu) = (Instant::now(), clock::thread_cpu());
    let mut done = WorkDone::default();
    while Instant::now() < until {
        let _ = chain::steps(BATCH);
        done.steps += BATCH;
    }
    done.cpu_ns = clock::thread_cpu() - cpu;
    done.wall_ns = begin.elapsed().as_nanos() as u64;
    done
}

/// Runs the work.
pub fn work(args: &WorkArgs) -> Result<()> {
    let length = Duration::from_millis(args.millis);
    let all: Vec<WorkDone> = match args.kind {
        WorkKind::Processes if args.tasks > 1 => processes(args)?,
        WorkKind::Processes => vec![count(Instant::now() + length)],
        WorkKind::Threads => {
            let until = Instant::now() + length;
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..args.tasks)
                    .map(|_| scope.spawn(|| count(until)))
                    .collect();
                threads.into_iter().filter_map(|t| t.join().ok()).collect()
            })
        }
        WorkKind::Sleep => {
            let first = count(Instant::now() + length / 3);
            std::thread::sleep(length / 3);
            let second = count(Instant::now() + length / 3);
            vec![WorkDone {
                steps: first.steps + second.steps,
                cpu_ns: first.cpu_ns + second.cpu_ns,
                wall_ns: first.wall_ns + second.wall_ns,
            }]
        }
    };
    let sum = WorkDone {
        steps: all.iter().map(|done| done.steps).sum(),
        cpu_ns: all.iter().map(|done| done.cpu_ns).sum(),
        wall_ns: all.iter().map(|done| done.wall_ns).max().unwrap_or(0),
    };
    println!("{}", serde_json::to_string(&sum)?);
    Ok(())
}

fn processes(args: &WorkArgs) -> Result<Vec<WorkDone>> {
    let children: Vec<_> = (0..args.tasks)
        .map(|_| {
            Command::new("/proc/self/exe")
                .args(["count-work", "--millis", &args.millis.to_string()])
                .stdout(Stdio::piped())
                .spawn()
                .context("start a process of the work")
        })
        .collect::<Result<_>>()?;
    children
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output()?;
            if !output.status.success() {
                bail!("a process of the work ended with {}", output.status);
            }
            Ok(serde_json::from_slice(&output.stdout)?)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_the_time_it_is_given() {
        let done = count(Instant::now() + Duration::from_millis(20));
        assert!(done.steps > 0 && done.steps.is_multiple_of(BATCH));
        assert!(done.wall_ns >= 20_000_000);
        assert!(done.cpu_ns <= done.wall_ns);
    }
}
