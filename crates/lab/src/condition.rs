// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What shares the CPUs with a program, or slows it.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use sandbag_kernel::CpuList;
use sandbag_report::Run;
use serde::{Deserialize, Serialize};

use crate::program::{self, Ended, Running};

/// Until a load or speed is held, and for the end: on top of a program's own
/// time limit.
const AROUND: Duration = Duration::from_secs(20);

/// A node holds its speed after this; it says so to nobody but its clients.
const HELD: Duration = Duration::from_secs(2);

/// Conditions of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// Nothing.
    Unloaded,
    /// An ordinary task on each CPU that never sleeps: what a real competitor
    /// does.
    Spinners,
    /// `sandbag load`, all CPUs.
    Load {
        /// The method.
        method: String,
        /// The load, percent.
        pct: f64,
        /// The method's period, ms; its own if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        period_ms: Option<f64>,
    },
    /// `sandbag replay` of a profile.
    Replay {
        /// Its path.
        profile: String,
    },
    /// `sandbag slow` with nothing in the node; the program runs outside it,
    /// on the same CPUs.
    Beside {
        /// The method.
        method: String,
        /// The speed.
        speed: f64,
    },
    /// `sandbag slow`: the program is in the node.
    Node {
        /// The method.
        method: String,
        /// The speed.
        speed: f64,
    },
}

impl Condition {
    /// A load with the method's own period.
    #[must_use]
    pub fn load(method: &str, pct: f64) -> Self {
        Self::Load {
            method: method.to_owned(),
            pct,
            period_ms: None,
        }
    }

    /// As it is called in tables.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Unloaded => "nothing".to_owned(),
            Self::Spinners => "a spinner per CPU".to_owned(),
            Self::Load {
                method,
                pct,
                period_ms: None,
            } => format!("{pct} % by {method}"),
            Self::Load {
                method,
                pct,
                period_ms: Some(ms),
            } => format!("{pct} % by {method}, period {ms} ms"),
            Self::Replay { profile } => format!("replay of {profile}"),
            Self::Beside { method, speed } => {
                format!("beside an empty node of speed {speed} by {method}")
            }
            Self::Node { method, speed } => format!("speed {speed} by {method}"),
        }
    }
}

/// A program that ran under a condition.
#[derive(Debug)]
pub struct Met {
    /// The program.
    pub ended: Ended,
    /// What sandbag recorded, where it made the condition.
    pub run: Option<Run>,
}

/// What programs are run with.
#[derive(Debug)]
pub struct Place<'a> {
    /// The sandbag under test.
    pub sandbag: &'a Path,
    /// The CPUs of the program and of the condition.
    pub cpus: &'a CpuList,
    /// A directory for files of the moment.
    pub scratch: &'a Path,
    /// What a program may take.
    pub limit: Duration,
}

