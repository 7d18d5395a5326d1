// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is known when a run is over, apart from its windows.

use std::path::Path;

use jiff::Timestamp;
use sandbag_linux::root;

use crate::live;
use sandbag_run::command::CommandExit;
use sandbag_run::node_group::NodeGroup;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// The profile's end was reached and there was no command to wait for.
    ProfileOver,
    /// The command ended.
    CommandOver,
    /// A program that ran already, and was slowed, ended.
    TargetOver,
    /// Our own time limit.
    TimedOut,
    /// A signal, without a command: the ordinary way to end an open load.
    Stopped,
    /// A second signal, or one before the start: at once, command or not.
    Interrupted,
}

/// When the load began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadStart {
    /// Before the command's first instruction, or there was no command.
    WithCommand,
    /// When the command said so: this long after it began, ns.
    After(u64),
    /// The command never said so.
    Never,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CpuOutcome {
    pub cpu: u32,
    pub lost_ns: u64,
    /// Least share (0 to 1) that the burners would have had without sleeping.
    pub least_headroom: Option<f64>,
    pub weight_changes: u64,
    pub command_ns: Option<u64>,
    /// CPU time of the other parts of the run.
    pub beside_ns: Option<u64>,
}

/// How the command fared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CommandOutcome {
    pub wall_ns: u64,
    pub how: CommandExit,
    /// Sandbag was asked to end while it ran.
    pub asked_to_end: bool,
    pub migrations: Option<Migrations>,
}

/// Migrations, and whose they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Migrations {
    /// Of all threads of all processes in the command's group, to its end.
    All(u64),
    /// Of the command's first thread, to the last second.
    FirstThread(u64),
}

/// What a virtual node's group used, by the kernel's books.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeOutcome {
    pub entered: usize,
    /// Processes of theirs that left a group of the node, with their names.
    pub left: Vec<(u32, String)>,
    /// Other CPUs that its group could use for a time, as a list.
    pub other_cpus: Option<String>,
    pub changes: u64,
    pub used_ns: Option<u64>,
    /// Times and time that a cap stopped it (`cpu.stat`), ns.
    pub throttled: Option<(u64, u64)>,
    /// Time in which some task of it waited for a CPU (`cpu.pressure`), ns.
    pub waited_ns: Option<u64>,
}

impl NodeOutcome {
    /// What was used since an earlier reading of the same group.
    pub(super) fn since(self, before: &Self) -> Self {
        let less = |now: Option<u64>, before: Option<u64>| {
            now.map(|now| now.saturating_sub(before.unwrap_or(0)))
        };
        let throttled = self.throttled.map(|(times, ns)| {
            let (times_before, ns_before) = before.throttled.unwrap_or((0, 0));
            let times = times.saturating_sub(times_before);
            (times, ns.saturating_sub(ns_before))
        });
        Self {
            used_ns: less(self.used_ns, before.used_ns),
            waited_ns: less(self.waited_ns, before.waited_ns),
            throttled,
            ..self
        }
    }

    /// The same with what was used besides.
    pub(super) fn plus(self, more: &Self) -> Self {
        let sum = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        let throttled = match (self.throttled, more.throttled) {
            (Some((times, ns)), Some((more, more_ns))) => Some((times + more, ns + more_ns)),
            (one, other) => one.or(other),
        };
        Self {
            used_ns: sum(self.used_ns, more.used_ns),
            waited_ns: sum(self.waited_ns, more.waited_ns),
            throttled,
            ..self
        }
    }
}

/// CPU time of all that ever ran in a group and below it, ns, by its directory
/// and that of its accounting (v1). `None` if the kernel does not keep it.
pub(super) fn used_ns(dir: &Path, accounting: &Path) -> Option<u64> {
    live::used_ns(accounting).or_else(|| live::used_ns(dir))
}

/// Reads the books of a node's group; what a kernel does not keep is `None`.
pub(super) fn of_node(group: &NodeGroup, entered: usize, changes: u64) -> NodeOutcome {
    let stat = root::read(&group.cpu.join("cpu.stat")).unwrap_or_default();
    let field = |name: &str| -> Option<u64> {
        let line = stat.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    let throttled_ns = || {
        let us = field("throttled_usec ").map(|us| us * 1000);
        us.or_else(|| field("throttled_time "))
    };
    let pressure = root::read(&group.cpu.join("cpu.pressure")).unwrap_or_default();
    let total = pressure.lines().next().and_then(|some| {
        let (_, total) = some.split_once("total=")?;
        total.trim().parse::<u64>().ok()
    });
    NodeOutcome {
        entered,
        left: Vec::new(),
        other_cpus: None,
        changes,
        used_ns: used_ns(&group.cpu, &group.accounting),
        throttled: field("nr_throttled ").zip(throttled_ns()),
        waited_ns: total.map(|us| us * 1000),
    }
}

/// A process that is neither sandbag's nor the program's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignProcess {
    pub pid: u32,
    pub name: String,
    pub used_ns: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// CPU time of the supervisor, the guardian, and what slows a node as a whole.
    pub cpu_ns: u64,
    /// The part of it that was over when the run proper began: reading the
    /// profile, making groups, starting burners.
    pub start_cpu_ns: u64,
    /// The part of it until the profile ended; `None` if the run ended before.
    pub load_end_cpu_ns: Option<u64>,
    pub wakeups: u64,
    pub writes: u64,
    /// Peak resident set of the supervisor, KiB.
    pub resident_kib: u64,
    pub burner_private_kib: u64,
    pub worst_late_ns: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RunOutcome {
    pub run_ns: u64,
    /// The part of it with a load: to the end of the profile, or of the run.
    pub loaded_ns: u64,
    /// The profile came to its end: what held beside it was asked to end by then.
    pub load_is_over: bool,
    /// What ended beside it before that.
    pub lost_beside: Vec<&'static str>,
    pub paused_ns: u64,
    pub end: RunEnd,
    pub load_start: LoadStart,
    /// Time 0 of the run on the wall clock; `None` where it never began.
    pub began_at: Option<Timestamp>,
    pub cpus: Vec<CpuOutcome>,
    pub command: Option<CommandOutcome>,
    /// What was used in the virtual node, if it was one.
    pub node: Option<NodeOutcome>,
    /// Processes that used CPU time while there was foreign load, the largest
    /// first; not looked for without a program.
    pub foreign: Vec<ForeignProcess>,
    pub cost: Cost,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_unit_used_before_it_was_a_node_is_not_the_node_s() {
        let books = |used_ns, throttled, waited_ns| NodeOutcome {
            used_ns,
            throttled,
            waited_ns,
            entered: 3,
            ..NodeOutcome::default()
        };
        let now = books(Some(90), Some((5, 50)), Some(9));
        let before = books(Some(70), Some((4, 20)), None);
        let since = now.clone().since(&before);
        assert_eq!(since, books(Some(20), Some((1, 30)), Some(9)));
        assert_eq!(now.clone().since(&books(None, None, None)), now);
    }
}
