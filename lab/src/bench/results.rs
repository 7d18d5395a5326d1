// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was measured so far, in memory and on the disk.
//!
//! Every row is on the disk as soon as its run is over, so that a benchmark
//! of an hour that is killed, or whose machine goes away, has lost one run;
//! `--resume` reads the rows back and goes on. Rows of rounds (latency) are
//! one line of JSON each, because they are nested; all others are CSV.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::bench::closing::Closing;
use crate::bench::latency::Round;
use crate::bench::row::Row;

/// One round of the wake-up latency.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Latency {
    /// `v1` or `v2`.
    pub cgroup: String,
    /// What it gave.
    pub round: Round,
}

/// Everything that was measured.
#[derive(Debug, Default)]
pub struct Results {
    /// One per run.
    pub rows: Vec<Row>,
    /// One per run and CPU.
    pub closings: Vec<Closing>,
    /// Rounds of the wake-up latency.
    pub latencies: Vec<Latency>,
    /// What could not be measured, and why.
    pub notes: Vec<String>,
    files: Option<Files>,
}

#[derive(Debug)]
struct Files {
    rows: csv::Writer<File>,
    closings: csv::Writer<File>,
    latencies: File,
}

impl Results {
    /// Results that are written beside the report `out` as they come. With
    /// `resume` those that are there already are read first; a last row that
    /// was cut short is dropped.
    pub fn beside(out: &Path, resume: bool) -> Result<Self> {
        let [rows, closings, latencies] = paths(out);
        let mut results = Self::default();
        if resume {
            results.rows = read_csv(&rows)?;
            // What failed is tried again.
            results.rows.retain(|row| row.failed.is_none());
            // Books of a run whose row was lost go with it.
            let mut books: Vec<Closing> = read_csv(&closings)?;
            books.retain(|b| results.has(&b.cgroup, &b.cell, b.round));
            results.closings = books;
            results.latencies = read_lines(&latencies)?;
        }
        // Written anew: what was cut short must not stay in the middle.
        let mut files = Files {
            rows: create_csv(&rows)?,
            closings: create_csv(&closings)?,
            latencies: create(&latencies)?,
        };
        for row in &results.rows {
            files.rows.serialize(row)?;
        }
        for row in &results.closings {
            files.closings.serialize(row)?;
        }
        for latency in &results.latencies {
            writeln!(files.latencies, "{}", serde_json::to_string(latency)?)?;
        }
        files.rows.flush()?;
        files.closings.flush()?;
        results.files = Some(files);
        Ok(results)
    }

    /// Whether this run is there already.
    pub fn has(&self, cgroup: &str, cell: &str, round: usize) -> bool {
        self.rows
            .iter()
            .any(|r| r.cgroup == cgroup && r.cell == cell && r.round == round)
    }

    /// Rounds of the latency that are there already.
    pub fn latency_rounds(&self, cgroup: &str) -> usize {
        self.latencies.iter().filter(|l| l.cgroup == cgroup).count()
    }

    /// Whether nothing is there.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.latencies.is_empty() && self.notes.is_empty()
    }

    /// Adds a run. The books come first: a row that is there is complete.
    pub fn add(&mut self, row: Row, closings: Vec<Closing>) -> Result<()> {
        if let Some(files) = &mut self.files {
            for closing in &closings {
                files.closings.serialize(closing)?;
            }
            files.closings.flush().context("write the books")?;
            files.rows.serialize(&row)?;
            files.rows.flush().context("write the rows")?;
        }
        self.rows.push(row);
        self.closings.extend(closings);
        Ok(())
    }

    /// Adds a round of the latency.
    pub fn add_latency(&mut self, latency: Latency) -> Result<()> {
        if let Some(files) = &mut self.files {
            let line = serde_json::to_string(&latency)?;
            writeln!(files.latencies, "{line}").context("write the latencies")?;
        }
        self.latencies.push(latency);
        Ok(())
    }
}

/// Rows, books, latencies.
fn paths(out: &Path) -> [PathBuf; 3] {
    ["csv", "closing.csv", "latency.jsonl"].map(|ending| out.with_extension(ending))
}

