// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The signals a supervisor answers, read from a descriptor instead of
//! interrupting it.

use std::io;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Signals that end a run. SIGINT is special: a terminal sends it to the
/// command as well.
pub const ENDING: [Signal; 4] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
];

/// Signals that are only passed on to the command.
const PASSED: [Signal; 2] = [Signal::SIGUSR1, Signal::SIGUSR2];

/// One signal that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// Which.
    pub signal: Signal,
    /// Sent by the kernel (a terminal's keys, a child's end) and not by a
    /// process; then the command's process group got it, too.
    pub by_kernel: bool,
}

/// Blocks the signals of the calling thread for as long as it lives; those
/// that [`not_ignored`] leaves.
#[derive(Debug)]
pub struct Signals {
    fd: SignalFd,
    before: SigSet,
}

impl Signals {
    /// Takes over the signals.
    pub fn take() -> io::Result<Self> {
        let set = not_ignored(
            ENDING
                .into_iter()
                .chain(PASSED)
                .chain([Signal::SIGCHLD, Signal::SIGTSTP]),
        );
        let before = SigSet::thread_get_mask()?;
        set.thread_block()?;
        let fd = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(Self { fd, before })
    }

    /// The descriptor, to wait on.
    #[must_use]
    pub fn fd(&self) -> &SignalFd {
        &self.fd
    }

    /// The next signal, if one waits.
    pub fn next(&self) -> Option<Arrived> {
        let info = self.fd.read_signal().ok().flatten()?;
        Some(Arrived {
            signal: Signal::try_from(info.ssi_signo.cast_signed()).ok()?,
            by_kernel: info.ssi_code > 0,
        })
    }
}

/// The signals that are to be taken over. What our caller ignores (nohup:
/// SIGHUP; a shell without job control, for its background jobs: SIGINT) is
/// not: a blocked signal is queued even if it is ignored. SIGCHLD is taken in
/// any case: where it is ignored, children vanish without a word.
pub(crate) fn not_ignored(wanted: impl Iterator<Item = Signal>) -> SigSet {
    // SAFETY: the default disposition installs no handler.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    wanted.filter(|signal| !is_ignored(*signal)).collect()
}

fn is_ignored(signal: Signal) -> bool {
    // SAFETY: asks for a disposition; a zeroed sigaction is valid memory.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal as i32, std::ptr::null(), &raw mut now) == 0
            && now.sa_sigaction == libc::SIG_IGN
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // What is still waiting is answered: a second Ctrl-C while the run
        // was being undone must not kill us afterwards.
        while self.next().is_some() {}
        let _ = self.before.thread_set_mask();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_the_caller_ignores_is_told() {
        // One that no other test of this process needs.
        let ours = Signal::SIGWINCH;
        assert!(!is_ignored(ours));
        // SAFETY: ignoring a signal installs no handler.
        unsafe { libc::signal(ours as i32, libc::SIG_IGN) };
        assert!(is_ignored(ours));
    }
}
