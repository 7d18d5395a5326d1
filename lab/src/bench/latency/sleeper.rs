// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sleeper: wakes up every millisecond and notes how late it is, and
//! whether the burner of its CPU was active at that moment.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::process::Stdio;
use std::time::Duration;

use crate::workload::sleepers::wake_up_until;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use nix::unistd::getppid;
use sandbag_linux::{CpuList, Root, clock, sched};
use serde::{Deserialize, Serialize};

use crate::bench::tasks::burners;
use crate::program::{Running, Start, command};

/// Arguments of `latency`.
#[derive(Debug, Args)]
pub struct LatencyArgs {
    /// How long to measure, seconds
    #[arg(value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub seconds: u32,
    /// CPU to sleep on
    #[arg(long)]
    pub cpu: u32,
    /// Keep that CPU busy with a task of our own besides
    #[arg(long)]
    pub spinner: bool,
    /// Note at each wake-up whether the burner that our parent, a sandbag, has
    /// on this CPU was active
    #[arg(long)]
    pub watch: bool,
}

/// The delays of all wake-ups, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wakeups {
    /// From the deadline to the return of the sleep, nanoseconds.
    pub delays_ns: Vec<u64>,
    /// Whether the burner was active, for each of them; empty without `--watch`.
    #[serde(default)]
    pub active: Vec<bool>,
}

impl Wakeups {
    /// Of these, the delays of those at which the burner was active, or not.
    pub fn by_burner(&self, active: bool) -> Vec<u64> {
        self.delays_ns
            .iter()
            .zip(&self.active)
            .filter(|(_, was)| **was == active)
            .map(|(ns, _)| *ns)
            .collect()
    }
}

/// `sandbag-lab latency`: sleeps on absolute deadlines and prints the
/// delays as JSON.
pub fn latency(args: &LatencyArgs) -> Result<()> {
    sched::set_affinity(0, &CpuList::from_iter([args.cpu]))?;
    let _spinner = args
        .spinner
        .then(|| spin(args.cpu, args.seconds))
        .transpose()?;
    let watch = if args.watch {
        Watch::find(args.cpu)?
    } else {
        Watch::ourselves()?
    };
    // The default slack of 50 us would be part of every delay.
    nix::sys::prctl::set_timerslack(1).context("prctl(PR_SET_TIMERSLACK)")?;
    let end = clock::monotonic() + u64::from(args.seconds) * 1_000_000_000;
    let woken = sleep_and_note(end, &watch, args.watch);
    println!("{}", serde_json::to_string(&woken)?);
    Ok(())
}

fn sleep_and_note(end: u64, watch: &Watch, note: bool) -> Wakeups {
    let mut woken = Wakeups::default();
    wake_up_until(end, |_, late_ns| {
        // All tasks of this CPU wait for this one, so the state is still that of the
        // wake-up. It is read in any case, because reading takes time.
        let active = watch.active();
        if note {
            woken.active.push(active);
        }
        woken.delays_ns.push(late_ns);
    });
    woken
}

struct Watch(Vec<File>);

impl Watch {
    /// Reads as much where there is no burner, for equal conditions.
    fn ourselves() -> Result<Self> {
        Ok(Self(vec![
            File::open("/proc/self/stat").context("open /proc/self/stat")?,
        ]))
    }

    fn find(cpu: u32) -> Result<Self> {
        let parent = u32::try_from(getppid().as_raw()).unwrap_or(0);
        let sandbag = std::fs::read_link(format!("/proc/{parent}/exe"))
            .with_context(|| format!("which program is {parent}, our parent"))?;
        let files: Vec<File> = burners(&Root::default(), parent, &sandbag)
            .into_iter()
            .filter(|(on, _)| *on == cpu)
            .filter_map(|(_, thread)| File::open(format!("/proc/{}/stat", thread.pid())).ok())
            .collect();
        if files.is_empty() {
            bail!("{} has no burner on CPU {cpu}", sandbag.display());
        }
        Ok(Self(files))
    }

    fn active(&self) -> bool {
        self.0.iter().any(|file| {
            let mut bytes = [0u8; 64];
            // A burner that has ended is not active.
            file.read_at(&mut bytes, 0)
                .is_ok_and(|length| is_running(&bytes[..length]))
        })
    }
}

/// Whether the beginning of a `/proc/PID/stat` says `R`.
fn is_running(stat: &[u8]) -> bool {
    let Some(end) = stat.iter().rposition(|byte| *byte == b')') else {
        return false;
    };
    stat.get(end + 2) == Some(&b'R')
}

/// Until a spinner has started.
const STARTED: Duration = Duration::from_millis(50);

/// A spinner on a CPU, in our own session.
fn spin(cpu: u32, seconds: u32) -> Result<Running> {
    let words = format!("compete spin 1 {} --cpus {cpu}", seconds + 1);
    let mut command = command("/proc/self/exe", &words);
    command.stdout(Stdio::null());
    let running = Running::start(command, Start::default())?;
    std::thread::sleep(STARTED);
    Ok(running)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_behind_the_name() {
        assert!(is_running(b"7 (sandbag) R 1 7 7"));
        assert!(!is_running(b"7 (sandbag) S 1 7 7"));
        assert!(is_running(b"7 (R) S) R 1 7 7"));
        assert!(!is_running(b""));
        assert!(!is_running(b"7 (x)"));
    }

    #[test]
    fn wakeups_are_split_by_the_state_of_the_burner() {
        let woken = Wakeups {
            delays_ns: vec![1, 2, 3],
            active: vec![true, false, true],
        };
        assert_eq!(woken.by_burner(true), [1, 3]);
        assert_eq!(woken.by_burner(false), [2]);
        let not_watched = Wakeups {
            delays_ns: vec![1],
            ..Wakeups::default()
        };
        assert!(not_watched.by_burner(false).is_empty());
    }

    #[test]
    fn a_deadline_that_passed_is_skipped() {
        let woken = sleep_and_note(
            clock::monotonic() + 20_000_000,
            &Watch::ourselves().unwrap(),
            true,
        );
        assert!((1..=20).contains(&woken.delays_ns.len()), "{woken:?}");
        assert_eq!(woken.active.len(), woken.delays_ns.len());
    }
}
