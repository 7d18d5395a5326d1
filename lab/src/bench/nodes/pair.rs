// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The runs: slowed and unslowed in turn.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use sandbag_linux::CpuList;
use sandbag_load::report::run::Run;
use serde::{Deserialize, Serialize};

use super::NodesArgs;
use super::cell::NodeCell;
use super::work::WorkDone;
use crate::program;
use crate::trial::Trial;

/// Longer than any run.
const LIMIT: Duration = Duration::from_secs(600);

/// What came out of a pair.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct NodeRow {
    pub(super) cell: String,
    round: u32,
    /// Slowed to unslowed, by steps of work per wall time.
    pub(super) rate: Option<f64>,
    /// Slowed to unslowed, by CPU time per wall time: free of changes of the
    /// machine's own speed.
    pub(super) cpu: Option<f64>,
    /// Speed that the method left, by sandbag's own account: mean over the
    /// CPUs and the run.
    pub(super) left: Option<f64>,
    /// What neither the method nor the program had, as a share of a CPU, where
    /// the program always wants all CPUs: other programs and the kernel.
    pub(super) others: Option<f64>,
    pub(super) failed: Option<String>,
}

impl Trial for NodeRow {
    fn cell(&self) -> &str {
        &self.cell
    }

    fn round(&self) -> u32 {
        self.round
    }

    fn is_measured_again(&self) -> bool {
        self.failed.is_some()
    }

    fn line(&self) -> String {
        match (&self.failed, self.rate) {
            (Some(failed), _) => format!("failed: {failed}"),
            (None, rate) => format!("rate {:.4}", rate.unwrap_or(f64::NAN)),
        }
    }
}

/// A slowed run.
struct SlowRun {
    done: WorkDone,
    left: f64,
}

/// Runs a pair of a cell, the order in turn.
pub(super) fn measure(args: &NodesArgs, cell: &NodeCell, round: u32) -> NodeRow {
    let pair = if round.is_multiple_of(2) {
        unslowed(args, cell).and_then(|a| Ok((a, slowed(args, cell)?)))
    } else {
        slowed(args, cell).and_then(|b| Ok((unslowed(args, cell)?, b)))
    };
    let row = NodeRow {
        cell: cell.key(),
        round,
        ..NodeRow::default()
    };
    match pair {
        Ok((full, slow)) => row.of(cell, &full, &slow),
        Err(error) => NodeRow {
            failed: Some(format!("{error:#}")),
            ..row
        },
    }
}

impl NodeRow {
    fn of(self, cell: &NodeCell, full: &WorkDone, slow: &SlowRun) -> Self {
        let per = |amount: u64, done: &WorkDone| amount as f64 / done.wall_ns as f64;
        let used = per(slow.done.cpu_ns, &slow.done);
        let others = slow.left - used / f64::from(cell.cpus);
        Self {
            rate: Some(per(slow.done.steps, &slow.done) / per(full.steps, full)),
            cpu: Some(used / per(full.cpu_ns, full)),
            left: Some(slow.left),
            others: cell.is_full().then_some(others),
            ..self
        }
    }
}

fn work_args(args: &NodesArgs, cell: &NodeCell) -> Vec<String> {
    // The slower, the longer: a run has some hundred periods of its work.
    let seconds = if args.quick { 2.0 } else { 3.0 };
    let millis = (seconds * 1000.0 / cell.speed.max(0.3)) as u64;
    [
        "count-work",
        "--tasks",
        &cell.tasks.to_string(),
        "--kind",
        cell.kind.name(),
        "--millis",
        &millis.to_string(),
    ]
    .map(str::to_owned)
    .to_vec()
}

fn unslowed(args: &NodesArgs, cell: &NodeCell) -> Result<WorkDone> {
    let cpus = cell.cpus();
    let mut command = Command::new(std::env::current_exe()?);
    command.args(work_args(args, cell));
    done(command, Some(&cpus))
}

fn slowed(args: &NodesArgs, cell: &NodeCell) -> Result<SlowRun> {
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
    let done = done(command, None)?;
    // By its name: sandbag puts a new file in the place of the empty one.
    let bytes = std::fs::read(record.path()).context("the run's record")?;
    let run: Run = serde_json::from_slice(&bytes).context("the run's record")?;
    let got = run.cpus.iter().map(|cpu| cpu.got_pct);
    let left = 1.0 - got.sum::<f64>() / run.cpus.len() as f64 / 100.0;
    Ok(SlowRun { done, left })
}

fn done(command: Command, cpus: Option<&CpuList>) -> Result<WorkDone> {
    let ended = program::run(command, cpus, LIMIT)?;
    match ended.status {
        Some(status) if status.success() => {
            serde_json::from_str(&ended.out).context("the work's own account")
        }
        Some(status) => bail!("{status}: {}", ended.last_words()),
        None => bail!("it had not ended after {LIMIT:?}"),
    }
}
