// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cost and the losses of the collector of OS jitter, and the accuracy of replays
//! of its traces, with the real program: `collector` records, `timer` compares the
//! replay beside a program with cyclictest at the same priority, in turn, and `ways`
//! compares all ways of replaying with what a program sees.

mod collector;
mod cyclictest;
mod figures;
mod timer;
mod ways;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};
use sandbag_linux::Root;
use sandbag_linux::child::ChildSetup as _;
use sandbag_linux::topology::Topology;
use sandbag_ui::messages::Messages;
use serde::Deserialize as _;

use crate::bench::benchmark::{self, BenchArgs, Benchmark, value_name};
use crate::bench::runner::as_root;
use crate::experiment::Experiment;
use crate::row::Row;
use figures::Figures;

/// Measure the cost of the collector of OS jitter, and the accuracy of replays (root)
#[derive(Debug, Args)]
pub struct JitterArgs {
    #[command(flatten)]
    common: BenchArgs,
    /// These parts only
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "collector,timer,ways"
    )]
    parts: Vec<JitterPart>,
    /// The CPU on which traces are replayed [default: the last]
    #[arg(long)]
    cpu: Option<u32>,
    /// Rounds of everything [default: 10, quick 3]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Length of each recording and replay, seconds [default: 10, quick 4]
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..=600))]
    seconds: Option<u32>,
    /// Events of each CPU that are recorded without a loss
    #[arg(long, default_value_t = 10_000_000)]
    events: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum JitterPart {
    /// What recording costs and loses
    Collector,
    /// The replay beside a program, against cyclictest
    Timer,
    /// All ways of replaying
    Ways,
}

struct Bench {
    sandbag: PathBuf,
    dir: tempfile::TempDir,
    parts: Vec<JitterPart>,
    rounds: u32,
    cpu: u32,
    cpus: usize,
    seconds: u32,
    events: u64,
}

impl Experiment for Bench {
    type Setup = ();

    fn name(&self) -> &'static str {
        "jitter"
    }

    fn cells(&self, _setup: &()) -> Vec<String> {
        let parts = self.parts.iter();
        parts.map(value_name).collect()
    }

    fn measure(&mut self, _setup: &(), cell: &str, round: u32) -> Result<Vec<Row>> {
        let mut figures = Figures::default();
        match cell {
            "collector" => collector::measure(self, &mut figures)?,
            "timer" => timer::measure(self, round, &mut figures)?,
            _ => ways::measure(self, &mut figures)?,
        }
        let mut row = Row::new(cell, round);
        row.details = serde_json::to_value(&figures)?;
        Ok(vec![row])
    }
}

impl Benchmark for Bench {
    fn title(&self) -> &'static str {
        "OS jitter: the collector and the replay"
    }

    fn rounds(&self) -> u32 {
        self.rounds
    }

    fn tables(&self, rows: &[Row]) -> String {
        let mut figures = Figures::default();
        // In the order of their names.
        for part in ["collector", "timer", "ways"] {
            let own = rows.iter().filter(|row| row.cell == part);
            own.filter_map(|row| Figures::deserialize(&row.details).ok())
                .for_each(|more| figures.extend(&more));
        }
        format!(
            "{} rounds of {} s; median, least and greatest of the rounds. Replays are on CPU \
             {}. A target is met if the median meets it.\n{}",
            self.rounds,
            self.seconds,
            self.cpu,
            figures.render()
        )
    }
}

/// An event of this length every millisecond: none is too short or overlaps another.
const EVEN: &str = "--period 1ms --length 60us";
/// With room between two events for a wake-up of cyclictest.
const APART: &str = "--period 2ms --length 60us";
/// As docs/explanation/jitter.md has it: half of the events are shorter than 22 us, 90 %
/// than 150.
const MIXED: &str = "--poisson 800 --length lognormal:22us:1.498";

pub fn jitter(args: &JitterArgs, messages: &Messages) -> Result<()> {
    let online = Topology::read(&Root::default())?.online;
    let cpu = args.cpu.or(online.iter().next_back());
    let mut bench = Bench {
        sandbag: args.common.programs()?.sandbag,
        dir: tempfile::tempdir()?,
        parts: args.parts.clone(),
        rounds: args.rounds.unwrap_or(args.common.form(3, 10)),
        cpu: cpu.context("no CPU is online")?,
        cpus: online.iter().count(),
        seconds: args.seconds.unwrap_or(args.common.form(4, 10)),
        events: args.events,
    };
    bench.synth(EVEN, "even.sbj")?;
    bench.synth(APART, "apart.sbj")?;
    bench.synth(MIXED, "mixed.sbj")?;
    let options = format!(
        "CPU {}, {} s, {} events",
        bench.cpu, bench.seconds, bench.events
    );
    let terms = (online.to_string(), options);
    benchmark::run(&mut bench, &args.common, terms, messages)
}

impl Bench {
    fn command(&self, words: &str) -> Command {
        let mut command = as_root(&self.sandbag);
        command
            .args(words.split_whitespace())
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .die_with_us(libc::SIGKILL);
        command
    }

    /// Runs it; its output.
    fn run(&self, words: &str) -> Result<String> {
        let output = self.command(words).output()?;
        // A verdict is not a failure.
        let code = output.status.code();
        ensure!(
            matches!(code, Some(0 | 3 | 4)),
            "sandbag {words}: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    fn synth(&self, parts: &str, name: &str) -> Result<()> {
        // The part that is replayed is at most as long as a replay.
        let seconds = self.seconds * 3;
        let words =
            format!("jitter synth {parts} --cpus 0 -d {seconds}s --seed 7 -q --force -o {name}");
        self.run(&words).map(drop)
    }
}
