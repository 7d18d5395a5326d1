// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The injector's process.

use std::io::{self, Read as _};
use std::os::fd::{FromRawFd as _, OwnedFd};

use sandbag_linux::clock::{monotonic, sleep_until, thread_cpu};
use sandbag_linux::sched::{self, Attributes};
use sandbag_linux::{CpuList, Error};
use sandbag_run::child;
use serde::{Deserialize, Serialize};

use super::InjectorClass;
use super::board::{Board, EventFate, EventRecord, InjectorState, Orders, Sizes};
use super::cpu_share::CpuShare;
use super::measure::{GapSpinner, is_crowded, measure};
use crate::replay::limit::Limit;

/// How an injector is set up; travels as its argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InjectorSetup {
    /// The board's descriptor.
    pub board_fd: i32,
    /// Where it injects.
    pub cpu: u32,
    /// How it gets the CPU.
    pub class: InjectorClass,
}

impl InjectorSetup {
    /// As command-line arguments.
    #[must_use]
    pub fn to_args(&self) -> Vec<String> {
        child::to_args(self)
    }

    /// From the arguments of [`InjectorSetup::to_args`].
    #[must_use]
    pub fn from_args(args: &[String]) -> Option<Self> {
        child::from_args(args)
    }
}

/// An event that would begin later than this is not suffered at all, ns: the
/// machine was suspended, or we were stopped.
const MISSED_NS: u64 = 1_000_000_000;
/// The kernel kills a real-time task that runs for so long without sleeping.
/// The limit of the injector itself is below that.
const LONGEST_WITHOUT_SLEEP_US: u64 = 1_000_000;

/// Injects until its portion is used up or it is killed. The gate, standard
/// input, is opened twice: to take its place, and to go.
///
/// # Errors
/// It cannot start; the board says why, too.
pub fn run(setup: &InjectorSetup) -> Result<(), Error> {
    // SAFETY: whoever started us handed this descriptor to us alone.
    let fd = unsafe { OwnedFd::from_raw_fd(setup.board_fd) };
    let board = Board::open(fd).map_err(|cause| Error::Call {
        call: "mmap",
        arguments: format!("{setup:?}"),
        cause,
    })?;
    if !gate_opens() {
        return Ok(());
    }
    if let Err(error) = take_place(setup, &board) {
        let errno = error.errno().unwrap_or(libc::EIO);
        board.set_state(InjectorState::Failed(errno));
        return Err(error);
    }
    if gate_opens() {
        board.set_state(InjectorState::Running);
        let usual_ns = board.measured().wake_p99_ns;
        let state = inject(&board, setup, board.orders(), usual_ns);
        board.set_state(state);
    }
    Ok(())
}

fn gate_opens() -> bool {
    matches!(io::stdin().read(&mut [0]), Ok(1))
}

fn take_place(setup: &InjectorSetup, board: &Board) -> Result<(), Error> {
    sched::set_least_timer_slack();
    // SAFETY: no pointers. A refusal (RLIMIT_MEMLOCK) costs exactness under
    // memory pressure and nothing else.
    unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) };
    // Only now: moving a task into a group with a cpuset resets its affinity
    // (kernels before 6.2).
    sched::set_affinity(0, &CpuList::from_iter([setup.cpu]))?;
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
        // Above it for as long as this takes; where we may not be, it stays
        // as it is.
        let (above, own) = (u32::from(priority).max(2), u32::from(priority));
        if sched::set_attributes(0, Attributes::Fifo { priority: above }).is_ok() {
            measured = measure(beside(true)?);
        }
        sched::set_attributes(0, Attributes::Fifo { priority: own })?;
    }
    board.set_measured(measured);
    board.set_state(InjectorState::Ready);
    Ok(())
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

/// Lateness of more than so many times what 99 % of the wake-ups that were
/// measured did not exceed is not the timer's. So many, because a virtual CPU
/// wakes more slowly after long sleeps.
const TIMES_USUAL: u64 = 10;

