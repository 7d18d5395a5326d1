// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `run.json`: everything that is known about one run.
//!
//! The file is versioned by [`FORMAT`](sandbag_run::directory::FORMAT); readers refuse a newer major format
//! and ignore fields they do not know.

use sandbag_run::machine::MachineFacts;
use std::collections::BTreeMap;

use sandbag_stats::{ErrorStats, Tolerance, Verdict};
use serde::{Deserialize, Serialize};

use sandbag_ui::text::times;

/// How a warning begins that says which load was set while the run went on.
pub const LOAD_SET: &str = "sandbag set, after ";

/// One run of `load` or `replay`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    pub format: u32,
    pub sandbag: String,
    pub started_at: String,
    /// The arguments as given, without the program's own name.
    pub arguments: Vec<String>,
    /// The machine and what could make the run unrepeatable.
    pub machine: MachineFacts,
    pub method: MethodUsed,
    /// Where the profile came from: a file, or `constant`.
    pub profile: String,
    pub length_s: f64,
    /// When the load began, seconds after the command did, where the command
    /// began it; time 0 of the report is then. Absent where it never did, or
    /// where the load was there first.
    pub load_began_s: Option<f64>,
    /// Time 0 on the host's wall clock, RFC 3339, UTC.
    #[serde(default)]
    pub began_at: Option<String>,
    pub paused_s: f64,
    pub cpus: Vec<CpuResult>,
    pub error_1s: Option<ErrorStats>,
    /// Over all CPUs, windows of 100 ms, where the method serves them.
    pub error_100ms: Option<ErrorStats>,
    /// Distribution of the 1 s errors: (points, windows).
    pub error_distribution: Vec<(f64, u64)>,
    /// Share of the windows disturbed from outside, 0 to 1.
    pub noisy_share: f64,
    pub tolerance: Tolerance,
    pub verdict: Verdict,
    pub reason: String,
    /// Everything the user should know, most important first.
    pub warnings: Vec<String>,
    pub supervisor: SupervisorCost,
    pub command: Option<CommandResult>,
    /// Seed of every random choice, where one was made.
    pub seed: Option<u64>,
    /// Of a virtual node, what its programs did. The loads of such a run are
    /// what slows the CPUs: a load of 40 % leaves a speed of 60 %.
    #[serde(default)]
    pub node: Option<NodeUse>,
    /// A program that ran already, and what it got.
    #[serde(default)]
    pub watched: Option<WatchedUse>,
    /// What else held on the node's CPUs, in the order of effects: a load, jitter.
    #[serde(default)]
    pub parts: Vec<Part>,
    /// Of a node of a nodes file, its commands, in the order in which they ended.
    #[serde(default)]
    pub commands: Vec<JoinedCommand>,
}

/// A command that entered its node by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JoinedCommand {
    pub arguments: Vec<String>,
    /// Absent, as the signal is, where it went on, or how it ended is not known.
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub wall_s: f64,
}

/// A program beside the load that was not started by it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WatchedUse {
    pub who: String,
    /// CPU time that it used while the load was held, on all CPUs, seconds. Absent where it
    /// ended before.
    pub used_s: Option<f64>,
    /// CPU time that the load left on the loaded CPUs, seconds.
    pub available_s: Option<f64>,
}

impl WatchedUse {
    /// As a sentence without its end.
    pub(crate) fn text(&self) -> String {
        let who = sandbag_ui::text::visible(&self.who);
        let Some(used) = self.used_s else {
            return format!("{who} ended before the load did");
        };
        let left = self.available_s.filter(|s| *s > 0.0);
        let of_it = left.map_or_else(String::new, |left| {
            format!(
                ", {:.1} % of the {left:.2} s that the load left",
                used / left * 100.0
            )
        });
        format!("{who} used {used:.2} s of CPU time{of_it}")
    }
}

/// A condition that held beside the speed of a node, in a process of its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Part {
    /// `load` or `jitter`.
    pub name: String,
    pub asked: String,
    pub verdict: Verdict,
    pub reason: String,
    pub cpus: Vec<PartCpu>,
    pub warnings: Vec<String>,
}

