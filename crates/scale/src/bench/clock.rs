// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clocks that ranks have.

use std::time::Duration;

use sandbag_jitter::replay::clock::{Counter, Monotonic, ReplayClock};

/// Looked at to calibrate the counter.
const LOOK: Duration = Duration::from_millis(100);

/// Any of them.
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
    #[must_use]
    pub fn best() -> Self {
        Counter::calibrated(LOOK).map_or(Self::Monotonic(Monotonic), Self::Counter)
    }
}

/// Another clock that was set: it stands still while its owner does something
/// that takes no time of his.
#[derive(Debug, Clone, Copy)]
pub(super) struct PausableClock<C> {
    clock: C,
    ahead_ns: u64,
}

impl<C: ReplayClock> PausableClock<C> {
    /// Goes as that one does.
    pub(super) fn new(clock: C) -> Self {
        Self { clock, ahead_ns: 0 }
    }

    /// Goes on from then.
    pub(super) fn set(&mut self, now_ns: u64) {
        self.ahead_ns = now_ns.wrapping_sub(self.clock.now_ns());
    }
}

impl<C: ReplayClock> ReplayClock for PausableClock<C> {
    #[inline(always)]
    fn now_ns(&self) -> u64 {
        self.clock.now_ns().wrapping_add(self.ahead_ns)
    }
}

impl ReplayClock for AnyClock {
    #[inline(always)]
    fn now_ns(&self) -> u64 {
        match self {
            Self::Counter(counter) => counter.now_ns(),
            Self::Monotonic(clock) => clock.now_ns(),
            Self::Cpu => sandbag_linux::clock::thread_cpu(),
        }
    }
}
