// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The compute-barrier benchmark (De, Kothari and Mann 2008): each rank computes for a
//! quantum, then waits for all others, again and again.
//!
//! Each phase of a rank has a duration of the work (qt) and of the wait (bt); their sum (qbt)
//! of the slowest rank is the time of the phase. The slowdown is the mean of that with jitter
//! over the mean without.
//!
//! Ranks either meet at a [`RankBarrier`]: processes with shared memory ([`ranks`]), or any
//! others with such a barrier ([`Rank`]). Or they are *virtual* ([`progress`]): they only
//! compute, one after another on the available CPUs, each with its own portion of the trace,
//! and the slowest of a phase is found afterwards. So thousands of ranks need time, not
//! machines.

mod barrier;
mod clock;
mod clocks;
mod draw;
mod drift;
mod figures;
#[cfg(test)]
pub(crate) mod fixture;
mod host;
mod meets;
mod progress;
mod rank;
mod ranks;
mod saturation;
mod shared;
mod spread;
mod times;
mod work;

pub use barrier::RankBarrier;
pub use clock::AnyClock;
pub use clocks::{Messages, Offset};
pub use drift::CommonStart;
pub use figures::{PerRank, Slowdown};
pub use host::{OnHost, WithHost};
pub use progress::{Virtual, planned_time, virtual_ranks};
pub use rank::{Length, PhaseTimes, Rank};
pub use ranks::measure;
pub use saturation::{NoiseLoad, leaves_room};
pub use spread::{RankSpread, rank_spread};
pub use times::{BenchTimes, LONGEST_NS, Segment, SegmentTimes};
pub use work::calibrate;

use std::time::Duration;

use sandbag_jitter::replay::ReplayPlan;

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
    fn check(&self) -> Result<()> {
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

fn too_many(phases: u64) -> Error {
    Error::Option {
        what: "the number of phases",
        found: phases.to_string(),
        expected: "fewer: a shorter run, or a longer quantum",
    }
}
