// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a CPU differs: what was seen on it and not on the others, and how it is
//! configured. Pure over what was seen.
//!
//! Each rule looks at one kind of cause and says what it has to show with its
//! figures; what explains most of the difference comes first. Rules are in
//! `rules`.

mod rules;

use std::collections::BTreeMap;

use sandbag_linux::CpuList;

use crate::competing::{CompetingTasks, family};
use crate::model::{AuditVerdict, Cpu, Evidence, Quantity, Suspect, Test};
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
    fn is_node(&self) -> bool {
        self.load.starts_with("node ")
    }

    /// The kind of suspect that it is.
    fn kind(&self) -> &'static str {
        if self.is_node() { "slow_node" } else { "load" }
    }

    /// Whether a task is its supervisor or one of its burners.
    fn owns(&self, ran: &TaskTime) -> bool {
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
    fn holder(&self, ran: &TaskTime) -> Option<&Holder> {
        self.holders.iter().find(|holder| holder.owns(ran))
    }

    /// Mean of the other CPUs.
    fn mean_elsewhere(&self, cpu: u32, of: impl Fn(&OfCpu) -> f64) -> f64 {
        let others = self.of.iter().filter(|(other, _)| **other != cpu);
        let all: Vec<f64> = others.map(|(_, seen)| of(seen)).collect();
        all.iter().sum::<f64>() / all.len().max(1) as f64
    }
}

/// What is to be explained of a CPU.
#[derive(Debug, Clone, Default, PartialEq)]
struct Difference {
    /// Tests in which it was seen.
    tests: Vec<String>,
    /// The greatest of elapsed time, waiting or noise, percent.
    elapsed_pct: f64,
    /// The greatest of CPU time.
    cpu_pct: f64,
}

/// A cause without the tests, which are the same for all of a CPU.
struct SuspectCause {
    kind: &'static str,
    who: String,
    evidence: String,
    explains_pct: Option<f64>,
    remedy: String,
}

/// Suspects of a CPU at most.
const MOST: usize = 8;

/// The suspects of every CPU that differs, likeliest first.
pub fn find(tests: &[Test], seen: &Observations) -> Vec<Suspect> {
    let mut all = Vec::new();
    for (cpu, difference) in differences(tests) {
        let mut found: Vec<SuspectCause> = rules::ALL
            .iter()
            .flat_map(|rule| rule(seen, cpu, &difference))
            .collect();
        found.sort_by(|a, b| {
            let explained = |found: &SuspectCause| found.explains_pct.unwrap_or(-1.0);
            explained(b).total_cmp(&explained(a))
        });
        found.truncate(MOST);
        all.extend(found.into_iter().map(|found| Suspect {
            cpu,
            kind: found.kind.to_owned(),
            who: found.who,
            evidence: found.evidence,
            explains_pct: found.explains_pct,
            remedy: found.remedy,
            tests: difference.tests.clone(),
        }));
    }
    all
}

/// Least share of a CPU of a task that is reported as running beside the tests, percent.
const BESIDE_PCT: f64 = 1.0;
/// The number of them that are reported.
const MOST_BESIDE: usize = 5;

/// The tasks that ran beside the tests, on any CPU, in a sentence: what makes a machine
/// noisy. `None` without one above [`BESIDE_PCT`].
pub fn competition_text(seen: &Observations) -> Option<String> {
    let mut all: Vec<(f64, u32, String)> = Vec::new();
    for cpu in seen.others.watched_ns.keys() {
        let mut by_family: BTreeMap<String, (u64, &TaskTime)> = BTreeMap::new();
        for ran in seen.others.on(*cpu) {
            let known = by_family.entry(family(&ran.name)).or_insert((0, ran));
            known.0 += ran.ns;
        }
        all.extend(by_family.into_values().map(|(ns, ran)| {
            let holder = seen.holder(ran);
            let who = holder.map_or_else(
                || format!("{} ({})", ran.name, ran.pid),
                |holder| format!("sandbag run {} ({})", holder.pid, holder.load),
            );
            (seen.others.pct(*cpu, ns), *cpu, who)
        }));
    }
    all.retain(|(pct, ..)| *pct >= BESIDE_PCT);
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all.truncate(MOST_BESIDE);
    let tasks = all.iter();
    let tasks = tasks.map(|(pct, cpu, who)| format!("{who} {pct:.1} % of CPU {cpu}"));
    let tasks: Vec<String> = tasks.collect();
    (!tasks.is_empty()).then(|| format!("beside the tests there ran: {}", tasks.join(", ")))
}

fn differences(tests: &[Test]) -> BTreeMap<u32, Difference> {
    let mut all: BTreeMap<u32, Difference> = BTreeMap::new();
    for test in tests {
        let verdicts = test.verdicts.iter();
        for verdict in verdicts.filter(|one| one.verdict == AuditVerdict::Unequal) {
            let one = all.entry(verdict.cpu).or_default();
            if one.tests.last() != Some(&test.name) {
                one.tests.push(test.name.clone());
            }
            let effects = test.effects.iter();
            for effect in effects.filter(|effect| effect.cpu == verdict.cpu) {
                match effect.quantity {
                    Quantity::Elapsed | Quantity::Waiting | Quantity::Noise => {
                        one.elapsed_pct = one.elapsed_pct.max(effect.pct);
                    }
                    Quantity::Cpu => one.cpu_pct = one.cpu_pct.max(effect.pct),
                    Quantity::User | Quantity::System => {}
                }
            }
        }
    }
    all
}

#[cfg(test)]
mod tests;
