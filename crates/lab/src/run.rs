// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Running an experiment: cells in an order of chance, round by round, each
//! kept as soon as it is measured.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context as _, Result};
use sandbag_kernel::Root;
use serde::{Deserialize, Serialize};

use crate::experiment::{Cell, Choices, Experiment, Setup};
use crate::machine;
use crate::page::{self, Frame};
use crate::row::{Row, Rows, Terms, write_csv};

/// Names of the files of an experiment.
pub const ROWS: &str = "rows.jsonl";
/// All rows, for spreadsheets.
pub const CSV: &str = "rows.csv";
/// The figures of the page, for programs.
pub const SUMMARY: &str = "summary.json";
/// What the experiment chose for this machine.
const CHOICES: &str = "choices.json";
/// The page.
pub const PAGE: &str = "index.html";

/// What the caller hears while an experiment runs.
pub trait Listener {
    /// One trial of so many is done, or was there already.
    fn trial(&mut self, done: usize, of: usize, what: &str);
    /// Something its user should know.
    fn note(&mut self, text: &str);
}

/// What an experiment came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// The experiment.
    pub experiment: String,
    /// What it repeats.
    pub source: String,
    /// Rounds wanted.
    pub rounds: u32,
    /// Whether the short form.
    pub quick: bool,
    /// The machine.
    pub machine: Vec<(String, String)>,
    /// What, the paper's figure, ours.
    pub lines: Vec<[String; 3]>,
    /// Left out, with reasons.
    pub left_out: Vec<String>,
}

/// Runs what is still to be done of an experiment, and writes its files into
/// `dir`.
///
/// # Errors
/// It cannot be prepared here, its files cannot be written, or its programs do
/// not even run unloaded.
pub fn run(
    experiment: &mut dyn Experiment,
    setup: &Setup,
    dir: &Path,
    rounds: Option<u32>,
    listener: &mut dyn Listener,
) -> Result<Report> {
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let root = Root::default();
    let machine: Vec<(String, String)> = machine::describe(&root)
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    let mut rows = Rows::open(
        &dir.join(ROWS),
        Terms {
            experiment: experiment.name().to_owned(),
            quick: setup.quick,
            sandbag: env!("CARGO_PKG_VERSION").to_owned(),
            machine: lasting(&machine),
            cpus: setup.cpus.to_string(),
            limit_s: setup.limit.as_secs_f64(),
            sources: setup.sources.clone(),
            seed: u64::from(std::process::id()),
        },
    )?;
    let path = dir.join(CHOICES);
    let mut chosen: Choices = match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| path.display().to_string())?,
        // Other amounts than those of the rows that are there would be mixed in.
        Err(error) if error.kind() == ErrorKind::NotFound && rows.rows().is_empty() => {
            Choices::new()
        }
        Err(error) => {
            return Err(error)
                .with_context(|| format!("{}: begin again with --fresh", path.display()));
        }
    };
    experiment.prepare(setup, &mut chosen)?;
    put(&path, &serde_json::to_vec_pretty(&chosen)?)?;
    let rounds = rounds.unwrap_or_else(|| experiment.rounds(setup.quick));
    let cells = experiment.cells(setup);
    let of = cells.len() * rounds as usize;
    let done = rows.done();
    let mut count = 0;
    let mut report = Report {
        experiment: experiment.name().to_owned(),
        source: experiment.source().to_owned(),
        rounds,
        quick: setup.quick,
        machine,
        lines: Vec::new(),
        left_out: [setup.left_out.clone(), experiment.left_out()].concat(),
    };
    for reason in &report.left_out {
        listener.note(reason);
    }
    for round in 0..rounds {
        for cell in order(&cells, rows.terms().seed, round) {
            count += 1;
            if done.contains(&(cell.key.clone(), round)) {
                continue;
            }
            let measured = experiment
                .measure(setup, cell, round)
                .with_context(|| format!("{}, round {}", cell.key, round + 1))?;
            // A trial in which a signal came is no trial.
            crate::interrupt::check()?;
            listener.trial(count, of, &told(cell, &measured));
            rows.push(measured)?;
        }
        // A page after every round: a matrix takes hours.
        write(experiment, &mut report, dir, &sorted(rows.rows(), &cells))?;
    }
    write(experiment, &mut report, dir, &sorted(rows.rows(), &cells))?;
    Ok(report)
}

