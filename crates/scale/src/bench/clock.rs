// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clocks of ranks.

use std::time::Duration;

use sandbag_linux::clock::{Clock, Monotonic};
use sandbag_linux::counter::Counter;

/// Duration of the counter's calibration.
const LOOK: Duration = Duration::from_millis(100);

/// The clock of a rank.
#[derive(Debug, Clone, Copy)]
pub enum AnyClock {
    /// The processor's counter.
    Counter(Counter),
    /// CLOCK_MONOTONIC.
    Monotonic(Monotonic),
    /// CPU time of the thread.
    Cpu,
}

impl AnyClock {
    /// The processor's counter where it is a clock.
    pub fn best() -> Self {
        Counter::calibrated(LOOK).map_or(Self::Monotonic(Monotonic), Self::Counter)
    }
}

/// A clock that can be set back, so that it stands still meanwhile.
#[derive(Debug, Clone, Copy)]
pub(super) struct PausableClock<C> {
    clock: C,
    ahead_ns: u64,
}

impl<C: Clock> PausableClock<C> {
    /// Runs as `clock` does.
    pub(super) fn new(clock: C) -> Self {
        Self { clock, ahead_ns: 0 }
    }

    /// Continues from this reading.
    pub(super) fn set(&mut self, now_ns: u64) {
        self.ahead_ns = now_ns.wrapping_sub(self.clock.now_ns());
    }
}

impl<C: Clock> Clock for PausableClock<C> {
    #[inline(always)]
    fn now_ns(&self) -> u64 {
        self.clock.now_ns().wrapping_add(self.ahead_ns)
    }
}

impl Clock for AnyClock {
    #[inline(always)]
    fn now_ns(&self) -> u64 {
        match self {
            Self::Counter(counter) => counter.now_ns(),
            Self::Monotonic(clock) => clock.now_ns(),
            Self::Cpu => sandbag_linux::clock::thread_cpu(),
        }
    }
}