impl Default for Part {
    fn default() -> Self {
        Self {
            name: String::new(),
            asked: String::new(),
            verdict: Verdict::Undecided,
            reason: String::new(),
            cpus: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

/// A part on one CPU, percent of the CPU at full speed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PartCpu {
    pub cpu: u32,
    pub asked_pct: f64,
    pub got_pct: f64,
}

impl Run {
    /// Adds what else held; the verdict is the worst of all.
    pub fn add_parts(&mut self, parts: Vec<Part>) {
        let rank = |verdict| match verdict {
            Verdict::Kept => 0,
            Verdict::Undecided => 1,
            Verdict::Missed => 2,
        };
        for part in &parts {
            if rank(part.verdict) > rank(self.verdict) {
                self.verdict = part.verdict;
                self.reason = format!("the {}: {}", part.name, part.reason);
            }
            let warnings = part.warnings.iter();
            self.warnings
                .extend(warnings.map(|text| format!("the {}: {text}", part.name)));
        }
        self.parts = parts;
    }
}

/// A virtual node and what its programs did in it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeUse {
    pub name: String,
    /// Programs that were put into the node, the command included; not those
    /// that they started themselves.
    pub entered: u64,
    pub used_s: Option<f64>,
    /// Periods in which the group was throttled (`nr_throttled` of `cpu.stat`).
    pub throttled_times: Option<u64>,
    pub throttled_s: Option<f64>,
    /// Time in which at least one of them waited for a CPU (PSI, `some` of
    /// `cpu.pressure`), seconds.
    pub waited_s: Option<f64>,
    /// Times a new speed was set while the node ran, by hand; the steps of a
    /// profile are not counted.
    pub speed_changes: u64,
}

impl NodeUse {
    /// How often and how long the node was throttled, as far as it is known.
    pub(crate) fn throttle_warning(&self) -> Option<String> {
        match (self.throttled_times, self.throttled_s) {
            (Some(0), None | Some(0.0)) => Some("never".to_owned()),
            (Some(n), Some(s)) => Some(format!("{} for {s:.2} s", times(n))),
            (Some(n), None) => Some(times(n)),
            (None, Some(s)) => Some(format!("for {s:.2} s")),
            (None, None) => None,
        }
    }
}

/// The method and its constants.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct MethodUsed {
    pub name: String,
    /// Period of the method, milliseconds; 0 where it has none, or one that follows the
    /// level (then among the parameters).
    pub period_ms: f64,
    pub parameters: BTreeMap<String, String>,
}

/// One CPU over the whole run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CpuResult {
    pub cpu: u32,
    /// Time-weighted mean of the asked load, percent.
    pub asked_pct: f64,
    pub got_pct: f64,
    pub error_1s: Option<ErrorStats>,
    pub error_100ms: Option<ErrorStats>,
    pub steal_pct: f64,
    pub holes: u64,
    /// Share of the CPU the burner would have had if it never slept, least
    /// value seen, percent; it must lie above the asked load.
    pub headroom_pct: Option<f64>,
    pub weight_changes: u64,
    pub burner_s: f64,
    /// CPU time of the command, or of the node's programs, on this CPU.
    pub command_s: Option<f64>,
    /// Busy time of the CPU by /proc/stat, seconds.
    pub busy_s: Option<f64>,
    /// Foreign load: CPU time of processes that are neither sandbag's nor the
    /// program's, percent of the delivered time. Absent without a program.
    #[serde(default)]
    pub foreign_pct: Option<f64>,
    /// What the node's speed and the parts of the run left of the delivered time, percent.
    /// Absent without such parts.
    #[serde(default)]
    pub left_pct: Option<f64>,
}

/// The CPUs by urgency: an absent load first, then by mean error.
pub(crate) fn worst_first(cpus: &[CpuResult]) -> Vec<&CpuResult> {
    let error = |c: &CpuResult| c.error_1s.map_or(0.0, |e| e.mean_abs_points);
    let mut sorted: Vec<&CpuResult> = cpus.iter().collect();
    sorted.sort_by(|a, b| {
        let holes = (b.holes > 0).cmp(&(a.holes > 0));
        holes.then(error(b).total_cmp(&error(a)))
    });
    sorted
}

/// What our own processes cost.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct SupervisorCost {
    pub cpu_s: f64,
    /// The part of it that was used while the load was held, as percent of
    /// one core, per loaded CPU; without the start, which costs the same
    /// whether a run lasts seconds or days.
    pub pct_per_cpu: f64,
    pub wakeups: u64,
    pub writes: u64,
    pub resident_kib: u64,
    pub burner_private_kib: u64,
    /// Largest delay between a level's due time and its being in force.
    pub worst_switch_delay_ms: f64,
}

/// What the wrapped command did and was granted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CommandResult {
    pub arguments: Vec<String>,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// Sandbag was asked to end while it ran, by a signal or by `sandbag stop`: its own end may
    /// be that of the request. Not in older records.
    #[serde(default)]
    pub asked_to_end: bool,
    pub wall_s: f64,
    pub user_s: f64,
    pub system_s: f64,
    /// CPU time that was available to it while the load was held: delivered
    /// minus burner, over the loaded CPUs, seconds.
    pub available_s: Option<f64>,
    /// CPU time that it used on these CPUs in the same time, seconds; user and
    /// system time are those of its whole life on all CPUs.
    #[serde(default)]
    pub used_s: Option<f64>,
    /// `used_s` per `available_s`, 0 to 1.
    pub efficiency: Option<f64>,
    pub switches: (i64, i64),
    /// Largest resident memory of one of its processes, KiB.
    #[serde(default)]
    pub max_rss_kib: Option<i64>,
    /// Migrations between CPUs, where the kernel says.
    pub migrations: Option<u64>,
    /// Whose they are: `all threads` of the command and what it started, or
    /// its `first thread` alone (all that cgroup v1 tells).
    pub migrations_of: Option<String>,
}
