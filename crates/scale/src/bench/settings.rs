// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is to be measured, on how many ranks, and for how long.

use std::time::Duration;

use sandbag_jitter::replay::ReplayPlan;

use super::rank::Length;
use crate::{Error, Result};

/// Settings of a run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Work of a phase, ns.
    pub quantum_ns: u64,
    pub ranks: u32,
    /// CPUs of the ranks, in turn.
    pub cpus: Vec<u32>,
    /// Duration of the whole run.
    pub duration: Duration,
    /// Number of pairs of segments, without jitter and with it.
    pub rounds: u32,
    /// Virtual ranks measure CPU time, which stands still while other tasks have the CPU, for
    /// the work and for the jitter. Ranks that meet measure wall time.
    pub cpu_clock: bool,
    /// Trials of each phase of a virtual rank with the same events, of which the fastest
    /// counts: that removes noise of the host. At least 1.
    pub repeats: u32,
    /// Jitter of the ranks; `None`: only that of the host.
    pub plan: Option<ReplayPlan>,
}

impl Settings {
    pub(super) fn check(&self) -> Result<()> {
        if self.ranks == 0 || self.cpus.is_empty() {
            return Err(Error::Option {
                what: "the number of ranks",
                found: self.ranks.to_string(),
                expected: "1 or more",
            });
        }
        Ok(())
    }

    /// For each segment whether it has jitter.
    pub fn segments(&self) -> Vec<bool> {
        let kinds: &[bool] = match self.plan {
            Some(_) => &[false, true],
            None => &[false],
        };
        kinds.repeat(self.rounds.max(1) as usize)
    }

    /// The length of each segment.
    pub fn length(&self) -> Length {
        let each_ms = self.duration.as_millis() as u64 / self.segments().len() as u64;
        let ms = u32::try_from(each_ms.max(1)).unwrap_or(u32::MAX);
        let phases = u64::from(ms) * 1_000_000 / self.quantum_ns.max(1) + 2;
        Length {
            ms,
            phases: usize::try_from(phases).unwrap_or(usize::MAX),
        }
    }
}

pub(super) fn too_many(phases: u64) -> Error {
    Error::Option {
        what: "the number of phases",
        found: phases.to_string(),
        expected: "fewer: a shorter run, or a longer quantum",
    }
}
