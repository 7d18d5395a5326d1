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
    /// CPUs' worth of time that the group of this process may take, where it has a limit.
    pub cpu_limit: Option<f64>,
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

    /// CPUs that the ranks take at the same time.
    pub fn busy_cpus(&self) -> usize {
        self.cpus.len().min(self.ranks as usize)
    }

    /// Whether the ranks take more CPU time than their group may, so that it is throttled.
    pub fn exceeds_limit(&self) -> bool {
        self.cpu_limit
            .is_some_and(|cpus| self.busy_cpus() as f64 > cpus)
    }

    /// Whether ranks that meet also wait for CPU time.
    pub fn is_oversubscribed(&self) -> bool {
        self.ranks as usize > self.cpus.len() || self.exceeds_limit()
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

    fn of_ranks(ranks: u32) -> Settings {
        Settings {
            quantum_ns: 1_000_000,
            ranks,
            cpus: Vec::new(),
            cpu_limit: None,
            duration: Duration::from_secs(30),
            rounds: 5,
            cpu_clock: false,
            repeats: 1,
            plan: None,
        }
    }

    #[test]
    fn ranks_wait_for_cpus_and_for_the_time_of_their_group() {
        for (ranks, cpus, cpu_limit, waits) in [
            (2, 2, None, false),
            (3, 2, None, true),
            (2, 2, Some(2.0), false),
            (2, 2, Some(1.5), true),
            (1, 2, Some(1.5), false),
            (1, 2, Some(0.5), true),
        ] {
            let settings = Settings {
                cpus: (0..cpus).collect(),
                cpu_limit,
                ..of_ranks(ranks)
            };
            assert_eq!(settings.is_oversubscribed(), waits, "{settings:?}");
        }
    }

    #[test]
    fn times_that_take_too_much_memory_are_refused() {
        let settings = of_ranks(416);
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
