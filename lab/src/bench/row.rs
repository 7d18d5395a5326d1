// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One run of one cell as one raw row.

use sandbag_load::report::Run;
use sandbag_load::report::achieved::AchievedRow as Window;
use serde::{Deserialize, Serialize};

use crate::bench::cells::{Cell, Disturbance, kind_name};
use crate::bench::closing::{Closing, worst};
use crate::bench::latency::lines::Round;
use crate::bench::markdown::number;
use crate::bench::windows::{errors, resolution_ms, step_response};
use crate::trial::Trial;

/// Figures of one run; a column is empty where the run does not give it.
/// Errors are points, shares percent.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct LoadRow {
    /// Round, from 0.
    pub round: u32,
    /// `v1` or `v2`.
    pub cgroup: String,
    /// [`key`] of the cell.
    pub cell: String,
    pub method: String,
    /// Asked load.
    pub asked_pct: f64,
    /// Kind of the competitors.
    pub kind: String,
    /// Their number.
    pub count: usize,
    /// Where they ran.
    pub place: String,
    /// Why there are no figures, if there are none.
    pub failed: Option<String>,
    /// What was got, mean over CPUs.
    pub got_pct: Option<f64>,
    /// Windows of 1 s that count.
    pub windows_1s: u64,
    /// Windows of 1 s left out because of steal.
    pub stolen_1s: u64,
    /// Windows of 1 s without load.
    pub holes_1s: u64,
    /// Mean absolute error per 1 s window.
    pub mae_1s: Option<f64>,
    /// Standard deviation of the same.
    pub sd_1s: Option<f64>,
    /// Worst of the same, signed.
    pub worst_1s: Option<f64>,
    /// Windows of 100 ms that count.
    pub windows_100ms: u64,
    /// Windows of 100 ms left out because of steal.
    pub stolen_100ms: u64,
    /// Mean absolute error per 100 ms window.
    pub mae_100ms: Option<f64>,
    /// Standard deviation of the same.
    pub sd_100ms: Option<f64>,
    /// Worst of the same, signed.
    pub worst_100ms: Option<f64>,
    /// Shortest resolved window, milliseconds.
    pub resolution_ms: Option<u32>,
    /// Seconds that begin 100 ms after a change.
    pub step_windows: u64,
    /// Mean absolute error of these.
    pub step_mae: Option<f64>,
    /// Standard deviation of these.
    pub step_sd: Option<f64>,
    /// Worst of these, signed.
    pub step_worst: Option<f64>,
    /// sandbag's verdict.
    pub verdict: String,
    /// Steal over the run.
    pub steal_pct: Option<f64>,
    /// Supervisor and guardian, percent of one core per loaded CPU.
    pub supervisor_pct: Option<f64>,
    /// Wake-ups of the supervisor per second.
    pub wakeups_per_s: Option<f64>,
    /// Resident set of the supervisor, KiB.
    pub resident_kib: Option<u64>,
    /// Private memory of a burner, KiB.
    pub burner_kib: Option<u64>,
    /// Worst closing error over the CPUs.
    pub closing: Option<f64>,
    /// Closing error over all CPUs together.
    pub closing_all: Option<f64>,
    /// Time of tasks that nobody saw, of the CPU where it was most.
    pub unseen: Option<f64>,
    /// Time that is neither a task's nor idle, likewise.
    pub nobody: Option<f64>,
    /// Processes that others started between the two readings.
    pub strangers: Option<u64>,
    /// Worst difference between claimed load and the burner's clock.
    pub claim: Option<f64>,
    /// Worst difference between mpstat and the parts.
    pub mpstat: Option<f64>,
    /// Competitors that could not run as they should.
    pub competitors_failed: u64,
    /// How the books closed, by CPU; none where the run was not verified.
    pub closings: Vec<Closing>,
    /// A round of the wake-up latency, and then nothing else.
    pub latency: Option<Round>,
}

/// Name of a cell on a cgroup version.
pub fn key(cgroup: &str, cell: &str) -> String {
    format!("{cgroup}/{cell}")
}

