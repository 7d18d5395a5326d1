// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The burner process: pinned to one CPU, works off its orders.
//!
//! It watches no tick and calibrates no loop. The CPU clock cannot run faster
//! than the wall clock, so with `owed` nanoseconds to go nothing can happen
//! before `now + owed`: it spins until then, asks its CPU clock again, and
//! goes on if it was preempted meanwhile. That is two or three system calls a
//! period, and no overshoot.
//!
//! At each boundary (100 ms) it notes its clocks. A burner that does not run
//! at a boundary notes them when it runs next; its CPU clock stood in
//! between, so the note is exact all the same.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::Ordering;

use sandbag_kernel::clock::{monotonic, sleep_until, thread_cpu};
use sandbag_kernel::sched::{self, Attributes};
use sandbag_kernel::{CpuList, Error};

use crate::board::{BOUNDARY_NS, Board, Boundary, Slot};
use crate::pacing::{Debt, Plan};

/// What a burner does while its level is above zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// Takes its level of every period, by its own clock.
    Pace {
        /// Length of the grid, ns; divides [`BOUNDARY_NS`].
        period_ns: u64,
    },
    /// Never sleeps: something else (a weight, a cap) limits it.
    Spin,
}

/// How a burner process is set up; travels as its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// The board's descriptor.
    pub board_fd: i32,
    /// Descriptor of the eventfd that calls the supervisor.
    pub alarm_fd: i32,
    /// Slot on the board.
    pub slot: usize,
    /// The CPU to burn.
    pub cpu: u32,
    /// What it does.
    pub duty: Duty,
    /// Custom slice, ns; 0 for the kernel's own.
    pub slice_ns: u64,
}

impl Setup {
    /// As command-line arguments.
    #[must_use]
    pub fn to_args(&self) -> Vec<String> {
        let period = match self.duty {
            Duty::Pace { period_ns } => period_ns,
            Duty::Spin => 0,
        };
        [
            self.board_fd as u64,
            self.alarm_fd as u64,
            self.slot as u64,
            u64::from(self.cpu),
            period,
            self.slice_ns,
        ]
        .iter()
        .map(ToString::to_string)
        .collect()
    }

    /// From the arguments of [`Setup::to_args`].
    #[must_use]
    pub fn from_args(args: &[String]) -> Option<Self> {
        let numbers: Vec<u64> = args.iter().map_while(|a| a.parse().ok()).collect();
        let [board, alarm, slot, cpu, period_ns, slice_ns] = numbers[..] else {
            return None;
        };
        Some(Self {
            board_fd: i32::try_from(board).ok()?,
            alarm_fd: i32::try_from(alarm).ok()?,
            slot: usize::try_from(slot).ok()?,
            cpu: u32::try_from(cpu).ok()?,
            duty: match period_ns {
                0 => Duty::Spin,
                period_ns => Duty::Pace { period_ns },
            },
            slice_ns,
        })
    }
}

/// Runs a burner until it is killed; returns only if it cannot start or its
/// gate (standard input) closes. The supervisor opens the gate with one byte
/// once the process is in its group.
pub fn run(setup: &Setup) -> Result<(), Error> {
    let call = |call, cause: io::Error| Error::Call {
        call,
        arguments: format!("{setup:?}"),
        cause,
    };
    // SAFETY: the supervisor handed these descriptors to this process alone.
    let (board, alarm) = unsafe {
        (
            OwnedFd::from_raw_fd(setup.board_fd),
            File::from_raw_fd(setup.alarm_fd),
        )
    };
    let board = Board::open(board, true).map_err(|cause| call("mmap", cause))?;
    let slot = board.slot(setup.slot);
    slot.cpu.store(setup.cpu, Ordering::Relaxed);
    sched::set_least_timer_slack();
    if setup.slice_ns > 0 {
        // A kernel without custom slices ignores the value; the load is held
        // all the same, so what was kept is doctor's business.
        let nice = match sched::attributes_of(0)? {
            Attributes::Fair { nice, .. } => nice,
            _ => 0,
        };
        sched::set_attributes(
            0,
            Attributes::Fair {
                nice,
                slice_ns: setup.slice_ns,
            },
        )?;
    }
    lock_memory();
    let mut byte = [0];
    match io::stdin().read(&mut byte) {
        Ok(1) => {}
        _ => return Ok(()),
    }
    // Only now: moving a task into a group with a cpuset resets its affinity
    // (kernels before 6.2).
    sched::set_affinity(0, &CpuList::from_iter([setup.cpu]))?;
    Burner {
        board: &board,
        slot,
        alarm,
        cpu: setup.cpu,
        schedstat: File::open("/proc/thread-self/schedstat").ok(),
        stolen_ns: 0,
        noted: monotonic() / BOUNDARY_NS,
    }
    .run(setup.duty)
}

