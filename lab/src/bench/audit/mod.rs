// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag-lab audit`: does the audit find what is wrong with a CPU, and is
//! it silent where nothing is?
//!
//! Differences are planted on one CPU, one kind after the other, and the real
//! program is asked; equal CPUs are audited as they are. What chance does is
//! asked of simulated audits of equal CPUs, by the thousand.

pub mod plant;
pub mod simulate;
mod table;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use nix::sys::signal::Signal;
use sandbag_audit::model::Audit;
use sandbag_linux::topology::Topology;
use sandbag_linux::{Root, interrupt};

use crate::bench::benchmark::{Benchmark, Conditions, Session};
use crate::bench::programs::Programs;
use crate::experiment::{Cell, Experiment};
use crate::program::{Running, Start};
use plant::Plant;
use simulate::{World, alarms};
use table::{AuditRow, report};

/// Plant differences on a CPU, and ask the audit who it is and why (root)
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// The sandbag to measure [default: sandbag beside this program]
    #[arg(long, value_name = "PATH")]
    sandbag: Option<PathBuf>,
    /// Shorter audits, fewer of them
    #[arg(long)]
    quick: bool,
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
    /// Write tables (.md) and rows (.jsonl) here
    #[arg(long, default_value = "audit-results.md")]
    out: PathBuf,
    /// Go on from the rows beside --out
    #[arg(long)]
    resume: bool,
}

/// A quick audit of the benchmark.
const QUICK: [&str; 6] = [
    "--tests",
    "compute,syscall,noise",
    "--limit",
    "25s",
    "--calls",
    "2000000",
];
/// Longer than any audit of it.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Runs all audits and prints the table.
pub fn audit(args: &AuditArgs) -> Result<()> {
    ensure!(
        nix::unistd::geteuid().is_root(),
        "the benchmark needs root: it plants real-time tasks and timers"
    );
    interrupt::watch()?;
    let online = Topology::read(&Root::default())?.online;
    ensure!(online.len() >= 2, "one CPU has none to differ from");
    let cpu = args.cpu.or(online.iter().next_back()).unwrap_or(1);
    ensure!(online.contains(cpu), "CPU {cpu} is not online");
    let Programs {
        own: program,
        sandbag,
    } = Programs::find(args.sandbag.as_deref())?;
    let mut stand = Stand {
        args,
        sandbag,
        program,
        cpu,
        simulated: None,
    };
    let conditions = Conditions {
        quick: args.quick,
        cpus: online.to_string(),
        options: format!("CPU {cpu}, {} Hz, {}", args.timer_hz, args.with.join(" ")),
        seed: 0,
    };
    let mut session = Session::open(&stand, conditions, Some(&args.out), args.resume)?;
    let outcome = session.measure(&mut stand);
    let audits = args
        .simulated
        .unwrap_or(if args.quick { 400 } else { 2000 });
    if outcome.is_ok() && audits > 0 && stand.is_wanted(Plant::None) {
        stand.simulated = Some((alarms(&World::default(), audits, 1), audits));
    }
    session.print(&stand)?;
    outcome
}

struct Stand<'a> {
    args: &'a AuditArgs,
    sandbag: PathBuf,
    program: PathBuf,
    cpu: u32,
    /// Alarms, and audits of how many equal CPUs gave them.
    simulated: Option<(u64, u64)>,
}

impl Experiment for Stand<'_> {
    type Row = AuditRow;
    type Setup = ();

    fn name(&self) -> &'static str {
        "audit"
    }

    fn cells(&self, _setup: &()) -> Vec<Cell> {
        let wanted = Plant::ALL
            .into_iter()
            .filter(|plant| self.is_wanted(*plant));
        wanted.map(|plant| Cell::new(plant.name())).collect()
    }

    fn has_round(&self, cell: &Cell, round: u32) -> bool {
        round < self.rounds_of(cell.key == Plant::None.name())
    }

    fn measure(&mut self, _setup: &(), cell: &Cell, round: u32) -> Result<Vec<AuditRow>> {
        let plant = Plant::ALL
            .into_iter()
            .find(|plant| plant.name() == cell.key);
        let plant = plant.context("no such plant")?;
        Ok(vec![match self.run(plant, round) {
            Ok(audit) => AuditRow::new(plant, round, self.cpu, &audit),
            Err(error) => AuditRow::failed(plant, round, self.cpu, &error),
        }])
    }
}

impl Benchmark for Stand<'_> {
    fn title(&self) -> &'static str {
        "Planted differences, and what the audit said"
    }

    fn rounds(&self) -> u32 {
        self.rounds_of(true).max(self.rounds_of(false))
    }

    fn tables(&self, rows: &[AuditRow]) -> String {
        report(rows, self.simulated)
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
        asked.unwrap_or(if self.args.quick { quick } else { full })
    }

    fn run(&self, plant: Plant, number: u32) -> Result<Audit> {
        let planted = plant.start(&self.sandbag, &self.program, self.cpu, self.args.timer_hz)?;
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("audit.json");
        let mut command = Command::new(&self.sandbag);
        command
            .args([
                "audit",
                "run",
                "--quiet",
                "--seed",
                &(number + 1).to_string(),
                "-o",
            ])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        if self.args.quick {
            command.args(QUICK);
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
