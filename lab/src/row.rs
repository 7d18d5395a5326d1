// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One trial, one row: the format of all experiments.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result};
use sandbag_linux::CpuList;
use sandbag_stats::verdict::NOISY_FOREIGN_PCT;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::steal::Disturbance;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// All runs were made and their results were right.
    #[default]
    Done,
    /// The program did not end under the condition within its limit.
    OverLimit {
        limit_s: f64,
    },
    Failed {
        why: String,
    },
}

/// One trial of a cell. What a kind of experiment does not have is not in the file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The cell it belongs to (`Cell::key`).
    pub cell: String,
    pub round: u32,
    #[serde(default)]
    pub program: String,
    #[serde(default)]
    pub condition: Condition,
    /// CPUs, in the kernel's list format.
    #[serde(default)]
    pub cpus: String,
    /// Time without the condition; 0 where it was not measured.
    #[serde(default)]
    pub unloaded_s: f64,
    /// Time under it; 0 unless done.
    #[serde(default)]
    pub loaded_s: f64,
    #[serde(default)]
    pub end: End,
    /// Steal of these CPUs during the trial.
    #[serde(default)]
    pub steal_pct: f64,
    /// CPU time on these CPUs of processes that are neither the program nor the
    /// condition, during the trial.
    #[serde(default)]
    pub foreign_pct: f64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, f64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub texts: BTreeMap<String, String>,
    /// What a part of a benchmark measured in detail.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub details: serde_json::Value,
}

impl Row {
    /// Of a trial of which nothing is known yet.
    pub fn new(cell: &str, round: u32) -> Self {
        Self {
            cell: cell.to_owned(),
            round,
            ..Self::default()
        }
    }

    /// Of a program under a condition.
    pub fn under(
        cell: &str,
        round: u32,
        program: &str,
        condition: &Condition,
        cpus: &CpuList,
    ) -> Self {
        Self {
            program: program.to_owned(),
            condition: condition.clone(),
            cpus: cpus.to_string(),
            ..Self::new(cell, round)
        }
    }

    pub fn failed(cell: &str, round: u32, error: &anyhow::Error) -> Self {
        let why = format!("{error:#}");
        Self {
            end: End::Failed { why },
            ..Self::new(cell, round)
        }
    }

    /// What disturbed its trial.
    pub fn disturbed(&mut self, by: Disturbance) {
        (self.steal_pct, self.foreign_pct) = (by.steal_pct, by.foreign_pct);
    }

    pub fn put(&mut self, name: impl Into<String>, value: impl Into<Option<f64>>) {
        if let Some(value) = value.into().filter(|value| value.is_finite()) {
            self.figures.insert(name.into(), value);
        }
    }

    pub fn get(&self, name: &str) -> Option<f64> {
        self.figures.get(name).copied()
    }

    pub fn say(&mut self, name: &str, text: impl Into<String>) {
        self.texts.insert(name.to_owned(), text.into());
    }

    /// A result in words; empty where there is none.
    pub fn text(&self, name: &str) -> &str {
        self.texts.get(name).map_or("", String::as_str)
    }

    pub fn why_failed(&self) -> Option<&str> {
        match &self.end {
            End::Failed { why } => Some(why),
            _ => None,
        }
    }

    /// Whether its figures count: done, and on a machine that was quiet enough.
    pub fn counts(&self) -> bool {
        self.end == End::Done
            && self.steal_pct <= MOST_STEAL_PCT
            && self.foreign_pct <= NOISY_FOREIGN_PCT
    }

    /// Its figures, for progress messages.
    pub fn line(&self) -> String {
        let line = match &self.end {
            // Some programs run for a given time: nothing to compare.
            End::Done if self.unloaded_s > 0.0 => {
                format!("x {:.2}", self.loaded_s / self.unloaded_s)
            }
            End::Done if self.loaded_s > 0.0 => format!("{:.1} s", self.loaded_s),
            End::Done => "measured".to_owned(),
            End::OverLimit { limit_s } => format!("> {limit_s} s"),
            End::Failed { why } => format!("failed: {why}"),
        };
        format!("{} {line}", self.program).trim_start().to_owned()
    }
}

/// Pairs with more steal than this are left out, percent.
pub const MOST_STEAL_PCT: f64 = 3.0;

/// The rows by a value of theirs, in the order of its first appearance.
pub fn grouped<'a, T: PartialEq>(
    rows: impl IntoIterator<Item = &'a Row>,
    value: impl Fn(&Row) -> T,
) -> Vec<(T, Vec<&'a Row>)> {
    let mut found: Vec<(T, Vec<&Row>)> = Vec::new();
    for row in rows {
        let value = value(row);
        match found.iter_mut().find(|(known, _)| *known == value) {
            Some((_, own)) => own.push(row),
            None => found.push((value, vec![row])),
        }
    }
    found
}

/// The cells that were measured and have no row that `is_result`: how many, and the first with
/// its first row. `None` if there is no such cell.
pub fn without_result(
    cells: &[String],
    rows: &[Row],
    is_result: fn(&Row) -> bool,
) -> Option<String> {
    let mut without = cells.iter().filter_map(|cell| {
        let own = || rows.iter().filter(|row| row.cell == *cell);
        let first = own().next()?;
        (!own().any(is_result)).then(|| format!("{cell}: {}", first.line()))
    });
    let first = without.next()?;
    let count = 1 + without.count();
    Some(format!(
        "{count} of {} cells have no result; the first is {first}",
        cells.len()
    ))
}

/// The rows as CSV, for spreadsheets.
pub fn write_csv(path: &Path, rows: &[Row]) -> Result<()> {
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

    pub(crate) fn row(round: u32, unloaded_s: f64, loaded_s: f64) -> Row {
        let condition = Condition::Node {
            method: "hogs".to_owned(),
            speed: 0.5,
        };
        Row {
            unloaded_s,
            loaded_s,
            ..Row::under(
                "a",
                round,
                "compute",
                &condition,
                &[0].into_iter().collect(),
            )
        }
    }

    #[test]
    fn a_cell_of_which_every_trial_failed_has_no_result() {
        let cells = ["a", "b", "c", "d"].map(str::to_owned);
        let failed = |cell: &str| Row::failed(cell, 0, &anyhow::anyhow!("no gas"));
        // Of c nothing was measured, and d is there once.
        let rows = [failed("a"), failed("b"), failed("d"), Row::new("d", 1)];
        let is_done = |row: &Row| row.end == End::Done;
        let text = without_result(&cells, &rows, is_done).unwrap();
        assert_eq!(
            text,
            "2 of 4 cells have no result; the first is a: failed: no gas"
        );
        assert_eq!(without_result(&cells[2..], &rows, is_done), None);
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