/// Keeps what the loop touches in memory, so that memory pressure beside it
/// cannot make it wait for a disk. Only pages that are touched are locked; a
/// refusal (RLIMIT_MEMLOCK) costs accuracy under pressure and nothing else.
fn lock_memory() {
    // SAFETY: no pointers.
    unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) };
}

/// A pause in the run and a wait for the first order are looked at this often.
const PAUSE_POLL_NS: u64 = 20_000_000;
/// Time away from the CPU that is worth asking the kernel about, ns.
const GAP_NS: u64 = 20_000;

struct Burner<'a> {
    board: &'a Board,
    slot: &'a Slot,
    alarm: File,
    cpu: u32,
    schedstat: Option<File>,
    stolen_ns: u64,
    /// Number of the last boundary that was noted.
    noted: u64,
}

impl Burner<'_> {
    fn run(&mut self, duty: Duty) -> Result<(), Error> {
        let period_ns = match duty {
            Duty::Pace { period_ns } => period_ns,
            Duty::Spin => BOUNDARY_NS,
        };
        let mut plan = Plan::default();
        let mut debt = Debt::new(period_ns);
        debt.settle(self.held());
        let mut grid = monotonic().next_multiple_of(period_ns);
        sleep_until(grid);
        loop {
            self.note_boundaries(monotonic());
            if self.board.paused() {
                self.stand_still();
                grid = monotonic().next_multiple_of(period_ns);
                debt.settle(self.held());
                continue;
            }
            if sched::current_cpu() != self.cpu && !self.back_on_cpu() {
                // Hot-unplugged: the load of this CPU ends; taking another
                // CPU's time would be a lie.
                self.slot.displaced.store(1, Ordering::Release);
                loop {
                    sleep_until(monotonic() + 10 * BOUNDARY_NS);
                }
            }
            let due = plan.due(self.slot, grid, grid + period_ns);
            debt.add(due);
            if due == 0.0 && debt.owed(self.held()) == 0 {
                self.sleep_idle(&plan);
                grid = later_grid(grid + period_ns, period_ns);
                debt.settle(self.held());
                self.note_boundaries(monotonic());
                continue;
            }
            match duty {
                Duty::Pace { .. } => {
                    self.pace(&debt, plan.level(), grid, grid + period_ns);
                }
                Duty::Spin => {
                    let delay = self.run_delay();
                    self.spin(grid + period_ns, delay);
                    debt.settle(self.held());
                }
            }
            // More than a period behind (stopped, starved): what was asked
            // meanwhile is still added, the excess is given up and said.
            grid += period_ns;
            let now = monotonic();
            while grid + period_ns <= now {
                debt.add(plan.due(self.slot, grid, grid + period_ns));
                grid += period_ns;
            }
            let lost = debt.forgive(self.held(), plan.level());
            if lost > 0 {
                self.slot.lost_ns.fetch_add(lost, Ordering::Relaxed);
            }
        }
    }

    /// Somebody changed our affinity (a cpuset, taskset), or the CPU is gone.
    fn back_on_cpu(&self) -> bool {
        sched::set_affinity(0, &CpuList::from_iter([self.cpu])).is_ok()
            && sched::current_cpu() == self.cpu
    }

    /// Works off the debt until it is gone, then sleeps until `next`; returns
    /// at `next` in any case.
    fn pace(&mut self, debt: &Debt, level: f64, grid: u64, next: u64) {
        let begin = self.held();
        let mut delay = self.run_delay();
        loop {
            let held = self.held();
            let owed = debt.owed(held);
            let now = monotonic();
            let done = owed == 0;
            if done || now >= next {
                let active = now.min(next).saturating_sub(grid);
                self.slot.active_ns.fetch_add(active, Ordering::Relaxed);
                self.slot
                    .taken_ns
                    .fetch_add(held - begin, Ordering::Relaxed);
                self.slot
                    .cpu_ns
                    .store(held - self.stolen_ns, Ordering::Relaxed);
                if done {
                    sleep_until(next);
                } else if owed as f64 > debt.bound(level) / 2.0 {
                    // Less than that is somebody's slice, made up for in the
                    // next periods.
                    self.call_for_headroom();
                }
                return;
            }
            delay = self.spin((now + owed).min(next), delay);
        }
    }

    /// Spins until `until`, then books what was stolen meanwhile. `delay` is
    /// the run delay before; returns the one after.
    fn spin(&mut self, until: u64, delay: u64) -> u64 {
        let (wall, cpu) = (monotonic(), thread_cpu());
        while monotonic() < until {
            std::hint::spin_loop();
        }
        let away = (monotonic() - wall).saturating_sub(thread_cpu() - cpu);
        if away < GAP_NS {
            return delay;
        }
        // Away from the CPU either because another task had it (the kernel
        // counts that as run delay) or because the hypervisor had it.
        let after = self.run_delay();
        if after > 0 {
            self.stolen_ns += away.saturating_sub(after - delay);
        }
        after
    }

    /// Time spent runnable but not running, ns; 0 where the kernel does not
    /// say (then stolen time is repaid).
    fn run_delay(&self) -> u64 {
        let mut text = [0; 96];
        self.schedstat
            .as_ref()
            .and_then(|file| file.read_at(&mut text, 0).ok())
            .and_then(|n| std::str::from_utf8(&text[..n]).ok())
            .and_then(|text| text.split_ascii_whitespace().nth(1)?.parse().ok())
            .unwrap_or(0)
    }

    /// CPU time plus stolen time, ns.
    fn held(&self) -> u64 {
        thread_cpu() + self.stolen_ns
    }

    /// Notes the clocks at all boundaries up to `now` that are not noted yet.
    fn note_boundaries(&mut self, now: u64) {
        let last = now / BOUNDARY_NS;
        if last == self.noted {
            return;
        }
        let boundary = Boundary {
            cpu_ns: thread_cpu(),
            stolen_ns: self.stolen_ns,
        };
        let ring = crate::board::BOUNDARIES as u64;
        for number in (self.noted + 1).max(last.saturating_sub(ring - 1))..=last {
            self.slot.note_boundary(number, boundary);
        }
        self.noted = last;
    }

    /// Asks the supervisor for a larger weight, once until it answers.
    fn call_for_headroom(&mut self) {
        if self.slot.alarm.swap(1, Ordering::AcqRel) == 0 {
            use std::io::Write as _;
            // A lost call is made up for by the supervisor's next look.
            let _ = self.alarm.write(&1u64.to_ne_bytes());
        }
    }

    /// Level 0: no burner. Sleeps until the next order comes into force, or
    /// until one is published.
    fn sleep_idle(&mut self, plan: &Plan) {
        let seen = self.slot.published();
        let until = self.slot.order(plan.next()).map(|order| order.from_ns);
        self.slot.idle.store(1, Ordering::Release);
        match until {
            Some(from_ns) => sleep_until(from_ns.min(monotonic() + 10 * BOUNDARY_NS)),
            None => self.slot.wait_for_order(seen, None),
        }
        self.slot.idle.store(0, Ordering::Release);
    }

    fn stand_still(&mut self) {
        self.slot.idle.store(1, Ordering::Release);
        while self.board.paused() {
            sleep_until(monotonic() + PAUSE_POLL_NS);
        }
        self.slot.idle.store(0, Ordering::Release);
    }
}

/// The grid point at or before now, but not before `least`: a burner that
/// wakes in the middle of a period serves the rest of it.
fn later_grid(least: u64, period_ns: u64) -> u64 {
    least.max(monotonic() / period_ns * period_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setup_survives_the_command_line() {
        let setup = Setup {
            board_fd: 3,
            alarm_fd: 4,
            slot: 17,
            cpu: 1025,
            duty: Duty::Pace {
                period_ns: 20_000_000,
            },
            slice_ns: 100_000_000,
        };
        assert_eq!(Setup::from_args(&setup.to_args()), Some(setup.clone()));
        let spin = Setup {
            duty: Duty::Spin,
            ..setup
        };
        assert_eq!(Setup::from_args(&spin.to_args()), Some(spin));
        assert_eq!(Setup::from_args(&["x".into()]), None);
    }
}