/// The rows in the order in which the experiment names its cells, not in that
/// of chance in which they were measured; cells of an earlier version last.
fn sorted(rows: &[Row], cells: &[Cell]) -> Vec<Row> {
    let mut rows = rows.to_vec();
    rows.sort_by_key(|row| {
        let place = cells.iter().position(|cell| cell.key == row.cell);
        (place.unwrap_or(usize::MAX), row.round)
    });
    rows
}

/// Of the machine what does not change from one start to the next.
fn lasting(machine: &[(String, String)]) -> String {
    let facts = machine
        .iter()
        .filter(|(name, _)| !name.starts_with("load average"));
    facts
        .map(|(name, value)| format!("{name}: {value}"))
        .collect::<Vec<_>>()
        .join("; ")
}

/// The cells of a round, shuffled by the seed (Fisher and Yates), so that
/// what a machine does meanwhile meets another cell each time.
fn order(cells: &[Cell], seed: u64, round: u32) -> Vec<&Cell> {
    let mut order: Vec<&Cell> = cells.iter().collect();
    let mut state = seed ^ (u64::from(round) << 32);
    for last in (1..order.len()).rev() {
        // SplitMix64 (Steele, Lea and Flood 2014): every bit of the state is
        // in every bit of the output.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        order.swap(last, (mixed % (last as u64 + 1)) as usize);
    }
    order
}

/// A trial in a line.
fn told(cell: &Cell, rows: &[Row]) -> String {
    let times: Vec<String> = rows
        .iter()
        .map(|row| match &row.end {
            // Some programs run for a given time: nothing to compare.
            crate::row::End::Done if row.unloaded_s > 0.0 => {
                format!("{} x {:.2}", row.program, row.loaded_s / row.unloaded_s)
            }
            crate::row::End::Done => format!("{} {:.1} s", row.program, row.loaded_s),
            crate::row::End::OverLimit { limit_s } => format!("{} > {limit_s} s", row.program),
            crate::row::End::Failed { why } => format!("{} failed: {why}", row.program),
        })
        .collect();
    format!("{}: {}", cell.key, times.join(", "))
}

fn write(experiment: &dyn Experiment, report: &mut Report, dir: &Path, rows: &[Row]) -> Result<()> {
    report.lines = experiment.summary(rows);
    let frame = Frame {
        title: format!("Lab: {}", experiment.name()),
        source: format!("{}. Repeats {}.", experiment.about(), experiment.source()),
        progress: format!(
            "{} trials of {} rounds{}.",
            rows.len(),
            report.rounds,
            if report.quick { ", short form" } else { "" }
        ),
        machine: report.machine.clone(),
        left_out: report.left_out.clone(),
    };
    let sections = experiment.page(rows)?;
    for (n, svg) in sections.iter().filter_map(|s| s.svg()).enumerate() {
        put(&dir.join(format!("figure-{}.svg", n + 1)), svg.as_bytes())?;
    }
    put(&dir.join(PAGE), page::render(&frame, &sections).as_bytes())?;
    put(&dir.join(SUMMARY), &serde_json::to_vec_pretty(report)?)?;
    write_csv(&dir.join(CSV), rows)
}

