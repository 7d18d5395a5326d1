// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One benchmark from start to end: rounds over all cells on each cgroup
//! version, the extra tables, the files.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use sandbag_linux::{CpuList, Root};

use crate::bench::cells::{Cell, Method, matrix, rounds};
use crate::bench::hierarchy::{self, OnV2};
use crate::bench::latency;
use crate::bench::place::Layout;
use crate::bench::programs::Programs;
use crate::bench::report::{About, report};
use crate::bench::results::{Latency, Results};
use crate::bench::row::Row;
use crate::bench::runner::Bench;
use crate::bench::tables::undecided;
use crate::steal::StealMeter;
use sandbag_linux::interrupt;
use sandbag_linux::machine::describe;

/// What a run takes besides its length, seconds: starts, ends, clocks.
const OVERHEAD_S: f64 = 1.7;

/// Name of the wake-up latency for `--cells`; not a cell, because it is
/// measured in pairs.
const LATENCY: &str = "pace/latency";

/// Arguments of a benchmark.
#[derive(Debug, Args)]
pub struct SessionArgs {
    /// The program to measure [default: sandbag beside this program]
    #[arg(long, value_name = "PATH")]
    sandbag: Option<PathBuf>,
    /// About ten minutes instead of an hour for each cgroup version; also by
    /// QUICK=1
    #[arg(long)]
    quick: bool,
    /// Measure on cgroup v2 as well, by moving this machine's controllers
    /// there and back (needs SANDBAG_DISPOSABLE=1)
    #[arg(long)]
    v2: bool,
    /// Methods to measure
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["shares", "pace", "quota"])]
    methods: Vec<Method>,
    /// Only cells whose name contains this; see --list
    #[arg(long, value_name = "TEXT")]
    cells: Option<String>,
    /// Print the cells and how long they take, and stop
    #[arg(long)]
    list: bool,
    /// CPUs to load [default: all]
    #[arg(long)]
    cpus: Option<CpuList>,
    /// Length of a run in seconds [default: 10, quick 4]
    #[arg(long, value_parser = clap::value_parser!(u32).range(3..=3600))]
    seconds: Option<u32>,
    /// Rounds over all cells [default: 3, quick 2]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Leave out the wake-up latency
    #[arg(long)]
    no_latency: bool,
    /// Seed of the order of the cells and of the step profiles [default: from
    /// the clock; printed]
    #[arg(long)]
    seed: Option<u64>,
    /// Write the report here, and the raw rows beside it, run by run
    #[arg(long, value_name = "FILE.md")]
    out: Option<PathBuf>,
    /// Go on where a benchmark that was interrupted left off, from the rows
    /// beside --out
    #[arg(long, requires = "out")]
    resume: bool,
}

struct Plan {
    cells: Vec<Cell>,
    rounds: usize,
    latency_rounds: usize,
    latency_seconds: u32,
    versions: usize,
    /// Length of a run.
    seconds: u32,
}

impl Plan {
    /// How long all of it takes.
    fn estimate(&self) -> Duration {
        let run = f64::from(self.seconds) + OVERHEAD_S;
        let cells = (self.cells.len() * self.rounds) as f64 * run;
        let latency = (self.latency_rounds * latency::PER_ROUND) as f64
            * (f64::from(self.latency_seconds) + 1.2);
        Duration::from_secs_f64((cells + latency) * self.versions as f64)
    }

    fn summary(&self) -> String {
        format!(
            "{} cells, {} rounds of {} s, {} rounds of latency, on {} cgroup version{}: about {:.0} min",
            self.cells.len(),
            self.rounds,
            self.seconds,
            self.latency_rounds,
            self.versions,
            if self.versions == 1 { "" } else { "s" },
            self.estimate().as_secs_f64() / 60.0
        )
    }
}

/// Runs the benchmark.
pub fn run(args: &SessionArgs) -> Result<()> {
    let quick = args.quick || std::env::var_os("QUICK").is_some_and(|v| v == "1");
    let root = Root::default();
    let cpus = match &args.cpus {
        Some(list) => list.clone(),
        None => root
            .read("/sys/devices/system/cpu/online")?
            .parse::<CpuList>()?,
    };
    ensure!(!cpus.is_empty(), "--cpus names no CPU");
    let plan = plan(args, quick, cpus.len())?;
    if args.list {
        for cell in &plan.cells {
            println!("{}", cell.id());
        }
        if plan.latency_rounds > 0 {
            println!("{LATENCY}");
        }
        eprintln!("{}", plan.summary());
        return Ok(());
    }
    ensure!(
        nix::unistd::geteuid().is_root(),
        "the benchmark needs root: it makes groups and reads the clocks of every CPU"
    );
    let Programs {
        own: program,
        sandbag,
    } = Programs::find(args.sandbag.as_deref())?;
    interrupt::watch()?;
    if hierarchy::restore()? {
        println!("restored the cgroup mounts that a killed benchmark had left moved");
    }
    let work = tempfile::Builder::new()
        .prefix("sandbag-lab loads-")
        .tempdir()
        .context("make a directory for the runs")?;
    let bench = Bench {
        sandbag,
        program,
        cpus,
        seconds: plan.seconds,
        work: work.path().to_owned(),
        seed: args.seed.unwrap_or_else(clock_seed),
    };
    println!("{}; seed {}", plan.summary(), bench.seed);
    let mut machine = describe(&root);
    let mut steal = StealMeter::start(&root, &bench.cpus)?;
    let started = Instant::now();

    let mut results = match &args.out {
        Some(path) => Results::beside(path, args.resume)?,
        None => Results::default(),
    };
    if !results.is_empty() {
        println!(
            "{} runs and {} rounds of latency are there already",
            results.rows.len(),
            results.latencies.len()
        );
    }
    let outcome = measure(args, &bench, &plan, &mut results);
    // What was measured before an interruption is shown, too.
    if results.is_empty() {
        return outcome;
    }
    machine.push((
        "steal during the benchmark",
        format!("{:.2} %", steal.steal_pct()?),
    ));
    machine.push((
        "took",
        format!("{:.0} min", started.elapsed().as_secs_f64() / 60.0),
    ));
    machine.push(("seed", bench.seed.to_string()));
    let about = About {
        machine: &machine,
        cells: &plan.cells,
        cpus: (&bench.cpus.to_string(), bench.cpus.len()),
        seconds: plan.seconds,
        rounds: plan.rounds,
    };
    let text = report(&about, &results);
    print!("{text}");
    if let Some(path) = &args.out {
        std::fs::write(path, &text).with_context(|| format!("write {}", path.display()))?;
        if outcome.is_err() {
            eprintln!("sandbag-lab loads: what was measured is kept; --resume goes on from there");
        }
    }
    outcome
}

