// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was seen on a machine, and what is to be explained.

use std::collections::BTreeMap;

use sandbag_linux::CpuList;

use crate::competing::CompetingTasks;
use crate::model::{Cpu, Evidence};
use crate::tasks::TaskTime;

/// What was seen of a CPU over all its runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OfCpu {
    pub evidence: Evidence,
    pub lasted_ns: u64,
    /// The middle of what the kernel said, kHz.
    pub frequency_khz: Option<f64>,
}

/// What the kernel's trace events blamed for noise.
#[derive(Debug, Clone, PartialEq)]
pub struct NoiseSource {
    pub cpu: u32,
    /// `irq`, `softirq`, `task`, ...
    pub kind: String,
    pub name: String,
    /// Of the CPU's time, percent.
    pub pct: f64,
    pub per_s: f64,
}

/// A run of sandbag that is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub pid: u32,
    /// The CPUs that it loads.
    pub cpus: CpuList,
    pub method: String,
    /// `constant 50 %`, `node n, speed 0.5`.
    pub load: String,
}

impl Holder {
    /// A slowed node, not a load.
    pub(super) fn is_node(&self) -> bool {
        self.load.starts_with("node ")
    }

    /// The kind of suspect that it is.
    pub(super) fn kind(&self) -> &'static str {
        if self.is_node() { "slow_node" } else { "load" }
    }

    /// Whether a task is its supervisor or one of its burners.
    pub(super) fn owns(&self, ran: &TaskTime) -> bool {
        self.pid == ran.pid || self.pid == ran.parent
    }
}

#[derive(Debug, Clone, Default)]
pub struct Observations {
    pub cpus: Vec<Cpu>,
    pub of: BTreeMap<u32, OfCpu>,
    /// Tasks beside the tests.
    pub others: CompetingTasks,
    /// By trace events, where they could be had.
    pub blamed: Vec<NoiseSource>,
    pub holders: Vec<Holder>,
    /// Where interrupts may go: number, CPUs.
    pub affinity: Vec<(String, CpuList)>,
}

impl Observations {
    /// The run of sandbag that a task belongs to.
    pub(super) fn holder(&self, ran: &TaskTime) -> Option<&Holder> {
        self.holders.iter().find(|holder| holder.owns(ran))
    }

    /// Mean of the other CPUs.
    pub(super) fn mean_elsewhere(&self, cpu: u32, of: impl Fn(&OfCpu) -> f64) -> f64 {
        let others = self.of.iter().filter(|(other, _)| **other != cpu);
        let all: Vec<f64> = others.map(|(_, seen)| of(seen)).collect();
        all.iter().sum::<f64>() / all.len().max(1) as f64
    }
}

/// What is to be explained of a CPU.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Difference {
    /// Tests in which it was seen.
    pub(super) tests: Vec<String>,
    /// The greatest of elapsed time, waiting or noise, percent.
    pub(super) elapsed_pct: f64,
    /// The greatest of CPU time.
    pub(super) cpu_pct: f64,
}

/// A cause without the tests, which are the same for all of a CPU.
pub(super) struct SuspectCause {
    pub(super) kind: &'static str,
    pub(super) who: String,
    pub(super) evidence: String,
    pub(super) explains_pct: Option<f64>,
    pub(super) remedy: String,
}
