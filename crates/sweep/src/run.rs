// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One run: `sandbag load`, `replay` or `slow` with the program, in a process of its own.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sandbag_input::{Existing, NewFile, is_full};
use sandbag_linux::child::{ChildSetup as _, end_or_kill, ended_within};
use sandbag_linux::interrupt;
use sandbag_run::directory::{create, remove_result};
use sandbag_run::error::LOADED;
use sandbag_ui::failure::{Context as _, Result};
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{RUN_JSON, give_to_caller};
use sandbag_ui::{bail, exit};

use crate::condition::Condition;
use crate::finished::Finished;

/// What the program printed, in the directory of its run.
pub const STDOUT: &str = "stdout.txt";
pub const STDERR: &str = "stderr.txt";
/// The end of the output, in which numbers are looked for, bytes.
const MOST_OUTPUT: u64 = 4 << 20;
/// A run has no end of ours.
pub const LONG: Duration = Duration::from_secs(u32::MAX as u64);
/// How long a run waits for CPUs that another run has.
const PATIENCE: Duration = Duration::from_secs(300);
/// How often it tries to begin meanwhile.
const AGAIN: Duration = Duration::from_millis(500);

/// What a try to make a run came to.
enum Tried {
    Finished(Box<Finished>),
    /// Another run has its CPUs, with what sandbag says.
    Busy(String),
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

/// Makes a run; its directory is `dir`. CPUs that another run has are waited for.
///
/// # Errors
/// There is no result, the run was ended from outside, or a signal came.
pub fn make(
    condition: &Condition,
    more: &[String],
    command: &[OsString],
    dir: &Path,
    messages: &Messages,
) -> Result<Finished> {
    let begin = Instant::now();
    let mut waited = Duration::ZERO;
    loop {
        let busy = match once(condition, more, command, dir)? {
            Tried::Finished(mut finished) => {
                finished.waited = waited;
                return Ok(*finished);
            }
            Tried::Busy(busy) => format!("{}: {busy}", dir.display()),
        };
        if waited >= PATIENCE {
            bail!("{busy}; waited for {} s", PATIENCE.as_secs());
        }
        if waited.is_zero() {
            messages.say(&format!("{busy}; waits for up to {} s", PATIENCE.as_secs()));
        }
        interrupt::sleep_until(Instant::now() + AGAIN)?;
        waited = begin.elapsed();
    }
}

/// Tries to make a run.
fn once(condition: &Condition, more: &[String], command: &[OsString], dir: &Path) -> Result<Tried> {
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let (out, err) = (create(&dir.join(STDOUT))?, create(&dir.join(STDERR))?);
    for path in [dir.to_owned(), dir.join(STDOUT), dir.join(STDERR)] {
        give_to_caller(&path);
    }
    // Where this one does not begin it would be taken for its own.
    remove_result(&dir.join(RUN_JSON));
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
    Ok(match result(&text, status, &stderr, dir)? {
        Tried::Finished(mut finished) => {
            (finished.stdout, finished.stderr) = (tail(&dir.join(STDOUT)), stderr);
            Tried::Finished(finished)
        }
        busy => busy,
    })
}

/// What a run.json and the end of sandbag say.
fn result(run_json: &[u8], status: ExitStatus, stderr: &str, dir: &Path) -> Result<Tried> {
    let code = status.code();
    let read: Finished = serde_json::from_slice(run_json).unwrap_or_default();
    let is_ended = match &read.command {
        Some(command) => command.asked_to_end,
        // Before its program began, or a second time.
        None => code == Some(exit::INTERRUPTED.into()),
    };
    if is_ended {
        bail!(
            "{} was ended from outside (by sandbag stop, or a signal): it does not count",
            dir.display()
        );
    }
    if read.command.is_some() {
        let finished = read.ended_with(code).judged();
        return Ok(Tried::Finished(Box::new(finished)));
    }
    if let Some(error) = read.error.filter(|error| error.message.contains(LOADED)) {
        return Ok(Tried::Busy(error.message));
    }
    let why = match status.signal() {
        // It could not say anything.
        Some(signal) => format!("its sandbag was ended by signal {signal}"),
        None => {
            // Where its disk is full, so is that of its words.
            let said = if lacks_room(NewFile::create(&dir.join(RUN_JSON), Existing::Replace)) {
                "its disk is full: make room, or name a directory on another one"
            } else {
                stderr.lines().last().unwrap_or("nothing was written")
            };
            format!("exit code {}: {said}", code.unwrap_or_default())
        }
    };
    bail!("{} left no result ({why})", dir.display())
}

/// Whether there is no room for a record.
fn lacks_room(file: io::Result<impl Write>) -> bool {
    /// Bytes, more than most records have.
    const RECORD: usize = 1 << 16;
    let written = file.and_then(|mut file| file.write_all(&vec![0; RECORD]));
    written.is_err_and(|error| is_full(&error))
}

/// What a run may take to end by itself, where a terminal has asked it already.
const ASKED: Duration = Duration::from_secs(2);
/// What it may take when it was asked, before it is killed; its guardian restores then.
pub const GRACE: Duration = Duration::from_secs(10);

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
    let read = || -> io::Result<Vec<u8>> {
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
    use sandbag_load::report::run::LOAD_SET;
    use sandbag_stats::Verdict;

    /// What comes of a run.json whose program ended with `exit_code`.
    fn tried(command: &str, others: &str, code: i32) -> Result<Tried> {
        let text = format!(
            r#"{{"verdict": "kept", "reason": "as asked", "command": {{"exit_code": 0,
                "wall_s": 700, "user_s": 0, "system_s": 0, "switches": [0, 0] {command}}}
                {others}}}"#
        );
        result(text.as_bytes(), ended(code), "", Path::new("run-007"))
    }

    fn ended(code: i32) -> ExitStatus {
        ExitStatus::from_raw(code << 8)
    }

    #[test]
    fn a_run_that_was_ended_from_outside_is_no_result() {
        let is_ended =
            |tried: Result<Tried>| tried.is_err_and(|error| error.line().contains("outside"));
        // A program that ends itself by the same signal has failed.
        assert!(tried(r#", "signal": 15"#, "", 143).is_ok());
        assert!(is_ended(tried(
            r#", "signal": 15, "asked_to_end": true"#,
            "",
            143
        )));
        assert!(is_ended(tried(r#", "asked_to_end": true"#, "", 0)));
        // Before the program began.
        let none = result(
            br#"{"command": null}"#,
            ended(130),
            "",
            Path::new("run-007"),
        );
        assert!(is_ended(none));
        assert!(!is_ended(result(b"", ended(125), "", Path::new("run-007"))));
    }

    #[test]
    fn what_was_changed_while_it_went_on_is_undecided() {
        let judged = |others: &str| match tried("", others, 0) {
            Ok(Tried::Finished(run)) => (run.verdict(), run.reason),
            _ => panic!("{others}"),
        };
        let kept = (Verdict::Kept, "as asked".to_owned());
        assert_eq!(judged(""), kept);
        assert_eq!(
            judged(r#", "paused_s": 0, "node": {"speed_changes": 0}"#),
            kept
        );
        let set = format!(r#", "warnings": ["{LOAD_SET}1.0 s: load 90 % from then on"]"#);
        for (others, why) in [
            (r#", "paused_s": 600"#, "the run was paused for 600.0 s"),
            (&set, "load 90 % from then on"),
            (r#", "node": {"speed_changes": 1}"#, "the speed was changed"),
        ] {
            let (verdict, reason) = judged(others);
            assert_eq!(verdict, Verdict::Undecided, "{others}");
            assert!(reason.contains(why), "{reason}");
        }
    }

    #[test]
    fn cpus_of_another_run_are_no_failure() {
        let tried = |message: &str| {
            let text =
                format!(r#"{{"error": {{"kind": "not-possible", "message": "{message}"}}}}"#);
            result(text.as_bytes(), ended(125), "", Path::new("run-007"))
        };
        let cpus = [1].into_iter().collect();
        let busy = sandbag_run::Error::Busy { pid: 7, cpus }.to_string();
        assert!(matches!(tried(&busy), Ok(Tried::Busy(said)) if said == busy));
        assert!(tried("CPU 1 is offline").is_err());
    }

    #[test]
    fn a_run_without_a_result_says_why() {
        let place = tempfile::tempdir().unwrap();
        let why = |status, stderr| {
            let tried = result(b"", status, stderr, place.path());
            tried.err().unwrap().line()
        };
        let killed = why(ExitStatus::from_raw(libc::SIGKILL), "the program's words");
        assert!(
            killed.ends_with("(its sandbag was ended by signal 9)"),
            "{killed}"
        );
        let said = why(ended(125), "before\nthe last words");
        assert!(said.ends_with("(exit code 125: the last words)"), "{said}");
        let nothing = why(ended(125), "");
        assert!(nothing.contains("nothing was written"), "{nothing}");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        assert!(lacks_room(File::options().write(true).open("/dev/full")));
    }

    /// This test program does not know the options of a load, and fails.
    #[test]
    fn a_result_of_before_is_not_that_of_a_run_that_never_began() {
        let dir = tempfile::tempdir().unwrap();
        let before = r#"{"verdict": "kept", "command": {"exit_code": 0, "wall_s": 1, "user_s": 0,
            "system_s": 0, "switches": [0, 0]}}"#;
        fs::write(dir.path().join(RUN_JSON), before).unwrap();
        let condition = Condition {
            name: "30".to_owned(),
            words: vec!["load".to_owned(), "30".to_owned()],
        };
        let messages = Messages::new(true, 0);
        let made = make(&condition, &[], &["true".into()], dir.path(), &messages);
        let error = made.unwrap_err().line();
        assert!(error.contains("left no result"), "{error}");
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
