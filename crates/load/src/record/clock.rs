// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clock that the samples keep time by.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{
    ClockId as TimerClock, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags,
};
use nix::time::{ClockId, clock_gettime};

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    Due,
    Stopped,
}

/// Time, waiting, and what the recorder itself costs.
pub trait RecordClock {
    /// Now, nanoseconds on a clock that never goes back.
    fn now_ns(&self) -> u64;
    /// Waits until `deadline_ns` of that clock or until stopped.
    fn wait_until(&mut self, deadline_ns: u64) -> io::Result<Wake>;
    fn cpu_ns(&self) -> u64;
    /// For how long that clock stood still in suspends, since the machine booted, ns.
    fn suspended_ns(&self) -> u64;
    /// The date, for the head of the file.
    fn date(&self) -> jiff::Timestamp;
}

/// CLOCK_MONOTONIC with absolute deadlines: no delay adds up.
#[derive(Debug)]
pub struct LiveClock {
    timer: TimerFd,
    stops: Vec<OwnedFd>,
}

impl LiveClock {
    /// Its waits end as stopped as soon as one of `stops` is readable.
    pub fn new(stops: Vec<OwnedFd>) -> io::Result<Self> {
        let timer = TimerFd::new(TimerClock::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC)?;
        Ok(Self { timer, stops })
    }
}

impl RecordClock for LiveClock {
    fn now_ns(&self) -> u64 {
        read(ClockId::CLOCK_MONOTONIC)
    }

    fn suspended_ns(&self) -> u64 {
        sandbag_linux::clock::suspended()
    }

    fn wait_until(&mut self, deadline_ns: u64) -> io::Result<Wake> {
        // A timer set to 0 is a timer switched off.
        let deadline = TimeSpec::from(Duration::from_nanos(deadline_ns.max(1)));
        self.timer.set(
            Expiration::OneShot(deadline),
            TimerSetTimeFlags::TFD_TIMER_ABSTIME,
        )?;
        let mut fds: Vec<PollFd<'_>> = self
            .stops
            .iter()
            .map(|stop| PollFd::new(stop.as_fd(), PollFlags::POLLIN))
            .collect();
        fds.push(PollFd::new(self.timer.as_fd(), PollFlags::POLLIN));
        loop {
            match poll(&mut fds, PollTimeout::NONE) {
                Ok(_) => break,
                Err(Errno::EINTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        let woken = |fd: &PollFd<'_>| fd.revents().is_some_and(|r| !r.is_empty());
        Ok(if fds[..self.stops.len()].iter().any(woken) {
            Wake::Stopped
        } else {
            Wake::Due
        })
    }

    fn cpu_ns(&self) -> u64 {
        read(ClockId::CLOCK_THREAD_CPUTIME_ID)
    }

    fn date(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }
}

fn read(clock: ClockId) -> u64 {
    // Neither clock can fail on Linux, nor be negative.
    clock_gettime(clock).map_or(0, |t| {
        u64::try_from(Duration::from(t).as_nanos()).unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::SigHandler;
    use sandbag_linux::signals::ENDING;
    use sandbag_linux::stop_signals::StopSignals;

    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn waits_until_the_deadline_and_not_at_all_for_one_that_has_passed() {
        let mut clock = LiveClock::new(Vec::new()).unwrap();
        let deadline = clock.now_ns() + 20 * MS;
        assert_eq!(clock.wait_until(deadline).unwrap(), Wake::Due);
        assert!(clock.now_ns() >= deadline);
        assert_eq!(clock.wait_until(deadline).unwrap(), Wake::Due);
        assert_eq!(clock.wait_until(0).unwrap(), Wake::Due);
    }

    #[test]
    fn a_readable_descriptor_ends_the_wait() {
        let (reader, writer) = nix::unistd::pipe().unwrap();
        let mut clock = LiveClock::new(vec![reader]).unwrap();
        let soon = clock.now_ns() + MS;
        assert_eq!(clock.wait_until(soon).unwrap(), Wake::Due);
        drop(writer);
        assert_eq!(clock.wait_until(u64::MAX / 2).unwrap(), Wake::Stopped);
    }

    #[test]
    fn its_own_cost_grows() {
        let clock = LiveClock::new(Vec::new()).unwrap();
        let before = clock.cpu_ns();
        while clock.cpu_ns() == before {
            std::hint::black_box(clock.now_ns());
        }
    }

    #[test]
    fn every_ending_signal_ends_the_wait_and_not_the_process() {
        for signal in ENDING {
            // A caller may ignore them, as a shell does for what is in the background of a script.
            // SAFETY: the default is no handler.
            unsafe { nix::sys::signal::signal(signal, SigHandler::SigDfl) }.unwrap();
        }
        let signals = StopSignals::block().unwrap();
        let mut clock = LiveClock::new(vec![signals.descriptor().unwrap()]).unwrap();
        assert_eq!(signals.take().unwrap(), None);
        for signal in ENDING {
            // To this thread only: the test runner's other threads do not block it.
            nix::sys::signal::raise(signal).unwrap();
            assert_eq!(clock.wait_until(u64::MAX / 2).unwrap(), Wake::Stopped);
            assert_eq!(signals.take().unwrap(), Some(signal as i32));
            assert_eq!(signals.take().unwrap(), None);
        }
    }
}
