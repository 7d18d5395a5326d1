// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine before and after, as lines that can be compared.
//!
//! What sandbag may change is here, and what it could change by mistake:
//! groups with their weights, caps and freezers, the scheduler's sysctls, the latency limits of CPUs,
//! mounts, stopped and real-time tasks, systemd's units, and the files of
//! sandbag's and systemd's own in `/run`. What changes by itself (use, load,
//! counters) is not.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

/// Settings of a group, where it has them: v2's, then v1's.
const GROUP_FILES: [&str; 8] = [
    "cgroup.subtree_control",
    "cgroup.freeze",
    "cpu.weight",
    "cpu.max",
    "cpu.shares",
    "cpu.cfs_quota_us",
    "cpuset.cpus",
    "freezer.state",
];

/// Below these no file may be left over.
const RUN: [&str; 3] = [
    "/run/sandbag",
    "/run/systemd/transient",
    "/run/systemd/system.control",
];

/// PF_KTHREAD of the kernel's include/linux/sched.h.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// What was found, one line each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State(BTreeSet<String>);

impl State {
    /// Reads this machine.
    ///
    /// # Errors
    /// If the mounts cannot be read, or systemd runs and cannot be asked.
    /// Groups and tasks may vanish while they are looked at.
    pub fn read() -> anyhow::Result<Self> {
        let mut lines = BTreeSet::new();
        let mounts = fs::read_to_string("/proc/mounts").context("/proc/mounts")?;
        for mount in mounts.lines() {
            lines.insert(format!("mount {mount}"));
            let mut words = mount.split_whitespace().skip(1);
            if let (Some(place), Some("cgroup" | "cgroup2")) = (words.next(), words.next()) {
                groups(Path::new(place), &mut lines);
            }
        }
        sysctls(&mut lines);
        latency_limits(&mut lines);
        tasks(&mut lines);
        for directory in RUN {
            files(Path::new(directory), &mut lines);
        }
        if Path::new("/run/systemd/system").is_dir() {
            units(&mut lines)?;
        }
        Ok(Self(lines))
    }

    /// What is gone (`- line`) and what is new (`+ line`) in `later`.
    #[must_use]
    pub fn difference(&self, later: &Self) -> Vec<String> {
        let gone = self.0.difference(&later.0).map(|line| format!("- {line}"));
        let new = later.0.difference(&self.0).map(|line| format!("+ {line}"));
        gone.chain(new).collect()
    }
}

/// The entries of a directory that can be read, if it is one.
fn entries(directory: &Path) -> impl Iterator<Item = fs::DirEntry> {
    fs::read_dir(directory).into_iter().flatten().flatten()
}

fn is_dir(entry: &fs::DirEntry) -> bool {
    entry.file_type().is_ok_and(|kind| kind.is_dir())
}

