// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The supervisor: starts burners and command, gives orders, sleeps, reads
//! what was taken, and leaves the machine as it was.
//!
//! It wakes when the profile changes, once a second to note the kernel's
//! counters, when a burner has no room, and on signals. It corrects nothing:
//! with `pace` the level is the burner's own business.

mod cpu;
mod feed;
mod meter;
mod outcome;
mod signals;
mod steal;
mod timeline;

use std::collections::VecDeque;
use std::os::fd::AsFd as _;
use std::process::Child;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::EventFd;
use nix::sys::signal::{Signal, kill};
use nix::sys::time::TimeSpec;
use nix::unistd::Pid;
use sandbag_kernel::command_clock::{CommandClock, CpuacctClock, PerfClock};
use sandbag_kernel::process::Process;
use sandbag_kernel::procstat::{ProcStat, tick_ns};
use sandbag_kernel::{CpuList, Root, clock, sched};
use sandbag_profile::BoxSteps;

use crate::board::{BOUNDARY_NS, Board, Order};
use crate::command::{CommandSpec, Ended, Gone, Waiting, reap};
use crate::error::{Error, Result};
use crate::guardian;
use crate::journal::{Journal, RunInfo};
use crate::layout::{Holder, Layout, Tenant};
use crate::method::Method;
use crate::registry::Registry;
use crate::undo::undo;

use cpu::{Common, Cpu, SLOTS_PER_CPU};
use feed::Feed;
use meter::{Mark, Meter, WINDOW_NS};
use signals::{ENDING, Signals};
use timeline::{Piece, RunClock};

pub use meter::Windows;
pub use outcome::{CommandOutcome, Cost, CpuOutcome, End, Outcome};

/// What to do.
pub struct Plan {
    /// The machine.
    pub root: Root,
    /// The CPUs to load, in the order of the profile's columns.
    pub cpus: Vec<u32>,
    /// The profile, already mapped to these CPUs.
    pub steps: BoxSteps,
    /// Highest load in the profile, percent: burners are started for it.
    pub highest_pct: f64,
    /// How to produce the load.
    pub method: Box<dyn Method>,
    /// Where groups are made.
    pub layout: Layout,
    /// The profile's name, for others to read.
    pub load: String,
    /// The command to wrap.
    pub command: Option<CommandSpec>,
    /// Restrict the command to these CPUs.
    pub pin: Option<CpuList>,
    /// Wait until the first level is held before the command starts.
    pub settle: bool,
    /// Monotonic time at which the profile begins.
    pub start_at_ns: Option<u64>,
    /// End the command, and the run, after this long.
    pub timeout_ns: Option<u64>,
    /// Where the supervisor itself runs.
    pub supervisor_cpu: Option<u32>,
}

/// Hears about the run while it goes on.
pub trait Observer: Windows {
    /// The load is held, the command starts now.
    fn started(&mut self);
    /// Run time so far; about once a second.
    fn progress(&mut self, run_ns: u64);
    /// Something the user should know.
    fn warning(&mut self, text: String);
}

/// Longest time to wait for the first level to be held.
const SETTLE_NS: u64 = 2_000_000_000;
/// The first level is held when two boundaries in a row are this close.
const SETTLED_POINTS: f64 = 5.0;
/// After the timeout the command gets SIGTERM, and SIGKILL this much later.
const GRACE_NS: u64 = 5_000_000_000;

