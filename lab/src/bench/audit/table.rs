// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the audits said, and whether that is right. Pure.

use sandbag_audit::model::{Audit, AuditVerdict, Effect, Quantity};
use serde::{Deserialize, Serialize};

use super::plant::Plant;
use super::simulate::upper_bound;
use crate::bench::markdown::{MarkdownTable, number};
use crate::trial::Trial;

/// One audit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AuditRow {
    /// Round, from 0.
    pub round: u32,
    /// What was planted.
    pub plant: Plant,
    /// Where.
    pub cpu: u32,
    /// Why there is no audit.
    pub failed: Option<String>,
    /// The CPU was called unequal.
    pub found: bool,
    /// Others that were, in what, and by how much.
    pub others: Vec<String>,
    /// Kind of the first suspect of the CPU.
    pub first: Option<String>,
    /// It is the right one.
    pub right: bool,
    /// The greatest effect on the CPU in elapsed and in CPU time, percent, and in
    /// the share of time in which runs waited, points.
    pub elapsed_pct: Option<f64>,
    pub waiting_pct: Option<f64>,
    pub cpu_pct: Option<f64>,
    /// What would have been seen, of the best test, percent.
    pub detectable_pct: Option<f64>,
    /// Tests and quantities in which it was found.
    pub in_tests: Vec<String>,
    /// AuditVerdict of the audit.
    pub verdict: Option<AuditVerdict>,
    /// How long it took.
    pub took_s: f64,
}

impl Trial for AuditRow {
    fn cell(&self) -> &str {
        self.plant.name()
    }

    fn round(&self) -> u32 {
        self.round
    }

    fn is_measured_again(&self) -> bool {
        self.failed.is_some()
    }

    fn line(&self) -> String {
        line(self).join(" | ")
    }
}

impl AuditRow {
    /// Of an audit.
    pub fn new(plant: Plant, round: u32, cpu: u32, audit: &Audit) -> Self {
        let mut row = Self {
            round,
            plant,
            cpu,
            verdict: Some(audit.verdict),
            took_s: audit.took_ns as f64 / 1e9,
            ..Self::default()
        };
        for test in &audit.tests {
            for verdict in &test.verdicts {
                if verdict.verdict != AuditVerdict::Unequal {
                    continue;
                }
                let quantity = format!("{:?}", verdict.quantity).to_lowercase();
                if verdict.cpu == cpu {
                    row.found = true;
                    row.in_tests.push(format!("{} {quantity}", test.name));
                } else {
                    let same = |e: &&Effect| e.cpu == verdict.cpu && e.quantity == verdict.quantity;
                    let pct = test.effects.iter().find(same).map_or(0.0, |e| e.pct);
                    let name = &test.name;
                    row.others
                        .push(format!("{}: {name} {quantity} {pct:+.2}", verdict.cpu));
                }
            }
            let greatest = |quantity| {
                let own = test
                    .effects
                    .iter()
                    .filter(|e| e.cpu == cpu && e.quantity == quantity);
                own.map(|effect| effect.pct).reduce(f64::max)
            };
            let more = |known: &mut Option<f64>, new: Option<f64>| {
                if let Some(new) = new {
                    *known = Some(known.map_or(new, |known| known.max(new)));
                }
            };
            more(&mut row.elapsed_pct, greatest(Quantity::Elapsed));
            more(&mut row.waiting_pct, greatest(Quantity::Waiting));
            more(&mut row.cpu_pct, greatest(Quantity::Cpu));
            let seen = test
                .effects
                .iter()
                .filter(|e| e.quantity == Quantity::Elapsed);
            if let Some(worst) = seen
                .map(|effect| effect.detectable_pct)
                .collect::<Option<Vec<f64>>>()
                .and_then(|all| all.into_iter().reduce(f64::max))
            {
                row.detectable_pct = Some(row.detectable_pct.map_or(worst, |d| d.min(worst)));
            }
        }
        let first = audit.suspects.iter().find(|suspect| suspect.cpu == cpu);
        row.first = first.map(|suspect| suspect.kind.clone());
        row.right = plant.cause().is_some() && row.first.as_deref() == plant.cause();
        row
    }

