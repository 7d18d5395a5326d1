// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a team of injectors is asked to do.

use super::InjectorClass;
use crate::replay::plan::ReplayPlan;
use crate::replay::portion::Portion;

/// How events are injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    pub class: InjectorClass,
    /// Ordinary tasks if that class is not permitted.
    pub or_fair: bool,
    /// The first safeguard: the overhead is subtracted from the length.
    pub overhead: bool,
    /// The second: events that follow too closely are injected together.
    pub interval: bool,
    /// Memory for the events of all CPUs together, bytes.
    pub most_bytes: u64,
}

/// A CPU and the portion to replay there.
#[derive(Debug, Clone)]
pub struct Ask {
    pub cpu: u32,
    pub portion: Portion,
}

impl Ask {
    /// For each CPU the rank of its place in the plan.
    pub fn each(cpus: &[u32], plan: &ReplayPlan) -> Vec<Self> {
        let one = |(cpu, rank): (&u32, u64)| Self {
            cpu: *cpu,
            portion: plan.rank(rank),
        };
        cpus.iter().zip(0..).map(one).collect()
    }
}
