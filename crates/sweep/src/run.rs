// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One run: `sandbag load`, `replay` or `slow` with the program, in a process of its own.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{IsTerminal as _, Read as _, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sandbag_linux::child::{ChildSetup as _, end_or_kill, ended_within};
use sandbag_linux::interrupt;
use sandbag_run::directory::create;
use sandbag_stats::Verdict;
use sandbag_ui::failure::{Context as _, Result};
use sandbag_ui::output::{RUN_JSON, give_to_caller};
use sandbag_ui::{bail, exit};
use serde::Deserialize;

use crate::condition::Condition;
use crate::metric::{EXIT, FAILED, cpu_number};

/// What the program printed, in the directory of its run.
pub const STDOUT: &str = "stdout.txt";
pub const STDERR: &str = "stderr.txt";
/// The end of the output, in which numbers are looked for, bytes.
const MOST_OUTPUT: u64 = 4 << 20;
/// A run has no end of ours.
const LONG: Duration = Duration::from_secs(u32::MAX as u64);

/// What came of a run.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Finished {
    verdict: Option<Verdict>,
    #[serde(default)]
    pub reason: String,
    #[serde(default)]
    pub warnings: Vec<String>,
    command: Option<FinishedCommand>,
    #[serde(default)]
    cpus: Vec<FinishedCpu>,
    /// `--timeout` ended the program, whatever it made of that.
    #[serde(skip)]
    pub timed_out: bool,
    #[serde(skip)]
    pub stdout: String,
    #[serde(skip)]
    pub stderr: String,
}

/// Of run.json (docs/reference/run-json.md).
#[derive(Debug, Clone, Default, Deserialize)]
struct FinishedCommand {
    exit_code: Option<i32>,
    signal: Option<i32>,
    wall_s: f64,
    user_s: f64,
    system_s: f64,
    available_s: Option<f64>,
    efficiency: Option<f64>,
    max_rss_kib: Option<i64>,
    switches: (i64, i64),
}

/// One of the loaded CPUs.
#[derive(Debug, Clone, Default, Deserialize)]
struct FinishedCpu {
    cpu: u32,
    #[serde(default)]
    command_s: Option<f64>,
}

impl Finished {
    pub fn verdict(&self) -> Verdict {
        self.verdict.unwrap_or(Verdict::Undecided)
    }

    /// Exit code and signal of the program.
    pub fn end(&self) -> (Option<i32>, Option<i32>) {
        let command = self.command.as_ref();
        command.map_or((None, None), |one| (one.exit_code, one.signal))
    }

    pub fn is_success(&self) -> bool {
        self.end().0 == Some(0) && !self.timed_out
    }

    /// With the exit code of sandbag: no other value says that its time limit came.
    fn ended_with(mut self, code: Option<i32>) -> Self {
        let limit = Some(i32::from(exit::TIMED_OUT));
        // A program may end with this code by itself.
        self.timed_out = code == limit && self.end().0 != limit;
        self
    }

    /// One of sandbag's own metrics.
    pub fn own(&self, name: &str) -> Option<f64> {
        if name == FAILED {
            return Some(f64::from(u8::from(!self.is_success())));
        }
        let command = self.command.as_ref()?;
        if let Some(number) = cpu_number(name) {
            return self.cpus.iter().find(|cpu| cpu.cpu == number)?.command_s;
        }
        Some(match name {
            "wall" => command.wall_s,
            "user" => command.user_s,
            "system" => command.system_s,
            "cpu" => command.user_s + command.system_s,
            "available" => command.available_s?,
            "efficiency" => command.efficiency?,
            EXIT => f64::from(exit::of_command(command.exit_code, command.signal)),
            "rss" => command.max_rss_kib? as f64,
            "switches" => (command.switches.0 + command.switches.1) as f64,
            _ => return None,
        })
    }
}

/// The words for sandbag, up to the program's.
fn words(condition: &Condition, more: &[String]) -> Vec<OsString> {
    let own = condition.words.iter().chain(more);
    own.map(OsString::from).collect()
}

const KILL: &str = "--kill";

/// Options that are for runs with a command only.
fn needs_command(word: &str) -> bool {
    word == KILL || word.starts_with("--pin=")
}

/// Whether this condition can be had for this program; nothing is changed.
///
/// # Errors
/// It cannot, with what sandbag says.
pub fn check(condition: &Condition, more: &[String], command: &[OsString]) -> Result<()> {
    let mut sandbag = Command::new("/proc/self/exe");
    sandbag
        .arg0("sandbag")
        .arg("-q")
        .args(words(condition, more));
    sandbag.args(["--no-out", "--dry-run", "--"]).args(command);
    let asked = sandbag.output().context("start sandbag")?;
    if asked.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&asked.stderr);
    let line = said.lines().next().unwrap_or_default();
    let line = line
        .trim_start_matches("sandbag: ")
        .trim_start_matches("error: ");
    let text = format!("condition {}: {line}", condition.name);
    // With a command the exit code does not tell them apart.
    let more = more.iter().filter(|word| !needs_command(word));
    let more: Vec<String> = more.cloned().collect();
    let mut without = Command::new("/proc/self/exe");
    without
        .arg0("sandbag")
        .arg("-q")
        .args(words(condition, &more));
    without.args(["--no-out", "--dry-run"]);
    let code = without.output().context("start sandbag")?.status.code();
    if code == Some(exit::NOT_POSSIBLE.into()) {
        return Err(sandbag_ui::NotPossible(text).into());
    }
    Err(sandbag_ui::BadInput(text).into())
}

