// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag-lab scale`: how fast and how right the predictor of jitter at scale
//! is. `speed` times the real program, `brute` holds the predictor against a replay
//! of every rank and message, `virtually` against the benchmark with virtual ranks,
//! `meeting` against the benchmark with those that wait for each other,
//! `ways` puts ranks that are made to suffer beside those that ask, and
//! `program` puts a slowed MPI program beside the benchmark.

mod brute;
mod meeting;
mod program;
mod speed;
pub mod traces;
mod virtually;
mod ways;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::is_there;
use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use sandbag_run::program::on_path;
use sandbag_stats::{median, range};
use serde::{Deserialize, Serialize};

use crate::bench::benchmark::{self, Benchmark, Conditions};
use crate::bench::markdown::MarkdownTable;
use crate::bench::programs::Programs;
use crate::bench::run_cost::run;
use crate::experiment::{Cell, Experiment};
use crate::trial::Trial;

/// Measure how fast and how right the predictor of jitter at scale is
#[derive(Debug, Args)]
pub struct ScaleArgs {
    /// The sandbag to measure [default: beside this program]
    #[arg(long, value_name = "PATH")]
    sandbag: Option<PathBuf>,
    /// These parts only
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "speed,brute,virtual,meeting,ways,program"
    )]
    parts: Vec<ScalePart>,
    /// The trace of virtual ranks, of those that meet, and of the MPI program [default: made ones]
    #[arg(long, value_name = "TRACE")]
    trace: Option<PathBuf>,
    /// Of ranks these synchronisations only
    #[arg(
        long,
        value_name = "SYNCS",
        value_delimiter = ',',
        default_value = "none,once,phase,every:10"
    )]
    syncs: Vec<String>,
    /// A few minutes; else an hour
    #[arg(long)]
    quick: bool,
    /// Write tables (.md) and rows (.jsonl) here
    #[arg(long, default_value = "scale-results.md")]
    out: PathBuf,
    /// Go on from the rows beside --out
    #[arg(long)]
    resume: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ScalePart {
    /// Seconds of the predictor
    Speed,
    /// Against a replay of every rank
    Brute,
    /// Against virtual ranks
    Virtual,
    /// Against ranks that meet, with shared memory and with MPI
    Meeting,
    /// The same jitter by timers and by real-time tasks
    Ways,
    /// An MPI program with jitter inside its ranks
    Program,
}

impl ScalePart {
    const ALL: [Self; 6] = [
        Self::Speed,
        Self::Brute,
        Self::Virtual,
        Self::Meeting,
        Self::Ways,
        Self::Program,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Speed => "speed",
            Self::Brute => "brute",
            Self::Virtual => "virtual",
            Self::Meeting => "meeting",
            Self::Ways => "ways",
            Self::Program => "program",
        }
    }
}

/// What a part came to.
struct Section {
    title: &'static str,
    /// How to read it.
    note: String,
    heads: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// The figures of the rows.
    figures: serde_json::Value,
}

impl Section {
    fn render(&self) -> String {
        let mut table = MarkdownTable::new(&self.heads);
        self.rows.iter().for_each(|row| table.push(row.clone()));
        format!("## {}\n\n{}\n\n{}", self.title, self.note, table.render())
    }
}

/// A part, as its table has it and as figures.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct ScaleRow {
    part: String,
    round: u32,
    text: String,
    figures: serde_json::Value,
}

impl Trial for ScaleRow {
    fn cell(&self) -> &str {
        &self.part
    }

    fn round(&self) -> u32 {
        self.round
    }

    fn line(&self) -> String {
        "measured".to_owned()
    }
}

/// Measures and prints all parts.
pub fn scale(args: &ScaleArgs) -> Result<()> {
    let sandbag = Programs::find(args.sandbag.as_deref())?.sandbag;
    let dir = tempfile::tempdir().context("make a directory for traces")?;
    let mut stand = Stand {
        sandbag: &sandbag,
        dir: dir.path(),
        parts: &args.parts,
        trace: args.trace.as_deref(),
        syncs: &args.syncs,
        quick: args.quick,
    };
    let conditions = Conditions {
        quick: args.quick,
        options: format!("{:?}, {}", args.trace, args.syncs.join(",")),
        ..Conditions::default()
    };
    benchmark::run(&mut stand, conditions, &args.out, args.resume)
}

