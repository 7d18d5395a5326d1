// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where real-time burners may live, and what the machine must allow them.

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
