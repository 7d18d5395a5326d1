// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The runs: slowed and unslowed in turn.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use sandbag_linux::sched;
use sandbag_load::report::run::Run;
use serde::Serialize;

use super::NodesArgs;
use super::cell::Cell;
use super::work::{Done, Kind};

/// What came out of a cell, one value per pair.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub(super) cell: Cell,
    /// Slowed to unslowed, by steps of work per wall time.
    pub(super) rate: Vec<f64>,
    /// Slowed to unslowed, by CPU time per wall time: free of changes of the
    /// machine's own speed.
    pub(super) cpu: Vec<f64>,
    /// Speed that the method left, by sandbag's own account: mean over the
    /// CPUs and the run.
    pub(super) left: Vec<f64>,
    /// What neither the method nor the program had, as a share of a CPU, where
    /// the program always wants all CPUs: other programs and the kernel.
    pub(super) others: Vec<f64>,
    pub(super) failed: Option<String>,
}

/// A slowed run.
struct Slowed {
    done: Done,
    left: f64,
}

/// Runs a cell's pairs, the order in turn.
pub(super) fn measure(args: &NodesArgs, cell: &Cell, rounds: usize) -> Row {
    let mut row = Row {
        cell: cell.clone(),
        rate: Vec::new(),
        cpu: Vec::new(),
        left: Vec::new(),
        others: Vec::new(),
        failed: None,
    };
    for round in 0..rounds {
        let pair = match round % 2 {
            0 => unslowed(args, cell).and_then(|a| Ok((a, slowed(args, cell)?))),
            _ => slowed(args, cell).and_then(|b| Ok((unslowed(args, cell)?, b))),
        };
        match pair {
            Ok((full, slow)) => row.add(&full, &slow),
            Err(error) => {
                row.failed = Some(format!("{error:#}"));
                break;
            }
        }
    }
    row
}

impl Row {
    fn add(&mut self, full: &Done, slow: &Slowed) {
        let per = |amount: u64, done: &Done| amount as f64 / done.wall_ns as f64;
        let used = per(slow.done.cpu_ns, &slow.done);
        self.rate
            .push(per(slow.done.steps, &slow.done) / per(full.steps, full));
        self.cpu.push(used / per(full.cpu_ns, full));
        self.left.push(slow.left);
        if self.cell.is_full() {
            self.others
                .push(slow.left - used / f64::from(self.cell.cpus));
        }
    }
}

fn work_args(args: &NodesArgs, cell: &Cell) -> Vec<String> {
    // The slower, the longer: a run has some hundred periods of its work.
    let seconds = if args.quick { 2.0 } else { 3.0 };
    let millis = (seconds * 1000.0 / cell.speed.max(0.3)) as u64;
    let kind = match cell.kind {
        Kind::Processes => "processes",
        Kind::Threads => "threads",
        Kind::Sleep => "sleep",
    };
    [
        "count-work",
        "--tasks",
        &cell.tasks.to_string(),
        "--kind",
        kind,
        "--millis",
        &millis.to_string(),
    ]
    .map(str::to_owned)
    .to_vec()
}

fn unslowed(args: &NodesArgs, cell: &Cell) -> Result<Done> {
    let cpus = cell.cpus();
    let mut command = Command::new(std::env::current_exe()?);
    command.args(work_args(args, cell));
    // SAFETY: one system call on a list made before the fork.
    unsafe {
        command.pre_exec(move || sched::set_affinity(0, &cpus).map_err(std::io::Error::other));
    }
    done(command)
}

fn slowed(args: &NodesArgs, cell: &Cell) -> Result<Slowed> {
    let record = tempfile::NamedTempFile::new().context("a file for the run's record")?;
    let mut json = std::ffi::OsString::from("--json=");
    json.push(record.path());
    let mut command = Command::new(&args.sandbag);
    command
        .args([
            "-q",
            "slow",
            "--no-out",
            "--force",
            "--method",
            &cell.method,
        ])
        .args(["--cpus", &cell.cpus().to_string()])
        .args(["--speed", &cell.speed.to_string()])
        .arg(json)
        .arg("--")
        .arg(std::env::current_exe()?)
        .args(work_args(args, cell));
    let done = done(command)?;
    let run: Run = serde_json::from_reader(record).context("the run's record")?;
    let got = run.cpus.iter().map(|cpu| cpu.got_pct);
    let left = 1.0 - got.sum::<f64>() / run.cpus.len() as f64 / 100.0;
    Ok(Slowed { done, left })
}

fn done(mut command: Command) -> Result<Done> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .with_context(|| format!("start {}", command.get_program().display()))?;
    if !output.status.success() {
        bail!(
            "{}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    serde_json::from_slice(&output.stdout).context("the work's own account")
}
