// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Burners on the common grid k*P of the clock, or in windows of it on a grid of their own:
//! pace, hogs, deadline; and those that spin and are limited from outside.
//!
//! They watch no tick and calibrate no loop. The CPU clock cannot run faster
//! than the wall clock, so with `owed` nanoseconds to go nothing can happen
//! before `now + owed`: spin until then, ask the CPU clock again, and go on
//! after a preemption. That is two or three system calls a period, and no
//! overshoot.

use sandbag_linux::Error;
use sandbag_linux::clock::{monotonic, sleep_until};
use sandbag_linux::sched::{self, Attributes};
use std::sync::atomic::Ordering;

use super::BREATH_NS;
use super::duty::Duty;
use super::worker::BurnWorker;
use crate::board::BOUNDARY_NS;
use crate::pacing::{
    Debt, LONGEST_NS, LevelPlan, Orders as _, burst_period, kept_ns, light_period, next_point,
};

/// The period of a level, ns.
fn period_at(duty: Duty, level: f64, light: bool) -> u64 {
    match duty {
        Duty::Pace { period_ns } => period_ns,
        Duty::Burst if light => light_period(level),
        Duty::Burst => burst_period(level),
        _ => BOUNDARY_NS,
    }
}

/// Serves orders; with a `phase`, its CPU, apart from the burners of other CPUs.
pub fn run(
    worker: &mut BurnWorker<'_>,
    duty: Duty,
    attributes: Attributes,
    phase: Option<u32>,
) -> Result<(), Error> {
    let mut plan = LevelPlan::default();
    let longest_ns = period_at(duty, 0.0, false);
    let mut debt = Debt::new(match attributes {
        // Nothing ordinary preempts it, and what it makes up for later is out of phase
        // with the other CPUs.
        Attributes::Fifo { .. } | Attributes::Deadline { .. } => longest_ns,
        Attributes::Fair { .. } | Attributes::Other { .. } => kept_ns(longest_ns),
    });
    let mut reserved = None;
    debt.settle(worker.held_ns());
    let mut grid = monotonic().next_multiple_of(longest_ns);
    sleep_until(grid);
    loop {
        // Where the level changes its period changes a period later.
        let light = worker.is_light();
        let period_ns = period_at(duty, plan.level(), light);
        worker.note_boundaries(monotonic());
        if worker.board.is_paused() {
            worker.stand_still();
            (grid, debt) = begin_again(worker, debt, &mut plan, period_ns);
            continue;
        }
        if worker.stay_on_cpu() {
            (grid, debt) = begin_again(worker, debt, &mut plan, period_ns);
            continue;
        }
        // After a longer period or a shorter one, the next common point.
        let mut next = next_point(grid, period_ns, phase);
        let end = plan.end_ns(worker.slot, grid);
        let was_loaded = plan.level() > 0.0;
        let due = add_due(worker, &mut debt, &mut plan, grid, next);
        if due == 0.0 && debt.debt_ns(worker.held_ns()) == 0 {
            worker.sleep_idle(&plan);
            // An order may wake it long before a load begins: the period is not over, and the grid
            // must not run ahead of the clock.
            if monotonic() < next {
                continue;
            }
            grid = later_grid(next, period_ns);
            debt.settle(worker.held_ns());
            // Woken late, the part of the level that is over is owed.
            debt.add(plan.due(worker.slot, next, grid));
            worker.note_boundaries(monotonic());
            continue;
        }
        // A wake-up takes more than a small level is due in a short period: it sleeps until
        // what it holds is due, but no longer than orders are ahead of it.
        let (held, first) = (worker.held_ns(), next);
        while debt.debt_ns(held) == 0 && !next.is_multiple_of(BOUNDARY_NS) {
            let after = next_point(next, period_ns, phase);
            let order = worker.slot.order(plan.next());
            if after - grid > LONGEST_NS || order.is_some_and(|order| order.from_ns < after) {
                break;
            }
            debt.add(plan.due(worker.slot, next, after));
            next = after;
        }
        let is_other = plan.level() > 0.0 && reserved != Some(plan.level());
        if matches!(attributes, Attributes::Deadline { .. }) && is_other {
            reserve(plan.level(), period_ns)?;
            reserved = Some(plan.level());
        }
        if let Some(watchdog) = &worker.watchdog {
            watchdog.feed(light, period_ns, next - first);
        }
        match duty {
            Duty::Pace { .. } | Duty::Burst => {
                let behind = pace(worker, &debt, plan.level(), grid, next);
                if behind && matches!(attributes, Attributes::Fifo { .. }) {
                    // At high levels it is behind for more than a second, and is not to be
                    // taken for one that hangs (RLIMIT_RTTIME).
                    sleep_until(monotonic() + BREATH_NS);
                }
            }
            _ => {
                // Of a load that ends and begins within the window the first part is held.
                if !was_loaded || plan.began_ns() < grid {
                    sleep_until(plan.began_ns());
                }
                let (held, waits) = (worker.held_ns(), worker.waits());
                worker.spin_over_boundaries(next.min(end), waits);
                worker.show(0, held, worker.held_ns());
                debt.settle(worker.held_ns());
                sleep_until(next);
            }
        }
        // More than a period behind (stopped, starved): what was asked
        // meanwhile is still added, the excess is given up and said.
        grid = next;
        let now = monotonic();
        loop {
            let next = next_point(grid, period_ns, phase);
            if next > now {
                break;
            }
            add_due(worker, &mut debt, &mut plan, grid, next);
            grid = next;
        }
        let lost = debt.forgive(worker.held_ns(), plan.level());
        if lost > 0 {
            worker.slot.lost_ns.fetch_add(lost, Ordering::Relaxed);
        }
    }
}

