// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An experiment whose report is a text with tables, and the files of one:
//! the report, and beside it a row per trial (`.jsonl`), from which `--resume`
//! goes on.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use sandbag_linux::{Root, interrupt, machine};

use crate::experiment::Experiment;
use crate::journal::{Rows, Terms};
use crate::run::{Listener, Matrix};

/// An experiment that needs no setup but its own, and what its rows come to.
pub trait Benchmark: Experiment<Setup = ()> {
    /// Heading of the report.
    fn title(&self) -> &'static str;

    /// Rounds over all cells.
    fn rounds(&self) -> u32;

    /// Facts beside those of the machine.
    fn facts(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// The tables, in markdown.
    fn tables(&self, rows: &[Self::Row]) -> String;
}

/// What its rows have in common.
#[derive(Debug, Clone, Default)]
pub struct Conditions {
    /// Whether the short form.
    pub quick: bool,
    /// CPUs that are used.
    pub cpus: String,
    /// Options that change what a row is.
    pub options: String,
    /// Seed of the order of the cells.
    pub seed: u64,
}

/// The files of a benchmark.
#[derive(Debug)]
pub struct Session<R> {
    out: Option<PathBuf>,
    rows: Rows<R>,
    /// Of the rows, where no report was asked for.
    _dir: Option<tempfile::TempDir>,
}

/// The short form, also by QUICK=1.
pub fn is_quick(option: bool) -> bool {
    option || std::env::var_os("QUICK").is_some_and(|value| value == "1")
}

/// Measures all rounds, writes the report and prints it.
///
/// # Errors
/// A trial or a file failed, or a signal came.
pub fn run<B: Benchmark>(
    benchmark: &mut B,
    conditions: Conditions,
    out: &Path,
    resume: bool,
) -> Result<()> {
    interrupt::watch()?;
    let mut session = Session::open(benchmark, conditions, Some(out), resume)?;
    let outcome = session.measure(benchmark);
    session.print(benchmark)?;
    outcome
}

impl<R: crate::trial::Trial> Session<R> {
    /// Opens the rows beside the report `out`; without `resume` they begin
    /// anew.
    ///
    /// # Errors
    /// They cannot be read or written, or are of other conditions.
    pub fn open<B: Benchmark<Row = R>>(
        benchmark: &B,
        conditions: Conditions,
        out: Option<&Path>,
        resume: bool,
    ) -> Result<Self> {
        let (path, dir) = match out {
            Some(out) => (out.with_extension("jsonl"), None),
            None => {
                let dir = tempfile::tempdir().context("make a directory for the rows")?;
                (dir.path().join("rows.jsonl"), Some(dir))
            }
        };
        if !resume && path.exists() {
            fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
        }
        let facts: Vec<(String, String)> = machine::describe(&Root::default())
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        let terms = Terms {
            experiment: benchmark.name().to_owned(),
            quick: conditions.quick,
            sandbag: env!("CARGO_PKG_VERSION").to_owned(),
            machine: machine::lasting(&facts),
            cpus: conditions.cpus,
            limit_s: 0.0,
            sources: None,
            options: conditions.options,
            seed: conditions.seed,
        };
        Ok(Self {
            out: out.map(Path::to_owned),
            rows: Rows::open(&path, terms)?,
            _dir: dir,
        })
    }

    /// Measures what is not there yet; the report is written after each round.
    ///
    /// # Errors
    /// A trial or a file failed, or a signal came: what was measured is kept.
    pub fn measure<B: Benchmark<Row = R>>(&mut self, benchmark: &mut B) -> Result<()> {
        let out = self.out.clone();
        let rounds = benchmark.rounds();
        let mut matrix = Matrix {
            experiment: benchmark,
            setup: &(),
            rows: &mut self.rows,
            listener: &mut Progress,
        };
        matrix.measure((rounds, rounds), &mut |benchmark, rows| {
            write(out.as_deref(), &report(benchmark, rows))
        })
    }

    /// Writes the report and prints it, if there is something in it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn print<B: Benchmark<Row = R>>(&self, benchmark: &B) -> Result<()> {
        if self.rows.rows().is_empty() {
            return Ok(());
        }
        let text = report(benchmark, self.rows.rows());
        print!("{text}");
        write(self.out.as_deref(), &text)
    }
}

fn report<B: Benchmark>(benchmark: &B, rows: &[B::Row]) -> String {
    let mut text = format!("# {}\n\n", benchmark.title());
    let facts = machine::describe(&Root::default());
    for (name, value) in facts.into_iter().chain(benchmark.facts()) {
        let _ = writeln!(text, "- {name}: {value}");
    }
    text + "\n" + &benchmark.tables(rows)
}

fn write(out: Option<&Path>, text: &str) -> Result<()> {
    match out {
        Some(out) => fs::write(out, text).with_context(|| format!("write {}", out.display())),
        None => Ok(()),
    }
}

/// Trials, on standard error.
struct Progress;

impl Listener for Progress {
    fn trial(&mut self, done: usize, of: usize, what: &str) {
        eprintln!("[{done}/{of}] {what}");
    }

    fn note(&mut self, text: &str) {
        eprintln!("{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Cell;
    use crate::trial::Trial;
    use serde::{Deserialize, Serialize};

    #[derive(Debug, Clone, Serialize, Deserialize)]
    struct FakeRow(String, u32, bool);

    impl Trial for FakeRow {
        fn cell(&self) -> &str {
            &self.0
        }
        fn round(&self) -> u32 {
            self.1
        }
        fn is_measured_again(&self) -> bool {
            self.2
        }
        fn line(&self) -> String {
            String::new()
        }
    }

    /// Fails in the second round of `b`.
    struct FakeBenchmark {
        fails: bool,
        measured: u32,
    }

    impl Experiment for FakeBenchmark {
        type Row = FakeRow;
        type Setup = ();
        fn name(&self) -> &'static str {
            "fake"
        }
        fn cells(&self, _setup: &()) -> Vec<Cell> {
            ["a", "b"].map(Cell::new).into()
        }
        fn measure(&mut self, _setup: &(), cell: &Cell, round: u32) -> Result<Vec<FakeRow>> {
            self.measured += 1;
            let failed = self.fails && (cell.key.as_str(), round) == ("b", 1);
            Ok(vec![FakeRow(cell.key.clone(), round, failed)])
        }
    }

    impl Benchmark for FakeBenchmark {
        fn title(&self) -> &'static str {
            "Fakes"
        }
        fn rounds(&self) -> u32 {
            2
        }
        fn tables(&self, rows: &[FakeRow]) -> String {
            format!("{} rows", rows.len())
        }
    }

    #[test]
    fn a_benchmark_goes_on_and_measures_again_what_failed() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("r.md");
        let mut fake = FakeBenchmark {
            fails: true,
            measured: 0,
        };
        let of = |fake: &mut FakeBenchmark, resume| {
            let mut session =
                Session::open(fake, Conditions::default(), Some(&out), resume).unwrap();
            session.measure(fake).unwrap();
            session.print(fake).unwrap();
        };
        of(&mut fake, false);
        assert_eq!(fake.measured, 4);
        fake.fails = false;
        of(&mut fake, true);
        assert_eq!(fake.measured, 5);
        let text = fs::read_to_string(&out).unwrap();
        assert!(
            text.starts_with("# Fakes\n\n- ") && text.ends_with("4 rows"),
            "{text}"
        );
        // Begun anew.
        of(&mut fake, false);
        assert_eq!(fake.measured, 9);
    }
}
