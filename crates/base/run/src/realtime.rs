// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where real-time burners may live, and what the machine must allow them.

use sandbag_linux::capability::{Capabilities, Capability};
use sandbag_linux::sched::RealTime;
use sandbag_linux::sysctl::Sysctl;
use sandbag_linux::{Root, root};

use crate::changes;
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::layout::{Layout, LayoutKind};

/// The tunable that limits real-time classes and admits reservations
/// (Documentation/scheduler/sched-rt-group.rst).
pub const RT_RUNTIME: &str = "kernel.sched_rt_runtime_us";

/// Lifts the limit of real-time classes, journalled first:
/// `kernel.sched_rt_runtime_us = -1`.
pub fn lift_limit(root: &Root, journal: &mut Journal) -> Result<()> {
    changes::set_sysctl(journal, &Sysctl::new(root, RT_RUNTIME), -1)
}

/// Real-time budget of the group where burners would live, us; `None` where groups have none
/// (cgroup v1 with CONFIG_RT_GROUP_SCHED has them).
pub fn budget_us(layout: &Layout) -> Option<i64> {
    let group = layout.hierarchies().cpu.join("cpu.rt_runtime_us");
    root::read_value(&group, "a number").ok()
}

/// What the kernel's refusal of a real-time class means, and what helps.
#[must_use]
pub fn refusal(
    error: &sandbag_linux::Error,
    may_nice: bool,
    budget_us: Option<i64>,
) -> (String, &'static str) {
    match error.errno() {
        Some(libc::EPERM) if !may_nice => (
            "no permission for real-time classes (CAP_SYS_NICE)".to_owned(),
            "run as root; in a container: --cap-add SYS_NICE",
        ),
        Some(libc::EPERM) if budget_us == Some(0) => (
            "the uppermost group that we can reach has no real-time budget (cpu.rt_runtime_us \
             is 0)"
                .to_owned(),
            "run outside of the container; or give its group, and all above it, a budget from \
             outside: echo 950000 > cpu.rt_runtime_us",
        ),
        Some(libc::EPERM) => (
            "real-time classes are refused although we have CAP_SYS_NICE".to_owned(),
            "a container or its seccomp profile may forbid them: run on the machine itself",
        ),
        _ => (
            format!("real-time classes are refused: {error}"),
            "run as root on the machine itself",
        ),
    }
}

/// Whether burners of `method` may be real-time tasks, while the limit is lifted or not;
/// nothing is changed.
///
/// # Errors
/// [`Error::NotPossible`].
pub fn must_be_allowed(root: &Root, layout: &Layout, method: &str, lifted: bool) -> Result<()> {
    let Err(error) = RealTime::begin() else {
        return Ok(());
    };
    let may_nice = Capabilities::effective(root).is_ok_and(|all| all.has(Capability::SysNice));
    let budget_us = budget_us(layout);
    // The group that we were started in may have none where that of the burners has one, and
    // without a limit none is needed.
    if may_nice && (lifted || budget_us.is_some_and(|us| us > 0)) {
        return Ok(());
    }
    let (what, remedy) = refusal(&error, may_nice, budget_us);
    Err(Error::not_possible(
        format!("{method} needs real-time tasks, and {what}"),
        format!("use --method pace; or {remedy}"),
    ))
}

/// Puts a burner of ours into the root group, from wherever we were started:
/// a fresh v1 group has no real-time budget, and a task of such a class can
/// neither start in it nor move into it (CONFIG_RT_GROUP_SCHED). Where PID 1
/// owns the tree it stays; kernels built for systemd have no such budgets.
pub fn move_to_root(layout: &Layout, pid: u32) -> Result<()> {
    let hierarchies = layout.hierarchies();
    let elsewhere = hierarchies.own_dir() != hierarchies.cpu;
    match layout.kind() {
        LayoutKind::V1 | LayoutKind::V2 if elsewhere => {
            let procs = hierarchies.cpu.join("cgroup.procs");
            root::write(&procs, pid).map_err(Error::from)
        }
        _ => Ok(()),
    }
}