    /// Of one that could not be had.
    pub fn failed(plant: Plant, round: u32, cpu: u32, error: &anyhow::Error) -> Self {
        Self {
            round,
            plant,
            cpu,
            failed: Some(format!("{error:#}")),
            ..Self::default()
        }
    }
}

/// A row for people.
pub fn line(row: &AuditRow) -> Vec<String> {
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let plant = row.plant.about().to_owned();
    if let Some(why) = &row.failed {
        let mut line = vec![plant, format!("failed: {why}")];
        line.resize(HEAD.len(), String::new());
        return line;
    }
    let expected = row.plant.cause().is_some();
    vec![
        plant,
        yes(row.found),
        match (&row.first, expected) {
            (Some(first), true) => format!("{first}{}", if row.right { "" } else { " (wrong)" }),
            (Some(first), false) => first.clone(),
            (None, _) => "-".to_owned(),
        },
        number(row.elapsed_pct, 2),
        number(row.cpu_pct, 2),
        number(row.waiting_pct, 2),
        number(row.detectable_pct, 2),
        if row.others.is_empty() {
            "none".to_owned()
        } else {
            row.others.join(", ")
        },
        number(Some(row.took_s), 0),
        if row.in_tests.is_empty() {
            "-".to_owned()
        } else {
            row.in_tests.join(", ")
        },
    ]
}

const HEAD: [&str; 10] = [
    "planted",
    "found",
    "first suspect",
    "elapsed %",
    "CPU %",
    "waiting, points",
    "seen from %",
    "other CPUs",
    "took s",
    "in",
];

/// The table, and how many differences were found.
pub fn report(rows: &[AuditRow], simulated: Option<(u64, u64)>) -> String {
    let mut table = MarkdownTable::new(&HEAD);
    for plant in Plant::ALL {
        let own = rows.iter().filter(|row| row.plant == plant);
        own.for_each(|row| table.push(line(row)));
    }
    let cpu = rows.first().map_or(0, |row| row.cpu);
    let mut text = format!(
        "All on CPU {cpu}. The greatest effect over the tests in elapsed time, in CPU time, and in the share of \
         time in which runs waited; \
         differences of elapsed time from the next column on would have been seen in the best \
         test.\n\n{}\n",
        table.render()
    );
    let planted = || rows.iter().filter(|row| row.plant.cause().is_some());
    let found = planted().filter(|row| row.found).count();
    let right = planted().filter(|row| row.right).count();
    text += &format!(
        "Planted: {}; found on the right CPU: {found}; right cause named first: {right}.\n",
        planted().count()
    );
    let equal = || {
        rows.iter()
            .filter(|r| r.plant == Plant::None && r.failed.is_none())
    };
    let alarms = equal()
        .filter(|row| row.found || !row.others.is_empty())
        .count();
    text += &format!(
        "Audits of CPUs to which nothing was done: {}; alarms: {alarms}.\n",
        equal().count()
    );
    if let Some((found, all)) = simulated {
        text += &format!(
            "Simulated audits of equal CPUs: {all}; alarms: {found}; upper 95 % bound of their \
             share: {:.2} %.\n",
            upper_bound(found, all, 0.95) * 100.0
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_by_what_was_planted() {
        let found = AuditRow {
            plant: Plant::Load,
            cpu: 1,
            found: true,
            first: Some("load".into()),
            right: true,
            elapsed_pct: Some(1.02),
            ..AuditRow::default()
        };
        let wrong = AuditRow {
            first: Some("task".into()),
            right: false,
            ..found.clone()
        };
        let quiet = AuditRow::default();
        let rows = [
            found,
            wrong,
            quiet,
            AuditRow::failed(Plant::Slow, 0, 1, &anyhow::anyhow!("no")),
        ];
        let text = report(&rows, Some((0, 2000)));
        assert!(
            text.contains("Planted: 3; found on the right CPU: 2; right cause named first: 1"),
            "{text}"
        );
        assert!(text.contains("nothing was done: 1; alarms: 0"), "{text}");
        assert!(text.contains("bound of their share: 0.15 %"), "{text}");
        assert!(
            text.contains("task (wrong)") && text.contains("failed: no"),
            "{text}"
        );
    }
}
