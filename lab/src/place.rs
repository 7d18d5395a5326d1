// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Running a program under a condition, on this machine.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::Signal;
use sandbag_linux::{CpuList, Root};
use sandbag_load::report::Run;

use crate::condition::Condition;
use crate::program::{self, ProgramExit, Running, Start};
use crate::steal::{Disturbance, StealMeter};

/// Until a load or speed is held, and for the end: on top of a program's own
/// time limit.
const AROUND: Duration = Duration::from_secs(20);

/// A node holds its speed after this; only its clients are notified.
const HELD: Duration = Duration::from_secs(2);

/// Periods, ms, of burners that are to be out of phase: all begin at the same boundary.
const PERIODS_APART: [u32; 4] = [10, 20, 50, 5];

#[derive(Debug)]
pub struct PlacedRun {
    pub ended: ProgramExit,
    /// What sandbag recorded, where it made the condition.
    pub run: Option<Run>,
    /// Steal and foreign load of the CPUs meanwhile.
    pub disturbance: Disturbance,
}

/// Runs programs under conditions: a [`RunPlace`] of this machine, or a fake in tests.
pub trait Runner {
    fn meet(&self, condition: &Condition, words: &[OsString]) -> Result<PlacedRun>;

    fn limit(&self) -> Duration;
}

#[derive(Debug)]
pub struct RunPlace<'a> {
    pub sandbag: &'a Path,
    pub cpus: &'a CpuList,
    pub scratch: &'a Path,
    pub limit: Duration,
}

impl Runner for RunPlace<'_> {
    fn meet(&self, condition: &Condition, words: &[OsString]) -> Result<PlacedRun> {
        let mut steal = StealMeter::start(&Root::default(), self.cpus)?;
        let (ended, run) = self.under(condition, words)?;
        if let Some(status) = ended.status
            && !status.success()
        {
            bail!(
                "{} under {} ended with {status}: {}",
                words[0].display(),
                condition.name(),
                ended.last_words()
            );
        }
        Ok(PlacedRun {
            ended,
            run,
            disturbance: steal.disturbance()?,
        })
    }

    fn limit(&self) -> Duration {
        self.limit
    }
}

