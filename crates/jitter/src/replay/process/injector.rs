// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The injector's process.

use std::io::{self, Read as _};
use std::os::fd::{FromRawFd as _, OwnedFd};

use sandbag_linux::clock::{monotonic, sleep_until, thread_cpu};
use sandbag_linux::perf::IdleTimers;
use sandbag_linux::sched::{self, Attributes};
use sandbag_linux::{CpuList, Error, Root};
use sandbag_run::child;
use serde::{Deserialize, Serialize};

use super::board::{Board, EventFate, InjectorState, Orders};
use super::measure::{GapSpinner, is_crowded, measure, wake_from_idle};
use super::{InjectorClass, InjectorNoise};
use crate::replay::limit::Limit;

/// The argument of an injector.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InjectorSetup {
    /// The board's descriptor.
    pub board_fd: i32,
    pub cpu: u32,
    pub class: InjectorClass,
    /// The portion begins again when it is used up.
    pub repeat: bool,
}

impl InjectorSetup {
    /// As command-line arguments.
    pub fn to_args(&self) -> Vec<String> {
        child::to_args(self)
    }

    /// From the arguments of [`InjectorSetup::to_args`].
    pub fn from_args(args: &[String]) -> Option<Self> {
        child::from_args(args)
    }
}

/// An event that would begin later than this is left out, ns: the machine was
/// suspended, or the injector was stopped.
const MISSED_NS: u64 = 1_000_000_000;
/// The kernel kills a real-time task that runs for this long without sleeping. The
/// injector's own limit is lower.
const LONGEST_WITHOUT_SLEEP_US: u64 = 1_000_000;

/// Injects until its portion is used up or it is killed. The gate, standard
/// input, is opened twice: to take the CPU, and to begin.
///
/// # Errors
/// It cannot start; the board has the reason, too.
pub fn run(setup: &InjectorSetup) -> Result<(), Error> {
    // SAFETY: our parent left this descriptor open for us alone.
    let fd = unsafe { OwnedFd::from_raw_fd(setup.board_fd) };
    let board = Board::open(fd).map_err(|cause| Error::Call {
        call: "mmap",
        arguments: format!("{setup:?}"),
        cause,
    })?;
    if !gate_opens() {
        return Ok(());
    }
    let idle_timers = match take_place(setup, &board) {
        Ok(timers) => timers,
        Err(error) => {
            let errno = error.errno().unwrap_or(libc::EIO);
            board.set_state(InjectorState::Failed(errno));
            return Err(error);
        }
    };
    if gate_opens() {
        board.set_state(InjectorState::Running);
        let state = inject(&board, setup, board.orders(), idle_timers.as_ref());
        board.set_state(state);
    }
    Ok(())
}

fn gate_opens() -> bool {
    matches!(io::stdin().read(&mut [0]), Ok(1))
}

/// Returns the timers that expire while the CPU is idle, where they can be seen.
fn take_place(setup: &InjectorSetup, board: &Board) -> Result<Option<IdleTimers>, Error> {
    sched::set_least_timer_slack();
    // SAFETY: no pointers. A refusal (RLIMIT_MEMLOCK) costs exactness under
    // memory pressure and nothing else.
    unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) };
    // Now, as moving a task into a group with a cpuset resets its affinity
    // (kernels before 6.2).
    sched::set_affinity(0, &CpuList::from_iter([setup.cpu]))?;
    // Before anything is measured: it is a part of each wake-up of an idle CPU.
    let idle_timers = IdleTimers::open(&Root::default(), setup.cpu).ok();
    let beside = |real_time| {
        GapSpinner::start(real_time).map_err(|cause| Error::Call {
            call: "clone",
            arguments: "a thread".to_owned(),
            cause,
        })
    };
    // Of the class that we have now: an ordinary one.
    let ordinary = beside(false)?;
    let mut measured = match setup.class {
        InjectorClass::Fair => measure(ordinary),
        InjectorClass::Fifo { priority } => {
            watch();
            let priority = u32::from(priority);
            sched::set_attributes(0, Attributes::Fifo { priority })?;
            measure(ordinary)
        }
    };
    if let InjectorClass::Fifo { priority } = setup.class
        && is_crowded(measured)
    {
        // With a priority above the spinner's meanwhile; where that is denied, the
        // first measurement remains.
        let (above, own) = (u32::from(priority).max(2), u32::from(priority));
        if sched::set_attributes(0, Attributes::Fifo { priority: above }).is_ok() {
            measured = measure(beside(true)?);
        }
        sched::set_attributes(0, Attributes::Fifo { priority: own })?;
    }
    let (idle_wake_p90_ns, seen) = wake_from_idle(idle_timers.as_ref());
    measured.idle_wake_p90_ns = idle_wake_p90_ns;
    let idle_timers = idle_timers.filter(|_| seen);
    measured.set_limits(setup.class, idle_timers.is_some());
    board.set_measured(measured);
    board.set_state(InjectorState::Ready);
    Ok(idle_timers)
}

