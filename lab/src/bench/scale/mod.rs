// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag-lab scale`: speed and accuracy of the predictor of jitter at scale. `speed`
//! times the real program; `brute` compares the predictor with a replay of every rank and
//! message, `virtually` with the benchmark with virtual ranks; `ways` compares ways of
//! making jitter, and `program` a slowed MPI program with the benchmark.

mod brute;
mod program;
mod speed;
pub mod traces;
mod virtually;
mod ways;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use sandbag_run::program::on_path;
use sandbag_ui::messages::Messages;
use serde_json::Value;

use crate::bench::benchmark::{self, BenchArgs, Benchmark, value_name};
use crate::experiment::Experiment;
use crate::program::{command, is_there, run_cost};
use crate::row::Row;
use crate::table::Table;

/// Measure the speed and the accuracy of the predictor of jitter at scale
#[derive(Debug, Args)]
pub struct ScaleArgs {
    #[command(flatten)]
    common: BenchArgs,
    /// These parts only
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "speed,brute,virtual,ways,program"
    )]
    parts: Vec<ScalePart>,
    /// The trace of virtual ranks and of the MPI program
    /// [default: synthetic ones]
    #[arg(long, value_name = "TRACE")]
    trace: Option<PathBuf>,
    /// Only these synchronisations of ranks
    #[arg(
        long,
        value_name = "SYNCS",
        value_delimiter = ',',
        default_value = "none,once,phase,every:10"
    )]
    syncs: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ScalePart {
    /// Seconds of the predictor
    Speed,
    /// Against a replay of every rank
    Brute,
    /// Against virtual ranks
    Virtual,
    /// The same jitter by timers and by real-time tasks
    Ways,
    /// An MPI program with jitter inside its ranks
    Program,
}

struct Section {
    title: &'static str,
    note: String,
    /// Separated by ` | `.
    heads: &'static str,
    rows: Vec<Vec<String>>,
    /// The figures of the rows.
    figures: Value,
}

impl Section {
    fn render(&self) -> String {
        let mut table = Table::of(self.heads);
        self.rows.iter().for_each(|row| table.push(row.clone()));
        format!("## {}\n\n{}\n\n{}", self.title, self.note, table.markdown())
    }
}

pub fn scale(args: &ScaleArgs, messages: &Messages) -> Result<()> {
    let sandbag = args.common.programs()?.sandbag;
    let dir = tempfile::tempdir().context("make a directory for traces")?;
    let mut stand = Stand {
        sandbag: &sandbag,
        dir: dir.path(),
        args,
    };
    let options = format!("{:?}, {}", args.trace, args.syncs.join(","));
    let terms = (String::new(), options);
    benchmark::run(&mut stand, &args.common, terms, messages)
}

impl Experiment for Stand<'_> {
    type Setup = ();

    fn name(&self) -> &'static str {
        "scale"
    }

    fn cells(&self, _setup: &()) -> Vec<String> {
        let parts = self.args.parts.iter();
        parts.map(value_name).collect()
    }

    fn measure(&mut self, _setup: &(), cell: &str, round: u32) -> Result<Vec<Row>> {
        let mut parts = self.args.parts.iter();
        let part = parts.find(|part| value_name(*part) == cell);
        let section = match part.context("no such part")? {
            ScalePart::Speed => speed::measure(self)?,
            ScalePart::Brute => brute::measure(self)?,
            ScalePart::Virtual => virtually::measure(self)?,
            ScalePart::Ways => ways::measure(self)?,
            ScalePart::Program => program::measure(self)?,
        };
        let mut row = Row::new(cell, round);
        row.say("text", section.render());
        row.details = section.figures;
        Ok(vec![row])
    }
}

impl Benchmark for Stand<'_> {
    fn title(&self) -> &'static str {
        "Jitter at scale: how fast, and how right"
    }

    /// Each part has rounds of its own.
    fn rounds(&self) -> u32 {
        1
    }

    fn tables(&self, rows: &[Row]) -> String {
        let of = |part: &ScalePart| rows.iter().find(|row| row.cell == value_name(part));
        let parts = self.args.parts.iter();
        let texts: Vec<&str> = parts.filter_map(of).map(|row| row.text("text")).collect();
        texts.join("\n")
    }
}