fn plan(args: &SessionArgs, quick: bool, cpus: usize) -> Result<Plan> {
    let mut methods = args.methods.clone();
    methods.sort_unstable();
    methods.dedup();
    let mut cells = matrix(quick, &methods, cpus);
    let wanted = |id: &str| args.cells.as_deref().is_none_or(|part| id.contains(part));
    cells.retain(|c| wanted(&c.id()));
    let latency = !args.no_latency && methods.contains(&Method::Pace) && wanted(LATENCY);
    if cells.is_empty() && !latency {
        bail!("nothing to measure has that name; --list shows the names");
    }
    let (latency_rounds, latency_seconds) = match (latency, quick) {
        (false, _) => (0, 0),
        (true, true) => (4, 2),
        (true, false) => (10, 3),
    };
    Ok(Plan {
        cells,
        rounds: args.rounds.unwrap_or(if quick { 2 } else { 3 }) as usize,
        latency_rounds,
        latency_seconds,
        versions: if args.v2 { 2 } else { 1 },
        seconds: args.seconds.unwrap_or(if quick { 4 } else { 10 }),
    })
}

fn measure(args: &SessionArgs, bench: &Bench, plan: &Plan, results: &mut Results) -> Result<()> {
    let root = Root::default();
    if args.v2 {
        // Fail now rather than after the first half.
        OnV2::switch(&bench.program)?.back()?;
    }
    on_version(bench, plan, &Layout::detect(&root)?, results)?;
    if !args.v2 {
        return Ok(());
    }
    let v2 = OnV2::switch(&bench.program)?;
    let outcome =
        Layout::detect(&root).and_then(|layout| on_version(bench, plan, &layout, results));
    v2.back()?;
    outcome
}

fn on_version(bench: &Bench, plan: &Plan, layout: &Layout, results: &mut Results) -> Result<()> {
    layout.clean()?;
    let total = plan.cells.len() * plan.rounds;
    let mut done = 0;
    for (round, order) in rounds(plan.cells.len(), plan.rounds, bench.seed)
        .into_iter()
        .enumerate()
    {
        for index in order {
            done += 1;
            let cell = &plan.cells[index];
            if results.has(layout.name(), &cell.id(), round + 1) {
                continue;
            }
            let outcome = bench.run(cell, layout, round + 1)?;
            progress(done, total, &outcome.row);
            results.add(outcome.row, outcome.closings)?;
        }
    }
    let there = results.latency_rounds(layout.name());
    for round in there..plan.latency_rounds {
        match bench.latency_round(round, plan.latency_seconds) {
            Ok(measured) => {
                println!(
                    "[{}/{}] {} {LATENCY}",
                    round + 1,
                    plan.latency_rounds,
                    layout.name()
                );
                results.add_latency(Latency {
                    cgroup: layout.name().to_owned(),
                    round: measured,
                })?;
            }
            Err(e) => {
                interrupt::check()?;
                results.notes.push(format!(
                    "Round {} was not measured on {}: {e:#}",
                    round + 1,
                    layout.name()
                ));
            }
        }
    }
    if let Some(line) = undecided(&results.rows) {
        println!("{line}");
    }
    Ok(())
}

fn progress(done: usize, total: usize, row: &Row) {
    let figures = match (&row.failed, row.mae_1s) {
        (Some(reason), _) => format!("failed: {reason}"),
        (None, Some(mae)) => format!(
            "mean abs {mae:.3}, worst {:+.2}, {}, closing {}",
            row.worst_1s.unwrap_or(0.0),
            row.verdict,
            crate::bench::markdown::number(row.closing, 2)
        ),
        (None, None) => "no window counts".to_owned(),
    };
    println!(
        "[{done}/{total}] {} {} round {}: {figures}",
        row.cgroup, row.cell, row.round
    );
    // Lost progress is no reason to stop.
    let _ = std::io::stdout().flush();
}

fn clock_seed() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |d| d.as_secs())
}
