// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The supervisor: starts burners and command, gives orders, sleeps, reads
//! what was taken, and leaves the machine as it was.
//!
//! `settle` or `trigger`, `hold`, `answer` and `marks` are the phases of a
//! run; `cpu` is one loaded CPU, `running` the command; `feed`, `timeline`,
//! `limit`, `meter` and `steal` are pure.
//!
//! It wakes when the profile changes, once a second to note the kernel's
//! counters, when a burner has no room, and on signals. It corrects nothing:
//! with `pace` the level is the burner's own business.

mod answer;
mod beside;
mod burner;
mod control;
mod cpu;
mod feed;
mod foreign;
mod headroom;
mod hold;
mod limit;
mod marks;
mod meter;
mod node;
pub(crate) mod outcome;
mod running;
mod settle;
mod steal;
mod timeline;
mod trigger;

use std::collections::VecDeque;
use std::process::Child;
use std::rc::Rc;
use std::time::Duration;

use jiff::Timestamp;
use nix::sys::eventfd::EventFd;
use nix::sys::signal::Signal;
use sandbag_linux::cgroup::Group;
use sandbag_linux::process::Process;
use sandbag_linux::procstat::{ProcStat, tick_ns};
use sandbag_linux::sched::RealTime;
use sandbag_linux::{CpuList, Root, clock, sched};
use sandbag_profile::BoxSteps;

use crate::board::{BOUNDARY_NS, Board};
use crate::method::{Feel, Method, Scope};
use crate::node::Target;
use crate::node::socket::{Directory, sweep};
use sandbag_linux::file_limit;
use sandbag_linux::machine;
use sandbag_linux::notify;
use sandbag_linux::signals::{EndRequests, Signals};
use sandbag_run::awake;
use sandbag_run::command::{CommandSpec, Waiting};
use sandbag_run::error::{Error, Result};
use sandbag_run::guardian;
use sandbag_run::journal::{Journal, RunInfo, part_of};
use sandbag_run::layout::{Layout, Tenant};
use sandbag_run::realtime;
use sandbag_run::registry::Registry;
use sandbag_run::run_process::RunId;
use sandbag_run::undo::{Leftovers, undo};

use beside::BesideRuns;
use burner::{Common, ThrottleUse};
use cpu::{LoadedCpu, SLOTS_PER_CPU};
use feed::Feed;
use foreign::Foreign;
use limit::TimeLimit;
use meter::Meter;
use node::SupervisedNode;
use running::RunningCommand;
use settle::Limits;
use timeline::{LoadPiece, RunClock};
use trigger::Trigger;

use control::LoadControl;

pub use beside::BesideRun;
pub use control::NodeControl;
pub use meter::Windows;
pub use outcome::{Cost, CpuOutcome, ForeignProcess, LoadStart, Migrations, RunEnd, RunOutcome};
pub use settle::StartAt;
pub use trigger::StartOn;

pub struct RunPlan {
    pub root: Root,
    pub cpus: Vec<u32>,
    pub steps: BoxSteps,
    /// Of the profile, where it is known and has an end.
    pub length_ns: Option<u64>,
    /// Highest load in the profile, percent: burners are started for it.
    pub highest_pct: f64,
    pub method: Method,
    pub layout: Layout,
    pub load: String,
    pub command: Option<CommandSpec>,
    /// Restrict the command to these CPUs.
    pub pin: Option<CpuList>,
    /// Make a virtual node of the CPUs: its programs are confined to them.
    pub node: Option<NodeControl>,
    /// Who enters the node when it holds its speed: a program that runs already.
    pub target: Option<Target>,
    /// One that was started already.
    pub guardian: Option<Child>,
    /// The parts of this run that are runs of their own.
    pub beside: Vec<BesideRun>,
    /// Wait until the first level is held before the command starts.
    pub settle: bool,
    /// The command starts at once and says by this when the profile begins;
    /// not together with `start_at`, and without settling.
    pub start_on: Option<StartOn>,
    pub start_at: Option<StartAt>,
    /// End the command, all that is in its care, and the run after this long.
    pub timeout_ns: Option<u64>,
    pub supervisor_cpu: Option<u32>,
}

