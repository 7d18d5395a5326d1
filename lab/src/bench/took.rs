// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program from its start to its end, with what it took.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nix::errno::Errno;
use nix::unistd::Pid;

/// What a run took.
#[derive(Debug, Clone, Copy)]
pub struct Took {
    /// Seconds from start to end.
    pub wall_s: f64,
    /// CPU time of the process and of its children that it waited for, seconds.
    pub cpu_s: f64,
    /// The most memory that it had, MiB.
    pub most_mib: f64,
}

/// Runs it; its output goes nowhere, its errors to ours.
pub fn run(command: &mut Command) -> Result<Took> {
    let name = command.get_program().display().to_string();
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let begin = Instant::now();
    let child = command.spawn().with_context(|| format!("start {name}"))?;
    let pid = Pid::from_raw(child.id().cast_signed());
    let (status, used) = reap(pid).with_context(|| format!("wait for {name}"))?;
    ensure!(status.success(), "{name}: {status}");
    Ok(Took {
        wall_s: begin.elapsed().as_secs_f64(),
        cpu_s: used.cpu.as_secs_f64(),
        most_mib: used.most_mib,
    })
}

/// What a process used.
#[derive(Debug, Clone, Copy)]
pub struct Used {
    /// CPU time, with that of its children that it waited for.
    pub cpu: Duration,
    /// The most memory that it had, MiB.
    pub most_mib: f64,
}

/// Waits for a child of ours and takes its resource use.
///
/// # Errors
/// There is no such child.
pub fn reap(pid: Pid) -> Result<(ExitStatus, Used)> {
    let mut status = 0;
    // SAFETY: plain data, which the call fills.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both places are valid for writing.
        let got = unsafe { libc::wait4(pid.as_raw(), &raw mut status, 0, &raw mut used) };
        match Errno::result(got) {
            Ok(_) => break,
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error).context("wait4"),
        }
    }
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.unsigned_abs())
            + Duration::from_micros(time.tv_usec.unsigned_abs())
    };
    let used = Used {
        cpu: time(used.ru_utime) + time(used.ru_stime),
        most_mib: used.ru_maxrss as f64 / 1024.0,
    };
    Ok((ExitStatus::from_raw(status), used))
}
