// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program from its start to its end, with what it took.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

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
    let pid = libc::pid_t::try_from(child.id())?;
    let mut status = 0;
    // SAFETY: plain data, which the call fills.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: our own child, which nobody else waits for; both places are
        // valid for writing.
        let got = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut used) };
        if got == pid {
            break;
        }
        let error = std::io::Error::last_os_error();
        ensure!(
            error.kind() == std::io::ErrorKind::Interrupted,
            "wait for {name}: {error}"
        );
    }
    let wall_s = begin.elapsed().as_secs_f64();
    let status = ExitStatus::from_raw(status);
    ensure!(status.success(), "{name}: {status}");
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Ok(Took {
        wall_s,
        cpu_s: seconds(used.ru_utime) + seconds(used.ru_stime),
        most_mib: used.ru_maxrss as f64 / 1024.0,
    })
}
