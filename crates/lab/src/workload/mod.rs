// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lab's own programs: what runs under the conditions that are compared.
//!
//! Each does a fixed amount of work, says how long that took, and checks its
//! own result. They are started as processes of their own, so that they meet
//! a load or a slowed node as any program does.

pub mod chain;
pub mod datagrams;
pub mod ep;
pub mod sleepers;
pub mod stream;

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};
use sandbag_kernel::Root;
use serde::{Deserialize, Serialize};

use datagrams::Sender;
use ep::Class;
use stream::Stream;

/// Tasks of the two programs that have several (Buchert et al. 2011).
pub const TASKS: u64 = 5;

/// The programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Name {
    /// Computes.
    Compute,
    /// Sends datagrams to an address where nobody is.
    Datagrams,
    /// Computes, sleeps as long, computes.
    ComputeSleep,
    /// STREAM's four kernels.
    Memory,
    /// Five processes that compute, joined.
    Processes,
    /// Five threads that compute, joined.
    Threads,
    /// NAS EP.
    Ep,
    /// Tasks that spin, and on each CPU one that wakes up every millisecond.
    Sleepers,
}

impl Name {
    /// The six micro-benchmarks, in the order of the paper's figures.
    pub const MICRO: [Self; 6] = [
        Self::Compute,
        Self::Datagrams,
        Self::ComputeSleep,
        Self::Memory,
        Self::Processes,
        Self::Threads,
    ];

    /// As on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Datagrams => "datagrams",
            Self::ComputeSleep => "compute-sleep",
            Self::Memory => "memory",
            Self::Processes => "processes",
            Self::Threads => "threads",
            Self::Ep => "ep",
            Self::Sleepers => "sleepers",
        }
    }
}

/// One of the lab's programs
#[derive(Debug, Args)]
pub struct WorkArgs {
    /// Which
    #[arg(value_enum)]
    pub name: Name,
    /// How much: steps of the chain, datagrams, passes of STREAM; per task and
    /// per part
    #[arg(long, default_value_t = 0)]
    pub amount: u64,
    /// In place of an amount: find out how much is done within this many
    /// milliseconds
    #[arg(long, value_name = "MS")]
    pub within: Option<u64>,
    /// compute-sleep: how long the sleep is, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    pub sleep: u64,
    /// ep: the class, S to C
    #[arg(long, default_value = "S", value_parser = class)]
    pub class: Class,
    /// ep: threads; sleepers: tasks that spin
    #[arg(long, default_value_t = 1)]
    pub tasks: u64,
}

fn class(name: &str) -> Result<Class, String> {
    Class::by_name(name).ok_or_else(|| "a class is S, W, A, B or C".to_owned())
}

/// What a program says when it is done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Wall time of the work, sleep included, seconds.
    pub seconds: f64,
    /// Of that, intended sleep, seconds.
    pub slept_s: f64,
    /// What was done, in the program's unit.
    pub amount: u64,
    /// Whether the result was right.
    pub right: bool,
    /// What else is to be known, in words.
    #[serde(default)]
    pub notes: BTreeMap<String, String>,
    /// What else was measured.
    #[serde(default)]
    pub figures: BTreeMap<String, f64>,
}