/// Hears about the run while it goes on.
pub trait Observer: Windows {
    /// The run is registered: its CPUs are its own, and no other run refuses it any more.
    fn registered(&mut self);
    /// The load is held, the command starts now.
    fn started(&mut self);
    /// Load and command stand still until [`Observer::resumed`].
    fn paused(&mut self);
    fn resumed(&mut self);
    /// The load has ended; what is left to do takes a moment, and a command may go on. May come
    /// again.
    fn load_over(&mut self);
    fn progress(&mut self, run_ns: u64);
    fn warning(&mut self, text: String);
}

/// Runs a plan. Whatever happens, groups and processes of ours are gone
/// afterwards and the command's are back where they were.
pub fn run(plan: RunPlan, registry: &Registry, observer: &mut dyn Observer) -> Result<RunOutcome> {
    // A timer of each CPU and a pipe of each burner: 1024 are few on a large machine.
    file_limit::raise();
    let cpus: CpuList = plan.cpus.iter().copied().collect();
    sandbag_run::online::check_online(&plan.root, &cpus)?;
    for dead in registry.restore()? {
        observer.warning(dead.to_string());
    }
    // What their guardian, killed as well, would have removed.
    for directory in [Directory::in_registry, Directory::of_loads] {
        let _ = sweep(&directory(registry.dir()));
    }
    // That by which the command begins the load, also if our caller ignores it.
    let start_by = match plan.start_on {
        Some(StartOn::Signal(signal)) => Some(signal),
        _ => None,
    };
    let signals =
        Signals::take(&[Signal::SIGTSTP], start_by).map_err(|e| Error::call("signalfd", e))?;
    let board = Board::create(plan.cpus.len() * SLOTS_PER_CPU)
        .map_err(|e| Error::call("memfd_create", e))?;
    let alarm = burner::alarm()?;
    let stat = ProcStat::open(&plan.root)?;
    let guardian = match plan.guardian {
        Some(guardian) => guardian,
        None => guardian::start(&registry.own_journal())?,
    };
    let (none, is_part) = (CpuList::default(), part_of().is_some());
    let registered = registry.register(
        RunInfo {
            cpus: cpus.to_string(),
            method: plan.method.name.to_owned(),
            command: plan.command.as_ref().map_or_else(Vec::new, |c| {
                let words = c.arguments.iter();
                words.map(|a| a.to_string_lossy().into_owned()).collect()
            }),
            board_fd: board.fd(),
            kill: plan.command.as_ref().is_some_and(|c| c.kill),
            shares: is_part,
            ..RunInfo::of_this_process(&plan.load)
        },
        if is_part { &none } else { &cpus },
    );
    let journal = match registered {
        Ok(journal) => journal,
        Err(error) => {
            guardian::dismiss(guardian);
            return Err(error);
        }
    };
    observer.registered();
    let load_control = match plan.node {
        Some(_) => None,
        None => LoadControl::bind(registry.dir())
            .inspect_err(|error| observer.warning(format!("sandbag set will not work: {error}")))
            .ok(),
    };
    let mut run = SupervisedRun {
        load_control,
        beside: BesideRuns::new(plan.beside),
        length_ns: plan.length_ns,
        cpus: plan
            .cpus
            .iter()
            .enumerate()
            .map(|(n, cpu)| LoadedCpu::new(*cpu, n * SLOTS_PER_CPU, &plan.method))
            .collect(),
        meter: Meter::new(plan.cpus.clone(), tick_ns()),
        board: &board,
        alarm: &alarm,
        method: &plan.method,
        layout: &plan.layout,
        root: &plan.root,
        signals: &signals,
        journal,
        guardian,
        observer,
        stat,
        command: None,
        node: None,
        ahead: VecDeque::new(),
        set_ns: 0,
        profile_end_ns: None,
        clock: RunClock::starting_at(0),
        began_at: None,
        cost: Cost::default(),
        requests: EndRequests::default(),
        early: Vec::new(),
        guardian_restarts: 0,
        throttle: ThrottleUse::default(),
        ended_ns: 0,
        suspended_before_ns: clock::suspended(),
        paused_ns: 0,
        trigger: plan.start_on.map(Trigger::new),
        load_start: LoadStart::WithCommand,
        limit: TimeLimit::new(plan.timeout_ns),
        load_ended_ns: None,
        foreign: None,
    };
    let outcome = run.all(
        plan.steps,
        plan.highest_pct / 100.0,
        plan.command.as_ref(),
        &plan.pin,
        plan.node.map(|control| (control, plan.target)),
        &Limits {
            settle: plan.settle && plan.method.settles,
            start_at: plan.start_at,
            supervisor_cpu: plan.supervisor_cpu,
        },
    );
    run.leave();
    outcome
}

