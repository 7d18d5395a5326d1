// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The compute-barrier benchmark (De, Kothari and Mann 2008): each rank computes
//! for a quantum, then waits for all others, again and again.
//!
//! For each phase and rank it keeps how long the work took (qt) and how long the
//! rank then waited (bt); their sum (qbt) of the slowest rank is the phase's
//! time. The slowdown is the mean of that with jitter over the mean without.
//!
//! Two ways: ranks that meet at a [`RankBarrier`], processes with shared memory here
//! ([`ranks`]) or whatever else has one ([`Rank`]), and *virtual* ranks
//! ([`progress`]), which only compute, one after another on the CPUs there are, each
//! with its own portion of the trace; the slowest of a phase is looked for
//! afterwards. So thousands of ranks need no machine, only time.

mod barrier;
mod clock;
mod clocks;
mod drift;
mod figures;
#[cfg(test)]
mod fixture;
mod host;
mod host_noise;
mod meets;
mod position;
mod progress;
mod rank;
mod ranks;
mod saturation;
mod shared;
mod spread;
mod times;
mod transit;
mod work;

pub use barrier::RankBarrier;
pub use clock::AnyClock;
pub use clocks::{Messages, Offset};
pub use drift::DriftSpread;
pub use figures::{PerRank, Slowdown, per_rank, slowdown};
pub use host::OnHost;
pub use host_noise::WithHost;
pub use progress::{Virtual, planned_time, virtual_ranks};
pub use rank::{Length, PhaseTimes, Rank};
pub use ranks::measure;
pub use saturation::{NoiseLoad, leaves_room, load};
pub use spread::{RankSpread, rank_spread};
pub use times::{BenchTimes, LONGEST_NS, Segment, SegmentTimes};
pub use work::{Lcg, calibrate};

use std::time::Duration;

use sandbag_jitter::replay::ReplayPlan;

use crate::{Error, Result};

/// What is measured.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Work of a phase, ns.
    pub quantum_ns: u64,
    pub ranks: u32,
    /// Where they run, in turn.
    pub cpus: Vec<u32>,
    /// For how long, all in all.
    pub duration: Duration,
    /// With and without jitter in turn, so often.
    pub rounds: u32,
    /// Time of virtual ranks is CPU time: while others have the CPU it stands
    /// still, for the work and for the jitter. Ranks that wait for each other
    /// have wall time.
    pub cpu_clock: bool,
    /// Virtual ranks do each phase so often with the same events, and the fastest
    /// counts: what the host has of its own is gone then. At least 1.
    pub repeats: u32,
    /// What they suffer; `None`: only what the machine has of its own.
    pub plan: Option<ReplayPlan>,
}

impl Settings {
    /// # Errors
    /// No rank, or no CPU.
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

    /// Which segments have jitter, in turn.
    #[must_use]
    pub fn segments(&self) -> Vec<bool> {
        let kinds: &[bool] = match self.plan {
            Some(_) => &[false, true],
            None => &[false],
        };
        kinds.repeat(self.rounds.max(1) as usize)
    }

    /// How long each of them is.
    #[must_use]
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