impl Trial for LoadRow {
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
        match (&self.failed, self.mae_1s) {
            (Some(reason), _) => format!("failed: {reason}"),
            (None, Some(mae)) => format!(
                "mean abs {mae:.3}, worst {:+.2}, {}, closing {}",
                self.worst_1s.unwrap_or(0.0),
                self.verdict,
                number(self.closing, 2)
            ),
            (None, None) if self.latency.is_some() => "measured".to_owned(),
            (None, None) => "no window counts".to_owned(),
        }
    }
}

impl LoadRow {
    /// A row that says only which run it is.
    pub fn new(cell: &Cell, cgroup: &str, round: u32) -> Self {
        Self {
            round,
            cgroup: cgroup.to_owned(),
            cell: key(cgroup, &cell.id()),
            method: cell.method.name().to_owned(),
            asked_pct: cell.asked_pct,
            kind: kind_name(cell.kind),
            count: cell.count,
            place: cell.place.to_string(),
            ..Self::default()
        }
    }

    /// Takes in what the run recorded.
    pub fn take_run(&mut self, cell: &Cell, run: &Run, seconds: &[Window], tenths: &[Window]) {
        let per_second = errors(seconds, 1.0);
        self.stolen_1s = per_second.stolen;
        self.holes_1s = per_second.holes;
        if let Some(s) = per_second.stats {
            self.windows_1s = s.windows;
            self.mae_1s = Some(s.mean_abs_points);
            self.sd_1s = Some(s.sd_points);
            self.worst_1s = Some(s.worst_points);
        }
        let per_tenth = errors(tenths, 0.1);
        self.stolen_100ms = per_tenth.stolen;
        // Without the windows themselves, sandbag's own statistics of them.
        let recorded = || run.error_100ms.filter(|_| tenths.is_empty());
        if let Some(s) = per_tenth.stats.or_else(recorded) {
            self.windows_100ms = s.windows;
            self.mae_100ms = Some(s.mean_abs_points);
            self.sd_100ms = Some(s.sd_points);
            self.worst_100ms = Some(s.worst_points);
        }
        self.resolution_ms = resolution_ms(tenths);
        if cell.disturbance == Disturbance::Steps
            && let Some(s) = step_response(tenths).stats
        {
            self.step_windows = s.windows;
            self.step_mae = Some(s.mean_abs_points);
            self.step_sd = Some(s.sd_points);
            self.step_worst = Some(s.worst_points);
        }
        let cpus = run.cpus.len() as f64;
        if cpus > 0.0 {
            let mean = |of: fn(&sandbag_load::report::run::CpuResult) -> f64| {
                Some(run.cpus.iter().map(of).sum::<f64>() / cpus)
            };
            self.got_pct = mean(|c| c.got_pct);
            self.steal_pct = mean(|c| c.steal_pct);
        }
        self.verdict = run.verdict.to_string();
        self.supervisor_pct = Some(run.supervisor.pct_per_cpu);
        self.wakeups_per_s =
            (run.length_s > 0.0).then(|| run.supervisor.wakeups as f64 / run.length_s);
        self.resident_kib = Some(run.supervisor.resident_kib);
        self.burner_kib = Some(run.supervisor.burner_private_kib);
    }

    /// The closing error of the worst CPU, if the run was undisturbed: while
    /// processes of others come and go the books cannot close.
    pub fn quiet_closing(&self) -> Option<f64> {
        self.closing.filter(|_| self.is_quiet())
    }

    /// The same of all CPUs together.
    pub fn quiet_closing_all(&self) -> Option<f64> {
        self.closing_all.filter(|_| self.is_quiet())
    }

    fn is_quiet(&self) -> bool {
        self.strangers == Some(0)
    }

    /// Takes in how the books closed.
    pub fn take_closings(&mut self, closings: Vec<Closing>) {
        self.closing = worst(closings.iter().map(|c| c.closing_points));
        let sum: f64 = closings.iter().map(|c| c.closing_points).sum();
        self.closing_all = (!closings.is_empty()).then(|| sum / closings.len() as f64);
        self.unseen = worst(closings.iter().filter_map(|c| c.unseen_points));
        self.nobody = worst(closings.iter().filter_map(|c| c.nobody_points));
        self.claim = worst(closings.iter().filter_map(|c| c.claim_points));
        self.mpstat = worst(closings.iter().filter_map(|c| c.mpstat_points));
        self.closings = closings;
    }
}