struct SupervisedRun<'a> {
    cpus: Vec<LoadedCpu>,
    meter: Meter,
    board: &'a Board,
    alarm: &'a EventFd,
    method: &'a Method,
    layout: &'a Layout,
    root: &'a Root,
    signals: &'a Signals,
    journal: Journal,
    guardian: Child,
    observer: &'a mut dyn Observer,
    stat: ProcStat,
    command: Option<RunningCommand>,
    node: Option<SupervisedNode>,
    /// The socket of a load that is no node.
    load_control: Option<LoadControl>,
    beside: BesideRuns,
    /// Of the profile.
    length_ns: Option<u64>,
    /// Pieces that were published and have not ended.
    ahead: VecDeque<LoadPiece>,
    /// Run time from which on the loads hold that were set last.
    set_ns: u64,
    /// Run time at which the profile ends, once it is known.
    profile_end_ns: Option<u64>,
    clock: RunClock,
    /// Time 0 on the wall clock.
    began_at: Option<Timestamp>,
    cost: Cost,
    requests: EndRequests,
    /// Signals for the command that came before it began.
    early: Vec<Signal>,
    guardian_restarts: u32,
    throttle: ThrottleUse,
    /// CPU time of processes that were replaced, as far as it belongs to the cost, ns.
    ended_ns: u64,
    suspended_before_ns: u64,
    paused_ns: u64,
    limit: TimeLimit,
    /// By what the command begins the load, if it is to.
    trigger: Option<Trigger>,
    load_start: LoadStart,
    load_ended_ns: Option<u64>,
    /// Where there is a program that foreign load could disturb.
    foreign: Option<Foreign>,
}

/// From this kernel on the place of a task in its queue follows from what it is owed. Before,
/// it keeps the place that it has by what it ran with the weight of an idle group, 1/341 of an
/// ordinary one: after a burst of 4 ms it waits for more than a second, whatever its weight.
const EEVDF: (u32, u32) = (6, 6);