/// An injector that is later than this did not run: it was stopped, or had no
/// CPU, ns.
pub const STOOD_NS: u64 = 100_000_000;

/// Suffers the events; the state in which that ends.
///
/// Who is interrupted is so by the timer, when an event is due; that we come
/// to read the clock later is part of what he loses. So an event ends when its
/// length has passed since it was due, less what the switch back takes, however
/// late we are. As an ordinary task we may be let wait while he runs, and
/// count from our own beginning.
fn inject(board: &Board, setup: &InjectorSetup, orders: Orders, usual_ns: u64) -> InjectorState {
    let mut limit = Limit::default();
    let mut begin_ns = orders.begin_ns;
    let mut first = true;
    let mut free_ns = 0;
    // What was due before this was due while we did not run.
    let mut stood_until_ns = 0;
    let away_ns = usual_ns.saturating_mul(TIMES_USUAL);
    let tail_ns = orders.overhead_ns.saturating_sub(orders.lead_ns);
    let measured = board.measured();
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
            let behind = due_ns < free_ns.max(stood_until_ns);
            if late_ns > STOOD_NS && !behind {
                board.add_stood(late_ns);
                stood_until_ns = start_ns;
            }
            let what = match late_ns {
                late if late > MISSED_NS => EventFate::Missed,
                _ if due_ns < stood_until_ns => EventFate::Away,
                _ if due_ns < free_ns => EventFate::Behind,
                late if late > away_ns => EventFate::Away,
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
            // Stopped while it was suffered, and not by a pause of the run.
            let paused_ns = board.put_off_ns() - put_off_ns;
            let over_ns = end_ns.saturating_sub(until_ns.max(start_ns) + paused_ns);
            let is_fifo = matches!(setup.class, InjectorClass::Fifo { .. });
            if is_fifo && allowed_ns > 0 && over_ns > STOOD_NS {
                board.add_stood(over_ns);
                stood_until_ns = end_ns;
            }
            if first {
                let since = |ns: u64| ns.saturating_sub(begin_ns + put_off_ns);
                let record = EventRecord {
                    start_ns: since(start_ns),
                    end_ns: since(end_ns),
                    from_ns: since(from_ns),
                    what,
                };
                board.note(place, record);
            } else {
                let which = match what {
                    EventFate::Injected => Some(Sizes::Start),
                    EventFate::Behind | EventFate::Away => Some(Sizes::Late),
                    _ => None,
                };
                let took = CpuShare {
                    start_ns,
                    end_ns,
                    from_ns,
                };
                let suffered_ns = took.suffered_ns(measured, orders.overhead_ns > 0);
                match which {
                    Some(which) => {
                        let late = (which, late_ns);
                        board.count_suffered(what, late, event.length_ns, suffered_ns);
                    }
                    None => board.count(what),
                }
            }
        }
        begin_ns = begin_ns.saturating_add(orders.length_ns);
        sleep_to(board, |put_off_ns| {
            (begin_ns + put_off_ns, begin_ns + put_off_ns)
        });
        if !orders.repeat || orders.events == 0 {
            return InjectorState::Ended;
        }
        first = false;
    }
}

/// Sleeps until something is due; `at` says when it is and when to wake, from
/// what all was put off by. That, the due time, and when it woke: the clock is the first
/// that is looked at then. Of one that is past this returns at once; while it
/// sleeps it may be put off once more.
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

/// Takes so much of the CPU, also in pieces: nothing can happen before what is
/// owed has passed on the wall clock, which is never slower than ours.
fn spin_own(start_ns: u64, length_ns: u64) -> u64 {
    let begin_ns = thread_cpu();
    let mut until_ns = start_ns + length_ns;
    loop {
        let now_ns = spin(until_ns);
        let used_ns = thread_cpu() - begin_ns;
        // What asking costs is not worth a piece.
        if used_ns + ASKING_NS >= length_ns {
            return now_ns;
        }
        until_ns = now_ns + (length_ns - used_ns);
    }
}

