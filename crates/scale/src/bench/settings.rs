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

    /// Refuses a run whose times, 8 bytes for each phase of each rank, are more than this.
    ///
    /// # Errors
    /// [`Error::Option`]: there are too many phases.
    pub fn check_memory(&self, most_bytes: u64) -> Result<()> {
        let phases = self.length().phases as u64;
        let bytes = (8 * u64::from(self.ranks))
            .saturating_mul(self.segments().len() as u64)
            .saturating_mul(phases);
        if bytes > most_bytes {
            return Err(too_many(phases));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_take_too_much_memory_are_refused() {
        let settings = Settings {
            quantum_ns: 1_000_000,
            ranks: 416,
            cpus: Vec::new(),
            duration: Duration::from_secs(30),
            rounds: 5,
            cpu_clock: false,
            repeats: 1,
            plan: None,
        };
        let bytes = 8 * 416 * 5 * (6000 + 2);
        assert_eq!(settings.check_memory(bytes), Ok(()));
        assert_eq!(settings.check_memory(bytes - 1), Err(too_many(6002)));
        let endless = Settings {
            quantum_ns: 1,
            ranks: u32::MAX,
            duration: Duration::MAX,
            ..settings
        };
        assert!(endless.check_memory(u64::MAX - 1).is_err());
    }
}
