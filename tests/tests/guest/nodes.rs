// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What programs get in virtual nodes, and what is left of a node at its end:
//! looks at `nodes.sh` and `systemd-nodes.sh`.

use std::collections::BTreeMap;

use anyhow::ensure;
use sandbag_machine_tests::case;
use sandbag_machine_tests::guest::Outcome;
use sandbag_machine_tests::spinner::SpinnerResult;
use serde::Deserialize;

use super::Look::{self, Facts, Figures};
use super::as_before;

/// The speed of the nodes that are alone, percent.
const SPEED_PCT: f64 = 50.0;
/// How far what spinners get may be from their CPUs' speed, points.
const POINTS: f64 = 5.0;
/// How far it may be for one thread, which must meet the gaps of all CPUs at
/// the same time, points.
const ONE_POINTS: f64 = 10.0;
/// The nodes of HPCC's figure 2: name, CPUs, speed in percent. The last one has
/// CPUs only in a guest of eight.
const SPEEDS: [(&str, u32, f64); 4] = [
    ("a", 1, 75.0),
    ("b", 1, 40.0),
    ("c", 2, 60.0),
    ("d", 4, 25.0),
];

/// Looks at `nodes.sh`.
pub const CASES: &[(&str, Look)] = &[
    (
        "node_by_hogs",
        Figures(|outcome, _| proportional(outcome, "hogs")),
    ),
    (
        "node_by_pace",
        Figures(|outcome, _| proportional(outcome, "pace")),
    ),
    (
        "node_by_quota",
        Figures(|outcome, _| proportional(outcome, "quota")),
    ),
    ("node_one_thread", Figures(one_thread)),
    ("nodes_of_several_speeds", Figures(several)),
    ("node_of_a_container_is_its_group", Facts(container)),
    (
        "node_leaves_all_as_before",
        Facts(|outcome| as_before(outcome, 2)),
    ),
];

/// Looks at `systemd-nodes.sh`.
pub const SYSTEMD: &[(&str, Look)] = &[
    ("systemd_node_follows_set", Figures(after_set)),
    ("systemd_node_gives_back_whom_it_had", Facts(given_back)),
    (
        "systemd_unit_that_runs_is_confined_until_the_end",
        Facts(adopted),
    ),
    (
        "systemd_node_leaves_all_as_before",
        Facts(|outcome| as_before(outcome, ENDS.len() + 4)),
    ),
];

/// One and four spinners on each CPU.
fn proportional(outcome: &Outcome, method: &str) -> anyhow::Result<()> {
    for spinners in ["each", "four-each"] {
        let name = format!("{method}-{spinners}");
        let got: SpinnerResult = outcome.result(&format!("got-{name}"))?;
        near(&name, &got, 4, SPEED_PCT)?;
    }
    Ok(())
}

/// Percent of one CPU that one thread in all of the node got.
fn one(outcome: &Outcome, method: &str) -> anyhow::Result<f64> {
    let got: SpinnerResult = outcome.result(&format!("got-{method}-one"))?;
    let used: f64 = got.workers.iter().map(|worker| worker.cpu_s).sum();
    let pct = 100.0 * used / got.wall_s;
    case::note(&format!("one thread by {method}: {pct:.1} %"));
    Ok(pct)
}

/// The mean over the node's CPUs: a spinner that begins late loses its share
/// of its own CPU, and its neighbours make up for it.
fn near(name: &str, got: &SpinnerResult, cpus: u32, speed_pct: f64) -> anyhow::Result<()> {
    let by_cpu: BTreeMap<u32, f64> = got
        .left_pct()
        .into_iter()
        .filter(|(_, pct)| *pct > 0.0)
        .collect();
    let shown: Vec<String> = by_cpu.values().map(|pct| format!("{pct:.1}")).collect();
    case::note(&format!("{name}: {} % for {speed_pct} %", shown.join(" ")));
    ensure!(
        by_cpu.len() == usize::try_from(cpus)?,
        "{name}: ran on CPUs {:?}, the node has {cpus}",
        by_cpu.keys()
    );
    let mean = by_cpu.values().sum::<f64>() / f64::from(cpus);
    ensure!(
        (mean - speed_pct).abs() <= POINTS,
        "{name}: {mean:.1} % of its CPUs, {speed_pct} % is their speed"
    );
    Ok(())
}

