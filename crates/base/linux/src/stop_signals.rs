// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Signals that end a recording, as a descriptor that becomes readable.

use std::io;
use std::os::fd::OwnedFd;

use crate::signals::{ENDING, is_ignored};
use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// The signals that end a recording, blocked for the calling thread while
/// this lives.
///
/// Make it before any other thread is started, or the signal may be delivered
/// to a thread that has not blocked it and end the process. A child process
/// inherits the blocked signals: reset its mask between fork and exec.
#[derive(Debug)]
pub struct StopSignals {
    before: SigSet,
    signals: SignalFd,
}

impl StopSignals {
    /// Blocks the signals, except those that our caller ignores (nohup): blocked ones are
    /// queued even if they are ignored.
    pub fn block() -> io::Result<Self> {
        let set: SigSet = ENDING.into_iter().filter(|s| !is_ignored(*s)).collect();
        let before = set.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        match SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK) {
            Ok(signals) => Ok(Self { before, signals }),
            Err(e) => {
                pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None)?;
                Err(e.into())
            }
        }
    }

    /// A descriptor that becomes readable with a signal.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        use std::os::fd::AsFd as _;
        self.signals.as_fd().try_clone_to_owned()
    }

    /// The next signal that arrived, if any; each is returned once.
    pub fn take(&self) -> io::Result<Option<i32>> {
        Ok(self
            .signals
            .read_signal()?
            .and_then(|info| i32::try_from(info.ssi_signo).ok()))
    }
}

impl Drop for StopSignals {
    /// A signal that came and was not [taken](Self::take) is delivered now.
    fn drop(&mut self) {
        // Putting back a mask that the kernel gave us cannot fail.
        let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&self.before), None);
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::{SigHandler, Signal, raise, signal};

    use super::*;

    #[test]
    fn a_signal_that_the_caller_ignores_ends_nothing() {
        // SAFETY: ignoring a signal installs no handler.
        let before = unsafe { signal(Signal::SIGHUP, SigHandler::SigIgn) }.unwrap();
        let signals = StopSignals::block().unwrap();
        for sent in [Signal::SIGHUP, Signal::SIGTERM] {
            raise(sent).unwrap();
        }
        let taken = [(); 2].map(|()| signals.take().unwrap());
        drop(signals);
        // SAFETY: what was in force before.
        unsafe { signal(Signal::SIGHUP, before) }.unwrap();
        assert_eq!(taken, [Some(Signal::SIGTERM as i32), None]);
    }
}
