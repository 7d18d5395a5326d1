// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The benchmark of the loads: rounds over all cells.

use std::cell::RefCell;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use sandbag_linux::topology::Topology;
use sandbag_linux::{CpuList, Root};

use crate::bench::benchmark::{self, BenchArgs, Benchmark};
use crate::bench::cells::{Cell, Method, matrix};
use crate::bench::place::Layout;
use crate::bench::report;
use crate::bench::row;
use crate::bench::runner::Bench;
use crate::experiment::Experiment;
use crate::program::Programs;
use crate::row::Row;
use crate::steal::StealMeter;
use sandbag_ui::messages::Messages;

/// What a run takes besides its length, seconds: starts, ends, clocks.
const OVERHEAD_S: f64 = 1.7;

/// Measure how well loads are held, verified in two ways (root)
#[derive(Debug, Args)]
pub struct SessionArgs {
    #[command(flatten)]
    common: BenchArgs,
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
    /// Seed of the order of the cells and of the step profiles [default:
    /// random; printed]
    #[arg(long)]
    seed: Option<u64>,
}

struct Plan {
    cells: Vec<Cell>,
    rounds: u32,
    seconds: u32,
}

impl Plan {
    fn summary(&self) -> String {
        let run_s = f64::from(self.seconds) + OVERHEAD_S;
        let cells_s = self.cells.len() as f64 * f64::from(self.rounds) * run_s;
        format!(
            "{} cells, {} rounds of {} s: about {:.0} min",
            self.cells.len(),
            self.rounds,
            self.seconds,
            cells_s / 60.0
        )
    }
}

pub fn run(args: &SessionArgs, messages: &Messages) -> Result<()> {
    let root = Root::default();
    let cpus = match &args.cpus {
        Some(list) => list.clone(),
        None => Topology::read(&root)?.online,
    };
    ensure!(!cpus.is_empty(), "--cpus names no CPU");
    let mut plan = plan(args, cpus.len())?;
    if args.list {
        for cell in &plan.cells {
            println!("{}", cell.id());
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
    } = args.common.programs()?;
    let work = tempfile::Builder::new()
        .prefix("sandbag-lab-")
        .tempdir()
        .context("make a directory for the runs")?;
    let bench = Bench {
        sandbag,
        program,
        cpus,
        seconds: plan.seconds,
        work: work.path().to_owned(),
        seed: args.seed.unwrap_or(std::process::id().into()),
    };
    let layout = Layout::detect(&root)?;
    layout.clean()?;
    if !layout.makes_groups() {
        let before = plan.cells.len();
        plan.cells.retain(|cell| !cell.needs_groups());
        let left_out = before - plan.cells.len();
        if left_out > 0 {
            messages.warning(&format!(
                "{left_out} cells are left out: their competitors need groups beside those of \
                 systemd, which has the root group"
            ));
        }
        ensure!(!plan.cells.is_empty(), "no cell is left");
    }
    println!("{}; seed {}", plan.summary(), bench.seed);
    let terms = (
        bench.cpus.to_string(),
        format!("{} s, cgroup {}", plan.seconds, layout.name()),
    );
    let mut loads = Loads {
        steal: RefCell::new(StealMeter::start(&root, &bench.cpus)?),
        started: Instant::now(),
        layout,
        bench,
        plan,
    };
    benchmark::run(&mut loads, &args.common, terms, messages)
}

fn plan(args: &SessionArgs, cpus: usize) -> Result<Plan> {
    let common = &args.common;
    let mut methods = args.methods.clone();
    methods.sort_unstable();
    methods.dedup();
    let mut cells = matrix(common.is_quick(), &methods, cpus);
    if let Some(part) = &args.cells {
        cells.retain(|cell| cell.id().contains(part));
    }
    ensure!(
        !cells.is_empty(),
        "nothing to measure has that name; --list shows the names"
    );
    Ok(Plan {
        cells,
        rounds: args.rounds.unwrap_or(common.form(2, 3)),
        seconds: args.seconds.unwrap_or(common.form(4, 10)),
    })
}

struct Loads {
    bench: Bench,
    plan: Plan,
    layout: Layout,
    steal: RefCell<StealMeter>,
    started: Instant,
}

impl Experiment for Loads {
    type Setup = ();

    fn name(&self) -> &'static str {
        "loads"
    }

    fn cells(&self, _setup: &()) -> Vec<String> {
        self.plan.cells.iter().map(Cell::id).collect()
    }

    fn line(&self, row: &Row) -> String {
        row::line(row)
    }

    fn measure(&mut self, _setup: &(), cell: &str, round: u32) -> Result<Vec<Row>> {
        let cell = self.plan.cells.iter().find(|one| one.id() == cell);
        let cell = cell.context("no cell of this one")?;
        Ok(vec![self.bench.run(cell, &self.layout, round)?])
    }
}

impl Benchmark for Loads {
    fn title(&self) -> &'static str {
        "How well loads are held"
    }

    fn rounds(&self) -> u32 {
        self.plan.rounds
    }

    fn seed(&self) -> u64 {
        self.bench.seed
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let minutes = self.started.elapsed().as_secs_f64() / 60.0;
        let steal = self.steal.borrow_mut().disturbance();
        vec![
            ("cgroup", self.layout.name().to_owned()),
            (
                "steal during the benchmark",
                steal.map_or_else(
                    |error| format!("{error:#}"),
                    |found| format!("{:.2} %", found.steal_pct),
                ),
            ),
            ("took", format!("{minutes:.0} min")),
            ("seed", self.bench.seed.to_string()),
            (
                "runs",
                format!(
                    "{} s each, {} rounds, CPUs {}",
                    self.plan.seconds, self.plan.rounds, self.bench.cpus
                ),
            ),
        ]
    }

    fn tables(&self, rows: &[Row]) -> String {
        report::tables(&self.plan.cells, self.bench.cpus.len(), rows)
    }
}
