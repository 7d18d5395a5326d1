// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a load does to a task that wakes up: the delays of a 1 ms sleeper
//! beside the default burner at 50 %, and beside what it is to be held
//! against, in turn within each round.
//!
//! The target is a ratio of at most 1.5 to an ordinary spinner of nice 0 on
//! the same CPU. That spinner never leaves the CPU idle, while a burner of
//! 50 % does so half of the time; and to wake up an idle CPU takes longer
//! than to preempt a task, on a virtual machine by the hypervisor's share. So
//! the ratio has two parts, which are told apart in three ways: by the delays
//! of an idle CPU; by what a load of 50 % would show that does nothing but be
//! there half of the time (the mixture of idle and spinner); and by the state
//! of the burner at each wake-up. With a task that is always busy besides,
//! the CPU is never idle and the burner alone makes the difference.

mod competitor;
pub mod lines;
mod sleeper;

pub use lines::{Round, ratios, times};
pub use sleeper::{LatencyArgs, latency};

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;

use crate::bench::runner::Bench;
use crate::program::{Running, Start};
use competitor::Competitor;
use sleeper::Wakeups;

/// All of them.
const ALL: [Competitor; 6] = [
    Competitor::Idle,
    Competitor::Spinner,
    Competitor::Pace,
    Competitor::Spinners,
    Competitor::SpinnersGrouped,
    Competitor::PaceAndSpinner,
];

/// How many measurements make a round.
pub const PER_ROUND: usize = ALL.len();

impl Bench {
    /// One round of all, on the last CPU. Each round begins with another one,
    /// so that none is always the first.
    pub fn latency_round(&self, round: u32, seconds: u32) -> Result<Round> {
        let cpu = self.cpus.iter().next_back().context("no CPU to load")?;
        let dir = self.work.join(format!("latency-{round}"));
        std::fs::create_dir_all(&dir)?;
        let mut all = Vec::new();
        for turn in 0..ALL.len() {
            let beside = ALL[(round as usize + turn) % ALL.len()];
            let woken = self
                .woken_beside(beside, &dir, cpu, seconds)
                .with_context(|| format!("beside {beside:?}"))?;
            all.push((beside, woken));
        }
        std::fs::remove_dir_all(&dir)?;
        Round::of(&all).context("too few wake-ups")
    }

    fn woken_beside(
        &self,
        beside: Competitor,
        dir: &Path,
        cpu: u32,
        seconds: u32,
    ) -> Result<Wakeups> {
        let mut sleeper = Command::new(&self.program);
        sleeper.args(["latency", &seconds.to_string(), "--cpu", &cpu.to_string()]);
        let spinners = match beside {
            Competitor::Spinner | Competitor::SpinnersGrouped => 1,
            Competitor::Spinners => 2,
            _ => 0,
        };
        let command = match beside {
            Competitor::Idle | Competitor::Spinner | Competitor::Spinners => sleeper,
            Competitor::SpinnersGrouped => {
                sleeper.arg("--spinner");
                sleeper
            }
            Competitor::Pace => self.under_sandbag(sleeper.arg("--watch"), dir, cpu, seconds),
            Competitor::PaceAndSpinner => {
                self.under_sandbag(sleeper.arg("--spinner"), dir, cpu, seconds)
            }
        };
        let _spinners = match spinners {
            0 => None,
            n => {
                let mut spin = Command::new(&self.program);
                spin.args(["compete", "spin", &n.to_string()])
                    .arg((seconds + 30).to_string())
                    .args(["--cpus", &cpu.to_string(), "--sessions"])
                    .stdout(Stdio::null());
                Some(Running::start(spin, Start::session(Signal::SIGKILL))?)
            }
        };
        sandbag_linux::interrupt::sleep_until(Instant::now() + Duration::from_millis(500))?;
        wakeups(command, &dir.join(format!("{beside:?}.json")), seconds)
    }

    fn under_sandbag(&self, sleeper: &Command, dir: &Path, cpu: u32, seconds: u32) -> Command {
        let mut command = Command::new(&self.sandbag);
        for name in ["SUDO_UID", "SUDO_GID", "SUDO_USER"] {
            command.env_remove(name);
        }
        command
            .args(["load", "50", "--cpus", &cpu.to_string()])
            .args(["-d", &format!("{}s", seconds + 5), "-q", "--no-out"])
            .current_dir(dir)
            .arg("--")
            .arg(sleeper.get_program())
            .args(sleeper.get_args());
        command
    }
}

/// Runs the command to its end and reads the delays that it printed.
fn wakeups(mut command: Command, output: &Path, seconds: u32) -> Result<Wakeups> {
    let said = output.with_extension("stderr");
    command
        .stdin(Stdio::null())
        .stdout(File::create(output)?)
        .stderr(File::create(&said)?);
    const PATIENCE: Duration = Duration::from_secs(30);
    let mut running = Running::start(command, Start::session(Signal::SIGTERM))?;
    let status = running
        .wait(PATIENCE + Duration::from_secs(seconds.into()))?
        .context("the sleeper did not end")?;
    ensure!(
        status.success(),
        "the sleeper ended with {status}: {}",
        crate::bench::runner::last_words(&said)
    );
    let text = std::fs::read_to_string(output)?;
    serde_json::from_str(&text).context("understand what the sleeper printed")
}
