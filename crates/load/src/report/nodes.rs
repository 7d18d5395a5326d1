// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `nodes.json`: several virtual nodes that ran together.
//!
//! The record of each node is the `run.json` in its directory; this file says
//! in speeds what they came to, so that they can be compared at a glance.

use sandbag_linux::CpuList;
use sandbag_stats::Verdict;
use serde::{Deserialize, Serialize};

use crate::report::columns::{self, CpuColumn};
use crate::report::run::{CpuResult, JoinedCommand, NodeUse, Run};
use crate::report::view::View;

pub const FORMAT: u32 = 1;

/// Nodes that ran together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeRows {
    pub format: u32,
    pub sandbag: String,
    /// When the first of them began, RFC 3339, UTC.
    pub started_at: String,
    pub host: String,
    /// The worst verdict of them; missed if there are none.
    pub verdict: Verdict,
    pub nodes: Vec<NodeResult>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeResult {
    pub node: NodeUse,
    /// Directory of its own record, beside this file.
    pub directory: String,
    /// Empty where the node left no record.
    pub started_at: String,
    pub length_s: f64,
    pub method: String,
    /// In the order in which they ended.
    #[serde(default)]
    pub commands: Vec<JoinedCommand>,
    /// CPUs of which the same mean speed was asked, together.
    pub speeds: Vec<SpeedResult>,
    pub verdict: Verdict,
    /// Why the verdict is what it is, one sentence.
    pub reason: String,
    pub warnings: Vec<String>,
}

/// CPUs of a node of which the same was asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpeedResult {
    pub cpus: String,
    /// Time-weighted mean of the asked speed, percent of full speed.
    pub asked_speed_pct: Option<f64>,
    pub got_speed_pct: Option<f64>,
    pub mean_abs_points: Option<f64>,
    /// The error of largest magnitude, points; above zero it was too fast.
    pub worst_points: Option<f64>,
    pub holes: u64,
}

impl NodeRows {
    /// What `runs` came to. Runs that are no nodes are left out.
    pub fn of(runs: &[Run]) -> Self {
        let first = runs.iter().min_by_key(|run| &run.started_at);
        let of_first =
            |value: fn(&Run) -> &String| first.map_or_else(String::new, |r| value(r).clone());
        let nodes: Vec<NodeResult> = runs.iter().filter_map(NodeResult::of).collect();
        Self {
            format: FORMAT,
            sandbag: of_first(|r| &r.sandbag),
            started_at: of_first(|r| &r.started_at),
            host: of_first(|r| &r.machine.host),
            verdict: [Verdict::Missed, Verdict::Undecided]
                .into_iter()
                .find(|worse| nodes.iter().any(|n| n.verdict == *worse))
                .unwrap_or(if nodes.is_empty() {
                    Verdict::Missed
                } else {
                    Verdict::Kept
                }),
            nodes,
        }
    }

    /// The same with nodes that left no record, by name and method: they are missed.
    pub fn with_lost<'a>(mut self, lost: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        for (name, method) in lost {
            self.verdict = Verdict::Missed;
            self.nodes.push(NodeResult::lost(name, method));
        }
        self
    }
}

/// Why a node is missed of which nothing else is known.
const LOST: &str = "it left no record";

impl NodeResult {
    fn lost(name: &str, method: &str) -> Self {
        Self {
            node: NodeUse {
                name: name.to_owned(),
                ..NodeUse::default()
            },
            directory: name.to_owned(),
            started_at: String::new(),
            length_s: 0.0,
            method: method.to_owned(),
            commands: Vec::new(),
            speeds: Vec::new(),
            verdict: Verdict::Missed,
            reason: LOST.to_owned(),
            warnings: vec![LOST.to_owned()],
        }
    }

    fn of(run: &Run) -> Option<Self> {
        let node = run.node.clone()?;
        Some(Self {
            directory: node.name.clone(),
            node,
            started_at: run.started_at.clone(),
            length_s: run.length_s,
            method: run.method.name.clone(),
            commands: run.commands.clone(),
            speeds: speeds(&View::of(run).run.cpus),
            verdict: run.verdict,
            reason: run.reason.clone(),
            warnings: run.warnings.clone(),
        })
    }

