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
mod run;
mod speed;
pub mod traces;
mod virtually;
mod ways;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::{find, is_there};
use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use sandbag_linux::Root;
use sandbag_linux::{interrupt, machine};
use sandbag_stats::{median, range};
use serde::Serialize;

use crate::bench::markdown::Table;
use crate::bench::programs::Programs;

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
    parts: Vec<Part>,
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
    /// Write tables (.md) and figures (.json) here
    #[arg(long, default_value = "scale-results.md")]
    out: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
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

/// What a part came to.
#[derive(Debug, Serialize)]
struct Section {
    title: &'static str,
    /// How to read it.
    note: String,
    heads: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// The figures of the rows.
    figures: serde_json::Value,
}

/// Measures and prints all parts.
pub fn scale(args: &ScaleArgs) -> Result<()> {
    interrupt::watch()?;
    let sandbag = Programs::find(args.sandbag.as_deref())?.sandbag;
    let dir = tempfile::tempdir().context("make a directory for traces")?;
    let machine = machine::describe(&Root::default());
    let mut sections = Vec::new();
    for part in &args.parts {
        let stand = Stand {
            sandbag: &sandbag,
            dir: dir.path(),
            trace: args.trace.as_deref(),
            syncs: &args.syncs,
            quick: args.quick,
        };
        let section = match part {
            Part::Speed => speed::measure(&stand)?,
            Part::Brute => brute::measure(&stand)?,
            Part::Virtual => virtually::measure(&stand)?,
            Part::Meeting => meeting::measure(&stand)?,
            Part::Ways => ways::measure(&stand)?,
            Part::Program => program::measure(&stand)?,
        };
        sections.push(section);
        // What is there is kept, whatever happens next.
        write(&args.out, &machine, &sections)?;
        interrupt::check()?;
    }
    print!("{}", fs::read_to_string(&args.out)?);
    Ok(())
}

/// What all parts share.
struct Stand<'a> {
    sandbag: &'a Path,
    /// For traces and figures.
    dir: &'a Path,
    trace: Option<&'a Path>,
    syncs: &'a [String],
    quick: bool,
}

impl Stand<'_> {
    /// The trace that was given, or a made one, and what it is.
    fn trace_or(&self, made: &traces::Made) -> Result<(PathBuf, String)> {
        Ok(match self.trace {
            Some(path) => (path.to_owned(), path.display().to_string()),
            None => (made.write(self.dir, "made.sbj")?, made.to_string()),
        })
    }

    /// What a benchmark measured, which is told where to write it.
    fn figures(&self, mut command: Command) -> Result<serde_json::Value> {
        let file = self.dir.join("figures.json");
        command.arg("--json").arg(&file);
        run::run(&mut command)?;
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
            find(PROGRAM)
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

fn write(out: &Path, machine: &[(&'static str, String)], sections: &[Section]) -> Result<()> {
    let mut text = String::from("# Jitter at scale: how fast, and how right\n\n");
    for (name, value) in machine {
        text += &format!("- {name}: {value}\n");
    }
    for section in sections {
        let mut table = Table::new(&section.heads);
        section.rows.iter().for_each(|row| table.push(row.clone()));
        text += &format!(
            "\n## {}\n\n{}\n\n{}",
            section.title,
            section.note,
            table.render()
        );
    }
    fs::write(out, text).with_context(|| format!("write {}", out.display()))?;
    let figures = out.with_extension("json");
    fs::write(&figures, serde_json::to_vec_pretty(sections)?)
        .with_context(|| format!("write {}", figures.display()))
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
    fn what_was_measured_is_on_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("s.md");
        let section = Section {
            title: "Speed",
            note: "How to read it.".to_owned(),
            heads: vec!["what", "s"],
            rows: vec![vec!["none".to_owned(), "1.0".to_owned()]],
            figures: serde_json::json!([{"wall_s": [1.0]}]),
        };
        write(&out, &[("CPU", "some".to_owned())], &[section]).unwrap();
        let text = fs::read_to_string(&out).unwrap();
        assert!(
            text.contains("## Speed") && text.contains("| none | 1.0 |"),
            "{text}"
        );
        let figures = fs::read_to_string(out.with_extension("json")).unwrap();
        assert!(figures.contains("wall_s"));
    }
}
