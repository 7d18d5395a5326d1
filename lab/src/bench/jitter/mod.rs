// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the collector of OS jitter costs and loses, and how exactly its traces
//! are replayed, by the real program: `collector` records, `timer` holds the
//! replay beside a program against cyclictest at the same priority, in turn,
//! and `ways` holds all ways of replaying against what a program sees.

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
use serde::{Deserialize, Serialize};

use crate::bench::benchmark::{self, Benchmark, Conditions, is_quick};
use crate::experiment::{Cell, Experiment};
use crate::trial::Trial;
use figures::Figures;

/// Measure what the collector of OS jitter costs, and how exactly a trace is
/// replayed (root)
#[derive(Debug, Args)]
pub struct JitterArgs {
    /// The sandbag to measure
    #[arg(long, default_value = "sandbag")]
    sandbag: PathBuf,
    /// Some minutes instead of half an hour; also by QUICK=1
    #[arg(long)]
    quick: bool,
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
    /// Write tables (.md) and rows (.jsonl) here
    #[arg(long, default_value = "jitter-results.md")]
    out: PathBuf,
    /// Go on from the rows beside --out
    #[arg(long)]
    resume: bool,
}

/// What can be measured alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum JitterPart {
    /// What recording costs and loses
    Collector,
    /// The replay beside a program, against cyclictest
    Timer,
    /// All ways of replaying
    Ways,
}

impl JitterPart {
    const ALL: [Self; 3] = [Self::Collector, Self::Timer, Self::Ways];

    fn name(self) -> &'static str {
        match self {
            Self::Collector => "collector",
            Self::Timer => "timer",
            Self::Ways => "ways",
        }
    }
}

/// Where and how everything is measured.
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

/// The figures of a part in a round.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct JitterRow {
    part: String,
    round: u32,
    figures: Figures,
}

impl Trial for JitterRow {
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

impl Experiment for Bench {
    type Row = JitterRow;
    type Setup = ();

    fn name(&self) -> &'static str {
        "jitter"
    }

    fn cells(&self, _setup: &()) -> Vec<Cell> {
        self.parts
            .iter()
            .map(|part| Cell::new(part.name()))
            .collect()
    }

    fn measure(&mut self, _setup: &(), cell: &Cell, round: u32) -> Result<Vec<JitterRow>> {
        let mut figures = Figures::default();
        match JitterPart::ALL
            .into_iter()
            .find(|part| part.name() == cell.key)
        {
            Some(JitterPart::Collector) => collector::measure(self, &mut figures)?,
            Some(JitterPart::Timer) => timer::measure(self, round, &mut figures)?,
            Some(JitterPart::Ways) => ways::measure(self, &mut figures)?,
            None => {}
        }
        Ok(vec![JitterRow {
            part: cell.key.clone(),
            round,
            figures,
        }])
    }
}

impl Benchmark for Bench {
    fn title(&self) -> &'static str {
        "OS jitter: the collector and the replay"
    }

    fn rounds(&self) -> u32 {
        self.rounds
    }

    fn tables(&self, rows: &[JitterRow]) -> String {
        let mut figures = Figures::default();
        for part in JitterPart::ALL {
            let own = rows.iter().filter(|row| row.part == part.name());
            own.for_each(|row| figures.extend(&row.figures));
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

/// An event of this length every millisecond: nothing is too short, or meets
/// another.
const EVEN: &str = "--period 1ms --length 60us";
/// With room between two for somebody else's.
const APART: &str = "--period 2ms --length 60us";
/// As docs/explanation/jitter.md has it: half of the events are shorter than 22 us, 90 %
/// than 150.
const MIXED: &str = "--poisson 800 --length lognormal:22us:1.498";

/// Runs everything and prints tables.
pub fn jitter(args: &JitterArgs) -> Result<()> {
    let online = Topology::read(&Root::default())?.online;
    let quick = is_quick(args.quick);
    let mut bench = Bench {
        sandbag: args.sandbag.clone(),
        dir: tempfile::tempdir()?,
        parts: args.parts.clone(),
        rounds: args.rounds.unwrap_or(if quick { 3 } else { 10 }),
        cpu: args
            .cpu
            .or(online.iter().next_back())
            .context("no CPU is online")?,
        cpus: online.iter().count(),
        seconds: args.seconds.unwrap_or(if quick { 4 } else { 10 }),
        events: args.events,
    };
    bench.synth(EVEN, "even.sbj")?;
    bench.synth(APART, "apart.sbj")?;
    bench.synth(MIXED, "mixed.sbj")?;
    let conditions = Conditions {
        quick,
        cpus: online.to_string(),
        options: format!(
            "CPU {}, {} s, {} events",
            bench.cpu, bench.seconds, bench.events
        ),
        seed: 0,
    };
    benchmark::run(&mut bench, conditions, &args.out, args.resume)
}

impl Bench {
    /// sandbag, as the user who runs this, with these words.
    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(&self.sandbag);
        for name in ["SUDO_UID", "SUDO_GID", "SUDO_USER"] {
            command.env_remove(name);
        }
        command
            .args(words.split_whitespace())
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .die_with_us(libc::SIGKILL);
        command
    }

    /// Runs it; what it printed.
    fn run(&self, words: &str) -> Result<String> {
        let output = self.command(words).output()?;
        // A verdict is no failure.
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
