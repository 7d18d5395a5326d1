// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU-Lim: stops processes that used more than their share of the time since
//! they began, and continues them when they are below it.
//!
//! As HPCC's rewrite does it one process looks at all the node's processes at
//! every interval. As Wrekavoc does it every process is looked at once a second,
//! so that stops last whole seconds; there it was a supervisor each, here it is a
//! time each. The processes are those of the node's group and of groups below it,
//! signalled by descriptors, which never reach a later process of that number.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use sandbag_linux::clock::{monotonic, process_cpu_of, suspended};
use sandbag_linux::pidfd::PidFd;
use sandbag_linux::process::Process;
use sandbag_linux::procstat::tick_ns;
use sandbag_linux::{Result, Root};
use serde::{Deserialize, Serialize};

use super::Throttle;
use super::slowed_time::SlowedTime;
use sandbag_run::members;
use sandbag_run::node_group::NodeGroup;

/// The two published variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LimVariant {
    /// One real-time process polls all processes of the node.
    // As HPCC rewrote it.
    #[default]
    CpuLim,
    /// Every process by itself, stops of whole seconds.
    Wrekavoc,
}

impl LimVariant {
    pub fn name(self) -> &'static str {
        match self {
            Self::CpuLim => "cpu-lim",
            Self::Wrekavoc => "wrekavoc",
        }
    }
}

const WHOLE_SECOND_NS: u64 = 1_000_000_000;
/// CPU time that the process of a command uses before the node begins, at most, ns: who is
/// older than the node and used more ran without it.
const STARTS_WITHIN_NS: u64 = 20_000_000;
/// CPU time within which a stopped process stops, ns: more means that another
/// process continued it.
const STOPS_WITHIN_NS: u64 = 2_000_000;

/// A process that used no more than this between two looks waits for
/// something else than a CPU, ns.
const SLEEPS_BELOW_NS: u64 = 100_000;

#[derive(Debug)]
pub struct Lim {
    dir: PathBuf,
    variant: LimVariant,
    interval_ns: u64,
    known: BTreeMap<u32, LimProcess>,
    /// When the node began (monotonic), ns.
    since_ns: u64,
    taken: SlowedTime,
    plan: Option<(f64, u64)>,
    /// When the pause began that the run is in (monotonic), ns.
    paused_ns: Option<u64>,
}

/// A process of the node's.
#[derive(Debug)]
struct LimProcess {
    fd: PidFd,
    /// Since when it is judged (monotonic), ns: its beginning, exact to a tick, or that of
    /// the node where it ran before; later by the pauses since.
    began_ns: u64,
    /// CPU time that it had used by then, and in the pauses.
    before_ns: u64,
    cpu_ns: u64,
    /// Not looked at before this (monotonic), ns.
    due: u64,
    /// By us.
    stopped: bool,
    ran: bool,
}

impl LimProcess {
    /// `None` if it ended.
    fn open(pid: u32, now: u64, since_ns: u64) -> Result<Option<Self>> {
        let root = Root::default();
        let ticks = match Process::new(&root, pid).stat() {
            Ok(stat) => stat.times.start_ticks,
            Err(error) if error.is_absent() => return Ok(None),
            Err(error) => return Err(error),
        };
        let fd = PidFd::of(&root, pid, ticks)?;
        // The kernel's time of birth counts suspends, which are no credit.
        let born_ns = (ticks * tick_ns()).saturating_sub(suspended());
        let used_ns = process_cpu_of(pid).unwrap_or(0);
        let ran_before = born_ns < since_ns && used_ns > STARTS_WITHIN_NS;
        Ok(fd.map(|fd| Self {
            fd,
            began_ns: if ran_before { monotonic() } else { born_ns },
            before_ns: if ran_before { used_ns } else { 0 },
            cpu_ns: 0,
            due: now,
            stopped: false,
            ran: false,
        }))
    }

    /// Whether it was stopped by another process: a shell, a debugger.
    fn stands_already(&self) -> bool {
        let stat = Process::new(&Root::default(), self.fd.pid()).stat();
        stat.is_ok_and(|stat| matches!(stat.state, 'T' | 't'))
    }

    fn look(&mut self, speed: f64, at_ns: u64) -> Result<()> {
        let Ok(cpu_ns) = process_cpu_of(self.fd.pid()) else {
            return Ok(());
        };
        let age = at_ns.saturating_sub(self.began_ns);
        // It wants a CPU until it is found asleep.
        let stood = self.stopped;
        if exceeds(cpu_ns.saturating_sub(self.before_ns), age, speed) {
            let goes_on = cpu_ns > self.cpu_ns + STOPS_WITHIN_NS;
            if !self.stopped && !self.stands_already() || self.stopped && goes_on {
                self.stopped = self.signal(libc::SIGSTOP)?;
            }
        } else {
            self.go_on()?;
        }
        self.ran = stood || cpu_ns > self.cpu_ns + SLEEPS_BELOW_NS;
        self.cpu_ns = cpu_ns;
        Ok(())
    }

