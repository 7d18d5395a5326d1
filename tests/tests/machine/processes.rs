// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes as the kernel shows them: who lives, where, and what he used.

use std::process::Child;

use anyhow::ensure;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::place::{text_of, wait_for};

/// The process id of a child, for signals.
pub fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

/// State of a process, a letter as in proc(5); `None` if it is gone.
pub fn state_of(pid: Pid) -> Option<char> {
    let stat = text_of(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Whether it runs: it is there and no zombie.
pub fn lives(pid: Pid) -> bool {
    state_of(pid).is_some_and(|state| state != 'Z')
}

/// Where a process is in every hierarchy.
pub fn groups_of(pid: impl std::fmt::Display) -> anyhow::Result<String> {
    text_of(format!("/proc/{pid}/cgroup"))
}

/// A process that must be alive, in our own groups; it is ended then.
pub fn lives_at_home(pid: Pid) -> anyhow::Result<()> {
    let home = groups_of("self")?;
    let moved = wait_for("the command to be back in its group", || {
        (groups_of(pid).ok()? == home).then_some(())
    });
    let alive = lives(pid);
    let _ = kill(pid, Signal::SIGKILL);
    ensure!(alive, "{pid} does not live on");
    moved
}

/// CPU time of a process so far, clock ticks.
pub fn used(pid: Pid) -> anyhow::Result<u64> {
    let stat = text_of(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat
        .rsplit_once(") ")
        .map_or(vec![], |(_, f)| f.split(' ').collect());
    let tick = |n: usize| fields.get(n - 3).and_then(|f| f.parse::<u64>().ok());
    Ok(tick(14).unwrap_or(0) + tick(15).unwrap_or(0))
}

/// Children of a process that are zombies.
pub fn zombies(parent: Pid) -> usize {
    let children = text_of(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    children
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .filter(|pid| state_of(Pid::from_raw(*pid)) == Some('Z'))
        .count()
}
