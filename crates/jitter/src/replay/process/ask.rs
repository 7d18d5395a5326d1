// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What injectors are asked to do, and how.

use super::InjectorClass;
use crate::replay::plan::ReplayPlan;
use crate::replay::portion::Portion;

/// Which class is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClassRequest {
    /// Real time where it may be had, else ordinary tasks.
    Auto {
        /// 1 (lowest) to 99.
        priority: u8,
    },
    /// This one or none.
    Only(InjectorClass),
}

/// How events are injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    pub class: ClassRequest,
    /// The first safeguard: what injecting costs is taken off.
    pub overhead: bool,
    /// The second: what follows too closely is suffered together.
    pub interval: bool,
    /// Memory for the events of all CPUs together, bytes.
    pub most_bytes: u64,
}

/// A CPU and what is to happen to it.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Kernel number.
    pub cpu: u32,
    /// Its part of the trace.
    pub portion: Portion,
}

impl Ask {
    /// Of each of these CPUs, the rank of its place in the plan.
    #[must_use]
    pub fn each(cpus: &[u32], plan: &ReplayPlan) -> Vec<Self> {
        let ranks = (0u64..).zip(cpus);
        let one = |(rank, cpu): (u64, &u32)| Self {
            cpu: *cpu,
            portion: plan.rank(rank),
        };
        ranks.map(one).collect()
    }
}
