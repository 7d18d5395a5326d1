// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a CPU differs: what was seen on it and not on the others, and how it is
//! configured. Pure over what was seen.
//!
//! Each rule looks at one kind of cause and says what it has to show with its
//! figures; what explains most of the difference comes first. Rules are in
//! `rules`.

mod rules;
mod seen;

use std::collections::BTreeMap;

use crate::competing::family;
use crate::model::{AuditVerdict, Quantity, Suspect, Test};
use crate::tasks::TaskTime;
use seen::{Difference, SuspectCause};

pub use seen::{Holder, NoiseSource, Observations, OfCpu};

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
