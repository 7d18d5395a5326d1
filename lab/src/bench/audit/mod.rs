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

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use nix::sys::signal::Signal;
use sandbag_audit::model::Audit;
use sandbag_linux::{CpuList, Root};
use sandbag_linux::{interrupt, machine};

use crate::bench::child::Running;
use crate::bench::programs::Programs;
use plant::Plant;
use simulate::{World, alarms};
use table::{Row, report};

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
    /// Write tables (.md) and figures (.json) here
    #[arg(long, default_value = "audit-results.md")]
    out: PathBuf,
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
    let root = Root::default();
    let online: CpuList = root
        .read("/sys/devices/system/cpu/online")?
        .trim()
        .parse()?;
    ensure!(online.len() >= 2, "one CPU has none to differ from");
    let cpu = args.cpu.or(online.iter().next_back()).unwrap_or(1);
    ensure!(online.contains(cpu), "CPU {cpu} is not online");
    let Programs {
        own: program,
        sandbag,
    } = Programs::find(args.sandbag.as_deref())?;
    let stand = Stand {
        args,
        sandbag,
        program,
        cpu,
    };
    let world = World::default();
    let simulated = args
        .simulated
        .unwrap_or(if args.quick { 400 } else { 2000 });
    let mut rows: Vec<Row> = Vec::new();
    for (plant, number) in stand.order() {
        let row = match stand.run(plant, number) {
            Ok(audit) => Row::new(plant, cpu, &audit),
            Err(error) => Row::failed(plant, cpu, &error),
        };
        interrupt::check()?;
        eprintln!("{}", table::line(&row).join(" | "));
        rows.push(row);
        // What is there is kept, whatever happens next.
        write(args, &root, &rows, None)?;
    }
    let wanted = args.plants.is_empty() || args.plants.contains(&Plant::None);
    let found = (simulated > 0 && wanted).then(|| (alarms(&world, simulated, 1), simulated));
    write(args, &root, &rows, found)?;
    print!("{}", std::fs::read_to_string(&args.out)?);
    Ok(())
}

fn write(args: &AuditArgs, root: &Root, rows: &[Row], simulated: Option<(u64, u64)>) -> Result<()> {
    let text = report(&machine::describe(root), rows, simulated);
    let said = |path: &Path| format!("write {}", path.display());
    std::fs::write(&args.out, text).with_context(|| said(&args.out))?;
    let figures = args.out.with_extension("json");
    std::fs::write(&figures, serde_json::to_vec_pretty(rows)?).with_context(|| said(&figures))
}

struct Stand<'a> {
    args: &'a AuditArgs,
    sandbag: PathBuf,
    program: PathBuf,
    cpu: u32,
}

impl Stand<'_> {
    /// The plants in turn, equal CPUs in between.
    fn order(&self) -> Vec<(Plant, u32)> {
        let rounds = self
            .args
            .rounds
            .unwrap_or(if self.args.quick { 1 } else { 3 });
        let equal = self
            .args
            .equal
            .unwrap_or(if self.args.quick { 2 } else { 20 });
        let wanted =
            |plant: &Plant| self.args.plants.is_empty() || self.args.plants.contains(plant);
        let mut all = Vec::new();
        for round in 0..rounds.max(equal) {
            for plant in Plant::ALL.into_iter().filter(wanted) {
                let most = if plant == Plant::None { equal } else { rounds };
                if round < most {
                    all.push((plant, round));
                }
            }
        }
        all
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
        let mut running = Running::start(command, Signal::SIGTERM, None)?;
        let status = running.wait_until(Instant::now() + PATIENCE)?;
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
