// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process that is still meant when its number belongs to another.

use sandbag_linux::Root;
use sandbag_linux::pidfd::PidFd;
use sandbag_linux::process::Process;
use serde::{Deserialize, Serialize};

/// A process by its number and its beginning, which together are given once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    pub pid: u32,
    /// When it began, clock ticks since boot
    /// ([`ProcessTimes`](sandbag_linux::process::ProcessTimes)).
    pub start_ticks: u64,
}

impl ProcessIdentity {
    /// The process that has this number now; `None` if there is none, or only
    /// a zombie.
    pub fn of(root: &Root, pid: u32) -> sandbag_linux::Result<Option<Self>> {
        match Process::new(root, pid).stat() {
            Ok(stat) if stat.has_ended() => Ok(None),
            Ok(stat) => Ok(Some(Self {
                pid,
                start_ticks: stat.times.start_ticks,
            })),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A descriptor for sending it signals again and again; `None` if it has
    /// ended.
    ///
    /// # Errors
    /// ENOSYS before Linux 5.3; `/proc` cannot be read.
    pub fn open(self) -> sandbag_linux::Result<Option<PidFd>> {
        PidFd::of(&Root::default(), self.pid, self.start_ticks)
    }

    /// Sends it a signal, such as `libc::SIGCONT`, if it has not ended.
    /// Where the kernel has no descriptors for processes, what remains is a
    /// moment between looking and sending.
    ///
    /// # Errors
    /// EPERM; `/proc` cannot be read.
    pub fn signal(self, signal: i32) -> sandbag_linux::Result<()> {
        let outcome = match self.open() {
            Ok(None) => Ok(()),
            Ok(Some(fd)) => fd.signal(signal),
            Err(error) if error.errno() == Some(libc::ENOSYS) => self.signal_by_number(signal),
            Err(error) => Err(error),
        };
        match outcome {
            Err(error) if error.is_absent() => Ok(()),
            other => other,
        }
    }

    /// Asks it to end, also where it stands still, as a paused run does: it hears of no
    /// signal before it goes on.
    ///
    /// # Errors
    /// As [`signal`](Self::signal).
    pub fn ask_to_end(self) -> sandbag_linux::Result<()> {
        self.signal(libc::SIGTERM)?;
        self.signal(libc::SIGCONT)
    }

    fn signal_by_number(self, signal: i32) -> sandbag_linux::Result<()> {
        if Self::of(&Root::default(), self.pid)? != Some(self) {
            return Ok(());
        }
        // SAFETY: a signal, no memory.
        match unsafe { libc::kill(self.pid.cast_signed(), signal) } {
            0 => Ok(()),
            _ => Err(sandbag_linux::Error::last_call("kill", self.pid)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(pid: u32) -> char {
        Process::new(&Root::default(), pid).stat().unwrap().state
    }

    #[test]
    fn a_signal_goes_to_the_process_that_was_meant() {
        let mut child = crate::testing::sleeper();
        let named = ProcessIdentity::of(&Root::default(), child.id())
            .unwrap()
            .unwrap();
        let successor = ProcessIdentity {
            start_ticks: named.start_ticks + 1,
            ..named
        };
        for send in [ProcessIdentity::signal, ProcessIdentity::signal_by_number] {
            send(successor, libc::SIGKILL).unwrap();
            send(named, libc::SIGSTOP).unwrap();
            while state(child.id()) != 'T' {
                std::thread::yield_now();
            }
            send(named, libc::SIGCONT).unwrap();
            while state(child.id()) == 'T' {
                std::thread::yield_now();
            }
        }
        named.signal(libc::SIGSTOP).unwrap();
        named.ask_to_end().unwrap();
        child.wait().unwrap();
        named.ask_to_end().unwrap();
        named.signal_by_number(libc::SIGKILL).unwrap();
        let gone = ProcessIdentity::of(&Root::default(), child.id());
        assert_eq!(gone.unwrap(), None);
    }
}
