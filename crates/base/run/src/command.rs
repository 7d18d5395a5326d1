// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The wrapped command: who it runs as, how it starts, what it used.
//!
//! It is started in two steps. A process of ours waits at a gate until it is
//! in its group and the load is held, then becomes the command. That works
//! for directories of ours and for systemd, which needs a process id, and the
//! command's first instruction already runs under the load. Standard input, output and error, terminal and process group are the
//! caller's own.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::Command;

use crate::child::EXEC_VERB;
use crate::error::{Error, Result};
use sandbag_linux::child::{self, ChildSetup as _, close_on_exec};
use sandbag_linux::user::User;

/// What to run, and as whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSpec {
    /// Program and arguments; never empty.
    pub arguments: Vec<OsString>,
    /// The user to become; `None` to stay who we are.
    pub user: Option<User>,
    /// Die with the supervisor.
    pub kill: bool,
    /// Variables to set, beyond what it inherits.
    pub environment: Vec<(String, String)>,
    /// The number of a descriptor on which it is to say when the load begins.
    pub word_on: Option<i32>,
}

/// Names the supervisor's process id to the command, for signals to it.
pub const PID_VARIABLE: &str = "SANDBAG_PID";

/// A command that waits at its gate.
#[derive(Debug)]
pub struct Waiting {
    pid: u32,
    program: OsString,
    gate: File,
    status: File,
    word: Option<File>,
}

impl Waiting {
    /// Starts the process up to its gate.
    pub fn start(spec: &CommandSpec) -> Result<Self> {
        let failed = |cause| Error::Start {
            what: "the command's process".into(),
            cause,
        };
        let (gate_end, gate) = pipe().map_err(failed)?;
        let (status, status_end) = pipe().map_err(failed)?;
        let word = spec.word_on.map(|number| Ok((number, pipe()?)));
        let word = word.transpose().map_err(failed)?;
        let (word, word_end) = match word {
            None => (None, None),
            Some((number, (word, end))) => (Some(File::from(word)), Some((number, end))),
        };
        let mut inherit = vec![gate_end.as_raw_fd(), status_end.as_raw_fd()];
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("sandbag")
            .arg(EXEC_VERB)
            .args(inherit.iter().map(|fd| fd.to_string()));
        match &word_end {
            None => command.arg(NO_WORD),
            Some((number, end)) => {
                inherit.push(end.as_raw_fd());
                command.arg(format!("{}:{number}", end.as_raw_fd()))
            }
        };
        command
            .args(&spec.arguments)
            .env(PID_VARIABLE, std::process::id().to_string())
            .envs(spec.environment.iter().map(|(k, v)| (k, v)));
        // The supervisor blocks the signals that it reads from a descriptor, and
        // needs more files.
        command.unblock_signals().callers_file_limit();
        if let Some(user) = spec.user.clone() {
            user.become_in(&mut command);
        }
        if spec.kill {
            command.program_dies_with_us(libc::SIGKILL);
        }
        for fd in inherit {
            command.keep_open(fd);
        }
        // Not `wait`ed for through this handle: the supervisor reaps it with
        // wait4, which also says what it used.
        let pid = command.spawn().map_err(failed)?.id();
        Ok(Self {
            pid,
            program: spec.arguments[0].clone(),
            gate: gate.into(),
            status: status.into(),
            word,
        })
    }

    /// Our end of the pipe on which it says when the load begins, once.
    pub fn take_word(&mut self) -> Option<File> {
        self.word.take()
    }

