// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What came of one run: its run.json (docs/reference/run-json.md), and sandbag's own metrics.

use std::time::Duration;

use sandbag_load::board::BOUNDARY_NS;
use sandbag_load::report::run::LOAD_SET;
use sandbag_stats::Verdict;
use sandbag_ui::exit;
use serde::Deserialize;

use crate::metric::{EXIT, FAILED, cpu_number};

/// What came of a run.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Finished {
    verdict: Option<Verdict>,
    #[serde(default)]
    pub reason: String,
    #[serde(default)]
    pub warnings: Vec<String>,
    pub(crate) command: Option<FinishedCommand>,
    #[serde(default)]
    cpus: Vec<FinishedCpu>,
    #[serde(default)]
    length_s: f64,
    #[serde(default)]
    paused_s: f64,
    #[serde(default)]
    node: Option<FinishedNode>,
    /// In place of a result.
    #[serde(default)]
    pub(crate) error: Option<FinishedError>,
    /// How long it waited for CPUs that another run had.
    #[serde(skip)]
    pub waited: Duration,
    /// `--timeout` ended the program, whatever it made of that.
    #[serde(skip)]
    pub timed_out: bool,
    #[serde(skip)]
    pub stdout: String,
    #[serde(skip)]
    pub stderr: String,
}

/// Of run.json (docs/reference/run-json.md).
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct FinishedCommand {
    exit_code: Option<i32>,
    signal: Option<i32>,
    #[serde(default)]
    pub asked_to_end: bool,
    wall_s: f64,
    user_s: f64,
    system_s: f64,
    available_s: Option<f64>,
    efficiency: Option<f64>,
    max_rss_kib: Option<i64>,
    switches: (i64, i64),
}

/// One of the loaded CPUs.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct FinishedCpu {
    cpu: u32,
    got_pct: f64,
    steal_pct: f64,
    left_pct: Option<f64>,
    command_s: Option<f64>,
}

impl FinishedCpu {
    /// Share of the time in which it was delivered and not burnt, 0 to 1; `used_pct` of the
    /// delivered time was.
    fn share_beside(&self, used_pct: f64) -> f64 {
        (1.0 - self.steal_pct / 100.0) * (1.0 - used_pct / 100.0)
    }
}

/// The node of a run with speeds.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct FinishedNode {
    speed_changes: u64,
}

/// Why a run was not made.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct FinishedError {
    pub message: String,
}

impl Finished {
    pub fn verdict(&self) -> Verdict {
        self.verdict.unwrap_or(Verdict::Undecided)
    }

    /// Exit code and signal of the program.
    pub fn end(&self) -> (Option<i32>, Option<i32>) {
        let command = self.command.as_ref();
        command.map_or((None, None), |one| (one.exit_code, one.signal))
    }

    pub fn is_success(&self) -> bool {
        self.end().0 == Some(0) && !self.timed_out
    }

    /// With the exit code of sandbag: no other value says that its time limit came.
    pub(crate) fn ended_with(mut self, code: Option<i32>) -> Self {
        let limit = Some(i32::from(exit::TIMED_OUT));
        // A program may end with this code by itself.
        self.timed_out = code == limit && self.end().0 != limit;
        self
    }

    /// Its condition is not known to be the one that was asked for where the run was changed
    /// while it went on: its verdict is about what was asked then, and a pause is in its times.
    pub(crate) fn judged(mut self) -> Self {
        if self.verdict == Some(Verdict::Kept)
            && let Some(change) = self.change()
        {
            (self.verdict, self.reason) = (Some(Verdict::Undecided), change);
        }
        self
    }

    fn change(&self) -> Option<String> {
        if self.paused_s > 0.0 {
            return Some(format!("the run was paused for {:.1} s", self.paused_s));
        }
        if let Some(text) = self.warnings.iter().find(|text| text.contains(LOAD_SET)) {
            return Some(format!("the load was changed: {text}"));
        }
        let node = self.node.as_ref().filter(|node| node.speed_changes > 0);
        node.map(|_| "the speed was changed by sandbag set".to_owned())
    }

    /// CPU time that the condition left. The record is of windows, which end with a tenth of a
    /// second; in the rest the burners take what they took on average. The other parts of a
    /// run are counted to its end.
    fn available_s(&self) -> Option<f64> {
        let measured_s = self.command.as_ref()?.available_s?;
        let sum = |share: fn(&FinishedCpu) -> f64| self.cpus.iter().map(share).sum::<f64>();
        let left = sum(|cpu| cpu.share_beside(cpu.left_pct.map_or(cpu.got_pct, |pct| 100.0 - pct)));
        let rest_s = self.length_s - measured_s / left;
        // A load that ended before the program has windows to its end.
        if rest_s > 0.0 && rest_s < BOUNDARY_NS as f64 / 1e9 {
            return Some(measured_s + rest_s * sum(|cpu| cpu.share_beside(cpu.got_pct)));
        }
        Some(measured_s)
    }

