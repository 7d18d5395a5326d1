// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command while it runs: its clocks, its group, its end.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sandbag_linux::cgroup::{Group, Version};
use sandbag_linux::command_clock::{self, CommandClock};
use sandbag_linux::perf::GroupMigrations;
use sandbag_linux::process::Process;
use sandbag_linux::{CpuList, Root, clock};

use super::outcome::{self, CommandOutcome, Migrations};
use sandbag_run::command::{CommandExit, ReleasedCommand, Waiting};
use sandbag_run::error::Result;
use sandbag_run::members;

/// A command that was let go.
pub struct RunningCommand {
    pub pid: u32,
    pub ended: Option<(u64, CommandExit)>,
    /// Sandbag was asked to end while it ran.
    pub asked_to_end: bool,
    gone: ReleasedCommand,
    started_ns: u64,
    group: Group,
    clock: Option<Box<dyn CommandClock>>,
    /// Of the whole group; open from before its first instruction.
    moves: Option<GroupMigrations>,
    /// Of its first thread, where the kernel counts no group's.
    first_thread: Option<u64>,
    /// CPU time on each loaded CPU at the first and at the last mark.
    first: Vec<Option<u64>>,
    last: Vec<Option<u64>>,
}

impl RunningCommand {
    /// Lets the command begin. A clock that is missing is a warning.
    pub fn start(
        waiting: Waiting,
        root: &Root,
        group: &Group,
        cpus: &CpuList,
        warn: impl FnOnce(String),
    ) -> Result<Self> {
        let clock = command_clock::open(root, group, cpus)
            .map_err(|error| {
                warn(format!(
                    "what the command takes of each CPU is not known: {error}"
                ));
            })
            .ok();
        let moves = count_moves(root, group);
        let pid = waiting.pid();
        let started_ns = clock::monotonic();
        Ok(Self {
            pid,
            ended: None,
            asked_to_end: false,
            gone: waiting.let_go()?,
            started_ns,
            group: group.clone(),
            clock,
            moves,
            first_thread: None,
            first: Vec::new(),
            last: Vec::new(),
        })
    }

    pub fn started_ns(&self) -> u64 {
        self.started_ns
    }

    pub fn over(&mut self, how: CommandExit) -> Result<()> {
        self.ended = Some((clock::monotonic(), how));
        self.gone.failure().map_or(Ok(()), Err)
    }

    /// Reads its clocks: CPU time so far on each loaded CPU, where known.
    pub fn note(&mut self, root: &Root, cpus: usize) -> Option<Vec<Option<u64>>> {
        if self.moves.is_none() && self.ended.is_none() {
            let moved = Process::new(root, self.pid).migrations();
            self.first_thread = moved.ok().flatten().or(self.first_thread);
        }
        let mut now = vec![None; cpus];
        self.clock.as_mut()?.per_cpu_ns(&mut now).ok()?;
        if self.first.is_empty() {
            self.first.clone_from(&now);
        }
        self.last.clone_from(&now);
        Some(now)
    }

    /// Whether what its clock tells contains stolen time.
    pub fn counts_steal(&self) -> bool {
        self.clock
            .as_ref()
            .is_some_and(|clock| clock.counts_steal())
    }

    /// CPU time on a loaded CPU (by index) between the first mark and the last; not of a
    /// clock that counts stolen time, which only the windows leave out.
    pub fn used_ns(&self, cpu: usize) -> Option<u64> {
        if self.counts_steal() {
            return None;
        }
        let at = |mark: &[Option<u64>]| mark.get(cpu).copied().flatten();
        Some(at(&self.last)?.saturating_sub(at(&self.first)?))
    }

    /// CPU time of all that is or was in its care, ns, on all CPUs. Where the
    /// kernel does not keep that, of what is there now.
    pub fn used_in_all_ns(&self) -> u64 {
        let accounting = self.group.accounting_dir();
        let of_now = || {
            let clock = |pid| clock::process_cpu_of(pid).unwrap_or(0);
            self.everyone().into_iter().map(clock).sum()
        };
        outcome::used_ns(self.group.dir(), accounting).unwrap_or_else(of_now)
    }

    pub fn outcome(&self) -> Option<CommandOutcome> {
        let (ended_ns, how) = self.ended?;
        let of_group = self.moves.as_ref().and_then(|moves| moves.count().ok());
        Some(CommandOutcome {
            wall_ns: ended_ns - self.started_ns,
            how,
            asked_to_end: self.asked_to_end,
            migrations: match of_group {
                Some(count) => Some(Migrations::All(count)),
                None => self.first_thread.map(Migrations::FirstThread),
            },
        })
    }

    /// Everything in its care: what is in its group and in groups below.
    pub fn everyone(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.group.dirs().flat_map(members::members_below).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    pub fn tell_all(&self, signal: Signal) {
        for pid in self.everyone() {
            signal_to(pid, signal);
        }
    }
}

/// Only a group of v2 has perf events.
fn count_moves(root: &Root, group: &Group) -> Option<GroupMigrations> {
    if group.version() == Version::V1 {
        return None;
    }
    // It may run anywhere, not only where the load is.
    let online = root.read("/sys/devices/system/cpu/online").ok()?;
    GroupMigrations::open(group.dir(), &online.trim().parse().ok()?).ok()
}

pub(super) fn signal_to(pid: u32, signal: Signal) {
    // A process that is gone needs no signal.
    let _ = kill(Pid::from_raw(pid.cast_signed()), signal);
}
