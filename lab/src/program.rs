// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that an experiment starts, each with a time limit, none of which
//! outlives it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use sandbag_linux::child::ChildSetup as _;
use sandbag_linux::pidfd::PidFd;
use sandbag_linux::{CpuList, child, interrupt, sched};
use sandbag_run::program::on_path;

/// How often we look whether we were asked to end.
const POLL: Duration = Duration::from_millis(50);
/// What a program may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(10);
/// Of what a program says, the end is kept in messages.
const SAID: usize = 2000;

/// A program with words as arguments, which are separated by spaces.
pub fn command(program: impl AsRef<OsStr>, words: &str) -> Command {
    let mut command = Command::new(program);
    command.args(words.split_whitespace());
    command
}

/// This program, and the sandbag that it measures.
#[derive(Debug)]
pub struct Programs {
    /// For the processes that this one starts of itself.
    pub own: PathBuf,
    pub sandbag: PathBuf,
}

impl Programs {
    /// The sandbag that was named, or the one beside this program, or in PATH.
    pub fn find(sandbag: Option<&Path>) -> Result<Self> {
        let own = std::env::current_exe().context("find this program")?;
        let beside = own.with_file_name("sandbag");
        let sandbag = match sandbag {
            Some(path) => path.to_owned(),
            None if beside.exists() => beside,
            None => on_path("sandbag").unwrap_or(beside),
        };
        let sandbag = sandbag
            .canonicalize()
            .with_context(|| format!("find {}", sandbag.display()))?;
        Ok(Self { own, sandbag })
    }
}

/// A program that has ended, by itself or by us.
#[derive(Debug)]
pub struct ProgramExit {
    pub status: Option<ExitStatus>,
    /// Wall time from its start, seconds.
    pub seconds: f64,
    pub out: String,
    pub err: String,
}

impl ProgramExit {
    /// The end of what it said, for messages.
    pub fn last_words(&self) -> String {
        let text = if self.err.trim().is_empty() {
            self.out.trim()
        } else {
            self.err.trim()
        };
        let skip = text.chars().count().saturating_sub(SAID);
        text.chars().skip(skip).collect()
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    /// On these CPUs; on all that we may use, if none are named.
    pub cpus: Option<&'a CpuList>,
    /// In a session of its own, not only in a process group. With autogroup
    /// (sched(7)) each session has the weight of one task, however many it has:
    /// this is how a program of another user's session competes.
    pub session: bool,
    /// Signal that the kernel sends it if the calling thread dies.
    pub if_we_die: Signal,
    /// A file that takes its writer into a control group.
    pub entrance: Option<&'a Path>,
}

impl Default for Start<'_> {
    fn default() -> Self {
        Self {
            cpus: None,
            session: false,
            if_we_die: Signal::SIGTERM,
            entrance: None,
        }
    }
}

impl Start<'_> {
    pub fn session(if_we_die: Signal) -> Self {
        Self {
            session: true,
            if_we_die,
            ..Self::default()
        }
    }
}

/// A child in a process group of its own, deaf to the terminal's Ctrl-C, which
/// reaches it through us; the kernel ends it should we die, and dropping it ends
/// the whole group.
#[derive(Debug)]
pub struct Running {
    child: Child,
    done: Option<ExitStatus>,
}

impl Running {
    pub fn start(mut command: Command, how: Start<'_>) -> Result<Self> {
        let Start {
            session, if_we_die, ..
        } = how;
        let cpus = how.cpus.cloned();
        let entrance = how
            .entrance
            .map(|path| {
                let file = File::options().write(true).open(path);
                file.with_context(|| format!("open {}", path.display()))
            })
            .transpose()?;
        if session {
            command.own_session();
        } else {
            command.process_group(0);
        }
        command.die_with_us(if_we_die as i32);
        // SAFETY: system calls on values made before the fork.
        unsafe {
            command.pre_exec(move || {
                if let Some(mut file) = entrance.as_ref() {
                    file.write_all(b"0")?;
                }
                match &cpus {
                    Some(cpus) => sched::set_affinity(0, cpus).map_err(std::io::Error::other),
                    None => Ok(()),
                }
            });
        }
        let child = command
            .spawn()
            .with_context(|| format!("start {}", command.get_program().display()))?;
        Ok(Self { child, done: None })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended; asks without waiting.
    pub fn has_ended(&mut self) -> bool {
        if self.done.is_none() {
            self.done = self.child.try_wait().ok().flatten();
        }
        self.done.is_some()
    }

    /// Waits for its end; `None` if it still runs after `limit`.
    pub fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        if self.done.is_some() {
            return Ok(self.done);
        }
        let until = Instant::now() + limit;
        // Its time is that of its end, not of our next look.
        let process = PidFd::open(self.id())?;
        while self.done.is_none() {
            let rest = until.saturating_duration_since(Instant::now());
            process.ends_within(rest.min(POLL));
            self.done = self.child.try_wait().context("wait for a program")?;
            if rest.is_zero() {
                break;
            }
            interrupt::check()?;
        }
        Ok(self.done)
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.done.is_none() {
            let _ = kill(self.pid(), Signal::SIGTERM);
            let begin = Instant::now();
            while let Ok(None) = self.child.try_wait() {
                if begin.elapsed() > GRACE {
                    let _ = self.child.kill();
                    let _ = self.child.wait();
                    break;
                }
                std::thread::sleep(POLL);
            }
        }
        // What it left of its group.
        let _ = killpg(self.pid(), Signal::SIGKILL);
    }
}