/// One thread runs on all four CPUs by turns, and must not find one of them
/// free while the others are not. The methods that cannot see to that are
/// shown beside.
fn one_thread(outcome: &Outcome, _: u32) -> anyhow::Result<()> {
    for method in ["quota", "rt"] {
        one(outcome, method)?;
    }
    for method in ["hogs", "pace"] {
        let pct = one(outcome, method)?;
        ensure!(
            (pct - SPEED_PCT).abs() <= ONE_POINTS,
            "{method}: one thread got {pct:.1} % at speed {SPEED_PCT} %"
        );
    }
    Ok(())
}

fn several(outcome: &Outcome, guest_cpus: u32) -> anyhow::Result<()> {
    let nodes = if guest_cpus >= 8 { 4 } else { 3 };
    for (name, cpus, speed_pct) in &SPEEDS[..nodes] {
        let (cpus, speed_pct) = (*cpus, *speed_pct);
        let got: SpinnerResult = outcome.result(&format!("got-node-{name}"))?;
        near(&format!("node {name}"), &got, cpus, speed_pct)?;
    }
    Ok(())
}

/// A container that runs already stays where it is, on the node's CPUs until the end.
fn container(outcome: &Outcome) -> anyhow::Result<()> {
    for way in ["stop", "kill"] {
        let inside: (String, String, u32) = outcome.result(&format!("container-inside-{way}"))?;
        ensure!(
            inside == ("0-1".to_owned(), "0-1".to_owned(), 1),
            "{way}, inside: {inside:?}"
        );
        let after: (String, String, u32) = outcome.result(&format!("container-after-{way}"))?;
        let free = after.0 == after.1 && after.0 != "0-1" && after.2 == 1;
        ensure!(free, "{way}, after: {after:?}");
    }
    Ok(())
}

fn after_set(outcome: &Outcome, _: u32) -> anyhow::Result<()> {
    near("set to 30 %", &outcome.result("got-set")?, 2, 30.0)
}

/// The ways in which nodes of `systemd-nodes.sh` end around a program.
const ENDS: [&str; 7] = [
    "stop",
    "kill-hogs",
    "restore-hogs",
    "kill-lim",
    "restore-lim",
    "kill-gov",
    "restore-gov",
];

/// A program's processes and our units.
#[derive(Debug, Deserialize)]
struct NodeSight {
    processes: Vec<Process>,
    units: Vec<String>,
}

/// One process: its group, the CPUs that it may use, its state.
#[derive(Debug, Deserialize)]
struct Process {
    group: String,
    cpus: String,
    state: String,
}

/// A unit that runs already: in place, on the node's CPUs, also after it started again; at
/// the end free, and systemd keeps nothing of it. So is a process of it that was moved.
fn adopted(outcome: &Outcome) -> anyhow::Result<()> {
    let is = |name: &str, cpus: &str| -> anyhow::Result<()> {
        let seen: NodeSight = outcome.result(name)?;
        let is_there = |process: &Process| {
            process.group == "/system.slice/worker.service" && process.cpus == cpus
        };
        ensure!(
            !seen.processes.is_empty() && seen.processes.iter().all(is_there),
            "{name}: {seen:#?}"
        );
        ensure!(
            seen.units.is_empty() == (cpus == "0-3"),
            "{name}: {seen:#?}"
        );
        Ok(())
    };
    for way in ["stop", "kill"] {
        let second: i32 = outcome.result(&format!("unit-second-{way}"))?;
        ensure!(second == 5, "a second run of the unit ended with {second}");
        is(&format!("unit-inside-{way}"), "0-1")?;
        is(&format!("unit-after-{way}"), "0-3")?;
    }
    is("pid-after", "0-3")
}

/// While the program goes on: it is in a scope of its own in the slice it came
/// from, may use all CPUs, and neither stands still nor is confined. That
/// scope is the only unit of ours.
fn given_back(outcome: &Outcome) -> anyhow::Result<()> {
    let inside: NodeSight = outcome.result("inside")?;
    ensure!(
        inside.processes.len() == 3
            && inside
                .processes
                .iter()
                .all(|p| p.cpus == "0-1" && p.group.contains("node.slice/")),
        "in the node: {inside:#?}"
    );
    for end in ENDS {
        let seen: NodeSight = outcome.result(&format!("after-{end}"))?;
        let free = |process: &Process| {
            let scope = process.group.strip_prefix("/system.slice/");
            scope.is_some_and(|scope| seen.units == [scope])
                && process.cpus == "0-3"
                && matches!(process.state.as_str(), "R" | "S")
        };
        ensure!(
            seen.processes.len() == 3 && seen.processes.iter().all(free),
            "{end}: {seen:#?}"
        );
    }
    Ok(())
}
