// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag-lab audit`: does the audit find a difference of a CPU, and does it report
//! none where there is none?
//!
//! Differences are planted on one CPU, one kind after the other, and the real program
//! audits it; equal CPUs are audited as they are. The rate of false alarms comes from
//! thousands of simulated audits of equal CPUs.

pub mod plant;
pub mod simulate;
mod table;

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Args, ValueEnum as _};
use nix::sys::signal::Signal;
use sandbag_audit::model::Audit;
use sandbag_linux::Root;
use sandbag_linux::topology::Topology;
use sandbag_ui::messages::Messages;

use crate::bench::benchmark::{self, BenchArgs, Benchmark, value_name};
use crate::experiment::Experiment;
use crate::program::{self, Programs, Running, Start};
use crate::row::Row;
use plant::Plant;
use simulate::{World, alarms};

/// Plant differences on a CPU, and count which of them the audit finds (root)
#[derive(Debug, Args)]
pub struct AuditArgs {
    #[command(flatten)]
    common: BenchArgs,
    /// These plants only: none, load, realtime, timer, slow
    #[arg(long, value_delimiter = ',')]
    plants: Vec<Plant>,
    /// Audits of each plant [default: 3; quick 1]
    #[arg(long)]
    rounds: Option<u32>,
    /// Audits of equal CPUs [default: 20; quick 2]
    #[arg(long)]
    equal: Option<u32>,
    /// Simulated audits of equal CPUs [default: 2000; quick 400]
    #[arg(long)]
    simulated: Option<u64>,
    /// The CPU that differs [default: the last]
    #[arg(long)]
    cpu: Option<u32>,
    /// Interrupts in a second of the planted timer
    #[arg(long, default_value = "10000")]
    timer_hz: u32,
    /// Passed on to `sandbag audit run`, as one word each
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    with: Vec<String>,
}

/// A quick audit of the benchmark.
const QUICK: &str = "--tests compute,syscall,noise --limit 25s --calls 2000000";
const PATIENCE: Duration = Duration::from_secs(3600);

pub fn audit(args: &AuditArgs, messages: &Messages) -> Result<()> {
    ensure!(
        nix::unistd::geteuid().is_root(),
        "the benchmark needs root: it plants real-time tasks and timers"
    );
    let online = Topology::read(&Root::default())?.online;
    ensure!(
        online.len() >= 2,
        "with one CPU there is none to compare with"
    );
    let cpu = args.cpu.or(online.iter().next_back()).unwrap_or(1);
    ensure!(online.contains(cpu), "CPU {cpu} is not online");
    let mut stand = Stand {
        args,
        programs: args.common.programs()?,
        cpu,
    };
    let options = format!("CPU {cpu}, {} Hz, {}", args.timer_hz, args.with.join(" "));
    let terms = (online.to_string(), options);
    benchmark::run(&mut stand, &args.common, terms, messages)
}

struct Stand<'a> {
    args: &'a AuditArgs,
    programs: Programs,
    cpu: u32,
}

/// The cell of simulated audits.
const SIMULATED: &str = "simulated";

impl Experiment for Stand<'_> {
    type Setup = ();

    fn name(&self) -> &'static str {
        "audit"
    }

    fn cells(&self, _setup: &()) -> Vec<String> {
        let wanted = Plant::value_variants()
            .iter()
            .filter(|plant| self.is_wanted(**plant));
        let simulated = (self.simulated() > 0).then_some(SIMULATED);
        let simulated = simulated.map(str::to_owned);
        wanted.map(value_name).chain(simulated).collect()
    }

    fn has_round(&self, cell: &str, round: u32) -> bool {
        match cell {
            SIMULATED => round == 0,
            plant => round < self.rounds_of(plant == "none"),
        }
    }

    fn measure(&mut self, _setup: &(), cell: &str, round: u32) -> Result<Vec<Row>> {
        if cell == SIMULATED {
            let audits = self.simulated();
            let mut row = Row::new(SIMULATED, round);
            row.put("audits", audits as f64);
            row.put("alarms", alarms(&World::default(), audits, 1).0 as f64);
            return Ok(vec![row]);
        }
        let plant = Plant::of(cell).context("no such plant")?;
        let row = match self.run(plant, round) {
            Ok(audit) => table::row(plant, round, self.cpu, &audit),
            Err(error) => Row::failed(cell, round, &error),
        };
        Ok(vec![row])
    }

    fn line(&self, row: &Row) -> String {
        match Plant::of(&row.cell) {
            Some(plant) => table::line(plant, row).join(" | "),
            None => row.line(),
        }
    }
}

impl Benchmark for Stand<'_> {
    fn title(&self) -> &'static str {
        "Planted differences, and what the audit said"
    }

    fn rounds(&self) -> u32 {
        self.rounds_of(true).max(self.rounds_of(false))
    }

    fn tables(&self, rows: &[Row]) -> String {
        table::report(rows, self.cpu)
    }
}

impl Stand<'_> {
    fn is_wanted(&self, plant: Plant) -> bool {
        self.args.plants.is_empty() || self.args.plants.contains(&plant)
    }

    /// Audits of equal CPUs, or of each plant.
    fn rounds_of(&self, equal: bool) -> u32 {
        let (asked, quick, full) = if equal {
            (self.args.equal, 2, 20)
        } else {
            (self.args.rounds, 1, 3)
        };
        asked.unwrap_or(self.args.common.form(quick, full))
    }

    /// Simulated audits of equal CPUs.
    fn simulated(&self) -> u64 {
        let usual = self.args.common.form(400, 2000);
        let asked = self.args.simulated.unwrap_or(usual);
        if self.is_wanted(Plant::None) {
            asked
        } else {
            0
        }
    }

    fn run(&self, plant: Plant, number: u32) -> Result<Audit> {
        let planted = plant.start(&self.programs, self.cpu, self.args.timer_hz)?;
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("audit.json");
        let words = format!("audit run --quiet --seed {} -o", number + 1);
        let mut command = program::command(&self.programs.sandbag, &words);
        command
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        if self.args.common.is_quick() {
            command.args(QUICK.split(' '));
        }
        command.args(&self.args.with);
        let mut running = Running::start(command, Start::session(Signal::SIGTERM))?;
        let status = running.wait(PATIENCE)?;
        if let Some(mut planted) = planted
            && planted.has_ended()
        {
            bail!("the plant ended before the audit did");
        }
        let code = status.and_then(|status| status.code());
        ensure!(
            matches!(code, Some(0 | 3 | 4)),
            "sandbag audit run ended with {status:?}"
        );
        let text = std::fs::read(&file).context("read the audit")?;
        Ok(serde_json::from_slice(&text)?)
    }
}
