// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One blow against a run: which signal, to whom, in which part of its life.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::ours::{self, Role};

/// Part of a run's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// From its first instruction to some time after its first burner.
    Start,
    /// While the load is held.
    Held,
    /// While it undoes what it did, after SIGTERM.
    Undo,
}

/// A signal to one of sandbag's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blow {
    pub signal: Signal,
    /// To whom.
    pub role: Role,
    /// When.
    pub phase: Phase,
    /// Whether a command runs as well.
    pub command: bool,
}

impl std::fmt::Display for Blow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let beside = if self.command { " (with command)" } else { "" };
        let Self {
            signal,
            role,
            phase,
            ..
        } = self;
        write!(f, "{signal} to {role:?} at {phase:?}{beside}")
    }
}

/// Longest time after which a blow comes: from the start of the supervisor,
/// from the appearance of another victim, or from the order to end.
fn longest(phase: Phase, role: Role) -> Duration {
    Duration::from_millis(match (phase, role) {
        (Phase::Start, Role::Supervisor) => 160,
        (Phase::Start, _) => 60,
        (Phase::Held, _) => 400,
        (Phase::Undo, _) => 25,
    })
}

/// What is not there after this does not come.
const PATIENCE: Duration = Duration::from_secs(20);

impl Blow {
    /// Starts a run in `dir`, strikes, and ends the run if it goes on.
    /// Returns when its supervisor is gone, with the moment of the blow;
    /// `None` if the victim was gone before. All times are `slowness` times as
    /// long: an emulated machine takes longer for each part of a run's life.
    ///
    /// # Errors
    /// If the run cannot be started, or no victim appears.
    pub fn strike(
        &self,
        sandbag: &Path,
        dir: &Path,
        slowness: u32,
        chance: &mut fastrand::Rng,
    ) -> anyhow::Result<Option<Instant>> {
        let pause = |most: Duration, part: f64| std::thread::sleep((most * slowness).mul_f64(part));
        let mut run = start(sandbag, dir, self.command)?;
        let supervisor = Pid::from_raw(run.id().cast_signed());
        if self.phase != Phase::Start {
            wait_for(sandbag, Role::Burner, &mut run)?;
            pause(Duration::from_millis(100), chance.f64());
        }
        let victim = match self.role {
            Role::Supervisor => Some(supervisor),
            role => {
                let there = wait_for(sandbag, role, &mut run)?;
                chance.choice(there)
            }
        };
        if self.phase == Phase::Undo {
            kill(supervisor, Signal::SIGTERM)?;
        }
        pause(longest(self.phase, self.role), chance.f64());
        let struck = victim.filter(|pid| ours::runs(*pid)).and_then(|pid| {
            // The number is not reused within milliseconds.
            kill(pid, self.signal).ok().map(|()| Instant::now())
        });
        if self.role != Role::Supervisor {
            // Time to notice, then the usual end.
            pause(Duration::from_millis(50), 1.0);
            let _ = kill(supervisor, Signal::SIGTERM);
        }
        let begin = Instant::now();
        while run.try_wait()?.is_none() {
            if begin.elapsed() > PATIENCE {
                let account = ours::account_of(supervisor);
                run.kill()?;
                run.wait()?;
                bail!("{self}: the run does not end:\n{account}");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(struck)
    }
}

/// A run in `dir`, with a command that writes its process id into `pid`, or without one.
pub(crate) fn start(sandbag: &Path, dir: &Path, with_command: bool) -> anyhow::Result<Child> {
    let mut command = Command::new(sandbag);
    command
        .args(["load", "50", "--no-out", "-q"])
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if with_command {
        command
            .args(["--no-settle", "--", "sh", "-c"])
            .arg("echo $$ > pid.new; mv pid.new pid; exec sleep 1000")
    } else {
        command.args(["-d", "10m"])
    };
    command.spawn().context("sandbag")
}

/// The run's processes of this role, as soon as there is one.
pub(crate) fn wait_for(sandbag: &Path, role: Role, run: &mut Child) -> anyhow::Result<Vec<Pid>> {
    let begin = Instant::now();
    loop {
        let there = ours::of_role(sandbag, role);
        if !there.is_empty() {
            return Ok(there);
        }
        if let Some(status) = run.try_wait()? {
            bail!("the run ended by itself: {status}");
        }
        if begin.elapsed() > PATIENCE {
            run.kill()?;
            bail!("no {role:?} appears");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