/// Runs a plan. Whatever happens, groups and processes of ours are gone
/// afterwards and the command's are back where they were.
pub fn run(plan: Plan, registry: &Registry, observer: &mut dyn Observer) -> Result<Outcome> {
    let cpus: CpuList = plan.cpus.iter().copied().collect();
    cpu::check_online(&plan.root, &cpus)?;
    for dead in registry.restore()? {
        observer.warning(format!(
            "undid what sandbag process {} left when it was killed{}",
            dead.pid,
            match dead.left.is_empty() {
                true => String::new(),
                false => format!("; could not undo: {}", dead.left.join("; ")),
            }
        ));
    }
    let signals = Signals::take().map_err(|e| Error::call("signalfd", e))?;
    let board = Board::create(plan.cpus.len() * SLOTS_PER_CPU)
        .map_err(|e| Error::call("memfd_create", e))?;
    let alarm = cpu::alarm()?;
    let stat = ProcStat::open(&plan.root)?;
    let guardian = guardian::start(&registry.own_journal())?;
    let registered = registry.register(
        RunInfo {
            pid: std::process::id(),
            cpus: cpus.to_string(),
            method: plan.method.name().to_owned(),
            load: plan.load.clone(),
            command: plan.command.as_ref().map_or_else(Vec::new, |c| {
                let words = c.arguments.iter();
                words.map(|a| a.to_string_lossy().into_owned()).collect()
            }),
            started_s: std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |d| d.as_secs()),
            board_fd: board.fd(),
            kill: plan.command.as_ref().is_some_and(|c| c.kill),
        },
        &cpus,
    );
    let journal = match registered {
        Ok(journal) => journal,
        Err(error) => {
            guardian::dismiss(guardian);
            return Err(error);
        }
    };
    let mut run = Run {
        cpus: plan
            .cpus
            .iter()
            .enumerate()
            .map(|(n, cpu)| Cpu::new(*cpu, n * SLOTS_PER_CPU, &*plan.method))
            .collect(),
        meter: Meter::new(plan.cpus.clone(), tick_ns()),
        board: &board,
        alarm: &alarm,
        method: &*plan.method,
        layout: &plan.layout,
        root: &plan.root,
        signals: &signals,
        journal,
        guardian,
        observer,
        stat,
        command: None,
        ahead: VecDeque::new(),
        clock: RunClock::starting_at(0),
        cost: Cost::default(),
        interrupts: 0,
        guardian_restarts: 0,
        suspended_before_ns: suspended_ns(),
        paused_ns: 0,
        began_ns: 0,
        load_ended_ns: None,
    };
    let outcome = run.all(
        plan.steps,
        plan.highest_pct / 100.0,
        plan.command.as_ref(),
        &plan.pin,
        &Limits {
            settle: plan.settle && plan.method.settles(),
            start_at_ns: plan.start_at_ns,
            timeout_ns: plan.timeout_ns,
            supervisor_cpu: plan.supervisor_cpu,
        },
    );
    run.leave();
    outcome
}

struct Limits {
    settle: bool,
    start_at_ns: Option<u64>,
    timeout_ns: Option<u64>,
    supervisor_cpu: Option<u32>,
}

/// What a signal means before the run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Early {
    GoOn,
    /// We were stopped: what was ordered is past.
    Again,
    End,
}

struct Running {
    pid: u32,
    gone: Gone,
    started_ns: u64,
    clock: Option<Box<dyn CommandClock>>,
    ended: Option<(u64, Ended)>,
    migrations: Option<u64>,
    last: Vec<u64>,
    first: Vec<u64>,
}

struct Run<'a> {
    cpus: Vec<Cpu>,
    meter: Meter,
    board: &'a Board,
    alarm: &'a EventFd,
    method: &'a dyn Method,
    layout: &'a Layout,
    root: &'a Root,
    signals: &'a Signals,
    journal: Journal,
    guardian: Child,
    observer: &'a mut dyn Observer,
    stat: ProcStat,
    command: Option<Running>,
    /// Pieces that were published and have not ended.
    ahead: VecDeque<Piece>,
    clock: RunClock,
    cost: Cost,
    interrupts: u32,
    guardian_restarts: u32,
    suspended_before_ns: u64,
    paused_ns: u64,
    began_ns: u64,
    load_ended_ns: Option<u64>,
}

/// Pieces that are published before they begin. Also how late the
/// supervisor may be without a burner missing a change.
const PIECES_AHEAD: usize = 6;

macro_rules! common {
    ($run:expr) => {
        Common {
            board: $run.board,
            alarm: cpu::alarm_fd($run.alarm),
            layout: $run.layout,
            method: $run.method,
            run: std::process::id(),
        }
    };
}