    /// Its process id, which stays the same when it becomes the command.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets it become the command, and waits until it has.
    pub fn go(self) -> Result<()> {
        match self.let_go()?.failure() {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    /// Lets it become the command, without waiting: it may be stopped before
    /// it gets that far.
    pub fn let_go(mut self) -> Result<ReleasedCommand> {
        self.gate.write_all(b".").map_err(|cause| Error::Start {
            what: "the command's process".into(),
            cause,
        })?;
        Ok(ReleasedCommand {
            program: self.program,
            status: self.status,
        })
    }
}

/// A command that was let go.
#[derive(Debug)]
pub struct ReleasedCommand {
    program: OsString,
    status: File,
}

impl ReleasedCommand {
    /// Why the program was not executed; `None` if it was, or if its process
    /// was killed before. Waits until one or the other is the case.
    pub fn failure(&mut self) -> Option<Error> {
        let mut errno = [0; 4];
        // Closed by the exec itself, or written to if there was none.
        self.status.read_exact(&mut errno).ok()?;
        Some(Error::Command {
            program: self.program.to_string_lossy().into_owned(),
            cause: io::Error::from_raw_os_error(i32::from_ne_bytes(errno)),
        })
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: room for two descriptors, which are ours on success.
    unsafe {
        match libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) {
            0 => Ok((OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1]))),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// The process behind the gate: waits, then becomes the command. Returns an
/// exit code only if that fails.
#[must_use]
pub fn exec(arguments: &[OsString]) -> u8 {
    let number = |n: usize| arguments.get(n)?.to_str()?.parse::<i32>().ok();
    let (Some(gate), Some(status)) = (number(0), number(1)) else {
        return 125;
    };
    // SAFETY: the supervisor handed these descriptors to this process alone.
    let (mut gate, mut status) = unsafe { (File::from_raw_fd(gate), File::from_raw_fd(status)) };
    let _ = close_on_exec(gate.as_raw_fd());
    let _ = close_on_exec(status.as_raw_fd());
    let word = match arguments.get(2).and_then(|word| word.to_str()) {
        None => return 125,
        Some(word) => word
            .split_once(':')
            .and_then(|(fd, number)| Some((fd.parse::<i32>().ok()?, number.parse::<i32>().ok()?))),
    };
    // The supervisor died before the load was held: do not run at all.
    if !matches!(gate.read(&mut [0]), Ok(1)) {
        return 125;
    }
    drop(gate);
    if let Some((fd, number)) = word {
        match give_as(fd, number, status) {
            Ok(moved) => status = moved,
            Err(_) => return 125,
        }
    }
    let strings: Vec<CString> = arguments[3..]
        .iter()
        .filter_map(|a| CString::new(OsStr::as_bytes(a)).ok())
        .collect();
    let mut pointers: Vec<*const libc::c_char> = strings.iter().map(|s| s.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // SAFETY: a null-terminated list of C strings; Rust ignores SIGPIPE for
    // itself, which the command must not inherit.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::execvp(pointers[0], pointers.as_ptr());
    }
    let cause = io::Error::last_os_error();
    let _ = status.write_all(&cause.raw_os_error().unwrap_or(0).to_ne_bytes());
    match cause.kind() {
        io::ErrorKind::NotFound => 127,
        _ => 126,
    }
}

/// In place of a descriptor where the command is given none.
const NO_WORD: &str = "-";

/// Gives the command a descriptor under another number. `status` moves out of
/// the way, if it has that number. What our caller had there is replaced.
fn give_as(fd: i32, number: i32, status: File) -> io::Result<File> {
    let status = if status.as_raw_fd() == number {
        // A copy gets the lowest number that is free, and this one is not.
        let moved = status.try_clone()?;
        drop(status);
        moved
    } else {
        status
    };
    if fd != number {
        // SAFETY: numbers of descriptors; `fd` is ours alone, and what was at
        // `number` is no longer used in this process.
        unsafe {
            if libc::dup2(fd, number) < 0 {
                return Err(io::Error::last_os_error());
            }
            libc::close(fd);
        }
    }
    Ok(status)
}

/// How a command ended and what it used, it and the children it waited for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CommandExit {
    pub exit_code: Option<i32>,
    /// Signal, if one ended it.
    pub signal: Option<i32>,
    pub user_s: f64,
    pub system_s: f64,
    /// Voluntary and involuntary context switches.
    pub switches: (i64, i64),
    /// Largest resident memory of one of its processes, KiB.
    pub max_rss_kib: i64,
}

/// Reaps one child of ours that ended, without waiting: its process id, how
/// it ended, what it used.
pub fn reap() -> Option<(u32, CommandExit)> {
    let reaped = child::reap_ended()?;
    Some((
        reaped.pid,
        CommandExit {
            exit_code: reaped.status.code(),
            signal: reaped.status.signal(),
            user_s: reaped.user().as_secs_f64(),
            system_s: reaped.system().as_secs_f64(),
            switches: (reaped.usage.ru_nvcsw, reaped.usage.ru_nivcsw),
            max_rss_kib: reaped.usage.ru_maxrss,
        },
    ))
}
