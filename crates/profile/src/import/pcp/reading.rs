// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values of `kernel.percpu.cpu.*`, and what was read of them at one stamp.

use crate::Fault;
use crate::number::{cpu_number, decimal};

use super::super::counters::{CpuState, STATES};

/// What the names of all metrics wanted here begin with.
pub(super) const FAMILY: &str = "kernel.percpu.cpu.";

/// The metrics, in the order of [`CpuState`], without [`FAMILY`]. Passed over
/// are those that are parts or sums of these: guest and vuser (user), guest_nice
/// and vnice (nice), intr (irq.hard + irq.soft).
pub(super) const METRICS: [(&str, CpuState); STATES] = [
    ("user", CpuState::User),
    ("nice", CpuState::Nice),
    ("sys", CpuState::System),
    ("idle", CpuState::Idle),
    ("wait.total", CpuState::Iowait),
    ("irq.hard", CpuState::Irq),
    ("irq.soft", CpuState::Softirq),
    ("steal", CpuState::Steal),
];

/// Without these there is no load.
pub(super) const NEEDED: [CpuState; 3] = [CpuState::User, CpuState::System, CpuState::Idle];

/// The state that a metric counts; `None` for other metrics.
pub(super) fn state(metric: &[u8]) -> Option<CpuState> {
    let name = metric.strip_prefix(FAMILY.as_bytes())?;
    let found = METRICS.iter().find(|(n, _)| n.as_bytes() == name);
    found.map(|(_, state)| *state)
}

/// The number in `cpu7`, an instance.
pub(super) fn cpu_instance(name: &[u8]) -> Result<u32, Fault> {
    let number = name.strip_prefix(b"cpu").and_then(cpu_number);
    number.ok_or_else(|| Fault::syntax("an instance such as cpu0", name))
}

/// A counter or rate. `None` where there is none: PCP leaves out, or writes
/// as NaN or as 2^64, the rate of a counter that fell.
pub(super) fn value(text: &[u8]) -> Result<Option<f64>, Fault> {
    if text.is_empty() {
        return Ok(None);
    }
    match decimal(text) {
        Some(n) if n.is_nan() || n >= u64::MAX as f64 => Ok(None),
        Some(n) if n >= 0.0 => Ok(Some(n)),
        _ => Err(Fault::syntax("a counter in ms or a rate in ms/s", text)),
    }
}

/// What the values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueKind {
    Counters,
    Rates,
}

/// By [`CpuState`].
pub(super) type StateValues = [Option<f64>; STATES];

/// What was read of the CPUs at one stamp.
#[derive(Debug, Default)]
pub(super) struct PcpReading {
    /// In ascending order.
    pub(super) cpus: Vec<(u32, StateValues)>,
}

impl PcpReading {
    pub(super) fn clear(&mut self) {
        self.cpus.clear();
    }

    pub(super) fn find(&self, cpu: u32) -> Result<usize, usize> {
        self.cpus.binary_search_by_key(&cpu, |(there, _)| *there)
    }

    /// Puts a value in its place; false if one is there already, which stays.
    pub(super) fn put(&mut self, cpu: u32, state: CpuState, value: f64) -> bool {
        let at = self.find(cpu).unwrap_or_else(|at| {
            self.cpus.insert(at, (cpu, StateValues::default()));
            at
        });
        let place = &mut self.cpus[at].1[state as usize];
        let free = place.is_none();
        place.get_or_insert(value);
        free
    }

    /// Whether both have a value of the same state of the same CPU.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        other.cpus.iter().any(|(cpu, theirs)| {
            self.find(*cpu).is_ok_and(|at| {
                let both = self.cpus[at].1.iter().zip(theirs);
                both.clone().any(|(a, b)| a.is_some() && b.is_some())
            })
        })
    }

    /// Adds what the other has; false if they overlap, then ours stays.
    pub(super) fn join(&mut self, other: &Self) -> bool {
        let mut free = true;
        for (cpu, values) in &other.cpus {
            for ((_, state), value) in METRICS.iter().zip(values) {
                if let Some(value) = value {
                    free &= self.put(*cpu, *state, *value);
                }
            }
        }
        free
    }
}
