// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The compute-barrier benchmark (De, Kothari and Mann 2008): each rank computes
//! for a quantum, then waits for all others, again and again.
//!
//! For each phase and rank it keeps how long the work took (qt) and how long the
//! rank then waited (bt); their sum (qbt) of the slowest rank is the phase's
//! time. The slowdown is the mean of that with jitter over the mean without.
//!
//! Two ways: ranks that are processes and meet at a [`Barrier`] in shared memory
//! ([`ranks`]), and *virtual* ranks ([`alone`]), which only compute, one after
//! another on the CPUs there are, each with its own portion of the trace; the
//! slowest of a phase is looked for afterwards. So thousands of ranks need no
//! machine, only time.

mod alone;
mod barrier;
mod figures;
mod ranks;
mod shared;
mod work;

pub use alone::{Virtual, virtual_ranks};
pub use barrier::Barrier;
pub use figures::{PerRank, Slowdown, per_rank, slowdown};
pub use ranks::{Measured, Segment, measure};
pub use work::{Lcg, calibrate};

use std::time::Duration;

use sandbag_inject::Plan;

/// What is measured.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Work of a phase, ns.
    pub quantum_ns: u64,
    /// Ranks.
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
    /// What they suffer; `None`: only what the machine has of its own.
    pub plan: Option<Plan>,
}
