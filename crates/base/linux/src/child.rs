// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Child processes: what they do between fork and exec, and how they ended.

use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _, parent_id};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::file_limit;

/// Whether it ends within this time.
pub fn ended_within(child: &mut Child, time: Duration) -> bool {
    let until = Instant::now() + time;
    while Instant::now() < until {
        if !matches!(child.try_wait(), Ok(None)) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// Asks it to end (SIGTERM), and kills it if it does not within `grace`.
pub fn end_or_kill(child: &mut Child, grace: Duration) {
    let _ = kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM);
    if !ended_within(child, grace) {
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Steps of a child before its program begins, in the order in which they are
/// asked for.
pub trait ChildSetup {
    /// The kernel sends it `signal` when the thread that starts it ends. It is
    /// not started if we have ended by then. Changing the user clears this
    /// (prctl(2)).
    fn die_with_us(&mut self, signal: i32) -> &mut Self;

    /// As [`die_with_us`](Self::die_with_us), for this program: [`die_with_parent`] asks for it
    /// again, since executing a file with capabilities clears it, too.
    fn program_dies_with_us(&mut self, signal: i32) -> &mut Self;

    /// It leads a session of its own, out of the terminal's reach.
    fn own_session(&mut self) -> &mut Self;

    /// No signal is blocked, whatever we block.
    fn unblock_signals(&mut self) -> &mut Self;

    /// A signal does what it does by default, whatever we ignore.
    fn reset_signal(&mut self, signal: i32) -> &mut Self;

    fn keep_open(&mut self, fd: RawFd) -> &mut Self;

    /// It may have as many files open as our caller lets us, however far we have
    /// raised that.
    fn callers_file_limit(&mut self) -> &mut Self;
}

impl ChildSetup for Command {
    fn die_with_us(&mut self, signal: i32) -> &mut Self {
        let parent = std::process::id();
        // SAFETY: only async-signal-safe calls, here and below.
        unsafe { self.pre_exec(move || die_with(parent, signal)) }
    }

    fn program_dies_with_us(&mut self, signal: i32) -> &mut Self {
        self.env(DIES_WITH, format!("{}:{signal}", std::process::id()))
            .die_with_us(signal)
    }

    fn own_session(&mut self) -> &mut Self {
        // SAFETY: as above.
        unsafe { self.pre_exec(|| done(libc::setsid())) }
    }

    fn unblock_signals(&mut self) -> &mut Self {
        // SAFETY: as above.
        unsafe { self.pre_exec(empty_signal_mask) }
    }

    fn reset_signal(&mut self, signal: i32) -> &mut Self {
        // SAFETY: as above; the default disposition installs no handler.
        unsafe {
            self.pre_exec(move || match libc::signal(signal, libc::SIG_DFL) {
                libc::SIG_ERR => Err(io::Error::last_os_error()),
                _ => Ok(()),
            })
        }
    }

    fn keep_open(&mut self, fd: RawFd) -> &mut Self {
        // SAFETY: as above.
        unsafe { self.pre_exec(move || keep_across_exec(fd)) }
    }

    fn callers_file_limit(&mut self) -> &mut Self {
        // SAFETY: as above.
        unsafe { self.pre_exec(file_limit::take_back) }
    }
}

/// Of a new process that `parent` started: the kernel sends it `signal` when
/// the thread that started it ends. Async-signal-safe.
///
/// # Errors
/// The parent has ended already.
pub fn die_with(parent: u32, signal: i32) -> io::Result<()> {
    // SAFETY: a number, no memory.
    done(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) })?;
    // It may have ended before the call.
    if parent_id() == parent {
        Ok(())
    } else {
        Err(io::ErrorKind::Interrupted.into())
    }
}

/// Variable that names a parent and the signal of its end.
const DIES_WITH: &str = "SANDBAG_DIES_WITH";

/// At the start of a process that [`ChildSetup::program_dies_with_us`] may have made.
pub fn die_with_parent() {
    let Ok(text) = std::env::var(DIES_WITH) else {
        return;
    };
    let numbers = text.split_once(':');
    if let Some((Ok(parent), Ok(signal))) = numbers.map(|(p, s)| (p.parse(), s.parse()))
        // What a child leaves to its own children names none of their parents.
        && parent == parent_id()
    {
        let _ = die_with(parent, signal);
    }
}

/// Clears close-on-exec. Async-signal-safe.
pub fn keep_across_exec(fd: RawFd) -> io::Result<()> {
    // SAFETY: changes flags of a descriptor, touches no memory.
    done(unsafe { libc::fcntl(fd, libc::F_SETFD, 0) })
}

/// Sets close-on-exec. Async-signal-safe.
pub fn close_on_exec(fd: RawFd) -> io::Result<()> {
    // SAFETY: as above.
    done(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) })
}

/// Blocks no signal. Async-signal-safe.
pub fn empty_signal_mask() -> io::Result<()> {
    // SAFETY: a zeroed sigset is valid memory for sigemptyset.
    done(unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut())
    })
}

fn done(outcome: i32) -> io::Result<()> {
    match outcome {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// A child that ended and was reaped.
#[derive(Debug)]
pub struct Reaped {
    pub pid: u32,
    pub status: ExitStatus,
    /// Used by it and by the children that it waited for.
    pub usage: libc::rusage,
}

impl Reaped {
    pub fn user(&self) -> Duration {
        duration(self.usage.ru_utime)
    }

    pub fn system(&self) -> Duration {
        duration(self.usage.ru_stime)
    }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(time.tv_sec.unsigned_abs())
        + Duration::from_micros(time.tv_usec.unsigned_abs())
}

/// Reaps one child (`None`: any) with its use of the machine, which the
/// standard library does not tell.
///
/// # Errors
/// There is no such child (ECHILD).
pub fn reap(pid: Option<u32>) -> io::Result<Reaped> {
    loop {
        match wait4(pid, 0) {
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
            Ok(reaped) => return reaped.ok_or_else(|| io::ErrorKind::NotFound.into()),
        }
    }
}

/// Reaps one child that has ended, without waiting.
pub fn reap_ended() -> Option<Reaped> {
    wait4(None, libc::WNOHANG).ok().flatten()
}

fn wait4(pid: Option<u32>, flags: i32) -> io::Result<Option<Reaped>> {
    let (pid, mut status) = (pid.map_or(-1, u32::cast_signed), 0);
    // SAFETY: an all-zero rusage is one; both places are valid for writing.
    let (pid, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (
            libc::wait4(pid, &raw mut status, flags, &raw mut usage),
            usage,
        )
    };
    done(pid)?;
    Ok((pid != 0).then(|| Reaped {
        pid: pid.cast_unsigned(),
        status: ExitStatus::from_raw(status),
        usage,
    }))
}
