// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Trying what a kernel does instead of reading what it says: spinners on one
//! CPU, in groups made as a run makes them, for a quarter of a second; `real_time`
//! tries the real-time classes, `node` the group of a virtual node.
//!
//! The spinners are the burners of a run, with orders that end by themselves;
//! groups are journalled before they are made, and a guardian stands by, so a
//! probe that is killed leaves nothing.

pub(crate) mod node;
mod real_time;

use std::os::fd::{AsFd as _, AsRawFd as _};
use std::process::Child;
use std::time::{Duration, Instant};

use nix::sys::eventfd::{EfdFlags, EventFd};
use sandbag_linux::cgroup::{Cap, Version, Weight};
use sandbag_linux::command_clock::{CommandClock, CpuacctClock, PerfClock};
use sandbag_linux::process::{Process, SchedStat};
use sandbag_linux::procstat::{ProcStat, tick_ns};
use sandbag_linux::sched::Attributes;
use sandbag_linux::{CpuList, Root, clock, root};

use crate::board::{BOUNDARY_NS, Board, LoadOrder};
use crate::burn::{BurnerSetup, Duty};
use sandbag_run::child::{self, BURNER_VERB};
use sandbag_run::error::{Error, Result};
use sandbag_run::guardian;
use sandbag_run::journal::{Journal, RunInfo};
use sandbag_run::layout::{Holder, Layout, Tenant};
use sandbag_run::registry::Registry;
use sandbag_run::run_process::RunId;
use sandbag_run::undo::{Leftovers, undo};

pub use node::{Freezing, NodeSeen, Stopping};
pub use real_time::{FifoSeen, REAL_TIME_NS, RealTimeSeen};

/// Time over which a probe measures, ns: whole ticks, many slices.
pub const LENGTH_NS: u64 = 250_000_000;
/// Warm-up of the spinners for the scheduler's averages, ns.
const WARM_UP_NS: u64 = 50_000_000;
/// Within this a burner has begun, or the warm-up makes up for it, ns.
const LEAD_NS: u64 = BOUNDARY_NS / 5;
const DIES_WITHIN: Duration = Duration::from_millis(300);
/// The spinners stop by themselves this long after they began, ns.
const MOST_NS: u64 = 1_000_000_000;

/// Where probes are made.
#[derive(Debug)]
pub struct ProbeBench<'a> {
    root: &'a Root,
    layout: &'a Layout,
    registry: &'a Registry,
    cpu: u32,
    groups: usize,
}

/// One spinner of a probe.
#[derive(Debug, Clone, Copy)]
pub struct Spinner {
    /// Weight of its group; `None` leaves the kernel's default.
    pub weight: Option<Weight>,
    pub cap: Option<Cap>,
    /// Put it where a wrapped command would be, and ask the per-CPU clock
    /// that a run would use for a command. At most one per probe.
    pub as_command: bool,
}

#[derive(Debug)]
pub struct ProbeResult {
    pub wall_ns: u64,
    /// Steal of the CPU between them, ns, in whole ticks; `None` if unknown.
    pub steal_ns: Option<u64>,
    pub took: Vec<SpinnerTime>,
    /// Cleaning up that failed, in words; `sandbag restore` tries again.
    pub left: Vec<String>,
}

/// What one spinner took between the two readings.
#[derive(Debug)]
pub struct SpinnerTime {
    pub cpu_ns: u64,
    /// Time on a CPU and time waiting, ns, by schedstat; `None` without it.
    pub schedstat_ns: Option<(u64, u64)>,
    /// By a command's clock, ns, or why there is none; only of [`Spinner::as_command`].
    pub as_command_ns: Option<std::result::Result<u64, String>>,
    /// Real-time budget of its fresh group, us; `None` where groups have none.
    pub rt_runtime_us: Option<i64>,
    /// Cap of its group, as the kernel has it.
    pub cap: Option<Cap>,
}

struct ProbeSpinner {
    child: Child,
    holder: Holder,
    clock: Option<std::result::Result<Box<dyn CommandClock>, String>>,
}

struct ProbeReading {
    at_ns: u64,
    steal_ns: Option<u64>,
    each: Vec<(u64, Option<SchedStat>, Option<u64>)>,
}

