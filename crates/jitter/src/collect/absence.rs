// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rounds in which the recorder itself was stopped (Ctrl-Z), or the machine suspended: what
//! the loops saw of that is no jitter.

use std::io;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use sandbag_linux::clock;

use super::worker::RoundResult;

/// A signal that continues a process is sent to one that is not stopped, too (timeout(1),
/// systemd). A stop is an event of all loops, and by hand none is shorter.
const STOPPED_NS: u64 = 100_000_000;
/// No suspend is shorter; two clocks are not read at the same moment.
const SUSPENDED_NS: u64 = 100_000_000;

#[derive(Debug)]
pub(super) struct Absences {
    continued: SignalFd,
    before: SigSet,
    /// At the begin of the round.
    suspended_ns: u64,
    /// The machine was suspended in one of the rounds.
    pub(super) was_suspended: bool,
}

impl Absences {
    /// Blocks SIGCONT, which continues a process all the same, for the calling thread and
    /// those that it starts. A thread of this process that does not block it takes it away.
    pub(super) fn watch() -> io::Result<Self> {
        let resume = SigSet::from(Signal::SIGCONT);
        let before = SigSet::thread_get_mask()?;
        resume.thread_block()?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(Self {
            continued: SignalFd::with_flags(&resume, flags)?,
            before,
            suspended_ns: clock::suspended(),
            was_suspended: false,
        })
    }

    pub(super) fn round_begins(&mut self) {
        self.was_continued();
        self.suspended_ns = clock::suspended();
    }

    /// Whether the round that began last is spoilt.
    pub(super) fn is_spoilt(&mut self, found: &[Option<RoundResult>]) -> bool {
        self.is_spoilt_by(clock::suspended(), found)
    }

    fn is_spoilt_by(&mut self, suspended_ns: u64, found: &[Option<RoundResult>]) -> bool {
        let is_suspended = suspended_ns > self.suspended_ns + SUSPENDED_NS;
        self.was_suspended |= is_suspended;
        // One whose room was full before did not keep it.
        let mut all = found.iter().flatten().filter(|one| !one.full).peekable();
        let is_long = |one: &RoundResult| one.longest_ns() >= STOPPED_NS;
        let is_stopped = self.was_continued() && all.peek().is_some() && all.all(is_long);
        is_suspended || is_stopped
    }

    fn was_continued(&self) -> bool {
        matches!(self.continued.read_signal(), Ok(Some(_)))
    }
}

impl Drop for Absences {
    fn drop(&mut self) {
        let _ = self.before.thread_set_mask();
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::raise;

    use super::*;
    use crate::Span;
    use crate::fixture::events;

    #[test]
    fn a_round_is_spoilt_by_a_stop_that_all_loops_saw() {
        let found = |length_ns: u64| {
            Some(RoundResult {
                span: Span::new(0, 1_000_000_000),
                events: events(&[(0, 5_000), (700_000_000, length_ns)]),
                full: false,
            })
        };
        let mut absences = Absences::watch().unwrap();
        for (second_ns, is_spoilt) in [(299_999_000, true), (9_000, false)] {
            let found = [found(300_000_000), None, found(second_ns)];
            assert!(!absences.is_spoilt(&found));
            raise(Signal::SIGCONT).unwrap();
            assert_eq!(absences.is_spoilt(&found), is_spoilt);
            // Before a round.
            raise(Signal::SIGCONT).unwrap();
            absences.round_begins();
            assert!(!absences.is_spoilt(&found));
        }
    }

    #[test]
    fn a_round_is_spoilt_by_a_suspend() {
        let mut absences = Absences::watch().unwrap();
        absences.round_begins();
        assert!(!absences.is_spoilt_by(absences.suspended_ns + SUSPENDED_NS, &[]));
        assert!(absences.is_spoilt_by(absences.suspended_ns + SUSPENDED_NS + 1, &[]));
        assert!(absences.was_suspended);
    }
}