struct Stand<'a> {
    sandbag: &'a Path,
    dir: &'a Path,
    args: &'a ScaleArgs,
}

impl Stand<'_> {
    /// One value for the short form, one for the full one.
    fn form<T>(&self, quick: T, full: T) -> T {
        self.args.common.form(quick, full)
    }

    /// `sandbag scale bench`, with these words.
    fn bench(&self, words: &str) -> Command {
        command(self.sandbag, &format!("-q scale bench {words}"))
    }

    /// A program under `sandbag jitter replay` of a trace, with these options.
    fn replay(&self, trace: &Path, options: &str, program: &Command) -> Command {
        let words = format!("-q jitter replay --loop --no-out {options}");
        let mut command = command(self.sandbag, &words);
        command.arg(trace);
        if options.contains(INSIDE) && nix::unistd::geteuid().is_root() {
            command.arg("--as-root");
        }
        command.arg("--").arg(program.get_program());
        command.args(program.get_args());
        command
    }

    /// The trace that was given, or a made one, and what it is.
    fn trace_or(&self, made: &traces::TraceFile) -> Result<(PathBuf, String)> {
        Ok(match &self.args.trace {
            Some(path) => (path.clone(), path.display().to_string()),
            None => (made.write(self.dir, "made.sbj")?, made.to_string()),
        })
    }

    /// What a benchmark measured and wrote as JSON.
    fn figures(&self, mut command: Command) -> Result<Value> {
        let file = self.dir.join("figures.json");
        command.arg("--json").arg(&file);
        run_cost(&mut command)?;
        let text = fs::read_to_string(&file).context("read the figures")?;
        fs::remove_file(&file).context("remove the figures")?;
        Ok(serde_json::from_str(&text)?)
    }

    fn mpi(&self) -> Option<PathBuf> {
        mpi(self.sandbag)
    }
}

/// The benchmark over MPI, if it is there and can be started.
pub fn mpi(sandbag: &Path) -> Option<PathBuf> {
    const PROGRAM: &str = "sandbag-mpi";
    let beside = sandbag.with_file_name(PROGRAM);
    let found = if beside.is_file() {
        Some(beside)
    } else {
        on_path(PROGRAM)
    };
    found.filter(|_| is_there("mpirun"))
}

/// Options of a replay inside the ranks of an MPI program.
const INSIDE: &str = "--inside --only rank";

/// A program of this number of ranks on this machine, also as root.
fn mpirun(ranks: u32, program: impl AsRef<OsStr>) -> Command {
    let words = format!("--allow-run-as-root --oversubscribe --bind-to none -n {ranks}");
    let mut command = command("mpirun", &words);
    command.arg(program);
    command
}

/// Time with something, percent more than without.
fn more_pct(with: f64, without: f64) -> f64 {
    (with / without.max(1e-9) - 1.0) * 100.0
}

/// Mean slowdown of a prediction and its 95 % interval, percent.
pub fn predicted(point: &Value) -> Option<(f64, (f64, f64))> {
    let mean = point["mean"]["slowdown_pct"].as_f64()?;
    let interval = &point["mean"]["interval_pct"];
    let interval = interval[0].as_f64().zip(interval[1].as_f64());
    Some((mean, interval.unwrap_or((mean, mean))))
}

/// A value with half of its 95 % interval, as its ends.
pub fn around((value, half): (f64, f64)) -> (f64, f64) {
    (value - half, value + half)
}

pub fn overlap(a: (f64, f64), b: (f64, f64)) -> bool {
    a.1 >= b.0 && a.0 <= b.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_has_its_table() {
        let section = Section {
            title: "Speed",
            note: "How to read it.".to_owned(),
            heads: "what | s",
            rows: vec![vec!["none".to_owned(), "1.0".to_owned()]],
            figures: Value::Null,
        };
        let text = section.render();
        assert!(
            text.contains("## Speed") && text.contains("| none | 1.0 |"),
            "{text}"
        );
    }
}
