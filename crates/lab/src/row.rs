// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was measured: one trial, one row; and the file that keeps them, so
//! that an experiment which was stopped goes on where it was.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use crate::condition::Condition;

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
    Failed {
        /// Why.
        why: String,
    },
}

/// One pair of runs: a program under a condition, and without it just before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The cell it belongs to (see [`Cell::key`](crate::experiment::Cell)).
    pub cell: String,
    /// Round, from 0.
    pub round: u32,
    /// The program.
    pub program: String,
    /// The condition.
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
    /// Other figures, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, f64>,
}

impl Row {
    /// Whether its figures count: done, and on a machine that was quiet enough.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.end == End::Done && self.steal_pct <= MOST_STEAL_PCT
    }
}

/// Pairs with more steal than this are left out, percent.
pub const MOST_STEAL_PCT: f64 = 3.0;

/// What rows must have in common to stand in one table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// The experiment.
    pub experiment: String,
    /// Whether the short form.
    pub quick: bool,
    /// Version of sandbag.
    pub sandbag: String,
    /// CPU, kernel and memory of the machine, in words.
    pub machine: String,
    /// CPUs that are used.
    pub cpus: String,
    /// What one program may take, seconds.
    pub limit_s: f64,
    /// The C project to compile, where one was named.
    pub sources: Option<PathBuf>,
    /// Seed of the order of the cells.
    pub seed: u64,
}

/// The rows of an experiment, kept in a file of one JSON document per line,
/// the terms first.
#[derive(Debug)]
pub struct Rows {
    path: PathBuf,
    file: File,
    terms: Terms,
    rows: Vec<Row>,
}

impl Rows {
    /// Opens the file, or makes it. A last line that is cut is what a killed
    /// run left; it is dropped.
    ///
    /// # Errors
    /// The file holds rows under other terms, or cannot be read or written.
    pub fn open(path: &Path, terms: Terms) -> Result<Self> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        let mut lines = whole.lines();
        let terms = match lines.next() {
            Some(line) => {
                let found: Terms = serde_json::from_str(line)
                    .with_context(|| format!("{}, line 1", path.display()))?;
                // The order of what is left to do is that of the beginning.
                let wanted = Terms {
                    seed: found.seed,
                    ..terms
                };
                if found != wanted {
                    bail!(
                        "{} was begun under other terms ({}); now: {}. Begin again with --fresh, or \
                         choose another directory with --out",
                        path.display(),
                        serde_json::to_string(&found)?,
                        serde_json::to_string(&wanted)?
                    );
                }
                found
            }
            None => terms,
        };
        let rows = lines
            .enumerate()
            .map(|(n, line)| {
                serde_json::from_str(line)
                    .with_context(|| format!("{}, line {}", path.display(), n + 2))
            })
            .collect::<Result<Vec<Row>>>()?;
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .with_context(|| path.display().to_string())?;
        file.set_len(whole.len() as u64)
            .with_context(|| path.display().to_string())?;
        if whole.is_empty() {
            writeln!(file, "{}", serde_json::to_string(&terms)?)
                .with_context(|| path.display().to_string())?;
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            terms,
            rows,
        })
    }

    /// The terms, those of the file's beginning.
    #[must_use]
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// All rows.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Cells and rounds that are done.
    #[must_use]
    pub fn done(&self) -> BTreeSet<(String, u32)> {
        self.rows
            .iter()
            .map(|row| (row.cell.clone(), row.round))
            .collect()
    }

    /// Adds the rows of one trial, all or none.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn push(&mut self, rows: Vec<Row>) -> Result<()> {
        let mut text = String::new();
        for row in &rows {
            text += &serde_json::to_string(row)?;
            text.push('\n');
        }
        let before = self.file.metadata().map(|meta| meta.len());
        if let Err(error) = self.file.write_all(text.as_bytes()) {
            // Half of a trial would be taken for all of it.
            if let Ok(length) = before {
                let _ = self.file.set_len(length);
            }
            return Err(error).with_context(|| self.path.display().to_string());
        }
        self.rows.extend(rows);
        Ok(())
    }
}

/// The rows as CSV, for spreadsheets.
///
/// # Errors
/// The file cannot be written.
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

    pub(crate) fn terms() -> Terms {
        Terms {
            experiment: "micro".to_owned(),
            quick: true,
            sandbag: "0.1.0".to_owned(),
            machine: "two CPUs".to_owned(),
            cpus: "0-1".to_owned(),
            limit_s: 600.0,
            sources: None,
            seed: 1,
        }
    }

    pub(crate) fn row(round: u32, unloaded_s: f64, loaded_s: f64) -> Row {
        Row {
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
            figures: BTreeMap::new(),
        }
    }

    #[test]
    fn an_experiment_goes_on_where_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.jsonl");
        let mut rows = Rows::open(&path, terms()).unwrap();
        rows.push(vec![row(0, 1.0, 2.0), row(1, 1.0, 2.0)]).unwrap();
        drop(rows);
        // Killed in the middle of a line.
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        write!(file, "{{\"cell\":\"b\",\"rou").unwrap();
        let again = Terms { seed: 2, ..terms() };
        let mut rows = Rows::open(&path, again).unwrap();
        assert_eq!(rows.rows().len(), 2);
        assert_eq!(rows.terms().seed, 1, "the seed is the beginning's");
        assert!(rows.done().contains(&("a".to_owned(), 1)));
        rows.push(vec![row(2, 1.0, 2.5)]).unwrap();
        assert_eq!(Rows::open(&path, terms()).unwrap().rows(), rows.rows());
    }

    #[test]
    fn rows_of_another_machine_are_not_mixed_in() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.jsonl");
        Rows::open(&path, terms()).unwrap();
        let other = Terms {
            machine: "four CPUs".to_owned(),
            ..terms()
        };
        let error = Rows::open(&path, other).unwrap_err().to_string();
        assert!(
            error.contains("four CPUs") && error.contains("--fresh"),
            "{error}"
        );
        fs::write(&path, "rubbish\n").unwrap();
        let error = Rows::open(&path, terms()).unwrap_err();
        assert!(error.to_string().contains("line 1"), "{error}");
    }

    #[test]
    fn a_spreadsheet_can_read_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.csv");
        let mut second = row(1, 1.0, 0.0);
        second.end = End::OverLimit { limit_s: 60.0 };
        second.figures.insert("supervisor_pct".to_owned(), 0.5);
        write_csv(&path, &[row(0, 1.0, 2.0), second]).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].ends_with("steal_pct,supervisor_pct"));
        assert!(lines[2].contains("> 60 s") && lines[2].ends_with("0.5"));
    }
}