fn create(path: &Path) -> Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
        .with_context(|| format!("write {}", path.display()))
}

fn create_csv(path: &Path) -> Result<csv::Writer<File>> {
    Ok(csv::Writer::from_writer(create(path)?))
}

/// The rows of a file, without a last one that was cut short; none where
/// there is no file.
fn read_csv<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let mut reader =
        csv::Reader::from_path(path).with_context(|| format!("read {}", path.display()))?;
    let all: Vec<_> = reader.deserialize().collect();
    whole(all, path)
}

fn read_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let file = File::open(path).with_context(|| format!("read {}", path.display()))?;
    let lines: Vec<String> = BufReader::new(file).lines().collect::<Result<_, _>>()?;
    let all = lines.iter().map(|l| serde_json::from_str(l)).collect();
    whole(all, path)
}

/// All of them, of which the last may be broken.
fn whole<T, E: std::error::Error>(all: Vec<Result<T, E>>, path: &Path) -> Result<Vec<T>> {
    let count = all.len();
    let mut good = Vec::new();
    for (at, row) in all.into_iter().enumerate() {
        match row {
            Ok(row) => good.push(row),
            Err(e) => ensure!(
                at + 1 == count,
                "{}: row {}: {e}; --resume goes on only from what this version wrote",
                path.display(),
                at + 1
            ),
        }
    }
    Ok(good)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::cells::{Method, matrix};
    use std::fs;

    fn row(round: usize) -> Row {
        let cells = matrix(true, &[Method::Pace], 2);
        Row {
            mae_1s: Some(0.25),
            verdict: "kept".to_owned(),
            ..Row::new(&cells[0], "v1", round)
        }
    }

    #[test]
    fn what_was_added_is_on_the_disk_at_once_and_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("r.md");
        let mut results = Results::beside(&out, false).unwrap();
        results.add(row(1), Vec::new()).unwrap();
        results
            .add_latency(Latency {
                cgroup: "v1".to_owned(),
                round: Round::default(),
            })
            .unwrap();
        // As after a kill: nothing was dropped or closed.
        let again = Results::beside(&out, true).unwrap();
        std::mem::forget(results);
        assert_eq!(again.rows.len(), 1);
        assert_eq!(again.rows[0].mae_1s, Some(0.25));
        assert_eq!(again.rows[0].failed, None);
        assert_eq!(again.latencies.len(), 1);
        assert!(again.has("v1", &row(1).cell, 1));
        assert!(!again.has("v1", &row(1).cell, 2));
        assert!(!again.has("v2", &row(1).cell, 1));
    }

    #[test]
    fn a_row_cut_short_is_dropped_and_measured_again() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("r.md");
        let mut results = Results::beside(&out, false).unwrap();
        results.add(row(1), Vec::new()).unwrap();
        results.add(row(2), Vec::new()).unwrap();
        drop(results);
        let path = out.with_extension("csv");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() - 20]).unwrap();
        let mut again = Results::beside(&out, true).unwrap();
        assert_eq!(again.rows.len(), 1);
        again.add(row(2), Vec::new()).unwrap();
        drop(again);
        assert_eq!(Results::beside(&out, true).unwrap().rows.len(), 2);
    }

    #[test]
    fn what_failed_is_measured_again() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("r.md");
        let mut failed = row(1);
        failed.failed = Some("another run was there".to_owned());
        let mut results = Results::beside(&out, false).unwrap();
        results.add(failed, Vec::new()).unwrap();
        drop(results);
        let again = Results::beside(&out, true).unwrap();
        assert!(!again.has("v1", &row(1).cell, 1));
    }

    #[test]
    fn rows_of_another_program_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("r.md");
        fs::write(out.with_extension("csv"), "a,b\n1,2\n3,4\n").unwrap();
        assert!(Results::beside(&out, true).is_err());
        // And are still there.
        let text = fs::read_to_string(out.with_extension("csv")).unwrap();
        assert_eq!(text, "a,b\n1,2\n3,4\n");
    }
}