impl<'a> ProbeBench<'a> {
    pub fn new(root: &'a Root, layout: &'a Layout, registry: &'a Registry, cpu: u32) -> Self {
        Self {
            root,
            layout,
            registry,
            cpu,
            groups: 0,
        }
    }

    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Runs the spinners against each other for half a second; leaves nothing behind.
    pub fn spin(&mut self, spinners: &[Spinner]) -> Result<ProbeResult> {
        let outcome = self.with_journal(
            spinners.len(),
            |spinner: &mut ProbeSpinner| &mut spinner.child,
            |bench, board, journal, running| bench.measure(board, journal, spinners, running),
        );
        outcome.map(|(spun, left)| ProbeResult { left, ..spun })
    }

    /// Does `work` with a board, a journal and a guardian, and undoes what it
    /// noted. What it pushed to its list is killed before. Returns what could
    /// not be undone, too.
    fn with_journal<R, T>(
        &mut self,
        slots: usize,
        child_of: impl Fn(&mut R) -> &mut Child,
        work: impl FnOnce(&mut Self, &Board, &mut Journal, &mut Vec<R>) -> Result<T>,
    ) -> Result<(T, Vec<String>)> {
        let cpus = CpuList::from_iter([self.cpu]);
        let board =
            Board::create(slots.max(1)).map_err(|cause| Error::call("memfd_create", cause))?;
        let info = RunInfo {
            cpus: cpus.to_string(),
            method: "probe".to_owned(),
            board_fd: board.fd(),
            ..RunInfo::of_this_process("a probe of sandbag doctor")
        };
        let mut journal = self.registry.register(info, &cpus)?;
        let guardian = match guardian::start(journal.path()) {
            Ok(guardian) => guardian,
            Err(error) => {
                journal.close()?;
                return Err(error);
            }
        };
        let mut running = Vec::new();
        let outcome = work(self, &board, &mut journal, &mut running);
        for one in &mut running {
            let _ = child_of(one).kill();
        }
        // One that is frozen dies when it is thawed, which undoing does.
        for one in &mut running {
            reap(child_of(one));
        }
        // What is left is for the guardian to try again.
        let left = undo(journal, Leftovers::GoBack);
        if left.is_empty() {
            guardian::dismiss(guardian)
        } else {
            guardian::leave_to_it(guardian)
        }
        for one in &mut running {
            reap(child_of(one));
        }
        outcome.map(|outcome| (outcome, left))
    }

    fn measure(
        &mut self,
        board: &Board,
        journal: &mut Journal,
        spinners: &[Spinner],
        running: &mut Vec<ProbeSpinner>,
    ) -> Result<ProbeResult> {
        let mut stat = ProcStat::open(self.root)?;
        self.layout.prepare(journal)?;
        let alarm = alarm()?;
        for (slot, spinner) in spinners.iter().enumerate() {
            let setup = self.setup(board, &alarm, slot, Duty::Spin, ORDINARY);
            self.start(&setup, *spinner, journal, running)?;
        }
        let from_ns = boundary_after(LEAD_NS);
        for slot in 0..spinners.len() {
            order(board, slot, 1.0, from_ns, MOST_NS);
        }
        for spinner in running.iter_mut() {
            open_gate(&mut spinner.child)?;
        }
        clock::sleep_until(from_ns + WARM_UP_NS);
        let begin = self.read(&mut stat, running)?;
        clock::sleep_until(begin.at_ns + LENGTH_NS);
        let end = self.read(&mut stat, running)?;
        for spinner in running.iter_mut() {
            must_live(&mut spinner.child)?;
        }
        Ok(ProbeResult {
            wall_ns: end.at_ns - begin.at_ns,
            steal_ns: end
                .steal_ns
                .zip(begin.steal_ns)
                .map(|(end, begin)| end.saturating_sub(begin)),
            took: running
                .iter()
                .zip(begin.each.iter().zip(&end.each))
                .map(|(spinner, (begin, end))| spinner_times(spinner, begin, end))
                .collect(),
            left: Vec::new(),
        })
    }