impl<'a> SupervisedRun<'a> {
    /// What all burners have in common; borrows nothing of the run itself.
    fn common(&self) -> Common<'a> {
        Common {
            board: self.board,
            alarm: burner::alarm_fd(self.alarm),
            layout: self.layout,
            method: self.method,
            run: RunId::own(),
            parties: self.cpus.len() as u32,
            node: self.node.as_ref().map(|node| Rc::clone(&node.group)),
        }
    }

    fn all(
        &mut self,
        steps: BoxSteps,
        highest: f64,
        command: Option<&CommandSpec>,
        pin: &Option<CpuList>,
        node: Option<(NodeControl, Option<Target>)>,
        limits: &Limits,
    ) -> Result<RunOutcome> {
        self.layout.prepare(&mut self.journal)?;
        if self.method.lifts_real_time_limit {
            realtime::lift_limit(self.root, &mut self.journal)?;
        }
        if self.method.feel == Feel::Competitor {
            let cpus = self.cpus.iter().map(LoadedCpu::number).collect();
            awake::keep(self.root, &mut self.journal, &cpus)?;
        }
        if let Some((control, target)) = node {
            self.make_node(control, target, command.is_some())?;
        }
        let common = self.common();
        let mut feed = Feed::new(steps);
        let waiting = match command {
            Some(spec) if self.node.is_some() => Some(self.admit_into_node(spec)?),
            Some(spec) => Some(self.admit_command(spec, pin)?),
            None => None,
        };
        // After the command's process was started: it would inherit this.
        if let Some(cpu) = limits.supervisor_cpu {
            sched::set_affinity(0, &CpuList::from_iter([cpu]))?;
        }
        // And this: a timer slack of 0. Every ordinary task of a CPU can be starved together
        // (docs/explanation/methods.md); only who is none of them can help.
        let headroom = self.method.wants_headroom();
        let real_time = headroom
            .then(RealTime::begin)
            .and_then(std::result::Result::ok);
        if headroom {
            let light = real_time.is_some();
            let idle = machine::kernel_version(self.root).is_some_and(|version| version >= EEVDF);
            let cpus = self.cpus.iter_mut();
            cpus.for_each(|cpu| cpu.watch(light, idle));
        }
        let highest = self.method.serves(highest);
        for cpu in &mut self.cpus {
            cpu.start(&common, &mut self.journal, highest)?;
        }
        let first = feed
            .peek()?
            .map_or_else(Vec::new, |piece| piece.asked_pct.clone());
        if command.is_some() || self.node.is_some() {
            self.expect_foreign();
        }
        let mut waiting = waiting;
        let zero_ns = if self.trigger.is_some() {
            self.begin(waiting.take())?;
            if let Some(end) = self.await_word(&common)? {
                self.never_began();
                return Ok(self.outcome(0, end));
            }
            Self::start_time()
        } else {
            match self.settle(&common, &first, limits)? {
                Some(zero_ns) => zero_ns,
                None => return Ok(self.outcome(0, RunEnd::Interrupted)),
            }
        };
        if let Some(start) = limits.start_at {
            let ahead = Duration::from_nanos(zero_ns.saturating_sub(clock::monotonic()));
            let off = start.missed_by(zero_ns, Timestamp::now() + ahead);
            off.into_iter().for_each(|text| self.observer.warning(text));
        }
        self.clock = RunClock::starting_at(zero_ns);
        self.board.set_begin(zero_ns);
        self.publish(&common, &mut feed, zero_ns)?;
        clock::sleep_until(zero_ns);
        let late = Duration::from_nanos(clock::monotonic().saturating_sub(zero_ns));
        self.began_at = Some(Timestamp::now() - late);
        for cpu in &mut self.cpus {
            cpu.begin(&common);
        }
        self.cost.start_cpu_ns = self.cpu_ns();
        let mut early = self.read_counters()?;
        if waiting.is_some() {
            early.command_ns = Some(vec![Some(0); self.cpus.len()]);
        }
        if self.trigger.is_none() {
            if let Err(error) = self.begin(waiting) {
                // Ctrl-C, which goes to the whole group, ends the process at its gate, too.
                return if self.is_to_end() {
                    Ok(self.outcome(0, RunEnd::Interrupted))
                } else {
                    Err(error)
                };
            }
        } else {
            if let Some(end) = self.begin_load(&common)? {
                self.never_began();
                return Ok(self.outcome(0, end));
            }
        }
        self.observer.started();
        // To move a thousand processes into a node took longer than what a window may lack of
        // the counters, and the first one was a hole.
        if clock::monotonic().saturating_sub(zero_ns) > BOUNDARY_NS / 2 {
            self.meter.sample(early);
        }
        self.mark()?;
        let (run_ns, end) = self.hold(&common, &mut feed)?;
        self.finish(&common, run_ns)?;
        feed.warning()
            .into_iter()
            .for_each(|warning| self.observer.warning(warning));
        Ok(self.outcome(run_ns, end))
    }

    fn admit_command(
        &mut self,
        spec: &CommandSpec,
        pin: &Option<CpuList>,
    ) -> Result<(Waiting, Group)> {
        let waiting = Waiting::start(spec)?;
        let run = RunId::own();
        let holder = self
            .layout
            .settle(&mut self.journal, run, Tenant::Command, waiting.pid())?;
        self.cost.writes += 1;
        // In its group: moving it resets the affinity where there is a cpuset.
        if let Some(cpus) = pin {
            sched::set_affinity(waiting.pid(), cpus)?;
        }
        Ok((waiting, holder.group().clone()))
    }

    /// The CPUs with processes of ours: all, or the first where one acts for all.
    fn workers(&mut self) -> &mut [LoadedCpu] {
        let count = match self.method.scope {
            Scope::Cpu => self.cpus.len(),
            Scope::Node => self.cpus.len().min(1),
        };
        &mut self.cpus[..count]
    }

    /// The run begins, for the user's time limit and for the command.
    fn begin(&mut self, command: Option<(Waiting, Group)>) -> Result<()> {
        self.limit.begin(clock::monotonic());
        self.attach()?;
        if let Some((waiting, group)) = command {
            self.start_command(waiting, &group)?;
            self.pass_on_early();
        } else if part_of().is_none()
            && let Err(cause) = notify::ready()
        {
            // A command may be a service itself, and says this when it is ready.
            self.observer.warning(format!("NOTIFY_SOCKET: {cause}"));
        }
        Ok(())
    }

    fn start_command(&mut self, mut waiting: Waiting, group: &Group) -> Result<()> {
        if let Some(trigger) = &mut self.trigger {
            trigger.listen(waiting.take_word());
        }
        let numbers: CpuList = self.cpus.iter().map(LoadedCpu::number).collect();
        let observer = &mut *self.observer;
        self.command = Some(RunningCommand::start(
            waiting,
            self.root,
            group,
            &numbers,
            |text| observer.warning(text),
        )?);
        Ok(())
    }

    /// CPU time of sandbag's own processes so far, without the load that burners take.
    fn cpu_ns(&self) -> u64 {
        let throttle = self.cpus.iter().filter_map(LoadedCpu::process);
        let children = throttle
            .filter(|_| self.method.scope == Scope::Node)
            .chain([self.guardian.id()])
            .filter_map(|pid| clock::process_cpu_of(pid).ok());
        clock::process_cpu() + children.sum::<u64>() + self.ended_ns
    }

    fn outcome(&mut self, run_ns: u64, end: RunEnd) -> RunOutcome {
        let common = self.common();
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
                lost_ns: cpu.lost_in_run_ns(&common),
                least_headroom: cpu.least_headroom,
                weight_changes: cpu.weight_changes,
                command_ns: self.command.as_ref().and_then(|running| running.used_ns(n)),
                beside_ns: self.meter.beside_ns(n),
            }
        });
        let cpus = cpus.collect();
        let command = self.command.as_ref().and_then(RunningCommand::outcome);
        RunOutcome {
            run_ns,
            loaded_ns: self.load_ended_ns.unwrap_or(run_ns),
            load_is_over: self.load_ended_ns.is_some(),
            lost_beside: self.beside.lost().to_vec(),
            paused_ns: self.paused_ns,
            end,
            load_start: self.load_start,
            began_at: self.began_at,
            cpus,
            command,
            node: self.node_outcome(),
            foreign: self.foreign_processes(),
            cost: self.cost,
        }
    }

    /// Undoes everything. Problems are warnings: the caller could do nothing more.
    fn leave(self) {
        let Self {
            mut cpus,
            journal,
            mut guardian,
            observer,
            command,
            node,
            load_control,
            ..
        } = self;
        for cpu in &mut cpus {
            cpu.stop();
        }
        // A command that was never let go ends when its gate closes; one
        // that lives goes back to its group.
        let over = command.is_none_or(|running| running.ended.is_some());
        let left = undo(
            journal,
            if over {
                Leftovers::GoBack
            } else {
                Leftovers::AsNoted
            },
        );
        // Their sockets go while the guardian lives, which removes those of the dead.
        drop((node, load_control));
        if left.is_empty() {
            // Nothing is left for it to do, and it may be stopped.
            let _ = guardian.kill();
            guardian::dismiss(guardian);
        } else {
            observer.warning(format!(
                "could not undo yet: {}; the guardian goes on trying, and sandbag restore does \
                 so, too",
                left.join("; ")
            ));
            guardian::leave_to_it(guardian);
        }
    }
}