    fn pause(&mut self) {
        self.cpu_ns = process_cpu_of(self.fd.pid()).unwrap_or(self.cpu_ns);
    }

    /// A pause of `length_ns` that is over now is no time in which it was judged. What it used
    /// is left out as well: who joined a node runs on in its pauses.
    fn resume(&mut self, now: u64, length_ns: u64) {
        let used_ns = self.cpu_ns.saturating_sub(self.before_ns);
        self.pause();
        self.before_ns = self.cpu_ns - used_ns;
        // Who began in the pause is judged from now on.
        self.began_ns = (self.began_ns + length_ns).min(now);
    }

    fn go_on(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.stopped, false) {
            self.signal(libc::SIGCONT)?;
        }
        Ok(())
    }

    fn signal(&self, signal: i32) -> Result<bool> {
        match self.fd.signal(signal) {
            Ok(()) => Ok(true),
            Err(error) if error.is_absent() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The published rule, with the time since the process began: what it slept
/// is to its merit, and its threads count together.
fn exceeds(cpu_ns: u64, age_ns: u64, speed: f64) -> bool {
    cpu_ns as f64 > speed * age_ns as f64
}

impl Lim {
    pub fn new(node: &NodeGroup, variant: LimVariant, interval_ns: u64) -> Self {
        Self {
            dir: node.cpu.clone(),
            variant,
            interval_ns,
            known: BTreeMap::new(),
            since_ns: monotonic(),
            taken: SlowedTime::default(),
            plan: None,
            paused_ns: None,
        }
    }

    /// Brings what is known in line with what is in the group.
    fn take_stock(&mut self, now: u64) -> Result<()> {
        let listed: BTreeSet<u32> = members::members_below(&self.dir).into_iter().collect();
        let mut outcome = Ok(());
        self.known.retain(|pid, known| {
            // Signal 0 asks whether the process is still there.
            let stays = listed.contains(pid) && known.signal(0).unwrap_or(true);
            if !stays {
                // It may have left the group instead of ending.
                outcome = std::mem::replace(&mut outcome, Ok(())).and(known.go_on());
            }
            stays
        });
        outcome?;
        for pid in listed {
            if !self.known.contains_key(&pid)
                && let Some(known) = LimProcess::open(pid, now, self.since_ns)?
            {
                self.known.insert(pid, known);
            }
        }
        Ok(())
    }

    fn look(&mut self, now: u64, speed: f64) -> Result<()> {
        self.take_stock(now)?;
        let at_ns = monotonic();
        for known in self.known.values_mut() {
            if self.variant == LimVariant::Wrekavoc {
                if now < known.due {
                    continue;
                }
                known.due += (now - known.due) / WHOLE_SECOND_NS * WHOLE_SECOND_NS;
                known.due += WHOLE_SECOND_NS;
            }
            known.look(speed, at_ns)?;
        }
        let stopped = self.known.values().filter(|known| known.stopped).count();
        // Who waits for something else says nothing about the speed.
        let wants = |known: &&LimProcess| known.stopped || known.ran;
        let all = self.known.values().filter(wants).count().max(1);
        self.taken.change(now, stopped as f64 / all as f64);
        Ok(())
    }
}

impl Throttle for Lim {
    fn act(&mut self, now: u64, level: f64) -> Result<u64> {
        if let Some((planned, next)) = self.plan
            && planned == level
            && now < next
        {
            return Ok(next);
        }
        self.look(now, 1.0 - level)?;
        let next = now + self.interval_ns;
        self.plan = Some((level, next));
        Ok(next)
    }

    /// Time that its processes were stopped, mean over those that ran or were stopped.
    fn taken_ns(&mut self, at: u64) -> u64 {
        self.taken.until(at)
    }

    fn release(&mut self, now: u64) -> Result<()> {
        self.plan = None;
        self.taken.change(now, 0.0);
        let outcomes: Vec<_> = self.known.values_mut().map(LimProcess::go_on).collect();
        outcomes.into_iter().collect()
    }

    fn pause(&mut self, now: u64) -> Result<()> {
        self.take_stock(now)?;
        self.known.values_mut().for_each(LimProcess::pause);
        self.paused_ns = Some(now);
        Ok(())
    }

    fn resume(&mut self, now: u64) -> Result<()> {
        self.take_stock(now)?;
        if let Some(paused_ns) = self.paused_ns.take() {
            let length_ns = now.saturating_sub(paused_ns);
            let known = self.known.values_mut();
            known.for_each(|known| known.resume(now, length_ns));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