/// Adds what is due between two points of the grid, and returns it, ns. A debt from before
/// the run is not the run's.
fn add_due(
    worker: &BurnWorker<'_>,
    debt: &mut Debt,
    plan: &mut LevelPlan,
    from_ns: u64,
    to_ns: u64,
) -> f64 {
    if worker.board.begins_at(from_ns) {
        debt.settle(worker.held_ns());
    }
    let due = plan.due(worker.slot, from_ns, to_ns);
    debt.add(due);
    due
}

/// After time that asks for nothing: the next grid point, and the debt there.
fn begin_again(
    worker: &BurnWorker<'_>,
    mut debt: Debt,
    plan: &mut LevelPlan,
    period_ns: u64,
) -> (u64, Debt) {
    let now = monotonic();
    let grid = now.next_multiple_of(period_ns);
    debt.settle(worker.held_ns());
    debt.add(plan.due(worker.slot, now, grid));
    (grid, debt)
}

/// Works off the debt, then sleeps; returns at `next` in any case. Whether there was no time
/// to sleep.
fn pace(worker: &mut BurnWorker<'_>, debt: &Debt, level: f64, grid: u64, next: u64) -> bool {
    let begin = worker.held_ns();
    if debt.debt_ns(begin) == 0 {
        worker.show(0, begin, begin);
        sleep_until(next);
        return false;
    }
    let mut waits = worker.waits();
    loop {
        let held = worker.held_ns();
        let owed = debt.debt_ns(held);
        let now = monotonic();
        let done = owed == 0;
        if done || now >= next {
            worker.show(now.min(next).saturating_sub(grid), begin, held);
            if done {
                sleep_until(next);
            } else if owed as f64 > bearable(worker, debt.bound(level)) {
                // Less than that is the slice of another task, made up for in the
                // next periods.
                worker.call_for_headroom();
            }
            return !done;
        }
        waits = worker.spin((now + owed).min(next), waits);
    }
}

/// The debt that is no reason to call, of this largest one, ns. A light burner falls behind
/// at once when the CPU has no time to spare, and must not lose half a point of a second.
fn bearable(worker: &BurnWorker<'_>, most: f64) -> f64 {
    if worker.is_light() {
        (most / 8.0).min(4e6)
    } else {
        most / 2.0
    }
}

/// A reservation as large as the level. The kernel enforces it at the tick
/// only; the burner stops by its own clock before.
fn reserve(level: f64, period_ns: u64) -> Result<(), Error> {
    let runtime_ns = (level * period_ns as f64).ceil() as u64;
    let attributes = Attributes::Deadline {
        // The kernel takes nothing below 1024 ns.
        runtime_ns: runtime_ns.clamp(1_024, period_ns),
        period_ns,
    };
    sched::set_attributes(0, attributes).map(|_| ())
}

/// The grid point at or before now, but not before `least`: a burner that
/// wakes in the middle of a period serves the rest of it.
fn later_grid(least: u64, period_ns: u64) -> u64 {
    least.max(monotonic() / period_ns * period_ns)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use super::*;
    use crate::board::Board;
    use crate::pacing::LoadOrder;

    const MS: u64 = 1_000_000;

    /// A burner that serves until the process ends, and its thread.
    fn burner() -> (&'static Board, i32) {
        let board: &'static Board = Box::leak(Box::new(Board::create(1).unwrap()));
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            send.send(nix::unistd::gettid().as_raw()).unwrap();
            let alarm = File::options().write(true).open("/dev/null").unwrap();
            let mut worker = BurnWorker::new(board, board.slot(0), alarm, sched::current_cpu());
            let duty = Duty::Pace { period_ns: 20 * MS };
            let fair = Attributes::Fair {
                nice: 0,
                slice_ns: 0,
            };
            run(&mut worker, duty, fair, None).unwrap();
        });
        (board, receive.recv().unwrap())
    }

    fn publish(board: &Board, from_ns: u64, level: f64) {
        board.slot(0).publish(LoadOrder { from_ns, level });
    }

    #[test]
    fn orders_for_later_do_not_move_the_grid() {
        let (board, _) = burner();
        for _ in 0..200 {
            publish(board, monotonic() + 9_000 * MS, 0.5);
            board.slot(0).void_orders();
            std::thread::sleep(Duration::from_millis(5));
        }
        // A grid that each of them moves by a period is three seconds ahead now.
        let from = monotonic() + 20 * MS;
        publish(board, from, 0.5);
        let taken = || board.slot(0).taken_ns.load(Ordering::Relaxed);
        // The shares of three periods, and other tests may have nearly all of the CPU. The first
        // one is taken also where the grid is ahead.
        while taken() < 30 * MS {
            assert!(monotonic() < from + 2_000 * MS, "{} ns", taken());
            std::thread::sleep(Duration::from_millis(5));
        }
        publish(board, monotonic(), 0.0);
    }

    #[test]
    fn orders_that_leave_a_level_of_nothing_wake_nobody() {
        let (board, thread) = burner();
        let sleeps = || {
            let path = format!("/proc/self/task/{thread}/status");
            let status = std::fs::read_to_string(path).unwrap();
            let name = "\nvoluntary_ctxt_switches:";
            let line = status.split_once(name).unwrap().1.lines().next().unwrap();
            line.trim().parse::<u64>().unwrap()
        };
        let before = sleeps();
        for _ in 0..200 {
            publish(board, monotonic() + 3 * MS, 0.0);
            std::thread::sleep(Duration::from_millis(5));
        }
        let sleeps = sleeps() - before;
        assert!((1..20).contains(&sleeps), "{sleeps}");
    }
}