/// The kernel's own watchdog (getrlimit(2)).
fn watch() {
    let limit = libc::rlimit {
        rlim_cur: LONGEST_WITHOUT_SLEEP_US,
        rlim_max: LONGEST_WITHOUT_SLEEP_US,
    };
    // SAFETY: a valid limit; lowering one needs no privilege.
    unsafe { libc::setrlimit(libc::RLIMIT_RTTIME, &raw const limit) };
}

/// An injector that is later than this did not run: it was stopped, or had no
/// CPU, ns.
pub const STOOD_NS: u64 = 100_000_000;

/// Injects the events; returns the state at the end.
///
/// The timer interrupts the running task when the event is due; until the injector
/// reads the clock the task has already lost time. So an event ends when its length
/// has passed since it was due, less the switch back, however late the injector is.
/// An ordinary task may have to wait for the CPU while others run, and counts from
/// its own start.
fn inject(
    board: &Board,
    setup: &InjectorSetup,
    orders: Orders,
    idle_timers: Option<&IdleTimers>,
) -> InjectorState {
    let mut limit = Limit::default();
    let mut begin_ns = orders.begin_ns;
    let mut first = true;
    let mut free_ns = 0;
    // What was due before this was due while we did not run.
    let mut stood_until_ns = 0;
    let measured = board.measured();
    let tail_ns = orders.overhead_ns.saturating_sub(orders.lead_ns);
    loop {
        for place in 0..orders.events {
            let event = board.event(place);
            let (put_off_ns, due_ns, start_ns) = sleep_to(board, |put_off_ns| {
                let due_ns = begin_ns + put_off_ns + event.due_ns;
                (due_ns, due_ns.saturating_add_signed(-orders.early_ns))
            });
            if sched::current_cpu() != setup.cpu {
                return InjectorState::Displaced;
            }
            let late_ns = start_ns.saturating_sub(due_ns);
            // The timer, which may be early, expired while the CPU was.
            let timer_ns = due_ns - orders.early_ns.max(0).unsigned_abs();
            let was_idle = || idle_timers.is_some_and(|timers| timers.last() >= timer_ns);
            let behind = due_ns < free_ns.max(stood_until_ns);
            if late_ns > STOOD_NS && !behind {
                board.add_stood(late_ns);
                stood_until_ns = start_ns;
            }
            let what = match late_ns {
                late if late > MISSED_NS => EventFate::Missed,
                _ if due_ns < stood_until_ns => EventFate::Away,
                _ if due_ns < free_ns => EventFate::Behind,
                late if measured.is_late(late, was_idle) => EventFate::Away,
                _ => EventFate::Injected,
            };
            let allowed_ns = match what {
                EventFate::Missed => 0,
                _ => limit.allow(start_ns, event.length_ns),
            };
            let from_ns = match (setup.class, what) {
                (InjectorClass::Fifo { .. }, EventFate::Injected) if orders.lead_ns > 0 => due_ns,
                // We never slept.
                (_, EventFate::Behind) => start_ns,
                _ => start_ns.saturating_sub(orders.lead_ns),
            };
            let what = match (what, allowed_ns) {
                (EventFate::Missed, _) => what,
                (_, ns) if ns == event.length_ns => what,
                (_, 0) => EventFate::OverLimit,
                _ => EventFate::Shortened,
            };
            let until_ns = (from_ns + allowed_ns).saturating_sub(tail_ns);
            let end_ns = match (setup.class, allowed_ns) {
                (_, 0) => start_ns,
                (InjectorClass::Fifo { .. }, _) => spin(until_ns),
                (InjectorClass::Fair, _) => spin_own(start_ns, until_ns.saturating_sub(start_ns)),
            };
            free_ns = end_ns;
            // Stopped while it was injected, and not by a pause of the run.
            let paused_ns = board.put_off_ns() - put_off_ns;
            let over_ns = end_ns.saturating_sub(until_ns.max(start_ns) + paused_ns);
            let is_fifo = matches!(setup.class, InjectorClass::Fifo { .. });
            if is_fifo && allowed_ns > 0 && over_ns > STOOD_NS {
                board.add_stood(over_ns);
                stood_until_ns = end_ns;
            }
            let times = EventTimes {
                start_ns,
                end_ns,
                from_ns,
            };
            let suffered_ns = times.suffered_ns(measured, orders.overhead_ns > 0);
            let signed = |a: u64, b: u64| a.wrapping_sub(b).cast_signed();
            let errors = [
                signed(start_ns, due_ns),
                signed(suffered_ns, event.length_ns),
            ];
            board.note(what, event, errors, first);
        }
        begin_ns = begin_ns.saturating_add(orders.length_ns);
        sleep_to(board, |put_off_ns| {
            (begin_ns + put_off_ns, begin_ns + put_off_ns)
        });
        if !setup.repeat || orders.events == 0 {
            return InjectorState::Ended;
        }
        first = false;
    }
}

