// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is planted on a CPU, and the processes that do it.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use nix::sys::signal::Signal;
use sandbag_kernel::sched::{self, Attributes};
use sandbag_kernel::{CpuList, clock};
use serde::{Deserialize, Serialize};

use crate::child::Running;

/// A difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Plant {
    /// Nothing: equal CPUs.
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
                let kind = if self == Self::Timer {
                    "timer"
                } else {
                    "realtime"
                };
                let mut command = Command::new(program);
                let hz = timer_hz.to_string();
                command.args(["audit-plant", kind, "--cpu", &cpu, "--timer-hz", &hz]);
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
        let running = Running::start(command, Signal::SIGTERM, None)
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
            let _timer = timer(args.cpu, args.timer_hz)?;
            clock::sleep_until(end);
        }
        _ => {}
    }
    Ok(())
}

/// A timer whose handler never leaves the kernel: an event of the CPU's clock
/// that is sampled into nowhere (perf_event_open(2)). Its period is some per
/// cent off the round one, so that it falls on no tick for long.
fn timer(cpu: u32, hz: u32) -> Result<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd as _;
    /// `struct perf_event_attr`, first published size.
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        kind: u32,
        size: u32,
        config: u64,
        sample_period: u64,
        sample_type: u64,
        read_format: u64,
        bits: u64,
        wakeup_events: u32,
        breakpoint_type: u32,
        config1: u64,
    }
    const SOFTWARE: u32 = 1;
    const CPU_CLOCK: u64 = 0;
    const ADDRESS: u64 = 1;
    let attributes = Attributes {
        kind: SOFTWARE,
        size: size_of::<Attributes>() as u32,
        config: CPU_CLOCK,
        sample_period: 1_000_000_000 / u64::from(hz.max(1)) * 97 / 100 + 3,
        sample_type: ADDRESS,
        ..Attributes::default()
    };
    let (any_task, no_group) = (-1, -1);
    // SAFETY: `attributes` is of the size that it states.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            any_task,
            cpu,
            no_group,
            0,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error()).context("perf_event_open");
    }
    // SAFETY: just opened, nobody else knows it.
    Ok(unsafe { std::os::fd::OwnedFd::from_raw_fd(fd as i32) })
}