/// Contents of a small file on one line.
fn value(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn groups(group: &Path, lines: &mut BTreeSet<String>) {
    lines.insert(format!("group {}", group.display()));
    for file in GROUP_FILES.map(|name| group.join(name)) {
        if let Some(value) = value(&file) {
            lines.insert(format!("{} = {value}", file.display()));
        }
    }
    for entry in entries(group).filter(is_dir) {
        groups(&entry.path(), lines);
    }
}

fn sysctls(lines: &mut BTreeSet<String>) {
    for entry in entries(Path::new("/proc/sys/kernel")) {
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with("sched_")
            && let Some(value) = value(&path)
        {
            lines.insert(format!("{} = {value}", path.display()));
        }
    }
}

/// How soon each CPU must wake up.
fn latency_limits(lines: &mut BTreeSet<String>) {
    for cpu in entries(Path::new("/sys/devices/system/cpu")) {
        let path = cpu.path().join("power/pm_qos_resume_latency_us");
        if let Some(value) = value(&path) {
            lines.insert(format!("{} = {value}", path.display()));
        }
    }
}

fn files(directory: &Path, lines: &mut BTreeSet<String>) {
    for entry in entries(directory) {
        if is_dir(&entry) {
            files(&entry.path(), lines);
        } else {
            lines.insert(format!("file {}", entry.path().display()));
        }
    }
}

/// Stopped tasks, and real-time ones that are not the kernel's.
fn tasks(lines: &mut BTreeSet<String>) {
    for entry in entries(Path::new("/proc")) {
        let stat = fs::read_to_string(entry.path().join("stat"));
        lines.extend(stat.ok().as_deref().and_then(unusual_task));
    }
}

/// Reads one `/proc/PID/stat` (proc(5)).
fn unusual_task(stat: &str) -> Option<String> {
    // The name in parentheses may hold anything, parentheses too.
    let (name, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    // Numbered from 3 in the manual page: state, flags, policy.
    let state = *fields.first()?;
    let flags: u64 = fields.get(9 - 3)?.parse().ok()?;
    let policy: u32 = fields.get(41 - 3)?.parse().ok()?;
    // sched(7): FIFO 1, RR 2, DEADLINE 6.
    let real_time = matches!(policy, 1 | 2 | 6) && flags & KERNEL_THREAD == 0;
    match (state, real_time) {
        ("T", _) => Some(format!("stopped task {name})")),
        (_, true) => Some(format!("real-time task {name})")),
        _ => None,
    }
}

fn units(lines: &mut BTreeSet<String>) -> anyhow::Result<()> {
    let output = Command::new("systemctl")
        .args(["list-units", "--type=service,scope,slice"])
        .args(["--plain", "--no-legend", "--no-pager", "--full"])
        .output()
        .context("cannot start systemctl")?;
    ensure!(output.status.success(), "systemctl: {}", output.status);
    for unit in String::from_utf8_lossy(&output.stdout).lines() {
        // Name, load state, active state, sub-state, description.
        let words: Vec<&str> = unit.split_whitespace().take(4).collect();
        lines.insert(format!("unit {}", words.join(" ")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of `/proc/PID/stat` of a task called `a) b`.
    fn stat(state: &str, flags: u64, policy: u32) -> String {
        let zeros = |count| vec!["0"; count].join(" ");
        let (before, between, after) = (zeros(5), zeros(31), zeros(11));
        format!("7 (a) b) {state} {before} {flags} {between} {policy} {after}\n")
    }

    #[test]
    fn ordinary_tasks_are_not_listed_stopped_and_real_time_ones_are() {
        assert_eq!(unusual_task(&stat("R", 0, 0)), None);
        assert_eq!(
            unusual_task(&stat("T", 0, 0)).as_deref(),
            Some("stopped task 7 (a) b)")
        );
        for policy in [1, 2, 6] {
            assert_eq!(
                unusual_task(&stat("S", 0, policy)).as_deref(),
                Some("real-time task 7 (a) b)")
            );
        }
        assert_eq!(unusual_task(&stat("S", KERNEL_THREAD, 1)), None);
        assert_eq!(unusual_task("nonsense"), None);
    }

    #[test]
    fn a_group_with_its_settings_is_found_at_any_depth() {
        let tree = tempfile::tempdir().unwrap();
        let inner = tree.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let read = || {
            let mut lines = BTreeSet::new();
            groups(tree.path(), &mut lines);
            State(lines)
        };
        let before = read();
        assert_eq!(before.difference(&read()), Vec::<String>::new());
        fs::write(inner.join("cpu.weight"), "10000\n").unwrap();
        fs::create_dir(inner.join("c")).unwrap();
        let place = inner.display();
        assert_eq!(
            before.difference(&read()),
            [
                format!("+ {place}/cpu.weight = 10000"),
                format!("+ group {place}/c")
            ]
        );
        assert_eq!(
            read().difference(&before)[0],
            format!("- {place}/cpu.weight = 10000")
        );
    }

    #[test]
    fn this_machine_can_be_read() {
        let state = State::read().unwrap();
        assert!(state.0.iter().any(|line| line.starts_with("mount ")));
    }
}