impl Experiment for Stand<'_> {
    type Row = ScaleRow;
    type Setup = ();

    fn name(&self) -> &'static str {
        "scale"
    }

    fn cells(&self, _setup: &()) -> Vec<Cell> {
        self.parts
            .iter()
            .map(|part| Cell::new(part.name()))
            .collect()
    }

    fn measure(&mut self, _setup: &(), cell: &Cell, round: u32) -> Result<Vec<ScaleRow>> {
        let part = ScalePart::ALL
            .into_iter()
            .find(|part| part.name() == cell.key);
        let section = match part.context("no such part")? {
            ScalePart::Speed => speed::measure(self)?,
            ScalePart::Brute => brute::measure(self)?,
            ScalePart::Virtual => virtually::measure(self)?,
            ScalePart::Meeting => meeting::measure(self)?,
            ScalePart::Ways => ways::measure(self)?,
            ScalePart::Program => program::measure(self)?,
        };
        Ok(vec![ScaleRow {
            part: cell.key.clone(),
            round,
            text: section.render(),
            figures: section.figures,
        }])
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

    fn tables(&self, rows: &[ScaleRow]) -> String {
        let of = |part: &ScalePart| rows.iter().find(|row| row.part == part.name());
        let texts: Vec<&str> = self
            .parts
            .iter()
            .filter_map(of)
            .map(|row| row.text.as_str())
            .collect();
        texts.join("\n")
    }
}

/// What all parts share.
struct Stand<'a> {
    sandbag: &'a Path,
    /// For traces and figures.
    dir: &'a Path,
    parts: &'a [ScalePart],
    trace: Option<&'a Path>,
    syncs: &'a [String],
    quick: bool,
}

impl Stand<'_> {
    /// The trace that was given, or a made one, and what it is.
    fn trace_or(&self, made: &traces::TraceFile) -> Result<(PathBuf, String)> {
        Ok(match self.trace {
            Some(path) => (path.to_owned(), path.display().to_string()),
            None => (made.write(self.dir, "made.sbj")?, made.to_string()),
        })
    }

    /// What a benchmark measured, which is told where to write it.
    fn figures(&self, mut command: Command) -> Result<serde_json::Value> {
        let file = self.dir.join("figures.json");
        command.arg("--json").arg(&file);
        run(&mut command)?;
        let text = fs::read_to_string(&file).context("read the figures")?;
        fs::remove_file(&file).context("remove the figures")?;
        Ok(serde_json::from_str(&text)?)
    }

    /// The benchmark over MPI, if it is there and can be started.
    fn mpi(&self) -> Option<PathBuf> {
        const PROGRAM: &str = "sandbag-mpi";
        let beside = self.sandbag.with_file_name(PROGRAM);
        let found = if beside.is_file() {
            Some(beside)
        } else {
            on_path(PROGRAM)
        };
        found.filter(|_| is_there("mpirun"))
    }
}

/// So many ranks on this machine, also as root.
fn mpirun(ranks: u32) -> Command {
    let mut command = Command::new("mpirun");
    command.args([
        "--allow-run-as-root",
        "--oversubscribe",
        "--bind-to",
        "none",
    ]);
    command.args(["-n", &ranks.to_string()]);
    command
}

/// What took so long with something, percent more than without.
fn more_pct(with: f64, without: f64) -> f64 {
    (with / without.max(1e-9) - 1.0) * 100.0
}

/// Median, least and greatest.
fn spread(values: &[f64], decimals: usize) -> String {
    let Some((middle, (least, most))) = median(values).zip(range(values)) else {
        return "-".to_owned();
    };
    match values.len() {
        1 => format!("{middle:.decimals$}"),
        _ => format!("{middle:.decimals$} ({least:.decimals$}..{most:.decimals$})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_their_spread() {
        assert_eq!(spread(&[1.0, 3.0, 2.0], 1), "2.0 (1.0..3.0)");
        assert_eq!(spread(&[1.234], 2), "1.23");
        assert_eq!(spread(&[], 2), "-");
    }

    #[test]
    fn a_section_has_its_table() {
        let section = Section {
            title: "Speed",
            note: "How to read it.".to_owned(),
            heads: vec!["what", "s"],
            rows: vec![vec!["none".to_owned(), "1.0".to_owned()]],
            figures: serde_json::Value::Null,
        };
        let text = section.render();
        assert!(
            text.contains("## Speed") && text.contains("| none | 1.0 |"),
            "{text}"
        );
    }
}