/// Makes a run; its directory is `dir`.
///
/// # Errors
/// There is no result, or a signal came.
pub fn make(
    condition: &Condition,
    more: &[String],
    command: &[OsString],
    dir: &Path,
) -> Result<Finished> {
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let (out, err) = (create(&dir.join(STDOUT))?, create(&dir.join(STDERR))?);
    for path in [dir.to_owned(), dir.join(STDOUT), dir.join(STDERR)] {
        give_to_caller(&path);
    }
    let mut sandbag = Command::new("/proc/self/exe");
    sandbag
        .arg0("sandbag")
        .arg("-q")
        .args(words(condition, more));
    // What does not end with its run when it is asked to would go on without its condition.
    let kill = (!more.iter().any(|word| word == KILL)).then_some(KILL);
    sandbag
        .args(["--force", "--out"])
        .arg(dir)
        .args(kill)
        .arg("--")
        .args(command);
    sandbag.stdin(Stdio::null()).stdout(out).stderr(err);
    let mut child = sandbag
        .program_dies_with_us(libc::SIGTERM)
        .spawn()
        .context("start sandbag")?;
    let ended = |child: &mut std::process::Child| child.try_wait().is_ok_and(|end| end.is_some());
    let waited = interrupt::wait_for(Instant::now() + LONG, || ended(&mut child));
    if let Err(error) = waited {
        end(&mut child);
        return Err(error.into());
    }
    let status = child.wait().context("wait")?;
    let text = fs::read(dir.join(RUN_JSON)).unwrap_or_default();
    let stderr = tail(&dir.join(STDERR));
    let read = serde_json::from_slice::<Finished>(&text);
    match read {
        Ok(finished) if finished.command.is_some() => Ok(Finished {
            stdout: tail(&dir.join(STDOUT)),
            stderr,
            ..finished.ended_with(status.code())
        }),
        _ => {
            let code = status.code().map_or(exit::FAILED.into(), i64::from);
            // Where its disk is full, so is that of its words.
            let said = stderr.lines().last();
            bail!(
                "{} left no result (exit code {code}): {}",
                dir.display(),
                said.unwrap_or("nothing was written; is the disk full?")
            )
        }
    }
}

/// What a run may take to end by itself, where a terminal has asked it already.
const ASKED: Duration = Duration::from_secs(2);
/// What it may take when it was asked, before it is killed; its guardian restores then.
const GRACE: Duration = Duration::from_secs(10);

/// Ends a run. A shell's job in the background ignores SIGINT, and from a terminal a second
/// signal would cut the program's own end short.
fn end(child: &mut Child) {
    if std::io::stdin().is_terminal() {
        if ended_within(child, ASKED) {
            return;
        }
        // The terminal may not have asked it. Where it did, this is taken for a copy, and the
        // next one ends the run with its program.
        let _ = kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM);
        if ended_within(child, GRACE - ASKED) {
            return;
        }
    }
    end_or_kill(child, GRACE);
}

/// The end of a file, as text.
fn tail(path: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(MOST_OUTPUT)))?;
        let mut bytes = Vec::new();
        file.take(MOST_OUTPUT).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args as _;
    use sandbag_load::command::run::options::RunOptions;

    #[test]
    fn a_record_has_the_own_metrics() {
        let text = r#"{"format": 1, "verdict": "kept", "reason": "as asked", "command":
            {"exit_code": 3, "signal": null, "wall_s": 2.5, "user_s": 1.0, "system_s": 0.5,
             "efficiency": null, "max_rss_kib": 1024, "switches": [3, 4]},
            "cpus": [{"cpu": 1, "command_s": 0.75}, {"cpu": 3}]}"#;
        let run: Finished = serde_json::from_str(text).unwrap();
        let own = |name| run.own(name);
        assert_eq!(
            ["wall", "cpu", "rss"].map(own),
            [Some(2.5), Some(1.5), Some(1024.0)]
        );
        assert_eq!(["switches", "failed"].map(own), [Some(7.0), Some(1.0)]);
        assert_eq!(
            ["exit", "cpu1", "cpu3"].map(own),
            [Some(3.0), Some(0.75), None]
        );
        assert_eq!((own("efficiency"), own("other")), (None, None));
        assert_eq!((run.verdict(), run.end()), (Verdict::Kept, (Some(3), None)));
    }

    #[test]
    fn a_program_that_the_time_limit_ended_has_failed() {
        let run = |program: u8, code: i32| -> Finished {
            let text = format!(
                r#"{{"command": {{"exit_code": {program}, "wall_s": 1, "user_s": 0, "system_s": 0,
                    "switches": [0, 0]}}}}"#
            );
            let run: Finished = serde_json::from_str(&text).unwrap();
            run.ended_with(Some(code))
        };
        let said = |run: Finished| (run.is_success(), run.timed_out, run.own(FAILED));
        assert_eq!(said(run(0, 0)), (true, false, Some(0.0)));
        // It ended well when it was asked to end.
        assert_eq!(said(run(0, 124)), (false, true, Some(1.0)));
        assert_eq!(said(run(124, 124)), (false, false, Some(1.0)));
    }

    /// As clap reads the options of a load.
    #[test]
    fn options_for_a_command_are_known() {
        let takes = |words: &[&str]| {
            let load = RunOptions::augment_args(clap::Command::new("load").no_binary_name(true));
            load.try_get_matches_from(words).is_ok()
        };
        let all = [
            "--kill",
            "--pin=0",
            "--no-settle",
            "--timeout=5s",
            "--as-root",
        ];
        for word in all {
            assert!(takes(&[word, "--", "true"]), "{word}");
            assert_eq!(takes(&[word]), !needs_command(word), "{word}");
        }
    }

    #[test]
    fn of_a_long_output_the_end_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        fs::write(&path, vec![b'a'; 5 << 20]).unwrap();
        assert_eq!(tail(&path).len() as u64, MOST_OUTPUT);
        assert_eq!(tail(&dir.path().join("y")), "");
    }
}