/// Runs a program to its end, or ends it after `limit`.
pub fn run(command: Command, cpus: Option<&CpuList>, limit: Duration) -> Result<ProgramExit> {
    let how = Start {
        cpus,
        ..Start::default()
    };
    run_as(command, how, limit)
}

/// A file that sandbag makes, whose name follows these words; one that is there stays. It gets
/// its name when it is whole, so that one that was interrupted is made again.
pub fn make_file(sandbag: &Path, words: &str, path: &Path, limit: Duration) -> Result<()> {
    if path.is_file() {
        return Ok(());
    }
    let new = path.with_extension("new");
    let mut command = command(sandbag, words);
    command.arg(&new);
    let ended = run(command, None, limit)?;
    ensure!(
        ended.status.is_some_and(|status| status.success()),
        "{words}: {}",
        ended.last_words()
    );
    std::fs::rename(&new, path).with_context(|| path.display().to_string())
}

/// The same of a program that is started in another way.
pub fn run_as(mut command: Command, how: Start<'_>, limit: Duration) -> Result<ProgramExit> {
    // Files, not pipes, which would have to be read while it runs.
    let (mut out, mut err) = (scratch()?, scratch()?);
    command
        .stdin(Stdio::null())
        .stdout(out.try_clone().context("its output")?)
        .stderr(err.try_clone().context("its output")?);
    // Returns once it is executed.
    let mut running = Running::start(command, how)?;
    let begin = Instant::now();
    let status = running.wait(limit)?;
    let seconds = begin.elapsed().as_secs_f64();
    drop(running);
    Ok(ProgramExit {
        status,
        seconds,
        out: text(&mut out)?,
        err: text(&mut err)?,
    })
}

fn scratch() -> Result<File> {
    tempfile::tempfile().context("a temporary file for a program's output")
}

fn text(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()
        .and_then(|()| file.read_to_end(&mut bytes))
        .context("read a program's output")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What a run took of time and memory.
#[derive(Debug, Clone, Copy)]
pub struct RunCost {
    pub wall_s: f64,
    /// CPU time of the process and of its children that it waited for, seconds.
    pub cpu_s: f64,
    pub most_mib: f64,
}

/// Runs a program to its end, without its standard output.
pub fn run_cost(command: &mut Command) -> Result<RunCost> {
    let name = command.get_program().display().to_string();
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.die_with_us(libc::SIGTERM);
    let begin = Instant::now();
    let child = command.spawn().with_context(|| format!("start {name}"))?;
    let ended = child::reap(Some(child.id())).with_context(|| format!("wait for {name}"))?;
    ensure!(ended.status.success(), "{name}: {}", ended.status);
    Ok(RunCost {
        wall_s: begin.elapsed().as_secs_f64(),
        cpu_s: (ended.user() + ended.system()).as_secs_f64(),
        most_mib: ended.usage.ru_maxrss as f64 / 1024.0,
    })
}

pub fn is_there(name: &str) -> bool {
    on_path(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patience::repeat_until;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn what_a_program_says_is_kept() {
        let ended = run(shell("echo out; echo err >&2; exit 3"), None, LIMIT).unwrap();
        assert_eq!((ended.out.as_str(), ended.err.as_str()), ("out\n", "err\n"));
        assert_eq!(ended.status.unwrap().code(), Some(3));
        assert_eq!(ended.last_words(), "err");
    }

    #[test]
    fn a_program_that_takes_too_long_is_ended_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pid");
        let script = format!("sleep 300 & echo $! > {}; wait", file.display());
        let ended_after = |limit: Duration| {
            let ended = run(shell(&script), None, limit).unwrap();
            assert!(ended.status.is_none());
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            text.trim().parse().ok()
        };
        // Again, longer, where the shell did not have the CPU within that time.
        let limits = [300, 3_000, 30_000].map(Duration::from_millis);
        let pid: i32 = limits.into_iter().find_map(ended_after).unwrap();
        let is_gone = || {
            std::thread::sleep(Duration::from_millis(20));
            let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        };
        assert!(repeat_until(is_gone, |gone| *gone), "{pid} lives on");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = run(Command::new("/no/such/program"), None, LIMIT).unwrap_err();
        assert!(error.to_string().contains("/no/such/program"));
        assert!(is_there("sh") && !is_there("no-such-program"));
    }
}
