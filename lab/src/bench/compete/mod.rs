// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag-lab compete KIND N SECONDS`: competitors in one binary.
//!
//! A parent forks N processes and waits for them; their CPU time per CPU is in the
//! account.

pub mod account;
pub mod kinds;

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::{ForkResult, fork, setsid};
use sandbag_linux::child::die_with;
use sandbag_linux::{CpuList, clock, sched};

use account::{Account, Counter, configured_cpus};
use kinds::{CompetitorKind, Job, realtime_tasks};

/// Arguments of `compete`.
#[derive(Debug, Args)]
pub struct CompeteArgs {
    /// What the competitors do
    #[arg(value_enum)]
    pub kind: CompetitorKind,
    /// How many; 0 waits and does nothing
    pub count: usize,
    /// How long, at most an hour
    #[arg(value_parser = seconds)]
    pub seconds: f64,
    /// Pin all of them to these CPUs
    #[arg(long)]
    pub cpus: Option<CpuList>,
    /// Account CPU time in this file, which the driver made
    #[arg(long)]
    pub account: Option<PathBuf>,
    /// One session per competitor, so that each is an autogroup of its own
    #[arg(long)]
    pub sessions: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if s > 0.0 && s <= 3600.0 => Ok(s),
        _ => Err("not a number of seconds between 0 and 3600".to_owned()),
    }
}

pub fn compete(args: &CompeteArgs) -> Result<()> {
    let cpus = configured_cpus();
    let account = match &args.account {
        Some(path) => Account::open(path, cpus)?,
        None => Account::anonymous(cpus)?,
    };
    if let Some(list) = &args.cpus {
        sched::set_affinity(0, list)?;
    }
    let until_ns = clock::monotonic() + (args.seconds * 1e9) as u64;
    account.set_end(until_ns);
    let of = match args.count {
        0 => 0,
        n => n + realtime_tasks(args.kind),
    };
    for index in 0..of {
        let job = Job {
            kind: args.kind,
            index,
            of,
            until_ns,
        };
        start(&job, &account, args.sessions)?;
    }
    if of == 0 {
        account.count(Counter::Started);
        clock::sleep_until(until_ns);
    }
    wait_for_all(&account)?;
    let failed = account.counted(Counter::Failed);
    if failed > 0 {
        bail!("{failed} of {of} competitors could not run");
    }
    Ok(())
}

fn start(job: &Job, account: &Account, session: bool) -> Result<()> {
    let parent = std::process::id();
    // SAFETY: this process has one thread, so the child may use everything it
    // finds.
    match unsafe { fork() }.context("fork")? {
        ForkResult::Parent { .. } => Ok(()),
        ForkResult::Child => {
            let outcome = die_with(parent, Signal::SIGKILL as i32)
                .context("the parent has gone")
                .and_then(|()| {
                    if session {
                        setsid().context("setsid")?;
                    }
                    job.run(account)
                });
            let code = match outcome {
                Ok(()) => 0,
                Err(e) => {
                    account.count(Counter::Failed);
                    eprintln!("sandbag-lab: competitor {}: {e:#}", job.index);
                    1
                }
            };
            // SAFETY: ends the child without running the parent's destructors.
            unsafe { libc::_exit(code) }
        }
    }
}

fn wait_for_all(account: &Account) -> Result<()> {
    loop {
        match wait() {
            // A killed competitor did not run as asked.
            Ok(WaitStatus::Signaled(..)) => account.count(Counter::Failed),
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(nix::errno::Errno::ECHILD) => return Ok(()),
            Err(e) => return Err(e).context("wait"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_bounded() {
        assert!(seconds("0.5").is_ok());
        for bad in ["0", "-1", "nan", "3601", "inf", "x"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
