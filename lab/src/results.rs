// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an experiment leaves in its directory, and making that again: figures
//! and page are functions of the rows that were kept.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::agreement::{Compared, sentence};
use crate::experiment::{Choices, Measurements, Paper};
use crate::journal::{self, put};
use crate::page::{self, Frame, Section};
use crate::row::{Row, grouped, write_csv};

/// The rows, and the terms under which they were measured.
pub const ROWS: &str = "rows.jsonl";
pub const CSV: &str = "rows.csv";
pub const SUMMARY: &str = "summary.json";
/// What the experiment chose for this machine.
pub const CHOICES: &str = "choices.json";
pub const PAGE: &str = "index.html";
/// The tables of the page in markdown.
const TABLES: &str = "tables.md";

/// Whether an experiment was run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    #[default]
    Run,
    Skipped {
        why: String,
    },
    /// It failed: the rows are those before. Or all trials of a cell failed.
    Failed {
        why: String,
    },
}

impl State {
    /// For pages; `None` where there is nothing to say.
    pub fn shown(&self) -> Option<String> {
        match self {
            Self::Run => None,
            Self::Skipped { why } => Some(format!("Skipped: {why}.")),
            Self::Failed { why } => Some(format!("Failed: {why}.")),
        }
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Report {
    pub experiment: String,
    pub source: String,
    #[serde(default)]
    pub state: State,
    /// Rounds wanted, or at least.
    pub rounds: u32,
    /// Those that every cell has, of these.
    #[serde(default)]
    pub complete_rounds: Option<u32>,
    pub quick: bool,
    pub machine: Vec<(String, String)>,
    /// Our figures beside the published ones.
    pub lines: Vec<Compared>,
    pub left_out: Vec<String>,
    #[serde(default)]
    pub notes: Vec<String>,
    /// The cells in their order, which is not that of chance in which they
    /// were measured.
    #[serde(default)]
    pub cells: Vec<String>,
}

impl Report {
    /// Of an experiment of which nothing is known yet.
    pub fn new(experiment: &dyn Paper, quick: bool) -> Self {
        Self {
            experiment: experiment.name().to_owned(),
            source: experiment.about().source.to_owned(),
            rounds: experiment.rounds(quick),
            quick,
            ..Self::default()
        }
    }

    pub fn form(&self) -> String {
        let form = if self.quick { "quick" } else { "full" };
        let s = if self.rounds == 1 { "" } else { "s" };
        let of = match self.complete_rounds {
            Some(done) if done < self.rounds => format!("{done} of "),
            _ => String::new(),
        };
        format!("{form}, {of}{} round{s}", self.rounds)
    }
}

/// Writes figures, page, summary and CSV of these rows into the experiment's
/// directory; fills the report's lines.
pub fn write(
    experiment: &dyn Paper,
    report: &mut Report,
    chosen: &Choices,
    rows: &[Row],
    dir: &Path,
) -> Result<()> {
    let rows = sorted(rows, &report.cells);
    let about = experiment.about();
    report.lines = (about.summary)(&rows);
    report.complete_rounds = Some(complete_rounds(experiment, report, &rows));
    let trials = grouped(&rows, |row| (row.cell.clone(), row.round)).len();
    let frame = Frame {
        title: format!("Lab: {}", experiment.name()),
        source: format!("{}. Repeats: {}.", about.what, about.source),
        progress: format!("{trials} trials; {}.", report.form()),
        verdict: sentence(&report.lines),
        state: report.state.shown(),
        machine: report.machine.clone(),
        skipped: report.left_out.clone(),
        notes: report.notes.clone(),
    };
    let sections = if rows.is_empty() {
        Vec::new()
    } else {
        (about.page)(&Measurements {
            rows: &rows,
            chosen,
            dir,
        })?
    };
    let mut count = 0;
    for svg in sections.iter().filter_map(|section| section.svg()) {
        count += 1;
        put(&figure(dir, count), svg.as_bytes())?;
    }
    // Those of an earlier page that had more.
    while fs::remove_file(figure(dir, count + 1)).is_ok() {
        count += 1;
    }
    put(&dir.join(PAGE), page::render(&frame, &sections).as_bytes())?;
    let tables: String = sections.iter().map(Section::markdown).collect();
    put(&dir.join(TABLES), tables.as_bytes())?;
    put(&dir.join(SUMMARY), &serde_json::to_vec_pretty(report)?)?;
    write_csv(&dir.join(CSV), &rows)
}

/// How many rounds, from the first, all cells have that are to have them.
fn complete_rounds(experiment: &dyn Paper, report: &Report, rows: &[Row]) -> u32 {
    let done: BTreeSet<(&str, u32)> = rows
        .iter()
        .map(|row| (row.cell.as_str(), row.round))
        .collect();
    let is_complete = |round: &u32| {
        let mut cells = report.cells.iter();
        cells.all(|cell| !experiment.has_round(cell, *round) || done.contains(&(cell, *round)))
    };
    let complete = (0..report.rounds).take_while(is_complete).count() as u32;
    if rows.is_empty() { 0 } else { complete }
}

fn figure(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("figure-{number}.svg"))
}

/// Makes the files of [`write`] again from the rows in the directory, without measuring
/// anything; `None` if the experiment was never begun there.
pub fn again(experiment: &dyn Paper, dir: &Path) -> Result<Option<Report>> {
    let before: Option<Report> = read_json(&dir.join(SUMMARY))?;
    let kept = journal::read(&dir.join(ROWS))?;
    let (mut report, rows) = match (before, kept) {
        (None, None) => return Ok(None),
        (Some(report), kept) => (report, kept.map_or_else(Vec::new, |(_, rows)| rows)),
        // Stopped in its first round.
        (None, Some((terms, rows))) => {
            let report = Report {
                machine: vec![("machine".to_owned(), terms.machine)],
                ..Report::new(experiment, terms.quick)
            };
            (report, rows)
        }
    };
    report.source = experiment.about().source.to_owned();
    let chosen = read_json(&dir.join(CHOICES))?.unwrap_or_default();
    write(experiment, &mut report, &chosen, &rows, dir)?;
    Ok(Some(report))
}

/// What was run of an experiment, for a list.
pub fn state(dir: &Path) -> Result<String> {
    let report: Option<Report> = read_json(&dir.join(SUMMARY))?;
    Ok(match report {
        None => "never run".to_owned(),
        Some(report) => match report.state {
            State::Run => report.form(),
            State::Skipped { .. } => "skipped".to_owned(),
            State::Failed { .. } => "failed".to_owned(),
        },
    })
}

pub fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Option<T>> {
    let text = journal::text(path)?;
    let read = text.map(|text| serde_json::from_str(&text)).transpose();
    read.with_context(|| path.display().to_string())
}

/// The rows by the order of the cells and the rounds; cells of an earlier
/// version last.
fn sorted(rows: &[Row], cells: &[String]) -> Vec<Row> {
    let mut rows = rows.to_vec();
    rows.sort_by_key(|row| {
        let place = cells.iter().position(|cell| *cell == row.cell);
        (place.unwrap_or(usize::MAX), row.round)
    });
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::row;

    #[test]
    fn pages_have_the_order_of_the_cells() {
        let cells = ["b", "a"].map(str::to_owned);
        let mut rows = vec![row(1, 1.0, 2.0), row(0, 1.0, 2.0), row(0, 1.0, 2.0)];
        for (row, key) in rows.iter_mut().zip(["a", "gone", "b"]) {
            row.cell = key.to_owned();
        }
        let keys: Vec<String> = sorted(&rows, &cells).into_iter().map(|r| r.cell).collect();
        assert_eq!(keys, ["b", "a", "gone"]);
    }

    #[test]
    fn a_summary_of_an_earlier_version_is_one_that_was_run() {
        let text = r#"{"experiment":"x","source":"y","rounds":1,"quick":true,"machine":[],
                       "lines":[],"left_out":[]}"#;
        let report: Report = serde_json::from_str(text).unwrap();
        assert_eq!(report.state, State::Run);
        assert_eq!(report.form(), "quick, 1 round");
        let skipped = State::Skipped {
            why: "no MPI".to_owned(),
        };
        let text = serde_json::to_string(&skipped).unwrap();
        assert_eq!(text, r#"{"skipped":{"why":"no MPI"}}"#);
    }
}