/// When an event was injected, ns.
struct EventTimes {
    /// When the injector read the clock first.
    start_ns: u64,
    /// When it was done.
    end_ns: u64,
    /// When the event counts from: its due time, or a lead before the start.
    from_ns: u64,
}

impl EventTimes {
    /// How long the interrupted task lost the CPU, overhead included, ns.
    /// `taken_off`: the overhead was subtracted from the length.
    fn suffered_ns(&self, measured: InjectorNoise, taken_off: bool) -> u64 {
        let lead_ns = measured.lead_ns;
        let from_ns = if taken_off {
            self.from_ns
        } else {
            self.start_ns.saturating_sub(lead_ns)
        };
        let until_ns = self.end_ns + measured.overhead_ns.saturating_sub(lead_ns);
        until_ns.saturating_sub(from_ns)
    }
}

/// Sleeps until an event is due; `at` has its due time and the time to wake, by how
/// much all was put off. Returns that, the due time, and the wake-up: it reads the
/// clock first. It returns at once if the event is past; while it sleeps it may be
/// put off once more.
fn sleep_to(board: &Board, at: impl Fn(u64) -> (u64, u64)) -> (u64, u64, u64) {
    loop {
        let put_off_ns = board.put_off_ns();
        let (due_ns, wake_ns) = at(put_off_ns);
        sleep_until(wake_ns);
        let woke_ns = monotonic();
        if board.put_off_ns() == put_off_ns {
            return (put_off_ns, due_ns, woke_ns);
        }
    }
}

/// Takes the CPU until then.
fn spin(until_ns: u64) -> u64 {
    loop {
        let now_ns = monotonic();
        if now_ns >= until_ns {
            return now_ns;
        }
        std::hint::spin_loop();
    }
}

/// Takes `length_ns` of CPU time, also in pieces: it looks again when the rest has
/// passed on the wall clock, which is never slower than the CPU clock.
fn spin_own(start_ns: u64, length_ns: u64) -> u64 {
    let begin_ns = thread_cpu();
    let mut until_ns = start_ns + length_ns;
    loop {
        let now_ns = spin(until_ns);
        let used_ns = thread_cpu() - begin_ns;
        // A rest shorter than reading the clock is no piece.
        if used_ns + READING_NS >= length_ns {
            return now_ns;
        }
        until_ns = now_ns + (length_ns - used_ns);
    }
}

/// Cost of reading the CPU clock, about.
const READING_NS: u64 = 1_000;

#[cfg(test)]
mod tests {
    use crate::patience::repeat_until;
    use crate::replay::PlannedEvent;
    use crate::replay::outcome::Cause;

