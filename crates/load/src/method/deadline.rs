// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `deadline`: a reservation of L*P in every period P (SCHED_DEADLINE,
//! Documentation/scheduler/sched-deadline.rst), on the common grid.
//!
//! A pinned task of this class needs either an exclusive cpuset partition,
//! which takes the CPU from everyone else, or no admission control at all:
//! `kernel.sched_rt_runtime_us = -1`. The latter is journalled, written once
//! per run and put back when the burners are gone (the kernel refuses while
//! their reservations exceed the limit). Meanwhile no real-time task of the
//! machine is throttled.
//!
//! Without a high-resolution tick the kernel ends a budget at the tick only,
//! so the burner stops by its own clock.

use sandbag_linux::sched::Attributes;

use super::hogs::MOST_REAL_TIME;
use super::{MachineNeed, Method, MethodOptions};
use crate::burn::Duty;

#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    /// Period of the reservation, ns.
    pub period_ns: u64,
}

impl Default for Deadline {
    fn default() -> Self {
        Self {
            period_ns: 10_000_000,
        }
    }
}

impl Deadline {
    /// With a user's constants.
    ///
    /// # Errors
    /// The reason, in words, where a constant cannot be that.
    pub fn with_options(options: &MethodOptions) -> Result<Self, String> {
        let period_ns = options.period_on_grid("deadline", Self::default().period_ns)?;
        Ok(Self { period_ns })
    }
}

impl Method for Deadline {
    fn name(&self) -> &'static str {
        "deadline"
    }

    fn about(&self) -> &'static str {
        "a kernel-enforced reservation per CPU (SCHED_DEADLINE)"
    }

    fn duty(&self) -> Duty {
        Duty::Pace {
            period_ns: self.period_ns,
        }
    }

    fn attributes(&self) -> Attributes {
        Attributes::Deadline {
            runtime_ns: 0,
            period_ns: self.period_ns,
        }
    }

    fn serves(&self, asked: f64) -> f64 {
        asked.min(MOST_REAL_TIME)
    }

    fn machine_needs(&self) -> &'static [MachineNeed] {
        &[MachineNeed::NoRealTimeLimit]
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}
