// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The latency of a 1 ms sleeper beside the default burner at 50 %, and beside what it is
//! compared with, in turn within each round.
//!
//! The target is a ratio of at most 1.5 to a spinner of nice 0 on the same CPU. A spinner
//! never leaves the CPU idle, a burner of 50 % does so half of the time, and to wake up an
//! idle CPU takes longer than to preempt a task. This part of the ratio is separated by the
//! mixture of wake-ups beside nothing and beside a spinner, by the state of the burner at
//! each wake-up, and by a task that is always busy besides.

pub mod lines;
mod sleeper;

pub use lines::{put_round, ratios, times};
pub use sleeper::{LatencyArgs, latency};

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;

use super::runner::{Bench, as_root};
use crate::program::{self, Running, Start};
use crate::row::Row;
use sleeper::Wakeups;

/// What is on the CPU of the sleeper: nothing, one spinner, the burner, two spinners
/// each in a group (autogroup) of its own, a spinner in the sleeper's own group and one
/// in another (as the command's task and the burner are), the burner and a spinner in
/// the command.
const IDLE: &str = "idle";
const SPINNER: &str = "spinner";
const PACE: &str = "pace";
const SPINNERS: &str = "spinners";
const GROUPED: &str = "grouped";
const PACE_AND_SPINNER: &str = "pace_and_spinner";

const ALL: [&str; 6] = [IDLE, SPINNER, PACE, SPINNERS, GROUPED, PACE_AND_SPINNER];

/// How many measurements make a round.
pub const PER_ROUND: usize = ALL.len();

/// How long a sleeper may take beyond its time.
const OVERTIME: Duration = Duration::from_secs(30);

impl Bench {
    /// Adds one round of all, on the last CPU, to a row. Each round begins with another
    /// condition, so that none is always the first.
    pub fn latency_round(&self, row: &mut Row, seconds: u32) -> Result<()> {
        let cpu = self.cpus.iter().next_back().context("no CPU to load")?;
        let mut all = Vec::new();
        for turn in 0..ALL.len() {
            let beside = ALL[(row.round as usize + turn) % ALL.len()];
            let woken = self
                .woken_beside(beside, cpu, seconds)
                .with_context(|| format!("beside {beside}"))?;
            all.push((beside, woken));
        }
        put_round(row, &all).context("too few wake-ups")
    }

    fn woken_beside(&self, beside: &str, cpu: u32, seconds: u32) -> Result<Wakeups> {
        let words = format!("latency {seconds} --cpu {cpu}");
        let mut sleeper = program::command(&self.program, &words);
        match beside {
            GROUPED | PACE_AND_SPINNER => sleeper.arg("--spinner"),
            PACE => sleeper.arg("--watch"),
            _ => &mut sleeper,
        };
        let outside = match beside {
            SPINNER | GROUPED => 1,
            SPINNERS => 2,
            _ => 0,
        };
        let words = format!(
            "compete spin {outside} {} --cpus {cpu} --sessions",
            seconds + 30
        );
        let mut spin = program::command(&self.program, &words);
        spin.stdout(Stdio::null());
        let _spinners = match outside {
            0 => None,
            _ => Some(Running::start(spin, Start::session(Signal::SIGKILL))?),
        };
        sandbag_linux::interrupt::sleep_until(Instant::now() + Duration::from_millis(500))?;
        let command = match beside {
            PACE | PACE_AND_SPINNER => self.under_sandbag(&sleeper, cpu, seconds),
            _ => sleeper,
        };
        let limit = OVERTIME + Duration::from_secs(seconds.into());
        let ended = program::run_as(command, Start::session(Signal::SIGTERM), limit)?;
        let status = ended.status.context("the sleeper did not end")?;
        let said = ended.last_words();
        ensure!(status.success(), "the sleeper ended with {status}: {said}");
        serde_json::from_str(&ended.out).context("parse the output of the sleeper")
    }

    fn under_sandbag(&self, sleeper: &Command, cpu: u32, seconds: u32) -> Command {
        let mut command = as_root(&self.sandbag);
        let words = format!("load 50 --cpus {cpu} -d {}s -q --no-out --", seconds + 5);
        command
            .args(words.split(' '))
            .current_dir(&self.work)
            .arg(sleeper.get_program())
            .args(sleeper.get_args());
        command
    }
}