    fn setup(
        &self,
        board: &Board,
        alarm: &EventFd,
        slot: usize,
        duty: Duty,
        attributes: Attributes,
    ) -> BurnerSetup {
        BurnerSetup {
            board_fd: board.fd(),
            alarm_fd: alarm.as_fd().as_raw_fd(),
            watchdog_fd: None,
            slot,
            cpu: self.cpu,
            parties: 1,
            node: None,
            duty,
            is_apart: false,
            attributes,
        }
    }

    fn start(
        &mut self,
        setup: &BurnerSetup,
        spinner: Spinner,
        journal: &mut Journal,
        running: &mut Vec<ProbeSpinner>,
    ) -> Result<()> {
        let mut child = burner(setup)?;
        // A new name for each: systemd may take a while to forget a unit.
        let tenant = if spinner.as_command {
            Tenant::Command
        } else {
            Tenant::Burner {
                cpu: self.cpu,
                nth: self.groups,
            }
        };
        self.groups += 1;
        let run = RunId::own();
        let holder = match self.layout.settle(journal, run, tenant, child.id()) {
            Ok(holder) => holder,
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(error);
            }
        };
        let clock = spinner.as_command.then(|| self.command_clock(&holder));
        running.push(ProbeSpinner {
            child,
            holder,
            clock,
        });
        let holder = &running[running.len() - 1].holder;
        if let Some(weight) = spinner.weight {
            holder.set_weight(weight)?;
        }
        match spinner.cap {
            None => Ok(()),
            some => holder.set_cap(some),
        }
    }

    fn command_clock(&self, holder: &Holder) -> std::result::Result<Box<dyn CommandClock>, String> {
        let cpus = CpuList::from_iter([self.cpu]);
        match self.layout.version() {
            Version::V1 => CpuacctClock::open(self.root, holder.group().accounting_dir(), &cpus)
                .map(|clock| Box::new(clock) as _),
            Version::V2 => {
                PerfClock::open(holder.group().dir(), &cpus).map(|clock| Box::new(clock) as _)
            }
        }
        .map_err(|error| error.to_string())
    }

    fn read(&self, stat: &mut ProcStat, running: &mut [ProbeSpinner]) -> Result<ProbeReading> {
        let steal_ns = stat
            .sample()?
            .get(self.cpu)
            .map(|times| times.steal * tick_ns());
        let at_ns = clock::monotonic();
        let mut each = Vec::with_capacity(running.len());
        for spinner in running {
            let pid = spinner.child.id();
            let cpu_ns = cpu_of(&spinner.child)?;
            let mut of_command = [None];
            let accounted = match &mut spinner.clock {
                Some(Ok(clock)) => clock
                    .per_cpu_ns(&mut of_command)
                    .ok()
                    .and_then(|()| of_command[0]),
                _ => None,
            };
            let schedstat = Process::new(self.root, pid).schedstat().ok();
            each.push((cpu_ns, schedstat, accounted));
        }
        Ok(ProbeReading {
            at_ns,
            steal_ns,
            each,
        })
    }
}

const ORDINARY: Attributes = Attributes::Fair {
    nice: 0,
    slice_ns: 0,
};

/// The eventfd that a burner needs; a spinner never calls.
fn alarm() -> Result<EventFd> {
    EventFd::from_flags(EfdFlags::EFD_CLOEXEC).map_err(|cause| Error::call("eventfd", cause))
}

fn burner(setup: &BurnerSetup) -> Result<Child> {
    let inherit = [setup.board_fd, setup.alarm_fd];
    child::own(BURNER_VERB, &setup.to_args(), &inherit, true)
        .spawn()
        .map_err(|cause| Error::Start {
            what: "a spinner".into(),
            cause,
        })
}

fn open_gate(child: &mut Child) -> Result<()> {
    child::open_gate(child).map_err(|cause| Error::Start {
        what: "a spinner".into(),
        cause,
    })
}

