// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Trying the real-time classes.
//!
//! A burner takes SCHED_FIFO at the lowest priority, where those of a run live
//! (the root group), and runs for [`REAL_TIME_NS`] once, beside an ordinary
//! spinner. It can do no harm: it has a limit on the time that it runs without
//! sleeping (RLIMIT_RTTIME) before it has the class, and sets itself that of
//! all burners when it starts; its order is a fifth of a CPU and ends by
//! itself.
//!
//! A reservation is asked for a pinned task that sleeps: whether the kernel
//! admits it shows at once, and it never runs. No setting is changed.

use std::process::Child;

use sandbag_linux::sched::{self, Attributes};
use sandbag_linux::{CpuList, clock};

use super::{
    ORDINARY, ProbeBench, alarm, boundary_after, burner, cpu_of, must_live, open_gate, order,
};
use crate::board::{BOUNDARY_NS, Board};
use crate::burn::Duty;
use sandbag_run::error::{Error, Result};
use sandbag_run::realtime;

/// What the real-time burner takes, in one piece, ns.
pub const REAL_TIME_NS: u64 = BOUNDARY_NS / 5;
/// When it is looked at: an ordinary task would have had half of it by then, ns.
const LOOK_NS: u64 = REAL_TIME_NS + REAL_TIME_NS / 2;
/// Within this both have begun, also on slow emulated CPUs, ns.
const READY_NS: u64 = BOUNDARY_NS * 3 / 5;
/// The readings before and after, this far from the boundaries, ns.
const ASIDE_NS: u64 = 3_000_000;
/// Most that it may run without sleeping, us: far more than it will.
const LIMIT_US: u64 = 100_000;

#[derive(Debug)]
pub struct RealTimeSeen {
    /// Whether a pinned task is given a reservation as things are.
    pub deadline: sandbag_linux::Result<()>,
    pub fifo: sandbag_linux::Result<FifoSeen>,
    /// Real-time budget of that group, us; `None` where groups have none.
    pub budget_us: Option<i64>,
    pub left: Vec<String>,
}

/// What a real-time burner got that wanted [`REAL_TIME_NS`].
#[derive(Debug, Clone, Copy)]
pub struct FifoSeen {
    /// Once and a half that time after its beginning, ns.
    pub early_ns: u64,
    /// An ordinary spinner beside it until then, ns.
    pub beside_ns: u64,
    pub all_ns: u64,
}

impl ProbeBench<'_> {
    /// Tries both classes. Takes about a quarter of a second.
    pub fn real_time(&mut self) -> Result<RealTimeSeen> {
        let (seen, left) = self.with_journal(
            2,
            |child: &mut Child| child,
            |bench, board, _, children| bench.both_classes(board, children),
        )?;
        Ok(RealTimeSeen { left, ..seen })
    }

    fn both_classes(&self, board: &Board, children: &mut Vec<Child>) -> Result<RealTimeSeen> {
        let alarm = alarm()?;
        let fifo = Attributes::Fifo { priority: 1 };
        // A piece of the boundary's length, so that it runs once.
        let once = Duty::Pace {
            period_ns: BOUNDARY_NS,
        };
        children.push(burner(&self.setup(board, &alarm, 0, once, fifo))?);
        let pid = children[0].id();
        realtime::move_to_root(self.layout, pid)?;
        limit_real_time(pid)?;
        sched::set_affinity(pid, &CpuList::from_iter([self.cpu]))?;
        let reserved = Attributes::Deadline {
            runtime_ns: REAL_TIME_NS / 20,
            period_ns: BOUNDARY_NS,
        };
        // It waits at its gate and does not run in either class.
        let deadline = sched::set_attributes(pid, reserved).map(|_| ());
        sched::set_attributes(pid, ORDINARY)?;
        let fifo = match sched::set_attributes(pid, fifo) {
            Ok(_) => Ok(self.fifo(board, &alarm, children)?),
            Err(error) => Err(error),
        };
        Ok(RealTimeSeen {
            deadline,
            fifo,
            budget_us: realtime::budget_us(self.layout),
            left: Vec::new(),
        })
    }

    fn fifo(
        &self,
        board: &Board,
        alarm: &nix::sys::eventfd::EventFd,
        children: &mut Vec<Child>,
    ) -> Result<FifoSeen> {
        children.push(burner(&self.setup(board, alarm, 1, Duty::Spin, ORDINARY))?);
        let from_ns = boundary_after(READY_NS);
        let level = REAL_TIME_NS as f64 / BOUNDARY_NS as f64;
        order(board, 0, level, from_ns, BOUNDARY_NS);
        order(board, 1, 1.0, from_ns, BOUNDARY_NS);
        children.iter_mut().try_for_each(open_gate)?;
        let read = |at_ns| -> Result<[u64; 2]> {
            clock::sleep_until(at_ns);
            Ok([cpu_of(&children[0])?, cpu_of(&children[1])?])
        };
        let before = read(from_ns - ASIDE_NS)?;
        let early = read(from_ns + LOOK_NS)?;
        let end = read(from_ns + BOUNDARY_NS + ASIDE_NS)?;
        children.iter_mut().try_for_each(must_live)?;
        Ok(FifoSeen {
            early_ns: early[0] - before[0],
            beside_ns: early[1] - before[1],
            all_ns: end[0] - before[0],
        })
    }
}

/// RLIMIT_RTTIME of a task before it becomes a real-time one (getrlimit(2)).
fn limit_real_time(pid: u32) -> Result<()> {
    let limit = libc::rlimit {
        rlim_cur: LIMIT_US,
        rlim_max: LIMIT_US,
    };
    // SAFETY: a valid limit; the old one is not asked for.
    let failed = unsafe {
        libc::prlimit(
            pid.cast_signed(),
            libc::RLIMIT_RTTIME,
            &raw const limit,
            std::ptr::null_mut(),
        )
    };
    match failed {
        0 => Ok(()),
        _ => Err(Error::call("prlimit", std::io::Error::last_os_error())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_time_task_is_limited_before_it_is_one() {
        let mut child = std::process::Command::new("sleep")
            .arg("100")
            .spawn()
            .unwrap();
        let outcome = limit_real_time(child.id());
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        outcome.unwrap();
        let limits = limits.unwrap();
        let line = limits
            .lines()
            .find(|line| line.starts_with("Max realtime timeout"))
            .unwrap();
        assert_eq!(line.matches("100000").count(), 2, "{line}");
    }

    #[test]
    fn it_takes_far_less_than_half_of_the_cpu() {
        const { assert!(REAL_TIME_NS * 4 < BOUNDARY_NS && LOOK_NS < BOUNDARY_NS) };
        const { assert!(LIMIT_US * 1000 <= BOUNDARY_NS) };
    }
}