impl Run<'_> {
    fn all(
        &mut self,
        steps: BoxSteps,
        highest: f64,
        command: Option<&CommandSpec>,
        pin: &Option<CpuList>,
        limits: &Limits,
    ) -> Result<Outcome> {
        let common = common!(self);
        self.layout.prepare(&mut self.journal)?;
        let mut feed = Feed::new(steps);
        let waiting = command
            .map(|spec| self.admit_command(spec, pin))
            .transpose()?;
        // After the command's process was started: it would inherit this.
        if let Some(cpu) = limits.supervisor_cpu {
            sched::set_affinity(0, &CpuList::from_iter([cpu]))?;
        }
        let highest = self.method.serves(highest);
        for cpu in &mut self.cpus {
            cpu.start(&common, &mut self.journal, highest)?;
        }
        let first = feed
            .peek()?
            .map_or_else(Vec::new, |piece| piece.asked_pct.clone());
        let Some(zero_ns) = self.settle(&common, &first, limits)? else {
            return Ok(self.outcome(0, End::Interrupted));
        };
        self.clock = RunClock::starting_at(zero_ns);
        self.publish(&common, &mut feed, zero_ns)?;
        clock::sleep_until(zero_ns);
        self.began_ns = clock::monotonic();
        self.cost.start_cpu_ns = self.cpu_ns();
        if let Some((waiting, holder)) = waiting {
            self.start_command(waiting, &holder)?;
        }
        self.observer.started();
        self.mark(0)?;
        let (run_ns, end) = self.hold(&common, &mut feed, limits)?;
        self.finish(&common, run_ns)?;
        feed.warnings()
            .into_iter()
            .for_each(|warning| self.observer.warning(warning));
        Ok(self.outcome(run_ns, end))
    }

    fn admit_command(
        &mut self,
        spec: &CommandSpec,
        pin: &Option<CpuList>,
    ) -> Result<(Waiting, Holder)> {
        let waiting = Waiting::start(spec)?;
        if let Some(cpus) = pin {
            sched::set_affinity(waiting.pid(), cpus)?;
        }
        let run = std::process::id();
        let holder = self
            .layout
            .settle(&mut self.journal, run, Tenant::Command, waiting.pid())?;
        self.cost.writes += 1;
        Ok((waiting, holder))
    }

    fn start_command(&mut self, waiting: Waiting, holder: &Holder) -> Result<()> {
        let numbers: CpuList = self.cpus.iter().map(Cpu::number).collect();
        let clock: Option<Box<dyn CommandClock>> = match self.layout.version() {
            sandbag_kernel::cgroup::Version::V1 => {
                CpuacctClock::open(self.root, holder.group().accounting_dir(), &numbers)
                    .map(|clock| Box::new(clock) as _)
            }
            sandbag_kernel::cgroup::Version::V2 => {
                PerfClock::open(holder.group().dir(), &numbers).map(|clock| Box::new(clock) as _)
            }
        }
        .map_err(|error| {
            self.observer.warning(format!(
                "what the command takes of each CPU is not known: {error}"
            ));
        })
        .ok();
        let pid = waiting.pid();
        let started_ns = clock::monotonic();
        let gone = waiting.let_go()?;
        self.command = Some(Running {
            pid,
            gone,
            started_ns,
            clock,
            ended: None,
            migrations: None,
            first: Vec::new(),
            last: Vec::new(),
        });
        Ok(())
    }

    /// Holds the first level; returns when the run may begin (monotonic), or
    /// `None` if it was interrupted.
    fn settle(
        &mut self,
        common: &Common<'_>,
        first_pct: &[f64],
        limits: &Limits,
    ) -> Result<Option<u64>> {
        // Nothing burns while a start at a given time is still far.
        let near = limits.start_at_ns.map(|at| at.saturating_sub(SETTLE_NS));
        while near.is_some_and(|near| clock::monotonic() < near) {
            self.wait_until(near.unwrap_or(0));
            if self.answer_early(common)? == Early::End {
                return Ok(None);
            }
        }
        let wanted = limits.settle && first_pct.iter().any(|pct| *pct > 0.0);
        if !wanted && limits.start_at_ns.is_none() {
            let soon = clock::monotonic() + BOUNDARY_NS / 5;
            return Ok(Some(soon.next_multiple_of(BOUNDARY_NS)));
        }
        let mut from_ns = self.order_first(common, first_pct)?;
        let mut number = from_ns / BOUNDARY_NS;
        let mut good = 0;
        loop {
            self.wait_until(clock::monotonic() + BOUNDARY_NS / 10);
            let _ = self.alarm.read();
            match self.answer_early(common)? {
                Early::GoOn => {}
                Early::End => return Ok(None),
                Early::Again => {
                    from_ns = self.order_first(common, first_pct)?;
                    number = from_ns / BOUNDARY_NS;
                    good = 0;
                }
            }
            let now = clock::monotonic();
            if self.cpus.iter().all(|cpu| cpu.noted(common, number + 1)) {
                let close = self.cpus.iter_mut().zip(first_pct).all(|(cpu, pct)| {
                    let level = self.method.serves(pct / 100.0);
                    let taken = cpu.taken(common, number, number + 1).ns;
                    (taken as f64 / BOUNDARY_NS as f64 - level).abs() * 100.0 <= SETTLED_POINTS
                });
                good = if close { good + 1 } else { 0 };
                number += 1;
            }
            for cpu in &mut self.cpus {
                cpu.look(common, &mut self.journal)?;
            }
            if limits.start_at_ns.is_none() && good >= 2 {
                return Ok(Some((now + BOUNDARY_NS / 5).next_multiple_of(BOUNDARY_NS)));
            }
            if now >= limits.start_at_ns.unwrap_or(from_ns + SETTLE_NS) {
                if wanted && good < 2 {
                    self.observer.warning(
                        "the first level was not held before the start; going on".to_owned(),
                    );
                }
                let at = limits.start_at_ns.unwrap_or(now);
                return Ok(Some((at.max(now) + 1).next_multiple_of(BOUNDARY_NS)));
            }
        }
    }

    /// Orders the first level; returns from when on it is to be held.
    fn order_first(&mut self, common: &Common<'_>, first_pct: &[f64]) -> Result<u64> {
        let from_ns = (clock::monotonic() + BOUNDARY_NS / 5).next_multiple_of(BOUNDARY_NS);
        for (cpu, pct) in self.cpus.iter_mut().zip(first_pct) {
            let level = self.method.serves(pct / 100.0);
            cpu.make_room(common, &mut self.journal, level)?;
            cpu.void_orders(common);
            cpu.order(common, Order { from_ns, level });
        }
        Ok(from_ns)
    }

    /// Answers signals before the run begins. The command's process waits at
    /// its gate meanwhile; whatever ends it there is told when it is let go.
    fn answer_early(&mut self, common: &Common<'_>) -> Result<Early> {
        let mut early = Early::GoOn;
        while let Some(arrived) = self.signals.next() {
            match arrived.signal {
                Signal::SIGCHLD => {
                    self.reap_all(common)?;
                }
                Signal::SIGTSTP => {
                    self.board.set_paused(true);
                    // Returns when somebody continues us.
                    signal_to(std::process::id(), Signal::SIGSTOP);
                    self.board.set_paused(false);
                    early = Early::Again;
                }
                signal if ENDING.contains(&signal) => return Ok(Early::End),
                _ => {}
            }
        }
        Ok(early)
    }

    /// The run proper. Returns the run time at which it ended, and why.
    fn hold(
        &mut self,
        common: &Common<'_>,
        feed: &mut Feed,
        limits: &Limits,
    ) -> Result<(u64, End)> {
        let mut next_mark = WINDOW_NS;
        let mut deadline = limits.timeout_ns.map(|ns| self.began_ns + ns);
        let mut timed_out = false;
        loop {
            let now = clock::monotonic();
            let run_ns = self.clock.run_ns(now);
            self.publish(common, feed, now)?;
            let profile_end = feed.end_ns();
            let over = profile_end.is_some_and(|end| run_ns >= end);
            if over && self.load_ended_ns.is_none() {
                let end = profile_end.unwrap_or(run_ns);
                self.load_ended_ns = Some(end);
                // The rest of the last window.
                if !end.is_multiple_of(WINDOW_NS) {
                    self.mark(end)?;
                }
            }
            while self.load_ended_ns.is_none_or(|end| next_mark <= end) && run_ns >= next_mark {
                self.mark(next_mark)?;
                next_mark += WINDOW_NS;
                self.assemble(common, 1);
                for cpu in &mut self.cpus {
                    cpu.look(common, &mut self.journal)?;
                }
                self.observer.progress(run_ns);
            }
            if over && self.command.is_none() {
                return Ok((profile_end.unwrap_or(run_ns), End::ProfileOver));
            }
            if deadline.is_some_and(|deadline| now >= deadline) {
                let Some(running) = &self.command else {
                    return Ok((run_ns, End::TimedOut));
                };
                let signal = match timed_out {
                    false => Signal::SIGTERM,
                    true => Signal::SIGKILL,
                };
                signal_to(running.pid, signal);
                timed_out = true;
                deadline = Some(now + GRACE_NS);
            }
            let wakes = [
                (!over).then(|| {
                    self.clock
                        .monotonic_ns(next_mark.min(profile_end.unwrap_or(u64::MAX)))
                }),
                feed.peek_start()
                    .or(profile_end)
                    .filter(|_| !over)
                    .map(|_| self.next_piece_ns()),
                deadline,
            ];
            let wake = wakes.into_iter().flatten().min();
            self.wait_until(wake.unwrap_or(now + 10 * WINDOW_NS));
            if let Some(end) = self.answer(common, timed_out)? {
                return Ok((self.clock.run_ns(clock::monotonic()), end));
            }
        }
    }

    /// When the next published piece begins, or the current one ends.
    fn next_piece_ns(&self) -> u64 {
        let run_ns = self.clock.run_ns(clock::monotonic());
        let next = self
            .ahead
            .iter()
            .flat_map(|piece| [piece.start_ns, piece.end_ns])
            .find(|at| *at > run_ns);
        self.clock.monotonic_ns(next.unwrap_or(run_ns + WINDOW_NS))
    }

    /// Publishes pieces ahead of time and makes room for those in sight.
    fn publish(&mut self, common: &Common<'_>, feed: &mut Feed, now: u64) -> Result<()> {
        let run_ns = self.clock.run_ns(now);
        while self.ahead.front().is_some_and(|p| p.end_ns <= run_ns) {
            self.ahead.pop_front();
        }
        while self.ahead.len() < PIECES_AHEAD {
            let Some(piece) = feed.next()? else {
                break;
            };
            self.order_piece(common, &piece, run_ns);
            if feed.end_ns() == Some(piece.end_ns) {
                let from_ns = self.clock.monotonic_ns(piece.end_ns);
                for cpu in &mut self.cpus {
                    cpu.order(
                        common,
                        Order {
                            from_ns,
                            level: 0.0,
                        },
                    );
                }
            }
            self.meter.ask(piece.clone());
            self.ahead.push_back(piece);
        }
        // A method that makes room may do so early; one whose weight or cap
        // is the level must be exact.
        let in_sight = match self.method.wants_headroom() {
            true => run_ns + WINDOW_NS,
            false => run_ns,
        };
        for (n, cpu) in self.cpus.iter_mut().enumerate() {
            let level = self
                .ahead
                .iter()
                .take_while(|piece| piece.start_ns <= in_sight)
                .filter_map(|piece| piece.asked_pct.get(n))
                .fold(0.0f64, |most, pct| most.max(pct / 100.0));
            cpu.make_room(common, &mut self.journal, self.method.serves(level))?;
        }
        Ok(())
    }

    fn order_piece(&mut self, common: &Common<'_>, piece: &Piece, run_ns: u64) {
        let from_ns = self.clock.monotonic_ns(piece.start_ns.max(run_ns));
        for (cpu, pct) in self.cpus.iter_mut().zip(&piece.asked_pct) {
            let level = self.method.serves(pct / 100.0);
            cpu.order(common, Order { from_ns, level });
        }
    }

    /// Sleeps until a monotonic time, a signal or a burner's call.
    fn wait_until(&mut self, until_ns: u64) {
        let left = Duration::from_nanos(until_ns.saturating_sub(clock::monotonic()));
        let mut fds = [
            PollFd::new(self.signals.fd().as_fd(), PollFlags::POLLIN),
            PollFd::new(self.alarm.as_fd(), PollFlags::POLLIN),
        ];
        // An error here is a wake-up: every caller looks at everything.
        let _ = ppoll(&mut fds, Some(TimeSpec::from_duration(left)), None);
        self.cost.wakeups += 1;
    }

    /// Answers signals and calls; `Some` if the run ends.
    fn answer(&mut self, common: &Common<'_>, timed_out: bool) -> Result<Option<End>> {
        if self.alarm.read().is_ok() {
            for cpu in &mut self.cpus {
                cpu.look(common, &mut self.journal)?;
            }
        }
        let mut end = None;
        while let Some(arrived) = self.signals.next() {
            // Once it is reaped its process id may be somebody else's.
            let running = self.command.as_ref().filter(|r| r.ended.is_none());
            let pid = running.map(|running| running.pid);
            match (arrived.signal, pid) {
                (Signal::SIGCHLD, _) => {
                    if self.reap_all(common)? {
                        end = Some(match timed_out {
                            true => End::TimedOut,
                            false => End::CommandOver,
                        });
                    }
                }
                (Signal::SIGTSTP, _) => self.stand_still(common, !arrived.by_kernel),
                (signal, Some(pid)) if ENDING.contains(&signal) => {
                    self.interrupts += 1;
                    if self.interrupts > 1 {
                        end = Some(End::Interrupted);
                    }
                    // The terminal sent it to the command already.
                    if !arrived.by_kernel {
                        signal_to(pid, signal);
                    }
                }
                (signal, None) if ENDING.contains(&signal) => end = Some(End::Stopped),
                (signal, Some(pid)) => signal_to(pid, signal),
                (_, None) => {}
            }
        }
        Ok(end)
    }

    /// Reaps everything that ended; whether the command did.
    fn reap_all(&mut self, common: &Common<'_>) -> Result<bool> {
        let mut over = false;
        while let Some((pid, ended)) = reap() {
            let how = match (ended.signal, ended.exit_code) {
                (Some(signal), _) => format!("signal {signal}"),
                (_, code) => format!("exit code {}", code.unwrap_or(0)),
            };
            if let Some(running) = &mut self.command
                && running.pid == pid
            {
                running.ended = Some((clock::monotonic(), ended));
                if let Some(error) = running.gone.failure() {
                    return Err(error);
                }
                over = true;
            } else if pid == self.guardian.id() {
                self.replace_guardian(&how)?;
            } else {
                for cpu in &mut self.cpus {
                    if cpu.ended(common, &mut self.journal, pid, &how)? {
                        self.observer.warning(format!(
                            "the burner of CPU {} ended ({how}) and was started again",
                            cpu.number()
                        ));
                        break;
                    }
                }
            }
        }
        Ok(over)
    }

    fn replace_guardian(&mut self, how: &str) -> Result<()> {
        // Another in any case: a run that ends by this error is undone, too.
        self.guardian = guardian::start(self.journal.path())?;
        self.guardian_restarts += 1;
        if self.guardian_restarts > 3 {
            return Err(Error::Died {
                what: "the guardian".into(),
                times: self.guardian_restarts,
                how: how.to_owned(),
            });
        }
        self.observer
            .warning(format!("the guardian ended ({how}) and was started again"));
        Ok(())
    }

    /// Ctrl-Z: burners and profile stand still until we are continued.
    fn stand_still(&mut self, common: &Common<'_>, tell_command: bool) {
        let from_ns = clock::monotonic();
        self.board.set_paused(true);
        let pid = self.command.as_ref().map(|running| running.pid);
        if let (Some(pid), true) = (pid, tell_command) {
            self.stop_command(pid);
        }
        self.meter.paused_at(self.clock.run_ns(from_ns));
        // Returns when somebody continues us.
        signal_to(std::process::id(), Signal::SIGSTOP);
        self.paused_ns += self.clock.pause(from_ns, clock::monotonic());
        let now = clock::monotonic();
        for cpu in &mut self.cpus {
            cpu.void_orders(common);
        }
        let run_ns = self.clock.run_ns(now);
        for piece in std::mem::take(&mut self.ahead) {
            self.order_piece(common, &piece, run_ns);
            self.ahead.push_back(piece);
        }
        self.board.set_paused(false);
        if let (Some(pid), true) = (pid, tell_command) {
            signal_to(pid, Signal::SIGCONT);
        }
    }

    /// Asks the command to stop, and makes it if it does not: the kernel
    /// drops SIGTSTP where no shell could continue the process group.
    fn stop_command(&self, pid: u32) {
        signal_to(pid, Signal::SIGTSTP);
        for _ in 0..20 {
            let stat = Process::new(self.root, pid).stat();
            if stat.map_or(true, |stat| stat.state == 'T') {
                return;
            }
            clock::sleep_until(clock::monotonic() + BOUNDARY_NS / 20);
        }
        signal_to(pid, Signal::SIGSTOP);
    }

    /// Notes the kernel's counters.
    fn mark(&mut self, run_ns: u64) -> Result<()> {
        let sample = self.stat.sample()?;
        let times = self
            .cpus
            .iter()
            .map(|cpu| sample.get(cpu.number()).copied())
            .collect();
        let late = clock::monotonic().saturating_sub(self.clock.monotonic_ns(run_ns));
        self.cost.worst_late_ns = self.cost.worst_late_ns.max(late);
        let mut command_ns = None;
        if let Some(running) = &mut self.command {
            let mut out = vec![0; self.cpus.len()];
            if let Some(clock) = &mut running.clock
                && clock.per_cpu_ns(&mut out).is_ok()
            {
                if running.first.is_empty() {
                    running.first.clone_from(&out);
                }
                running.last.clone_from(&out);
                command_ns = Some(out);
            }
            if running.ended.is_none() {
                let moved = Process::new(self.root, running.pid).migrations();
                running.migrations = moved.ok().flatten().or(running.migrations);
            }
        }
        self.meter.mark(Mark {
            run_ns,
            times,
            command_ns,
        });
        Ok(())
    }

    fn assemble(&mut self, common: &Common<'_>, keep: usize) {
        let (cpus, clock) = (&mut self.cpus, &self.clock);
        let number = |run_ns: u64| clock.monotonic_ns(run_ns) / BOUNDARY_NS;
        self.meter.finish(
            keep,
            |cpu, from, to| cpus[cpu].taken(common, number(from), number(to)),
            self.observer,
        );
    }

    /// The end: the last window, then the burners stop.
    fn finish(&mut self, common: &Common<'_>, run_ns: u64) -> Result<()> {
        let end_ns = run_ns / BOUNDARY_NS * BOUNDARY_NS;
        let last = self.clock.monotonic_ns(end_ns) / BOUNDARY_NS;
        // Give every burner the chance to note the last boundary.
        let give_up = clock::monotonic() + 2 * BOUNDARY_NS;
        while !self.cpus.iter().all(|cpu| cpu.noted(common, last)) && clock::monotonic() < give_up {
            clock::sleep_until(clock::monotonic() + BOUNDARY_NS / 20);
        }
        if self.load_ended_ns.is_none() {
            self.mark(end_ns)?;
        }
        self.assemble(common, 0);
        for cpu in &self.cpus {
            if cpu.exhausted {
                self.observer.warning(format!(
                    "CPU {}: no room could be made for the load: other groups or tasks there \
                     weigh more than all that a tree of this kind takes",
                    cpu.number()
                ));
            }
            if cpu.cap_changed() {
                self.observer.warning(format!(
                    "CPU {}: the kernel changed the cap by itself (its timer could not keep up)",
                    cpu.number()
                ));
            }
        }
        let without = self
            .load_ended_ns
            .map_or(0, |end| run_ns.saturating_sub(end));
        if self.command.is_some() && without > BOUNDARY_NS {
            self.observer.warning(format!(
                "the profile ended {:.1} s before the command: there was no load from then on \
                 (replay --loop repeats a profile)",
                without as f64 / 1e9
            ));
        }
        let suspended = suspended_ns().saturating_sub(self.suspended_before_ns);
        if suspended > BOUNDARY_NS {
            self.observer.warning(format!(
                "the machine slept for {:.1} s during the run; that time is not in the report",
                suspended as f64 / 1e9
            ));
        }
        Ok(())
    }

    /// CPU time of supervisor and guardian.
    fn cpu_ns(&self) -> u64 {
        clock::process_cpu() + clock::process_cpu_of(self.guardian.id()).unwrap_or(0)
    }

    fn outcome(&mut self, run_ns: u64, end: End) -> Outcome {
        let common = common!(self);
        self.cost.cpu_ns = self.cpu_ns();
        self.cost.resident_kib = Process::current(self.root)
            .memory()
            .map_or(0, |memory| memory.peak_kib);
        self.cost.writes += self.cpus.iter().map(|cpu| cpu.writes).sum::<u64>();
        let cpus = self.cpus.iter().enumerate().map(|(n, cpu)| {
            self.cost.burner_private_kib =
                self.cost.burner_private_kib.max(cpu.private_kib(self.root));
            CpuOutcome {
                cpu: cpu.number(),
                burner_ns: cpu.burner_ns(),
                lost_ns: cpu.lost_ns(&common),
                least_headroom: cpu.least_headroom,
                weight_changes: cpu.weight_changes,
                command_ns: self.command.as_ref().and_then(|running| {
                    Some(running.last.get(n)?.saturating_sub(*running.first.get(n)?))
                }),
            }
        });
        let cpus = cpus.collect();
        let command = self.command.as_ref().and_then(|running| {
            let (ended_ns, how) = running.ended?;
            Some(CommandOutcome {
                wall_ns: ended_ns - running.started_ns,
                how,
                migrations: running.migrations,
            })
        });
        Outcome {
            run_ns,
            paused_ns: self.paused_ns,
            end,
            cpus,
            command,
            cost: self.cost,
        }
    }

    /// Undoes everything. Problems are said and not returned: there is
    /// nothing the caller could do that this did not try.
    fn leave(self) {
        let Self {
            mut cpus,
            journal,
            mut guardian,
            observer,
            ..
        } = self;
        for cpu in &mut cpus {
            cpu.stop();
        }
        // A command that was never let go ends when its gate closes; one
        // that lives goes back to its group.
        let left = match journal.entries() {
            Ok(entries) => undo(&entries),
            Err(error) => vec![error.to_string()],
        };
        if left.is_empty() {
            if let Err(error) = journal.close() {
                observer.warning(error.to_string());
            }
            // Nothing is left for it to do, and it may be stopped.
            let _ = guardian.kill();
        } else {
            observer.warning(format!(
                "could not undo: {}; sandbag restore tries again",
                left.join("; ")
            ));
        }
        guardian::dismiss(guardian);
    }
}

fn signal_to(pid: u32, signal: Signal) {
    // Whoever is gone needs no signal.
    let _ = kill(Pid::from_raw(pid.cast_signed()), signal);
}

/// Time that the machine was suspended since it booted.
fn suspended_ns() -> u64 {
    use nix::time::{ClockId, clock_gettime};
    let read = |id| clock_gettime(id).map_or(0, |t| Duration::from(t).as_nanos() as u64);
    read(ClockId::CLOCK_BOOTTIME).saturating_sub(read(ClockId::CLOCK_MONOTONIC))
}
