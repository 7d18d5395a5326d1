// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An experiment whose report is a text with tables, and its files: the report, and
//! beside it a row per trial (`.jsonl`), from which `--resume` continues.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use sandbag_linux::interrupt;
use sandbag_ui::messages::Messages;

use crate::experiment::Experiment;
use crate::journal::{Rows, Terms, facts};
use crate::program::Programs;
use crate::row::{End, Row, without_result};
use crate::run::{Rounds, measure};

/// The name of a value on the command line.
pub fn value_name<T: ValueEnum>(value: &T) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Options of all benchmarks.
#[derive(Debug, Clone, Default, Args)]
pub struct BenchArgs {
    /// The sandbag to measure [default: beside this program, or in PATH]
    #[arg(long, value_name = "PATH")]
    sandbag: Option<PathBuf>,
    /// The short form: fewer cells, fewer and shorter runs; also by QUICK=1
    #[arg(long)]
    quick: bool,
    /// Write tables here, and rows (.jsonl) beside them [default: VERB-results.md]
    #[arg(long, value_name = "FILE.md")]
    out: Option<PathBuf>,
    /// Continue from the rows beside --out
    #[arg(long)]
    resume: bool,
}

impl BenchArgs {
    pub fn is_quick(&self) -> bool {
        self.quick || std::env::var_os("QUICK").is_some_and(|value| value == "1")
    }

    /// One value for the short form, one for the full one.
    pub fn form<T>(&self, quick: T, full: T) -> T {
        if self.is_quick() { quick } else { full }
    }

    pub fn programs(&self) -> Result<Programs> {
        Programs::find(self.sandbag.as_deref())
    }
}

/// An experiment that needs no setup but its own.
pub trait Benchmark: Experiment<Setup = ()> {
    fn title(&self) -> &'static str;

    fn rounds(&self) -> u32;

    /// Of the order of the cells.
    fn seed(&self) -> u64 {
        0
    }

    /// Facts beside those of the machine.
    fn facts(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn tables(&self, rows: &[Row]) -> String;
}

/// Measures what is not there yet, writes the report after each round, and prints it.
/// `cpus` and `options` are what rows must have in common with those that are resumed
/// from; without `--resume` it begins anew. What was measured before an error is kept.
///
/// # Errors
/// Also if no trial of a cell was done, after the report.
pub fn run<B: Benchmark>(
    benchmark: &mut B,
    args: &BenchArgs,
    (cpus, options): (String, String),
    messages: &Messages,
) -> Result<()> {
    interrupt::watch()?;
    let name = benchmark.name();
    let out = args.out.clone();
    let out = out.unwrap_or_else(|| format!("{name}-results.md").into());
    let path = out.with_extension("jsonl");
    if !args.resume && path.exists() {
        let before = path.with_extension("jsonl.before");
        fs::rename(&path, &before).with_context(|| format!("rename {}", path.display()))?;
        messages.say(&format!(
            "The rows that were there are in {}.",
            before.display()
        ));
    }
    let terms = Terms {
        options,
        seed: benchmark.seed(),
        ..Terms::here(name, args.is_quick(), cpus, &args.programs()?.sandbag)
    };
    let mut rows = Rows::open(&path, terms, true)?;
    let rounds = Rounds::all(benchmark.rounds());
    let outcome = measure(
        benchmark,
        &(),
        &mut rows,
        rounds,
        messages,
        &mut |benchmark, rows| write(&out, &report(benchmark, rows)),
    );
    if !rows.rows.is_empty() {
        let text = report(benchmark, &rows.rows);
        print!("{text}");
        write(&out, &text)?;
        if outcome.is_err() {
            messages.say("sandbag-lab: what was measured is kept; --resume continues from there");
        }
    }
    outcome?;
    match without_result(&benchmark.cells(&()), &rows.rows, |row| {
        row.end == End::Done
    }) {
        Some(what) => bail!("{what}; --resume tries again what failed"),
        None => Ok(()),
    }
}

fn report<B: Benchmark>(benchmark: &B, rows: &[Row]) -> String {
    let mut text = format!("# {}\n\n", benchmark.title());
    let more = benchmark.facts().into_iter();
    let more = more.map(|(name, value)| (name.to_owned(), value));
    for (name, value) in facts().into_iter().chain(more) {
        let _ = writeln!(text, "- {name}: {value}");
    }
    text + "\n" + &benchmark.tables(rows)
}

fn write(out: &Path, text: &str) -> Result<()> {
    fs::write(out, text).with_context(|| format!("write {}", out.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails in these rounds of `b`.
    struct FakeBenchmark {
        fails: &'static [u32],
        measured: u32,
    }

    impl Experiment for FakeBenchmark {
        type Setup = ();
        fn name(&self) -> &'static str {
            "fake"
        }
        fn cells(&self, _setup: &()) -> Vec<String> {
            ["a", "b"].map(str::to_owned).into()
        }
        fn measure(&mut self, _setup: &(), cell: &str, round: u32) -> Result<Vec<Row>> {
            self.measured += 1;
            Ok(vec![if cell == "b" && self.fails.contains(&round) {
                Row::failed(cell, round, &anyhow::anyhow!("no"))
            } else {
                Row::new(cell, round)
            }])
        }
    }

    impl Benchmark for FakeBenchmark {
        fn title(&self) -> &'static str {
            "Fakes"
        }
        fn rounds(&self) -> u32 {
            2
        }
        fn tables(&self, rows: &[Row]) -> String {
            format!("{} rows", rows.len())
        }
    }

    fn run_into(fake: &mut FakeBenchmark, out: &Path, resume: bool) -> Result<()> {
        let args = BenchArgs {
            sandbag: Some("/bin/true".into()),
            out: Some(out.to_owned()),
            resume,
            ..BenchArgs::default()
        };
        let terms = (String::new(), String::new());
        run(fake, &args, terms, &Messages::new(true, 0))
    }

    #[test]
    fn a_benchmark_goes_on_and_measures_again_what_failed() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("r.md");
        let mut fake = FakeBenchmark {
            fails: &[1],
            measured: 0,
        };
        run_into(&mut fake, &out, false).unwrap();
        assert_eq!(fake.measured, 4);
        fake.fails = &[];
        run_into(&mut fake, &out, true).unwrap();
        assert_eq!(fake.measured, 5);
        let text = fs::read_to_string(&out).unwrap();
        assert!(
            text.starts_with("# Fakes\n\n- ") && text.ends_with("4 rows"),
            "{text}"
        );
        // Begun anew; what was there stays.
        run_into(&mut fake, &out, false).unwrap();
        assert_eq!(fake.measured, 9);
        assert!(dir.path().join("r.jsonl.before").is_file());
    }

    #[test]
    fn a_cell_without_a_trial_that_is_done_is_an_error_after_the_report() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("r.md");
        let mut fake = FakeBenchmark {
            fails: &[0, 1],
            measured: 0,
        };
        let error = run_into(&mut fake, &out, false).unwrap_err().to_string();
        assert!(
            error.starts_with("1 of 2 cells") && error.contains("b: failed: no"),
            "{error}"
        );
        assert!(fs::read_to_string(&out).unwrap().ends_with("4 rows"));
    }
}
