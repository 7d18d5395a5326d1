// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was measured: one trial of a program, one row.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result};
use sandbag_linux::CpuList;
use sandbag_stats::verdict::NOISY_FOREIGN_PCT;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::trial::Trial;

/// How a trial ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Both runs of the pair were made and their results were right.
    Done,
    /// The program did not end under the condition within its limit.
    OverLimit {
        /// The limit, seconds.
        limit_s: f64,
    },
    /// It failed, or its result was wrong.
    Failed { why: String },
}

/// A program under a condition, and where it is one of a pair, without it right
/// before or after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairRow {
    /// The cell it belongs to (`Cell::key`).
    pub cell: String,
    /// Round, from 0.
    pub round: u32,
    pub program: String,
    pub condition: Condition,
    /// CPUs, in the kernel's list format.
    pub cpus: String,
    /// Time without the condition, seconds; 0 where it was not measured.
    pub unloaded_s: f64,
    /// Time under it, seconds; 0 unless done.
    pub loaded_s: f64,
    /// How it ended.
    pub end: End,
    /// Steal of these CPUs during the pair, percent.
    pub steal_pct: f64,
    /// Foreign load of these CPUs during the pair, percent: CPU time of
    /// processes that are neither the program nor the condition.
    #[serde(default)]
    pub foreign_pct: f64,
    /// Other figures, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, f64>,
}

impl PairRow {
    /// Of a trial of which nothing is known yet.
    #[must_use]
    pub fn new(
        cell: &str,
        round: u32,
        program: &str,
        condition: &Condition,
        cpus: &CpuList,
    ) -> Self {
        Self {
            cell: cell.to_owned(),
            round,
            program: program.to_owned(),
            condition: condition.clone(),
            cpus: cpus.to_string(),
            unloaded_s: 0.0,
            loaded_s: 0.0,
            end: End::Done,
            steal_pct: 0.0,
            foreign_pct: 0.0,
            figures: BTreeMap::new(),
        }
    }

    /// Whether its figures count: done, and on a machine that was quiet enough.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.end == End::Done
            && self.steal_pct <= MOST_STEAL_PCT
            && self.foreign_pct <= NOISY_FOREIGN_PCT
    }
}

impl Trial for PairRow {
    fn cell(&self) -> &str {
        &self.cell
    }

    fn round(&self) -> u32 {
        self.round
    }

    fn line(&self) -> String {
        match &self.end {
            // Some programs run for a given time: nothing to compare.
            End::Done if self.unloaded_s > 0.0 => {
                format!("{} x {:.2}", self.program, self.loaded_s / self.unloaded_s)
            }
            End::Done => format!("{} {:.1} s", self.program, self.loaded_s),
            End::OverLimit { limit_s } => format!("{} > {limit_s} s", self.program),
            End::Failed { why } => format!("{} failed: {why}", self.program),
        }
    }
}

/// Pairs with more steal than this are left out, percent.
pub const MOST_STEAL_PCT: f64 = 3.0;

/// The values of `rows` in the order of their first appearance.
pub fn distinct<T: PartialEq>(rows: &[PairRow], value: impl Fn(&PairRow) -> T) -> Vec<T> {
    let mut found = Vec::new();
    for row in rows {
        let value = value(row);
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

/// The rows as CSV, for spreadsheets.
///
/// # Errors
/// The file cannot be written.
pub fn write_csv(path: &Path, rows: &[PairRow]) -> Result<()> {
    let names: BTreeSet<&str> = rows
        .iter()
        .flat_map(|row| row.figures.keys().map(String::as_str))
        .collect();
    let mut out = csv::Writer::from_path(path).with_context(|| path.display().to_string())?;
    let fixed = [
        "program",
        "condition",
        "cpus",
        "round",
        "unloaded_s",
        "loaded_s",
        "end",
        "steal_pct",
        "foreign_pct",
    ];
    out.write_record(fixed.iter().chain(names.iter()))?;
    for row in rows {
        let end = match &row.end {
            End::Done => "done".to_owned(),
            End::OverLimit { limit_s } => format!("> {limit_s} s"),
            End::Failed { why } => format!("failed: {why}"),
        };
        let mut record = vec![
            row.program.clone(),
            row.condition.name(),
            row.cpus.clone(),
            row.round.to_string(),
            row.unloaded_s.to_string(),
            row.loaded_s.to_string(),
            end,
            row.steal_pct.to_string(),
            row.foreign_pct.to_string(),
        ];
        let figure = |name: &&str| row.figures.get(*name).map(f64::to_string);
        record.extend(names.iter().map(|name| figure(name).unwrap_or_default()));
        out.write_record(&record)?;
    }
    out.flush().with_context(|| path.display().to_string())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn row(round: u32, unloaded_s: f64, loaded_s: f64) -> PairRow {
        PairRow {
            cell: "a".to_owned(),
            round,
            program: "compute".to_owned(),
            condition: Condition::Node {
                method: "hogs".to_owned(),
                speed: 0.5,
            },
            cpus: "0".to_owned(),
            unloaded_s,
            loaded_s,
            end: End::Done,
            steal_pct: 0.0,
            foreign_pct: 0.0,
            figures: BTreeMap::new(),
        }
    }

    #[test]
    fn a_spreadsheet_can_read_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.csv");
        let mut second = row(1, 1.0, 0.0);
        second.end = End::OverLimit { limit_s: 60.0 };
        second.figures.insert("supervisor_pct".to_owned(), 0.5);
        write_csv(&path, &[row(0, 1.0, 2.0), second]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].ends_with("steal_pct,foreign_pct,supervisor_pct"));
        assert!(lines[2].contains("> 60 s") && lines[2].ends_with("0.5"));
    }
}