    /// One of sandbag's own metrics.
    pub fn own(&self, name: &str) -> Option<f64> {
        if name == FAILED {
            return Some(f64::from(u8::from(!self.is_success())));
        }
        let command = self.command.as_ref()?;
        if let Some(number) = cpu_number(name) {
            return self.cpus.iter().find(|cpu| cpu.cpu == number)?.command_s;
        }
        Some(match name {
            "wall" => command.wall_s,
            "user" => command.user_s,
            "system" => command.system_s,
            "cpu" => command.user_s + command.system_s,
            "available" => self.available_s()?,
            "efficiency" => command.efficiency?,
            EXIT => f64::from(exit::of_command(command.exit_code, command.signal)),
            "rss" => command.max_rss_kib? as f64,
            "switches" => (command.switches.0 + command.switches.1) as f64,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_the_own_metrics() {
        let text = r#"{"format": 1, "verdict": "kept", "reason": "as asked", "command":
            {"exit_code": 3, "signal": null, "wall_s": 2.5, "user_s": 1.0, "system_s": 0.5,
             "efficiency": null, "max_rss_kib": 1024, "switches": [3, 4]},
            "cpus": [{"cpu": 1, "command_s": 0.75}, {"cpu": 3}]}"#;
        let run: Finished = serde_json::from_str(text).unwrap();
        let own = |name| run.own(name);
        assert_eq!(
            ["wall", "cpu", "rss"].map(own),
            [Some(2.5), Some(1.5), Some(1024.0)]
        );
        assert_eq!(["switches", "failed"].map(own), [Some(7.0), Some(1.0)]);
        assert_eq!(
            ["exit", "cpu1", "cpu3"].map(own),
            [Some(3.0), Some(0.75), None]
        );
        assert_eq!((own("efficiency"), own("other")), (None, None));
        assert_eq!((run.verdict(), run.end()), (Verdict::Kept, (Some(3), None)));
    }

    #[test]
    fn time_that_was_left_is_that_of_the_whole_run() {
        let available = |length_s: f64, measured_s: f64, cpus: &str| {
            let text = format!(
                r#"{{"length_s": {length_s}, "cpus": [{cpus}], "command": {{"exit_code": 0,
                    "wall_s": 1, "user_s": 0, "system_s": 0, "switches": [0, 0],
                    "available_s": {measured_s}}}}}"#
            );
            let run: Finished = serde_json::from_str(&text).unwrap();
            run.own("available").unwrap()
        };
        let half = r#"{"cpu": 0, "got_pct": 50.0, "steal_pct": 0.0}"#;
        let two = r#"{"cpu": 0, "got_pct": 50.0, "steal_pct": 20.0},
            {"cpu": 1, "got_pct": 0.0, "steal_pct": 0.0}"#;
        // A load of 25 % in another part, measured over 1.06 s.
        let node = r#"{"cpu": 0, "got_pct": 50.0, "steal_pct": 0.0, "left_pct": 23.5}"#;
        for (length_s, measured_s, cpus, expected) in [
            (0.986, 0.45, half, 0.493),
            (0.9, 0.45, half, 0.45),
            (0.39, 0.42, two, 0.546),
            (1.06, 0.235, node, 0.265),
            // The load ended 1 s before the program, and nothing was left.
            (1.9, 0.45, half, 0.45),
            (0.95, 0.0, r#"{"cpu": 0, "got_pct": 100.0}"#, 0.0),
        ] {
            let found = available(length_s, measured_s, cpus);
            assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
        }
    }

    #[test]
    fn a_program_that_the_time_limit_ended_has_failed() {
        let run = |program: u8, code: i32| -> Finished {
            let text = format!(
                r#"{{"command": {{"exit_code": {program}, "wall_s": 1, "user_s": 0, "system_s": 0,
                    "switches": [0, 0]}}}}"#
            );
            let run: Finished = serde_json::from_str(&text).unwrap();
            run.ended_with(Some(code))
        };
        let said = |run: Finished| (run.is_success(), run.timed_out, run.own(FAILED));
        assert_eq!(said(run(0, 0)), (true, false, Some(0.0)));
        // It ended well when it was asked to end.
        assert_eq!(said(run(0, 124)), (false, true, Some(1.0)));
        assert_eq!(said(run(124, 124)), (false, false, Some(1.0)));
    }
}