/// Waits for a child that was killed, but not for ever.
fn reap(child: &mut Child) {
    let give_up = Instant::now() + DIES_WITHIN;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < give_up {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn must_live(child: &mut Child) -> Result<()> {
    match child.try_wait() {
        Ok(Some(status)) => Err(Error::Died {
            what: "a spinner".into(),
            times: 1,
            how: format!("{status} {}", child::last_words(child)),
        }),
        _ => Ok(()),
    }
}

/// The next boundary that burners are ready for in `lead_ns`.
fn boundary_after(lead_ns: u64) -> u64 {
    (clock::monotonic() + lead_ns).next_multiple_of(BOUNDARY_NS)
}

/// A level from `from_ns` on, and its end.
fn order(board: &Board, slot: usize, level: f64, from_ns: u64, for_ns: u64) {
    let slot = board.slot(slot);
    slot.publish(LoadOrder { from_ns, level });
    slot.publish(LoadOrder {
        from_ns: from_ns + for_ns,
        level: 0.0,
    });
}

fn cpu_of(child: &Child) -> sandbag_linux::Result<u64> {
    clock::process_cpu_of(child.id()).map_err(|cause| sandbag_linux::Error::Call {
        call: "clock_getcpuclockid",
        arguments: child.id().to_string(),
        cause,
    })
}

fn spinner_times(
    spinner: &ProbeSpinner,
    begin: &(u64, Option<SchedStat>, Option<u64>),
    end: &(u64, Option<SchedStat>, Option<u64>),
) -> SpinnerTime {
    let accounted = end.2.zip(begin.2).map(|(end, begin)| end - begin);
    let rt = spinner.holder.group().dir().join("cpu.rt_runtime_us");
    SpinnerTime {
        cpu_ns: end.0.saturating_sub(begin.0),
        schedstat_ns: end.1.zip(begin.1).map(|(end, begin)| {
            (
                end.exec_ns.saturating_sub(begin.exec_ns),
                end.run_delay_ns.saturating_sub(begin.run_delay_ns),
            )
        }),
        as_command_ns: spinner.clock.as_ref().map(|clock| match clock {
            Ok(_) => accounted.ok_or_else(|| "the clock could not be read".to_owned()),
            Err(error) => Err(error.clone()),
        }),
        rt_runtime_us: root::read_value(&rt, "a number").ok(),
        cap: spinner.holder.group().cap().ok().flatten(),
    }
}

/// The slice that the kernel keeps of `slice_ns`; 0 where it has no custom slices.
pub fn slice(slice_ns: u64) -> Result<u64> {
    use sandbag_linux::sched::{self, Attributes};
    on_a_thread(move || {
        let nice = match sched::attributes_of(0)? {
            Attributes::Fair { nice, .. } => nice,
            _ => 0,
        };
        Ok(
            match sched::set_attributes(0, Attributes::Fair { nice, slice_ns })? {
                Attributes::Fair { slice_ns, .. } => slice_ns,
                _ => 0,
            },
        )
    })
}

/// Lateness of `times` wake-ups from sleeps of `sleep_ns`, ns, ascending.
pub fn wake_ups(times: usize, sleep_ns: u64) -> Result<Vec<u64>> {
    on_a_thread(move || {
        sandbag_linux::sched::set_least_timer_slack();
        let mut due = clock::monotonic();
        let mut late: Vec<u64> = (0..times)
            .map(|_| {
                due = due.max(clock::monotonic()) + sleep_ns;
                clock::sleep_until(due);
                clock::monotonic().saturating_sub(due)
            })
            .collect();
        late.sort_unstable();
        Ok(late)
    })
}

fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> sandbag_linux::Result<T> + Send + 'static,
) -> Result<T> {
    let thread = std::thread::Builder::new().spawn(work);
    let thread = thread.map_err(|cause| Error::call("pthread_create", cause))?;
    match thread.join() {
        Ok(outcome) => Ok(outcome?),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_kept_or_there_are_none() {
        let before = sandbag_linux::sched::attributes_of(0).unwrap();
        let kept = slice(10_000_000).unwrap();
        assert!(kept == 0 || kept == 10_000_000, "{kept}");
        assert_eq!(sandbag_linux::sched::attributes_of(0).unwrap(), before);
    }

    #[test]
    fn nobody_wakes_before_the_deadline() {
        let late = wake_ups(3, 1_000_000).unwrap();
        assert_eq!(late.len(), 3);
        assert!(late.is_sorted());
    }
}