    use super::*;

    #[test]
    fn a_setup_survives_the_command_line() {
        for class in [InjectorClass::Fair, InjectorClass::Fifo { priority: 99 }] {
            let setup = InjectorSetup {
                board_fd: 3,
                cpu: 1025,
                class,
                repeat: true,
            };
            assert_eq!(InjectorSetup::from_args(&setup.to_args()), Some(setup));
        }
        assert_eq!(InjectorSetup::from_args(&["x".into()]), None);
    }

    #[test]
    fn the_overhead_is_part_of_what_a_task_loses() {
        let measured = InjectorNoise {
            overhead_ns: 22,
            lead_ns: 15,
            ..InjectorNoise::default()
        };
        let times = EventTimes {
            start_ns: 1_015,
            end_ns: 1_093,
            from_ns: 1_000,
        };
        assert_eq!(times.suffered_ns(measured, true), 100);
        assert_eq!(times.suffered_ns(measured, false), 100);
    }

    #[test]
    fn spinning_takes_at_least_its_time() {
        let start = monotonic();
        assert!(spin(start + 100_000) >= start + 100_000);
        let cpu = thread_cpu();
        let end = spin_own(monotonic(), 300_000);
        assert!(end >= start + 400_000 - READING_NS);
        assert!(thread_cpu() - cpu >= 300_000 - READING_NS);
    }

    /// Injects on the CPU of the calling thread, as an ordinary task, from a
    /// beginning `ago_ns` in the past.
    fn injected(ago_ns: u64, length_ns: u64, events: &[PlannedEvent]) -> Board {
        let cpu = sched::affinity(0).unwrap().iter().next().unwrap();
        let board = Board::create(events.len()).unwrap();
        let orders = Orders {
            begin_ns: monotonic() - ago_ns,
            length_ns,
            overhead_ns: 1_000,
            ..Orders::default()
        };
        board.order(orders, events);
        // However late they are.
        board.set_measured(InjectorNoise {
            late_ns: u64::MAX,
            ..InjectorNoise::default()
        });
        let setup = InjectorSetup {
            board_fd: -1,
            cpu,
            class: InjectorClass::Fair,
            repeat: false,
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                sched::set_affinity(0, &CpuList::from_iter([cpu])).unwrap();
                let state = inject(&board, &setup, board.orders(), None);
                assert_eq!(state, InjectorState::Ended);
                assert!(monotonic() >= orders.begin_ns + orders.length_ns);
            });
        });
        board
    }

    fn causes(board: &Board) -> Vec<Cause> {
        board
            .outcome()
            .kept
            .iter()
            .map(|event| event.cause)
            .collect()
    }

    #[test]
    fn events_that_are_due_while_the_injector_does_not_run_are_late() {
        let events = [1, 100, 500].map(|ms| PlannedEvent::new(ms * 1_000_000, 300_000));
        let expected = [Cause::Away, Cause::Away, Cause::Nothing];
        let stood_ns = 299_000_000..450_000_000;
        // As if it had been stopped for .3 s. Again while other programs have the CPU, too.
        let board = repeat_until(
            || injected(300_000_000, 600_000_000, &events),
            |board| causes(board) == expected && stood_ns.contains(&board.stood_ns()),
        );
        assert_eq!(causes(&board), expected);
        assert!(stood_ns.contains(&board.stood_ns()), "{}", board.stood_ns());
    }

    #[test]
    fn events_are_injected_and_noted() {
        let event = PlannedEvent::new;
        let events = [event(1_000_000, 500_000), event(1_200_000, 300_000)];
        let expected = [Cause::Nothing, Cause::Behind];
        // Again while other programs have the CPU.
        let board = repeat_until(
            || injected(0, 3_000_000, &events),
            |board| causes(board) == expected,
        );
        assert_eq!(causes(&board), expected);
        let kept = board.outcome().kept;
        let (one, two) = (kept[0], kept[1]);
        assert!(one.start_error_ns >= 0 && one.length_error_ns >= -1_000 - READING_NS as i64);
        // It began after the end of the first.
        assert!(two.start_error_ns >= 299_000 - READING_NS as i64);
    }
}