    pub(crate) fn cpus(&self) -> CpuList {
        let lists = self.speeds.iter().filter_map(|s| s.cpus.parse().ok());
        lists
            .flat_map(|list: CpuList| list.iter().collect::<Vec<_>>())
            .collect()
    }
}

/// Groups the CPUs by what was asked of them, to a tenth of a point.
fn speeds(cpus: &[CpuResult]) -> Vec<SpeedResult> {
    let key = |cpu: &CpuResult| (cpu.asked_pct * 10.0).round();
    let mut groups: Vec<Vec<&CpuResult>> = Vec::new();
    for cpu in cpus {
        match groups.iter_mut().find(|group| key(group[0]) == key(cpu)) {
            Some(group) => group.push(cpu),
            None => groups.push(vec![cpu]),
        }
    }
    groups
        .iter()
        .map(|group| {
            let known = |column: CpuColumn| column.value(group);
            SpeedResult {
                cpus: group.iter().map(|c| c.cpu).collect::<CpuList>().to_string(),
                asked_speed_pct: known(columns::ASKED),
                got_speed_pct: known(columns::GOT),
                mean_abs_points: known(columns::MEAN_ABS),
                worst_points: known(columns::WORST),
                holes: known(columns::HOLES).unwrap_or(0.0) as u64,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    fn runs() -> Vec<Run> {
        fixture::nodes().into_iter().map(|f| f.run).collect()
    }

    #[test]
    fn equal_cpus_of_a_node_stand_together_in_speeds() {
        let nodes = NodeRows::of(&runs());
        let lists = |n: usize| -> Vec<&str> {
            nodes.nodes[n]
                .speeds
                .iter()
                .map(|s| s.cpus.as_str())
                .collect()
        };
        assert_eq!(lists(2), ["2,3"]);
        assert_eq!(lists(3), ["4,5", "6,7"]);
        assert_eq!(nodes.nodes[3].cpus().to_string(), "4-7");
        let slow = &nodes.nodes[3].speeds[0];
        assert!((slow.asked_speed_pct.unwrap() - 25.0).abs() < 1e-9);
        assert!((slow.got_speed_pct.unwrap() - 25.0).abs() < 0.2);
        let off = &nodes.nodes[2].speeds[0];
        assert!(off.worst_points.unwrap() > 6.0 && off.got_speed_pct > off.asked_speed_pct);
    }

    #[test]
    fn the_worst_verdict_counts_and_none_is_no_success() {
        let mut runs = runs();
        assert_eq!(NodeRows::of(&runs).verdict, Verdict::Missed);
        runs.remove(2);
        assert_eq!(NodeRows::of(&runs).verdict, Verdict::Kept);
        runs[0].verdict = Verdict::Undecided;
        assert_eq!(NodeRows::of(&runs).verdict, Verdict::Undecided);
        runs[1].node = None;
        assert_eq!(NodeRows::of(&runs).nodes.len(), 2);
        assert_eq!(NodeRows::of(&[]).verdict, Verdict::Missed);
    }

    #[test]
    fn a_node_without_a_record_is_missed_by_its_name() {
        let mut runs = runs();
        runs.remove(2);
        let kept = NodeRows::of(&runs);
        assert_eq!(kept.clone().with_lost([]), kept);
        let with = kept.with_lost([("gone", "hogs")]);
        assert_eq!((with.verdict, with.nodes.len()), (Verdict::Missed, 4));
        let gone = &with.nodes[3];
        assert_eq!((&*gone.directory, gone.verdict), ("gone", Verdict::Missed));
        assert!(gone.reason.contains("no record") && gone.cpus().is_empty());
        // Where none is left, they are named all the same.
        let none = NodeRows::of(&[]).with_lost([("gone", "hogs")]);
        assert_eq!(none.nodes[0].node.name, "gone");
    }

    #[test]
    fn a_node_that_ended_before_its_first_window_has_a_line_without_figures() {
        let mut run = fixture::node().run;
        run.cpus.clear();
        let nodes = NodeRows::of(&[run]);
        assert!(nodes.nodes[0].speeds.is_empty() && nodes.nodes[0].cpus().is_empty());
    }
}
