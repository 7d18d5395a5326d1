// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One benchmark from start to end: rounds over all cells on each cgroup
//! version, the extra tables, the files.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use sandbag_kernel::{CpuList, Root};
use serde::Serialize;

use crate::cells::{Cell, Factor, Method, matrix, rounds};
use crate::hierarchy::{self, OnV2};
use crate::interrupt;
use crate::latency::lines;
use crate::machine::{StealMeter, describe};
use crate::place::Layout;
use crate::row::{ClosingRow, Row};
use crate::runner::Bench;
use crate::tables::{
    factor_table, failures, formula_table, groups, latency_table, step_table, target_table,
    verdict_table,
};

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
    /// About ten minutes instead of two hours; also by QUICK=1
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
    /// Print the cells and stop
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
    /// Write the report here, and the raw rows beside it as CSV
    #[arg(long, value_name = "FILE.md")]
    out: Option<PathBuf>,
}

/// How to read the tables.
const NOTES: &str = "\
Errors are points of one CPU. Windows with more than 3 % steal are left out and counted.

Three-way verification, per CPU, as points of the delivered time, median over the rounds:
`closing` is burner + competitors + idle + others minus 100, each from a clock of its own, of the \
worst CPU; `all` the same over all CPUs together, where it does not matter to which CPU the time \
of a task that moves (sandbag's supervisor, a service) was booked; `claim` is sandbag's own \
figure minus the burner's clock read from outside; `mpstat` is its busy share minus the parts.

What cannot close: steal is told in steps of 10 ms, so that one step more or less shows in a run \
of some seconds; kernels without IRQ_TIME_ACCOUNTING book an interrupt of an idle CPU nowhere; \
processes that live for less than a run are nobody's; and mpstat divides by the sum of counters \
of which the busy ones are sampled at the tick, which a burner on a regular grid on an otherwise \
idle CPU can miss.
";

struct Plan {
    cells: Vec<Cell>,
    rounds: usize,
    latency_rounds: usize,
    latency_seconds: u32,
    versions: usize,
}

impl Plan {
    fn estimate(&self, seconds: u32) -> Duration {
        let cells = (self.cells.len() * self.rounds) as f64 * (f64::from(seconds) + OVERHEAD_S);
        let latency = self.latency_rounds as f64 * 2.0 * (f64::from(self.latency_seconds) + 1.0);
        Duration::from_secs_f64((cells + latency) * self.versions as f64)
    }
}

/// Everything that was measured.
#[derive(Default)]
struct Results {
    rows: Vec<Row>,
    closings: Vec<ClosingRow>,
    latencies: Vec<String>,
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
        return Ok(());
    }
    ensure!(
        nix::unistd::geteuid().is_root(),
        "the benchmark needs root: it makes groups and reads the clocks of every CPU"
    );
    let program = std::env::current_exe().context("find this program")?;
    let sandbag = match &args.sandbag {
        Some(path) => path.clone(),
        None => program.with_file_name("sandbag"),
    };
    let sandbag = sandbag
        .canonicalize()
        .with_context(|| format!("find {}", sandbag.display()))?;
    interrupt::watch()?;
    if hierarchy::restore()? {
        println!("restored the cgroup mounts that a killed benchmark had left moved");
    }
    let work = tempfile::Builder::new()
        .prefix("sandbag-bench-")
        .tempdir()
        .context("make a directory for the runs")?;
    let bench = Bench {
        sandbag,
        program,
        cpus,
        seconds: args.seconds.unwrap_or(if quick { 4 } else { 10 }),
        work: work.path().to_owned(),
        seed: args.seed.unwrap_or_else(clock_seed),
    };
    println!(
        "{} cells, {} rounds of {} s, seed {}: about {:.0} min",
        plan.cells.len(),
        plan.rounds,
        bench.seconds,
        bench.seed,
        plan.estimate(bench.seconds).as_secs_f64() / 60.0
    );
    let mut machine = describe(&root);
    let mut steal = StealMeter::start(&root)?;
    let started = Instant::now();

    let mut results = Results::default();
    let outcome = measure(args, &bench, &plan, &mut results);
    // What was measured before an interruption is shown, too.
    if results.rows.is_empty() && results.latencies.is_empty() {
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
    let text = report(&machine, &bench, &plan, &results);
    print!("{text}");
    if let Some(path) = &args.out {
        write_files(path, &text, &results)?;
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
        (true, false) => (10, 5),
    };
    Ok(Plan {
        cells,
        rounds: args.rounds.unwrap_or(if quick { 2 } else { 3 }) as usize,
        latency_rounds,
        latency_seconds,
        versions: if args.v2 { 2 } else { 1 },
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
            let outcome = bench.run(&plan.cells[index], layout, round + 1)?;
            done += 1;
            progress(done, total, &outcome.row);
            results.rows.push(outcome.row);
            results.closings.extend(outcome.closings);
        }
    }
    if plan.latency_rounds > 0 {
        let table = match bench.latency_pairs(plan.latency_rounds, plan.latency_seconds) {
            Ok(pairs) => latency_table(&lines(&pairs), layout.name()),
            Err(e) => {
                interrupt::check()?;
                format!("Not measured on {}: {e:#}\n", layout.name())
            }
        };
        results.latencies.push(table);
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
            crate::markdown::number(row.closing, 2)
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

fn report(
    machine: &[(&'static str, String)],
    bench: &Bench,
    plan: &Plan,
    results: &Results,
) -> String {
    let mut out = String::from("# How well loads are held\n\n");
    for (name, value) in machine {
        let _ = writeln!(out, "- {name}: {value}");
    }
    let _ = writeln!(
        out,
        "- runs: {} s each, {} rounds, CPUs {}\n",
        bench.seconds, plan.rounds, bench.cpus
    );
    out += NOTES;
    let groups = groups(&plan.cells, &results.rows);
    let mut section = |title: &str, body: Option<String>| {
        if let Some(body) = body {
            let _ = write!(out, "\n## {title}\n\n{body}");
        }
    };
    if !groups.is_empty() {
        section("Targets", Some(target_table(&groups)));
        section("Verdicts", Some(verdict_table(&results.rows)));
    }
    for (factor, title) in [
        (Factor::Asked, "Asked load"),
        (Factor::Competitors, "Competitors"),
        (Factor::Place, "Place of the competitors"),
        (Factor::Disturbance, "Disturbances"),
    ] {
        section(title, factor_table(&groups, factor));
    }
    section(
        "Step response: seconds that begin 100 ms after a change",
        step_table(&groups),
    );
    section(
        "The published formula",
        formula_table(&groups, bench.cpus.len()),
    );
    section(
        "Wake-up latency of a 1 ms sleeper",
        (!results.latencies.is_empty()).then(|| results.latencies.join("\n")),
    );
    let failed = failures(&results.rows);
    section(
        "Runs without figures",
        (!failed.is_empty()).then(|| failed.iter().map(|l| format!("- {l}\n")).collect()),
    );
    out
}

fn write_files(path: &Path, text: &str, results: &Results) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))?;
    write_csv(&path.with_extension("csv"), &results.rows)?;
    write_csv(&path.with_extension("closing.csv"), &results.closings)
}

fn write_csv<T: Serialize>(path: &Path, rows: &[T]) -> Result<()> {
    let mut writer =
        csv::Writer::from_path(path).with_context(|| format!("write {}", path.display()))?;
    for row in rows {
        writer.serialize(row)?;
    }
    writer
        .flush()
        .with_context(|| format!("write {}", path.display()))
}

fn clock_seed() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |d| d.as_secs())
}
