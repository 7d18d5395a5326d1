// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A timer that a burner sets anew whenever it wakes up. It expires where the burner does not
//! run, which the supervisor then hears without having looked.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

/// How long a burner may be silent. A tenth of a second's debt is kept, so that nothing
/// is lost by then; a light one, which is starved for good, is helped sooner.
const SILENCE_NS: u64 = 60_000_000;
const SILENCE_LIGHT_NS: u64 = 20_000_000;

#[derive(Debug)]
pub struct Watchdog(TimerFd);

impl Watchdog {
    /// One that is not set.
    pub fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        Ok(Self(TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?))
    }

    /// The same one, in the process that has inherited it.
    pub fn inherited(fd: OwnedFd) -> Self {
        // SAFETY: the descriptor is a timer, made by `new`.
        Self(unsafe { TimerFd::from_owned_fd(fd) })
    }

    /// Keeps it from expiring for as long as a burner of this period may be silent that
    /// sleeps for `rest_ns` more.
    pub fn feed(&self, light: bool, period_ns: u64, rest_ns: u64) {
        let silence = if light { SILENCE_LIGHT_NS } else { SILENCE_NS };
        let silence = Duration::from_nanos(silence.max(2 * period_ns) + rest_ns);
        let after = Expiration::OneShot(TimeSpec::from_duration(silence));
        // Fails for no timer that exists.
        let _ = self.0.set(after, TimerSetTimeFlags::empty());
    }

    /// Whether it expired since it was last asked.
    pub fn has_expired(&self) -> bool {
        self.0.wait().is_ok()
    }
}

impl AsFd for Watchdog {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    #[test]
    fn it_expires_once_unless_it_is_set_anew() {
        let watchdog = Watchdog::new().unwrap();
        let other = Watchdog::inherited(watchdog.as_fd().try_clone_to_owned().unwrap());
        assert!(!watchdog.has_expired());
        other.feed(true, 2_000_000, 0);
        let mut fds = [PollFd::new(watchdog.as_fd(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut fds, PollTimeout::NONE), Ok(1));
        assert!(watchdog.has_expired() && !watchdog.has_expired());
    }
}
