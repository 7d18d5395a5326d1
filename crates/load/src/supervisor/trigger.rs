// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--start-on`: the command says when the load begins. It runs already, the
//! burners wait without orders.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, BorrowedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use sandbag_linux::clock;

use super::SupervisedRun;
use super::burner::Common;
use super::outcome::{LoadStart, RunEnd};
use crate::board::BOUNDARY_NS;
use sandbag_run::error::Result;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartOn {
    /// A byte on this descriptor of its own, or its last copy closed.
    Descriptor(i32),
    /// A signal to us, by whomever.
    Signal(Signal),
}

impl std::fmt::Display for StartOn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Descriptor(number) => write!(f, "descriptor {number}"),
            Self::Signal(signal) => f.write_str(signal.as_str()),
        }
    }
}

#[derive(Debug)]
pub struct Trigger {
    by: StartOn,
    /// Our end of the pipe, kept open after the word: the command may write
    /// more, and must not die of it.
    pipe: Option<File>,
    given: bool,
}

impl Trigger {
    pub fn new(by: StartOn) -> Self {
        Self {
            by,
            pipe: None,
            given: false,
        }
    }

    pub fn by(&self) -> StartOn {
        self.by
    }

    /// The end of the pipe whose other end the command has.
    pub fn listen(&mut self, pipe: Option<File>) {
        self.pipe = pipe;
    }

    /// What to wait on, as long as there is something to wait for.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.pipe
            .as_ref()
            .filter(|_| !self.given)
            .map(|p| p.as_fd())
    }

    /// A signal arrived; whether it is the one that is meant. It stays ours
    /// after the first time: the command sent it to us, not to itself.
    pub fn takes(&mut self, signal: Signal) -> bool {
        let ours = self.by == StartOn::Signal(signal);
        self.given |= ours;
        ours
    }

    pub fn is_given(&mut self) -> bool {
        if let (Some(pipe), false) = (&mut self.pipe, self.given) {
            let mut fds = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
            if poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0) {
                // A byte, or the end: both are the word.
                self.given = pipe.read(&mut [0]).is_ok();
            }
        }
        self.given
    }
}

/// Nothing is due while we wait.
const LONG_NS: u64 = 10_000_000_000;

impl SupervisedRun<'_> {
    /// Waits for the command's word; `Some` if the run ends without it.
    pub(super) fn await_word(&mut self, common: &Common<'_>) -> Result<Option<RunEnd>> {
        self.listen(true);
        while !self.trigger.as_mut().is_none_or(Trigger::is_given) {
            let now = clock::monotonic();
            if let Some(end) = self.keep_limit(now) {
                return Ok(Some(end));
            }
            self.wait_until(self.limit.wake_ns(now).unwrap_or(now + LONG_NS));
            // No node waits for a word, so that none can be asked to end here.
            self.serve_early();
            if let Some(end) = self.answer(common)? {
                return Ok(Some(end));
            }
        }
        self.listen(false);
        Ok(None)
    }

    /// The load begins at the next boundary that leaves time to say so.
    pub(super) fn start_time() -> u64 {
        (clock::monotonic() + BOUNDARY_NS / 5).next_multiple_of(BOUNDARY_NS)
    }

    /// The load is to begin now. `Some` if the run has ended meanwhile: the
    /// end of a command closes its descriptors before we hear of it.
    pub(super) fn begin_load(&mut self, common: &Common<'_>) -> Result<Option<RunEnd>> {
        let Some(running) = self.command.as_ref().filter(|_| self.trigger.is_some()) else {
            return Ok(None);
        };
        let after_ns = clock::monotonic() - running.started_ns();
        let end = self.answer(common)?;
        if end.is_none() {
            self.load_start = LoadStart::After(after_ns);
        }
        Ok(end)
    }

    pub(super) fn never_began(&mut self) {
        let Some(trigger) = &self.trigger else {
            return;
        };
        self.load_start = LoadStart::Never;
        self.observer.warning(format!(
            "the run ended before the command began the load (by {}): nothing was asked of any CPU",
            trigger.by()
        ));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn listening() -> (Trigger, File) {
        let (from, to) = nix::unistd::pipe().unwrap();
        let mut trigger = Trigger::new(StartOn::Descriptor(3));
        trigger.listen(Some(from.into()));
        (trigger, to.into())
    }

    #[test]
    fn a_byte_is_the_word() {
        let (mut trigger, mut to) = listening();
        assert!(!trigger.is_given() && trigger.descriptor().is_some());
        to.write_all(b"ready\n").unwrap();
        assert!(trigger.is_given() && trigger.descriptor().is_none());
        // The reader is still there.
        to.write_all(b"more\n").unwrap();
    }

    #[test]
    fn the_end_is_the_word() {
        let (mut trigger, to) = listening();
        drop(to);
        assert!(trigger.is_given());
    }

    #[test]
    fn only_the_signal_that_is_meant() {
        let mut trigger = Trigger::new(StartOn::Signal(Signal::SIGUSR2));
        assert!(!trigger.takes(Signal::SIGUSR1) && !trigger.is_given());
        assert!(trigger.takes(Signal::SIGUSR2) && trigger.is_given());
        assert!(trigger.takes(Signal::SIGUSR2));
        assert!(!listening().0.takes(Signal::SIGUSR2));
    }
}