/// Whole or not at all: a page that was cut off helps nobody, and a choice that
/// was cut off stops the experiment.
fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, bytes)
        .and_then(|()| fs::rename(&new, path))
        .with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Section;
    use crate::row::tests::row;
    use sandbag_kernel::CpuList;
    use std::path::PathBuf;
    use std::time::Duration;

    /// Counts what is measured, and fails at the third trial if it is told to.
    struct Fake {
        measured: Vec<(String, u32)>,
        fails: bool,
    }

    impl Experiment for Fake {
        fn name(&self) -> &'static str {
            "fake"
        }
        fn about(&self) -> &'static str {
            "a fake"
        }
        fn source(&self) -> &'static str {
            "nobody"
        }
        fn rounds(&self, _quick: bool) -> u32 {
            2
        }
        fn prepare(&mut self, _setup: &Setup, chosen: &mut Choices) -> Result<()> {
            chosen
                .entry("n".to_owned())
                .or_insert_with(|| "1".to_owned());
            Ok(())
        }
        fn cells(&self, _setup: &Setup) -> Vec<Cell> {
            ["a", "b", "c"]
                .map(|key| Cell {
                    key: key.to_owned(),
                })
                .into()
        }
        fn left_out(&self) -> Vec<String> {
            vec!["d: no d here".to_owned()]
        }
        fn measure(&mut self, _setup: &Setup, cell: &Cell, round: u32) -> Result<Vec<Row>> {
            anyhow::ensure!(!self.fails || self.measured.len() < 2, "interrupted");
            self.measured.push((cell.key.clone(), round));
            let mut row = row(round, 1.0, 2.0);
            row.cell.clone_from(&cell.key);
            Ok(vec![row])
        }
        fn page(&self, _rows: &[Row]) -> Result<Vec<Section>> {
            Ok(vec![Section::new("x").figure("<svg></svg>".to_owned())])
        }
        fn summary(&self, rows: &[Row]) -> Vec<[String; 3]> {
            vec![["rows".to_owned(), "-".to_owned(), rows.len().to_string()]]
        }
    }

    #[derive(Default)]
    struct Silent(Vec<String>);

    impl Listener for Silent {
        fn trial(&mut self, _done: usize, _of: usize, what: &str) {
            self.0.push(what.to_owned());
        }
        fn note(&mut self, text: &str) {
            self.0.push(text.to_owned());
        }
    }

    #[test]
    fn a_stopped_matrix_goes_on_where_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let setup = Setup {
            sandbag: PathBuf::new(),
            cpus: CpuList::from_iter([0]),
            quick: true,
            loading: Vec::new(),
            slowing: Vec::new(),
            left_out: Vec::new(),
            limit: Duration::from_secs(1),
            sources: None,
            scratch: dir.path().to_owned(),
            dir: dir.path().to_owned(),
        };
        let mut fake = Fake {
            measured: Vec::new(),
            fails: true,
        };
        let mut listener = Silent::default();
        let error = run(&mut fake, &setup, dir.path(), None, &mut listener).unwrap_err();
        assert!(format!("{error:#}").contains("interrupted"));
        assert!(listener.0.contains(&"d: no d here".to_owned()));
        fake.fails = false;
        let report = run(&mut fake, &setup, dir.path(), None, &mut listener).unwrap();
        let mut measured = fake.measured.clone();
        measured.sort();
        measured.dedup();
        assert_eq!((fake.measured.len(), measured.len()), (6, 6));
        assert_eq!(report.lines[0][2], "6");
        for file in [ROWS, CSV, SUMMARY, PAGE, "figure-1.svg"] {
            assert!(dir.path().join(file).is_file(), "{file}");
        }
        // Nothing is left to do.
        run(&mut fake, &setup, dir.path(), None, &mut listener).unwrap();
        assert_eq!(fake.measured.len(), 6);
    }

    #[test]
    fn pages_have_the_order_of_the_cells() {
        let cells: Vec<Cell> = ["b", "a"]
            .map(|key| Cell {
                key: key.to_owned(),
            })
            .into();
        let mut rows = vec![row(1, 1.0, 2.0), row(0, 1.0, 2.0), row(0, 1.0, 2.0)];
        for (row, key) in rows.iter_mut().zip(["a", "gone", "b"]) {
            row.cell = key.to_owned();
        }
        let keys: Vec<String> = sorted(&rows, &cells).into_iter().map(|r| r.cell).collect();
        assert_eq!(keys, ["b", "a", "gone"]);
    }

    #[test]
    fn rounds_have_orders_of_their_own() {
        let cells: Vec<Cell> = (0..20).map(|n| Cell { key: n.to_string() }).collect();
        let first = order(&cells, 7, 0);
        assert_eq!(first, order(&cells, 7, 0));
        assert_ne!(first, order(&cells, 7, 1));
        assert_eq!(first.len(), 20);
        // Also where there are two only.
        let two = &cells[..2];
        let begins = |round| order(two, 7, round)[0].key == "0";
        let often = (0..100).filter(|round| begins(*round)).count();
        assert!((30..70).contains(&often), "{often} of 100");
    }
}