impl Place<'_> {
    /// Runs a program under a condition.
    ///
    /// # Errors
    /// The condition or the program could not be started, or failed.
    pub fn meet(&self, condition: &Condition, words: &[OsString]) -> Result<Met> {
        let (program, arguments) = words.split_first().context("no program")?;
        let plain = || {
            let mut command = Command::new(program);
            command.args(arguments);
            command
        };
        let met = match condition {
            Condition::Unloaded => Met {
                ended: program::run(plain(), Some(self.cpus), self.limit)?,
                run: None,
            },
            Condition::Spinners => {
                let mut spinners = self.spinners()?;
                let ended = program::run(plain(), Some(self.cpus), self.limit)?;
                there(&mut spinners, "the spinners")?;
                Met { ended, run: None }
            }
            Condition::Load {
                method,
                pct,
                period_ms,
            } => {
                let (load, cpus) = (pct.to_string(), self.cpus.to_string());
                let period = period_ms.map(|ms| format!("--period={ms}ms"));
                let mut verb = vec!["load", &load, "--pin", &cpus, "--method", method];
                verb.extend(period.as_deref());
                self.held(&verb, words)?
            }
            Condition::Replay { profile } => self.held(&["replay", profile], words)?,
            Condition::Beside { method, speed } => {
                let mut node = self.empty_node(method, *speed)?;
                let ended = program::run(plain(), Some(self.cpus), self.limit)?;
                there(&mut node, "the node")?;
                Met { ended, run: None }
            }
            Condition::Node { method, speed } => {
                let speed = speed.to_string();
                self.held(&["slow", "--speed", &speed, "--method", method], words)?
            }
        };
        if let Some(status) = met.ended.status
            && !status.success()
        {
            bail!(
                "{} under {} ended with {status}: {}",
                program.display(),
                condition.name(),
                met.ended.last_words()
            );
        }
        Ok(met)
    }

    /// One task per CPU, all of them in one session, as the threads of a program
    /// are, and in another one than the program's, as another user's are.
    fn spinners(&self) -> Result<Running> {
        // Whoever ends the first one ends all.
        const SCRIPT: &str = "trap 'kill -KILL 0' TERM; for cpu; do \
             taskset -c $cpu sh -c 'while :; do :; done' & done; wait";
        let mut command = Command::new("sh");
        command
            .args(["-c", SCRIPT, "spinners"])
            .args(self.cpus.iter().map(|cpu| cpu.to_string()))
            .stdin(Stdio::null());
        Running::start_session(command)
    }

    /// A node that slows nobody yet, once its speed is held.
    fn empty_node(&self, method: &str, speed: f64) -> Result<Running> {
        let mut command = Command::new(self.sandbag);
        command
            .args(["-q", "slow", "--no-out", "--method", method])
            .args(["--speed", &speed.to_string()])
            .args(["--cpus", &self.cpus.to_string()])
            .stdin(Stdio::null());
        let mut node = Running::start(command, None)?;
        if let Some(status) = node.wait(HELD)? {
            bail!("a node by {method} ended at once with {status}");
        }
        Ok(node)
    }

    fn held(&self, verb: &[&str], words: &[OsString]) -> Result<Met> {
        let record = self.scratch.join("condition.json");
        let _ = std::fs::remove_file(&record);
        let mut json = OsString::from("--json=");
        json.push(&record);
        let timeout = format!("{}ms", self.limit.as_millis());
        let mut command = Command::new(self.sandbag);
        command
            .arg("-q")
            .args(verb)
            .args(["--cpus", &self.cpus.to_string()])
            .args(["--no-out", "--as-root", "--timeout", &timeout])
            .arg(json)
            .arg("--")
            .args(words);
        let mut ended = program::run(command, None, self.limit + AROUND)?;
        let run = std::fs::read(&record)
            .ok()
            .and_then(|bytes| serde_json::from_slice::<Run>(&bytes).ok());
        // sandbag's own time limit (see its exit codes).
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
        Ok(Met { ended, run })
    }
}

/// A condition that was over before its program was none.
fn there(running: &mut Running, what: &str) -> Result<()> {
    match running.wait(Duration::ZERO)? {
        None => Ok(()),
        Some(status) => bail!("{what} ended before the program did, with {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_back_as_they_were_written() {
        for condition in [
            Condition::Unloaded,
            Condition::Node {
                method: "hogs".to_owned(),
                speed: 0.3,
            },
        ] {
            let text = serde_json::to_string(&condition).unwrap();
            assert_eq!(serde_json::from_str::<Condition>(&text).unwrap(), condition);
        }
    }

    #[test]
    fn a_program_that_fails_is_an_error_with_its_words() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place {
            sandbag: Path::new("/no/sandbag"),
            cpus: &CpuList::from_iter([0]),
            scratch: dir.path(),
            limit: Duration::from_secs(10),
        };
        let words = ["sh", "-c", "echo no good >&2; exit 1"].map(OsString::from);
        let error = place.meet(&Condition::Unloaded, &words).unwrap_err();
        assert!(error.to_string().contains("no good"), "{error}");
        let slow = ["sleep", "100"].map(OsString::from);
        let place = Place {
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
