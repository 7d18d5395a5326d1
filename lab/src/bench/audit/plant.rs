// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is planted on a CPU, and the processes that do it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use nix::sys::signal::Signal;
use sandbag_linux::sched::{self, Attributes};
use sandbag_linux::{CpuList, clock, perf};
use serde::{Deserialize, Serialize};

use crate::program::{Running, Start};

/// A difference.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Plant {
    /// Nothing: equal CPUs.
    #[default]
    None,
    /// `sandbag load 1`.
    Load,
    /// A real-time task that takes 1 %.
    Realtime,
    /// Timer interrupts at a rate that has nothing in common with the tick's.
    Timer,
    /// `sandbag slow --speed 0.97`.
    Slow,
}

impl Plant {
    /// In the order of the table.
    pub const ALL: [Self; 5] = [
        Self::None,
        Self::Load,
        Self::Realtime,
        Self::Timer,
        Self::Slow,
    ];

    /// As the command line calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Load => "load",
            Self::Realtime => "realtime",
            Self::Timer => "timer",
            Self::Slow => "slow",
        }
    }

    /// In words.
    pub fn about(self) -> &'static str {
        match self {
            Self::None => "nothing",
            Self::Load => "1 % by sandbag load",
            Self::Realtime => "1 % by a real-time task",
            Self::Timer => "a timer, some 3 % of system time",
            Self::Slow => "3 % by sandbag slow",
        }
    }

    /// The kind of suspect that is right.
    pub fn cause(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Load => Some("load"),
            Self::Realtime => Some("realtime"),
            Self::Timer => Some("timer"),
            Self::Slow => Some("slow_node"),
        }
    }

    /// Plants it and waits a little.
    pub fn start(
        self,
        sandbag: &Path,
        program: &Path,
        cpu: u32,
        timer_hz: u32,
    ) -> Result<Option<Running>> {
        let cpu = cpu.to_string();
        let mut command = match self {
            Self::None => return Ok(None),
            Self::Load => {
                let mut command = Command::new(sandbag);
                command.args(["load", "1", "--cpus", &cpu]);
                command
            }
            Self::Slow => {
                let mut command = Command::new(sandbag);
                command.args([
                    "slow", "--cpus", &cpu, "--speed", "0.97", "--", "sleep", "7200",
                ]);
                command
            }
            Self::Realtime | Self::Timer => {
                let mut command = Command::new(program);
                let hz = timer_hz.to_string();
                command.args(["audit-plant", self.name(), "--cpu", &cpu, "--timer-hz", &hz]);
                command
            }
        };
        // The runs that sandbag keeps by default go where nobody looks.
        let dir = std::env::temp_dir();
        command
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let running = Running::start(command, Start::session(Signal::SIGTERM))
            .with_context(|| format!("plant {}", self.about()))?;
        std::thread::sleep(SETTLE);
        Ok(Some(running))
    }
}

/// Until a plant is what it is.
const SETTLE: Duration = Duration::from_secs(1);

/// Arguments of the hidden verb.
#[derive(Debug, Args)]
pub struct PlantArgs {
    /// Which: realtime or timer
    plant: Plant,
    /// Where
    #[arg(long)]
    cpu: u32,
    /// Of the timer
    #[arg(long, default_value = "10000")]
    timer_hz: u32,
    /// Ends after so many seconds, whatever happens
    #[arg(long, default_value = "7200")]
    seconds: u64,
}

/// Every so often the real-time task runs, ns: no multiple of a tick.
const PERIOD_NS: u64 = 7_300_000;
/// The part of it in which it does.
const SHARE: f64 = 0.01;

/// Is the plant, until it is killed.
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
            // Some per cent off the round period: so it falls on no tick for long.
            let period_ns = 1_000_000_000 / u64::from(args.timer_hz.max(1)) * 97 / 100 + 3;
            let _timer = perf::sampled_clock(args.cpu, period_ns)?;
            clock::sleep_until(end);
        }
        _ => {}
    }
    Ok(())
}
