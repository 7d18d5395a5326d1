// SPDX-License-Identifier: Apache-2.0 OR MIT
//! kill -9 at random moments.
//!
//! The promise: the machine is left as it was found after SIGKILL of any one of
//! our processes at any moment; and if supervisor and guardian die together,
//! no burner runs on and the next command, or `sandbag restore`, undoes what
//! is left. Each round starts a run, kills, and compares.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::ours::{self, Role};
use crate::state::State;

/// How often the machine is looked at while we wait.
const POLL: Duration = Duration::from_millis(50);
/// A run that has no burner for so long has failed to start.
const START: Duration = Duration::from_secs(20);
/// The kill comes at a random moment of this length.
const MOMENT: Duration = Duration::from_millis(1500);

/// Who is killed in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victim {
    /// At any moment, also while the groups are being made.
    Supervisor,
    /// While the load is held; the run is then ended by SIGTERM.
    Guardian,
    /// Likewise; a random one.
    Burner,
}

/// Whether all was as before, and when.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RestoreResult {
    /// What had been done.
    pub after: String,
    /// From its end to the last look, seconds.
    pub seconds: f64,
    /// Processes of ours that still ran.
    pub processes: usize,
    /// [`State::difference`]; empty if all was as before.
    pub difference: Vec<String>,
}

/// A machine as it was, the program under test, and how long to wait for it.
#[derive(Debug)]
pub struct Killing<'a> {
    /// The program.
    pub sandbag: &'a Path,
    /// CPUs that a run loads, from the first on.
    pub cpus: usize,
    /// The machine before any run.
    pub before: State,
    /// After this time what is not as before counts as left behind.
    pub patience: Duration,
    /// Chooses moments and burners.
    pub chance: fastrand::Rng,
}

/// SIGKILL to a supervisor and its guardians, none of whom gets to know of
/// another's end. `guardians` finds them.
///
/// # Errors
/// One of them is gone already.
pub fn kill_together(run: &mut Child, guardians: impl Fn() -> Vec<Pid>) -> anyhow::Result<()> {
    for pid in guardians() {
        kill(pid, Signal::SIGSTOP)?;
    }
    // Anew: one may have been started meanwhile.
    let stopped = guardians();
    run.kill()?;
    for pid in stopped {
        kill(pid, Signal::SIGKILL)?;
    }
    run.wait()?;
    Ok(())
}

impl Killing<'_> {
    /// One run of which one process is killed.
    ///
    /// # Errors
    /// If the run does not start, or its processes cannot be found or killed.
    pub fn round(&mut self, victim: Victim) -> anyhow::Result<RestoreResult> {
        let mut run = self.start()?;
        let pid = if victim == Victim::Supervisor {
            self.pause();
            Pid::from_raw(run.id().try_into()?)
        } else {
            self.wait_for_burners(&mut run)?;
            self.pause();
            let role = match victim {
                Victim::Guardian => Role::Guardian,
                _ => Role::Burner,
            };
            let candidates = ours::of_role(self.sandbag, role);
            self.chance
                .choice(candidates)
                .with_context(|| format!("no {role:?} to kill"))?
        };
        kill(pid, Signal::SIGKILL)?;
        if victim != Victim::Supervisor {
            // Time to notice, and then the usual end; it may have ended.
            std::thread::sleep(Duration::from_millis(500));
            let _ = kill(Pid::from_raw(run.id().try_into()?), Signal::SIGTERM);
        }
        run.wait()?;
        self.compare(&format!("kill of {victim:?}"))
    }

    /// Supervisor and guardian are killed together, and `remedy` is run.
    ///
    /// # Errors
    /// As [`Killing::round`]; and if a burner still runs after the patience,
    /// or the remedy fails.
    pub fn both(&mut self, remedy: &[&str]) -> anyhow::Result<RestoreResult> {
        let mut run = self.start()?;
        self.wait_for_burners(&mut run)?;
        self.pause();
        kill_together(&mut run, || ours::of_role(self.sandbag, Role::Guardian))?;
        let deadline = Instant::now() + self.patience;
        while !ours::of_role(self.sandbag, Role::Burner).is_empty() {
            if Instant::now() > deadline {
                bail!("a burner runs on without supervisor and guardian");
            }
            std::thread::sleep(POLL);
        }
        let output = Command::new(self.sandbag)
            .args(remedy)
            .stdin(Stdio::null())
            .output()?;
        let name = remedy.join(" ");
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("sandbag {name}: {}: {}", output.status, said.trim());
        }
        self.compare(&format!("kill of both, then {name}"))
    }

    /// Waits until all is as before and none of our processes runs.
    ///
    /// # Errors
    /// If the machine's state cannot be read.
    pub fn compare(&self, after: &str) -> anyhow::Result<RestoreResult> {
        let start = Instant::now();
        loop {
            let restored = RestoreResult {
                after: after.to_owned(),
                processes: ours::find(self.sandbag).len(),
                difference: self.before.difference(&State::read()?),
                seconds: start.elapsed().as_secs_f64(),
            };
            let done = restored.processes == 0 && restored.difference.is_empty();
            if done || start.elapsed() > self.patience {
                return Ok(restored);
            }
            std::thread::sleep(POLL);
        }
    }

    fn start(&self) -> anyhow::Result<Child> {
        let cpus: Vec<String> = (0..self.cpus).map(|cpu| cpu.to_string()).collect();
        Command::new(self.sandbag)
            .args(["load", "50", "-d", "10m", "--no-out", "-q"])
            .args(["--cpus", &cpus.join(",")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| self.sandbag.display().to_string())
    }

    fn wait_for_burners(&self, run: &mut Child) -> anyhow::Result<()> {
        let deadline = Instant::now() + START;
        while ours::of_role(self.sandbag, Role::Burner).len() < self.cpus {
            if let Some(status) = run.try_wait()? {
                bail!("the run ended by itself: {status}");
            }
            if Instant::now() > deadline {
                run.kill()?;
                bail!("fewer than {} burners after {START:?}", self.cpus);
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    fn pause(&mut self) {
        std::thread::sleep(MOMENT.mul_f64(self.chance.f64()));
    }
}