/// Does the work.
///
/// # Errors
/// It could not be begun.
pub fn work(args: &WorkArgs) -> Result<Done> {
    let (mut notes, mut figures) = (BTreeMap::new(), BTreeMap::new());
    let within = args.within.map(Duration::from_millis);
    let (amount, right, seconds) = match args.name {
        Name::Compute | Name::ComputeSleep | Name::Processes | Name::Threads
            if within.is_some() =>
        {
            timed(|| (chain::in_time(within.unwrap_or_default()), true))
        }
        Name::Compute => timed(|| (args.amount, chain::steps(args.amount) != 0)),
        Name::ComputeSleep => timed(|| {
            let first = chain::steps(args.amount);
            thread::sleep(Duration::from_millis(args.sleep));
            (args.amount, first == chain::steps(args.amount))
        }),
        Name::Threads => timed(|| {
            let right = thread::scope(|scope| {
                let tasks: Vec<_> = (0..TASKS)
                    .map(|_| scope.spawn(|| chain::steps(args.amount)))
                    .collect();
                let ends: Vec<_> = tasks.into_iter().map(|task| task.join().ok()).collect();
                ends.iter().all(|end| end.is_some() && *end == ends[0])
            });
            (args.amount, right)
        }),
        Name::Processes => {
            let begin = Instant::now();
            let right = processes(args.amount)?;
            (args.amount, right, begin.elapsed().as_secs_f64())
        }
        Name::Datagrams => {
            let sender = Sender::open()?;
            notes.insert("way".to_owned(), sender.way.name().to_owned());
            timed(|| match within {
                Some(time) => (sender.in_time(time), true),
                None => {
                    sender.send(args.amount);
                    (args.amount, true)
                }
            })
        }
        Name::Memory => {
            let elements = stream::elements(&Root::default());
            notes.insert("array_mib".to_owned(), format!("{}", (elements * 8) >> 20));
            let mut stream = Stream::new(elements);
            let (amount, right, seconds) = timed(|| match within {
                Some(time) => passes_in(&mut stream, time),
                None => (args.amount, stream.advance(args.amount)),
            });
            (amount, right && stream.is_right(), seconds)
        }
        Name::Ep => timed(|| {
            let sums = ep::run(args.class, args.tasks.max(1));
            (args.class.pairs(), sums.are_right(args.class))
        }),
        Name::Sleepers => {
            let begin = Instant::now();
            let latency = sleepers::run(args.tasks, within.unwrap_or(Duration::from_secs(1)))?;
            figures.extend(latency.figures());
            (latency.count(), true, begin.elapsed().as_secs_f64())
        }
    };
    let slept_s = match (args.name, within) {
        (Name::ComputeSleep, None) => args.sleep as f64 / 1e3,
        _ => 0.0,
    };
    Ok(Done {
        seconds,
        slept_s,
        amount,
        right,
        notes,
        figures,
    })
}

fn timed(work: impl FnOnce() -> (u64, bool)) -> (u64, bool, f64) {
    let begin = Instant::now();
    let (amount, right) = work();
    (amount, right, begin.elapsed().as_secs_f64())
}

fn passes_in(stream: &mut Stream, time: Duration) -> (u64, bool) {
    let begin = Instant::now();
    let (mut count, mut right) = (0, true);
    while begin.elapsed() < time {
        right &= stream.advance(1);
        count += 1;
    }
    (count, right)
}

/// Five of ourselves at the same time.
fn processes(amount: u64) -> Result<bool> {
    let own = std::env::current_exe().context("our own program")?;
    let mut children = Vec::new();
    for _ in 0..TASKS {
        let child = Command::new(&own)
            .args(["lab", "work", "compute", "--amount", &amount.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("start a task")?;
        children.push(child);
    }
    let mut right = true;
    for child in children {
        let ended = child.wait_with_output().context("wait for a task")?;
        ensure!(ended.status.success(), "a task ended with {}", ended.status);
        let done: Done = serde_json::from_slice(&ended.stdout).context("what a task says")?;
        right &= done.right;
    }
    Ok(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(name: Name) -> WorkArgs {
        WorkArgs {
            name,
            amount: 1000,
            within: None,
            sleep: 20,
            class: Class::S,
            tasks: 1,
        }
    }

    #[test]
    fn programs_check_their_own_results() {
        for name in [Name::Compute, Name::Threads] {
            let done = work(&args(name)).unwrap();
            assert!(done.right && done.amount == 1000, "{done:?}");
        }
        let done = work(&args(Name::ComputeSleep)).unwrap();
        assert!(done.right && done.seconds >= 0.02, "{done:?}");
        assert!((done.slept_s - 0.02).abs() < 1e-12);
    }

    #[test]
    fn an_amount_is_found() {
        let mut args = args(Name::Compute);
        args.within = Some(5);
        let done = work(&args).unwrap();
        assert!(done.amount > 0 && done.seconds >= 0.005);
    }
}
