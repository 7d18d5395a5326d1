// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program from its start to its end, with what it took.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use sandbag_linux::child;

/// What a run took.
#[derive(Debug, Clone, Copy)]
pub struct RunCost {
    /// Seconds from start to end.
    pub wall_s: f64,
    /// CPU time of the process and of its children that it waited for, seconds.
    pub cpu_s: f64,
    /// The most memory that it had, MiB.
    pub most_mib: f64,
}

/// Runs it; its output goes nowhere, its errors to ours.
pub fn run(command: &mut Command) -> Result<RunCost> {
    let name = command.get_program().display().to_string();
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let begin = Instant::now();
    let child = command.spawn().with_context(|| format!("start {name}"))?;
    let ended = child::reap(Some(child.id())).with_context(|| format!("wait for {name}"))?;
    ensure!(ended.status.success(), "{name}: {}", ended.status);
    Ok(RunCost {
        wall_s: begin.elapsed().as_secs_f64(),
        cpu_s: (ended.user() + ended.system()).as_secs_f64(),
        most_mib: ended.usage.ru_maxrss as f64 / 1024.0,
    })
}
