// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Differences that are planted on a CPU, and the processes that make them.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use nix::sys::signal::Signal;
use sandbag_linux::sched::{self, Attributes};
use sandbag_linux::{CpuList, clock, perf};

use crate::bench::benchmark::value_name;
use crate::program::{self, Programs, Running, Start};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Plant {
    /// Nothing: equal CPUs.
    None,
    /// `sandbag load 1`.
    Load,
    /// A real-time task that takes 1 %.
    Realtime,
    /// Timer interrupts at a rate that is no multiple of the tick's.
    Timer,
    /// `sandbag slow --speed 0.97`.
    Slow,
}

impl Plant {
    /// By the name on the command line.
    pub fn of(name: &str) -> Option<Self> {
        Self::from_str(name, false).ok()
    }

    /// In words, and the kind of suspect that is right.
    fn facts(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::None => ("nothing", None),
            Self::Load => ("1 % by sandbag load", Some("load")),
            Self::Realtime => ("1 % by a real-time task", Some("realtime")),
            Self::Timer => ("a timer, some 3 % of system time", Some("timer")),
            Self::Slow => ("3 % by sandbag slow", Some("slow_node")),
        }
    }

    pub fn about(self) -> &'static str {
        self.facts().0
    }

    pub fn cause(self) -> Option<&'static str> {
        self.facts().1
    }

    /// Plants it and waits until it has started.
    pub fn start(self, programs: &Programs, cpu: u32, timer_hz: u32) -> Result<Option<Running>> {
        let cpu = cpu.to_string();
        let (program, words) = match self {
            Self::None => return Ok(None),
            Self::Load => (&programs.sandbag, format!("load 1 --no-out --cpus {cpu}")),
            Self::Slow => {
                let words = format!("slow --no-out --cpus {cpu} --speed 0.97 -- sleep 7200");
                (&programs.sandbag, words)
            }
            Self::Realtime | Self::Timer => {
                let name = value_name(&self);
                let words = format!("audit-plant {name} --cpu {cpu} --timer-hz {timer_hz}");
                (&programs.own, words)
            }
        };
        let mut command = program::command(program, &words);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let running = Running::start(command, Start::session(Signal::SIGTERM))
            .with_context(|| format!("plant {}", self.about()))?;
        std::thread::sleep(SETTLE);
        Ok(Some(running))
    }
}

const SETTLE: Duration = Duration::from_secs(1);

/// Arguments of the hidden verb.
#[derive(Debug, Args)]
pub struct PlantArgs {
    /// Which: realtime or timer
    plant: Plant,
    /// On which CPU
    #[arg(long)]
    cpu: u32,
    /// Interrupts per second of the timer
    #[arg(long, default_value = "10000")]
    timer_hz: u32,
    /// Ends after this number of seconds
    #[arg(long, default_value = "7200")]
    seconds: u64,
}

/// Period of the real-time task, ns: no multiple of a tick.
const PERIOD_NS: u64 = 7_300_000;
/// The part of it in which it runs.
const SHARE: f64 = 0.01;

pub fn plant(args: &PlantArgs) -> Result<()> {
    let end = clock::monotonic() + args.seconds * 1_000_000_000;
    sched::set_affinity(0, &CpuList::from_iter([args.cpu]))?;
    match args.plant {
        Plant::Realtime => {
            sched::set_attributes(0, Attributes::Fifo { priority: 1 })?;
            let begin = clock::monotonic();
            let busy = (PERIOD_NS as f64 * SHARE) as u64;
            for period in 0.. {
                let from = begin + period * PERIOD_NS;
                if from > end {
                    break;
                }
                clock::sleep_until(from);
                let until = clock::thread_cpu() + busy;
                while clock::thread_cpu() < until {}
            }
        }
        Plant::Timer => {
            // Some percent off the round period, so that it does not coincide with the tick.
            let period_ns = 1_000_000_000 / u64::from(args.timer_hz.max(1)) * 97 / 100 + 3;
            let _timer = perf::sampled_clock(args.cpu, period_ns)?;
            clock::sleep_until(end);
        }
        _ => {}
    }
    Ok(())
}
