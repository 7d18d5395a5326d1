// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figures of a test, or of a comparison of two, by CPU and quantity: what tables
//! and charts show.

use std::collections::BTreeMap;

use super::words::{change_words, cpus, of_cpu, verdict_words, verdicts};
use crate::compare::TestChange;
use crate::model::{AuditVerdict, Nature, Quantity, Test, unique};

/// A difference of a CPU.
pub(crate) struct Figure {
    pub pct: f64,
    /// For all comparisons at once; `None` with too few runs.
    pub together_pct: Option<(f64, f64)>,
    /// After correction for all comparisons.
    pub p: f64,
    pub verdict: Option<AuditVerdict>,
}

impl Figure {
    /// Whether the accounting of the kernel can resolve it.
    pub(crate) fn is_resolved(&self) -> bool {
        self.verdict != Some(AuditVerdict::NotResolvable)
    }
}

/// A CPU in a test, all quantities together.
pub(crate) struct FigureRow {
    pub verdict: AuditVerdict,
    pub word: &'static str,
    /// Worth a row of its own among many.
    pub is_odd: bool,
}

pub(crate) struct FigureTable {
    pub quantities: Vec<Quantity>,
    pub rows: BTreeMap<u32, FigureRow>,
    pub figures: BTreeMap<(u32, Quantity), Figure>,
    /// Differences by design are among them.
    pub is_designed: bool,
}

impl FigureTable {
    /// The effects of a test.
    pub(crate) fn of_test(test: &Test) -> Self {
        let verdicts = verdicts(test);
        let figures = test.effects.iter().map(|effect| {
            let key = (effect.cpu, effect.quantity);
            let figure = Figure {
                pct: effect.pct,
                together_pct: Some(effect.together_pct),
                p: effect.p_together,
                verdict: verdicts.get(&key).map(|one| one.verdict),
            };
            (key, figure)
        });
        let row = |cpu| {
            let found = of_cpu(test, cpu);
            FigureRow {
                verdict: found.0,
                word: verdict_words(found),
                is_odd: matches!(found.0, AuditVerdict::Undecided | AuditVerdict::Unequal),
            }
        };
        let mut natures = test.verdicts.iter().map(|one| one.nature);
        Self {
            is_designed: natures.any(|nature| nature == Some(Nature::Designed)),
            ..Self::new(figures.collect(), cpus(test), row)
        }
    }

    /// The changes of a test.
    pub(crate) fn of_change(test: &TestChange) -> Self {
        let figures = test.changes.iter().map(|change| {
            let figure = Figure {
                pct: change.pct,
                together_pct: change.together_pct,
                p: change.p_together,
                verdict: Some(change.verdict),
            };
            ((change.cpu, change.quantity), figure)
        });
        let cpus = unique(test.changes.iter().map(|change| change.cpu));
        Self::new(figures.collect(), cpus, |cpu| {
            let here = test.changes.iter().filter(|change| change.cpu == cpu);
            let decided = here.map(|change| change.verdict);
            let decided = decided.filter(|verdict| *verdict != AuditVerdict::NotResolvable);
            let verdict = decided.max().unwrap_or(AuditVerdict::NotResolvable);
            FigureRow {
                verdict,
                word: match verdict {
                    AuditVerdict::NotResolvable => "no verdict",
                    other => change_words(other),
                },
                is_odd: verdict == AuditVerdict::Unequal,
            }
        })
    }

    fn new(
        figures: BTreeMap<(u32, Quantity), Figure>,
        cpus: Vec<u32>,
        row: impl Fn(u32) -> FigureRow,
    ) -> Self {
        Self {
            quantities: unique(figures.keys().map(|(_, quantity)| *quantity)),
            rows: cpus.into_iter().map(|cpu| (cpu, row(cpu))).collect(),
            figures,
            is_designed: false,
        }
    }

    pub(crate) fn get(&self, cpu: u32, quantity: Quantity) -> Option<&Figure> {
        self.figures.get(&(cpu, quantity))
    }

    /// The figures of a CPU.
    pub(crate) fn of_cpu(&self, cpu: u32) -> impl Iterator<Item = &Figure> {
        let all = self.figures.iter();
        all.filter(move |((other, _), _)| *other == cpu)
            .map(|(_, figure)| figure)
    }
}
