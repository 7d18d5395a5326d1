// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The competitor: processes that spin, and say what they got.
//!
//! # Problem
//! Whether a load is held shows in what is *left* for others, and that must be
//! measured without any of sandbag's own code or clocks.
//!
//! # Approach
//! Workers, each a process of its own, spin over one common interval of
//! CLOCK_MONOTONIC. Every [`SAMPLE`] a worker adds the CPU time it has used
//! since the last look to the CPU on which it finds itself, so unpinned
//! workers too are accounted per CPU, wrong by at most one such interval per
//! migration. The parent adds `/proc/stat` over the same interval as a second
//! opinion; in an emulator that opinion is low, because ticks get lost there.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How often a worker looks at its own CPU clock and at its CPU. The clock is
/// a system call that takes the run-queue lock, so not in every turn.
pub const SAMPLE: Duration = Duration::from_micros(200);

/// What one run of `spinner` prints, as one line of JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SpinnerResult {
    /// The common interval, seconds.
    pub wall_s: f64,
    /// The workers, in the order given.
    pub workers: Vec<Worker>,
    /// All CPUs that are online, ascending.
    pub cpus: Vec<SpinnerCpu>,
}

/// One worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Worker {
    /// The CPU it was pinned to.
    pub pinned: Option<u32>,
    /// CPU time it got, seconds.
    pub cpu_s: f64,
    /// How long after the start of the common interval it got to run first,
    /// seconds. Far more than a few slices of the scheduler means that its
    /// program was not loaded in time, and that its share says nothing.
    pub late_s: f64,
    /// CPU time by CPU, seconds.
    pub per_cpu_s: BTreeMap<u32, f64>,
}

/// One CPU during the common interval.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SpinnerCpu {
    /// Kernel number.
    pub cpu: u32,
    /// CPU time of all workers here, seconds.
    pub spun_s: f64,
    /// The same as percent of the interval.
    pub spun_pct: f64,
    /// Busy, idle (with iowait) and stolen time by `/proc/stat`, seconds.
    pub busy_s: f64,
    /// See `busy_s`.
    pub idle_s: f64,
    /// See `busy_s`.
    pub steal_s: f64,
    /// Of interrupts, which take from every task, seconds.
    pub irq_s: f64,
}

impl SpinnerResult {
    /// Percent of each CPU that the workers got, by CPU.
    #[must_use]
    pub fn left_pct(&self) -> BTreeMap<u32, f64> {
        self.cpus
            .iter()
            .map(|cpu| (cpu.cpu, cpu.spun_pct))
            .collect()
    }

    /// Percent of each CPU that interrupts took, by CPU.
    #[must_use]
    pub fn irq_pct(&self) -> BTreeMap<u32, f64> {
        let of_one = |cpu: &SpinnerCpu| (cpu.cpu, 100.0 * cpu.irq_s / self.wall_s);
        self.cpus.iter().map(of_one).collect()
    }

    /// Largest [`Worker::late_s`].
    #[must_use]
    pub fn late_s(&self) -> f64 {
        self.workers.iter().map(|w| w.late_s).fold(0.0, f64::max)
    }
}