/// Reading the CPU clock, about.
const ASKING_NS: u64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setup_survives_the_command_line() {
        for class in [InjectorClass::Fair, InjectorClass::Fifo { priority: 99 }] {
            let setup = InjectorSetup {
                board_fd: 3,
                cpu: 1025,
                class,
            };
            assert_eq!(InjectorSetup::from_args(&setup.to_args()), Some(setup));
        }
        assert_eq!(InjectorSetup::from_args(&["x".into()]), None);
    }

    #[test]
    fn spinning_takes_at_least_its_time() {
        let start = monotonic();
        assert!(spin(start + 100_000) >= start + 100_000);
        let cpu = thread_cpu();
        let end = spin_own(monotonic(), 300_000);
        assert!(end >= start + 400_000 - ASKING_NS);
        assert!(thread_cpu() - cpu >= 300_000 - ASKING_NS);
    }

    #[test]
    fn what_was_due_while_the_injector_did_not_run_is_not_on_time() {
        let cpu = sched::affinity(0).unwrap().iter().next().unwrap();
        std::thread::spawn(move || {
            sched::set_affinity(0, &CpuList::from_iter([cpu])).unwrap();
            let board = Board::create(3).unwrap();
            let events = [1_000_000, 100_000_000, 500_000_000]
                .map(|due_ns| crate::replay::PlannedEvent::new(due_ns, 300_000));
            // As if it had been stopped for .3 s.
            let orders = Orders {
                begin_ns: monotonic() - 300_000_000,
                length_ns: 600_000_000,
                repeat: false,
                overhead_ns: 1_000,
                lead_ns: 0,
                early_ns: 0,
                events: 3,
            };
            board.order(orders, &events);
            let setup = InjectorSetup {
                board_fd: -1,
                cpu,
                class: InjectorClass::Fair,
            };
            assert_eq!(
                inject(&board, &setup, board.orders(), u64::MAX),
                InjectorState::Ended
            );
            let what = [0, 1, 2].map(|place| board.record(place).what);
            assert_eq!(
                what,
                [EventFate::Away, EventFate::Away, EventFate::Injected]
            );
            assert!((299_000_000..450_000_000).contains(&board.stood_ns()));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn events_are_suffered_and_noted() {
        // On whatever CPU this thread is held, as an ordinary task.
        let cpu = sched::affinity(0).unwrap().iter().next().unwrap();
        std::thread::spawn(move || {
            sched::set_affinity(0, &CpuList::from_iter([cpu])).unwrap();
            let board = Board::create(2).unwrap();
            let events = [(1_000_000, 500_000), (1_200_000, 300_000)];
            let events =
                events.map(|(due_ns, length_ns)| crate::replay::PlannedEvent { due_ns, length_ns });
            let orders = Orders {
                begin_ns: monotonic(),
                length_ns: 3_000_000,
                repeat: false,
                overhead_ns: 1_000,
                lead_ns: 0,
                early_ns: 0,
                events: 2,
            };
            board.order(orders, &events);
            let setup = InjectorSetup {
                board_fd: -1,
                cpu,
                class: InjectorClass::Fair,
            };
            let state = inject(&board, &setup, board.orders(), u64::MAX);
            assert_eq!(state, InjectorState::Ended);
            assert!(monotonic() >= orders.begin_ns + orders.length_ns);
            let (one, two) = (board.record(0), board.record(1));
            assert_eq!(
                (one.what, two.what),
                (EventFate::Injected, EventFate::Behind)
            );
            assert!(one.start_ns >= 1_000_000);
            assert!(one.end_ns - one.start_ns >= 499_000 - ASKING_NS);
            assert!(two.start_ns >= one.end_ns);
        })
        .join()
        .unwrap();
    }
}
