// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Signals to one process, never to a later process with the same number.
//!
//! Source: pidfd_open(2) (Linux 5.3), pidfd_send_signal(2) (5.1).

use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::process::Process;
use crate::{Error, Result, Root};

/// A descriptor that stands for one process for good. The process may end;
/// then signals to it are refused with ESRCH ([`Error::is_absent`]).
#[derive(Debug)]
pub struct PidFd {
    pid: u32,
    fd: OwnedFd,
}

impl PidFd {
    /// The process that has this number now. For a child of ours that was
    /// not waited for that is the child, dead or alive.
    ///
    /// # Errors
    /// [`Error::Call`]: ESRCH if there is none, ENOSYS before Linux 5.3.
    pub fn open(pid: u32) -> Result<Self> {
        // SAFETY: two numbers; a descriptor of ours on success. It is
        // close-on-exec.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let Some(fd) = i32::try_from(fd).ok().filter(|fd| *fd >= 0) else {
            return Err(Error::last_call("pidfd_open", pid));
        };
        // SAFETY: just opened, nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { pid, fd })
    }

    /// The process with this number if it is the one that began at
    /// `start_ticks` ([`ProcessTimes`](crate::process::ProcessTimes)); `None`
    /// if that one has ended.
    pub fn of(root: &Root, pid: u32, start_ticks: u64) -> Result<Option<Self>> {
        let this = match Self::open(pid) {
            Err(error) if error.is_absent() => return Ok(None),
            other => other?,
        };
        // Asked while the descriptor is held: if it is the right one now, the
        // descriptor is its.
        match Process::new(root, pid).stat() {
            Ok(stat) if stat.times.start_ticks == start_ticks => Ok(Some(this)),
            Ok(_) => Ok(None),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits until it ends, at most so long; a signal ends the wait, too. Whether it has ended.
    pub fn ends_within(&self, most: Duration) -> bool {
        let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
        let most = PollTimeout::try_from(most).unwrap_or(PollTimeout::MAX);
        matches!(poll(&mut fds, most), Ok(1..))
    }

    /// Sends a signal, such as `libc::SIGSTOP`.
    ///
    /// # Errors
    /// [`Error::Call`]: ESRCH if it has ended and was waited for, EPERM.
    pub fn signal(&self, signal: i32) -> Result<()> {
        // SAFETY: a descriptor of ours and numbers; no siginfo is given.
        let outcome = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.fd.as_raw_fd(),
                signal,
                std::ptr::null::<libc::siginfo_t>(),
                0,
            )
        };
        match outcome {
            0 => Ok(()),
            _ => Err(Error::last_call(
                "pidfd_send_signal",
                format!("{}, {signal}", self.pid),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    fn sleeper() -> Child {
        let mut command = Command::new("sleep");
        command.arg("1000").stdin(Stdio::null());
        command.spawn().unwrap()
    }

    #[test]
    fn a_signal_reaches_the_process_and_nobody_after_it() {
        let mut child = sleeper();
        let fd = PidFd::open(child.id()).unwrap();
        assert_eq!(fd.pid(), child.id());
        fd.signal(libc::SIGKILL).unwrap();
        child.wait().unwrap();
        let error = fd.signal(libc::SIGKILL).unwrap_err();
        assert!(error.is_absent(), "{error}");
    }

    #[test]
    fn a_number_that_was_given_anew_is_not_taken() {
        let root = Root::default();
        let mut child = sleeper();
        let pid = child.id();
        let began = Process::new(&root, pid).stat().unwrap().times.start_ticks;
        let right = PidFd::of(&root, pid, began).unwrap();
        let wrong = PidFd::of(&root, pid, began + 1).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(right.is_some());
        assert!(wrong.is_none());
        assert!(PidFd::of(&root, pid, began).unwrap().is_none());
    }
}