impl RunPlace<'_> {
    fn under(
        &self,
        condition: &Condition,
        words: &[OsString],
    ) -> Result<(ProgramExit, Option<Run>)> {
        let (program, arguments) = words.split_first().context("no program")?;
        let plain = || {
            let mut command = Command::new(program);
            command.args(arguments);
            command
        };
        match condition {
            Condition::Unloaded => self.alone(plain()),
            Condition::Spinners => self.beside(vec![self.spinners()?], "the spinners", plain()),
            Condition::Load {
                method,
                pct,
                tuning,
            } => {
                let (cpus, options) = (self.cpus, tuning.options(method).join(" "));
                let verb = format!("load {pct} --pin {cpus} --method {method} {options}");
                self.held(&verb, words)
            }
            Condition::Replay { .. } => bail!("only the experiment `replay` makes replays"),
            Condition::Beside { method, speed } => {
                let node = self.empty_node(method, *speed, &self.cpus.to_string())?;
                self.beside(vec![node], "the node", plain())
            }
            Condition::Apart { method, speed } => {
                let nodes = self.cpus.iter().zip(PERIODS_APART.iter().cycle());
                let nodes = nodes.map(|(cpu, ms)| {
                    self.empty_node(
                        &format!("{method} --period {ms}ms"),
                        *speed,
                        &cpu.to_string(),
                    )
                });
                self.beside(nodes.collect::<Result<_>>()?, "a node", plain())
            }
            Condition::Node { method, speed } => {
                self.held(&format!("slow --speed {speed} --method {method}"), words)
            }
        }
    }

    fn alone(&self, program: Command) -> Result<(ProgramExit, Option<Run>)> {
        let ended = program::run(program, Some(self.cpus), self.limit)?;
        Ok((ended, None))
    }

    /// A condition that ended before its program is an error.
    fn beside(
        &self,
        mut running: Vec<Running>,
        what: &str,
        program: Command,
    ) -> Result<(ProgramExit, Option<Run>)> {
        let ended = self.alone(program)?;
        for one in &mut running {
            if let Some(status) = one.wait(Duration::ZERO)? {
                bail!("{what} ended before the program did, with {status}");
            }
        }
        Ok(ended)
    }

    /// One task per CPU, all of them in one session, as the threads of a program
    /// are, and in another one than the program's, as another user's are.
    fn spinners(&self) -> Result<Running> {
        // The end of the first one ends all. It waits for them, so that their CPU time
        // counts as the lab's.
        const SCRIPT: &str = "all=; trap 'kill -KILL $all; wait; exit' TERM; for cpu; do \
             taskset -c $cpu sh -c 'while :; do :; done' & all=\"$all $!\"; done; wait";
        let mut command = Command::new("sh");
        command
            .args(["-c", SCRIPT, "spinners"])
            .args(self.cpus.iter().map(|cpu| cpu.to_string()))
            .stdin(Stdio::null());
        Running::start(command, Start::session(Signal::SIGTERM))
    }

    /// An empty node, once its speed is held.
    fn empty_node(&self, method: &str, speed: f64, cpus: &str) -> Result<Running> {
        let words = format!("-q slow --no-out --method {method} --speed {speed} --cpus {cpus}");
        let mut command = program::command(self.sandbag, &words);
        command.stdin(Stdio::null());
        let mut node = Running::start(command, Start::default())?;
        if let Some(status) = node.wait(HELD)? {
            bail!("a node by {method} ended at once with {status}");
        }
        Ok(node)
    }

    fn held(&self, verb: &str, words: &[OsString]) -> Result<(ProgramExit, Option<Run>)> {
        let record = self.scratch.join("condition.json");
        let _ = std::fs::remove_file(&record);
        let mut json = OsString::from("--json=");
        json.push(&record);
        let (timeout, cpus) = (self.limit.as_millis(), self.cpus);
        let options = format!("-q {verb} --cpus {cpus} --no-out --as-root --timeout {timeout}ms");
        let mut command = program::command(self.sandbag, &options);
        command.arg(json).arg("--").args(words);
        let mut ended = program::run(command, None, self.limit + AROUND)?;
        let run = std::fs::read(&record)
            .ok()
            .and_then(|bytes| serde_json::from_slice::<Run>(&bytes).ok());
        // The exit code of sandbag's own time limit.
        const TIMED_OUT: i32 = 124;
        ended.status = ended
            .status
            .filter(|status| status.code() != Some(TIMED_OUT));
        ensure!(
            run.is_some() || !ended.status.is_some_and(|status| status.success()),
            "sandbag left no record of its run"
        );
        // The program's own time, without what holding the condition took.
        if let Some(command) = run.as_ref().and_then(|run| run.command.as_ref()) {
            ended.seconds = command.wall_s;
        }
        Ok((ended, run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_is_an_error_with_its_words() {
        let dir = tempfile::tempdir().unwrap();
        let place = RunPlace {
            sandbag: Path::new("/no/sandbag"),
            cpus: &CpuList::from_iter([0]),
            scratch: dir.path(),
            limit: Duration::from_secs(10),
        };
        let words = ["sh", "-c", "echo no good >&2; exit 1"].map(OsString::from);
        let error = place.meet(&Condition::Unloaded, &words).unwrap_err();
        assert!(error.to_string().contains("no good"), "{error}");
        let slow = ["sleep", "100"].map(OsString::from);
        let place = RunPlace {
            limit: Duration::from_millis(100),
            ..place
        };
        assert!(
            place
                .meet(&Condition::Spinners, &slow)
                .unwrap()
                .ended
                .status
                .is_none()
        );
    }
}
