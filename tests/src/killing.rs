// SPDX-License-Identifier: Apache-2.0 OR MIT
//! kill -9 of supervisor and guardian together, and the machine before and after.
//!
//! The promise: the machine is left as it was found after SIGKILL of any one of
//! our processes at any moment ([`crate::blow`]); and if supervisor and guardian
//! die together, no burner runs on and the next command, or `sandbag restore`,
//! undoes what is left.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::bail;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::blow;
use crate::ours::{self, Role};
use crate::state::State;

/// How often the machine is looked at while we wait.
const POLL: Duration = Duration::from_millis(50);
/// The kill comes at a random moment of this length.
const MOMENT: Duration = Duration::from_millis(1500);

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
    /// The machine before any run.
    pub before: State,
    /// After this time what is not as before counts as left behind.
    pub patience: Duration,
    /// Chooses the moment.
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
    /// Supervisor and guardian are killed together, and `remedy` is run.
    ///
    /// # Errors
    /// If the run does not start, its processes cannot be killed, a burner still
    /// runs after the patience, or the remedy fails.
    pub fn both(&mut self, remedy: &[&str]) -> anyhow::Result<RestoreResult> {
        let mut run = blow::start(self.sandbag, Path::new("."), false)?;
        blow::wait_for(self.sandbag, Role::Burner, &mut run)?;
        std::thread::sleep(MOMENT.mul_f64(self.chance.f64()));
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
}
