// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes as the kernel shows them: who lives, where, and what he used.

use std::process::Child;

use anyhow::ensure;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sandbag_linux::Root;
use sandbag_linux::process::Process;

use crate::place::{text_of, wait_for};

/// The process id of a child, for signals.
pub fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

/// What `/proc` has of it.
pub fn process(pid: Pid) -> Process {
    Process::new(&Root::default(), pid.as_raw().unsigned_abs())
}

/// State of a process, a letter as in proc(5); `None` if it is gone.
pub fn state_of(pid: Pid) -> Option<char> {
    Some(process(pid).stat().ok()?.state)
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
    let times = process(pid).stat()?.times;
    Ok(times.user_ticks + times.system_ticks)
}

/// Children of a process that are zombies.
pub fn zombies(parent: Pid) -> usize {
    let children = process(parent).children().unwrap_or_default().into_iter();
    children
        .filter(|pid| state_of(Pid::from_raw(pid.cast_signed())) == Some('Z'))
        .count()
}
