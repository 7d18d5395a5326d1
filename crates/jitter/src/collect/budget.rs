// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether the kernel leaves real-time tasks as much of a CPU as a round takes: a loop that it
//! throttles would record that as jitter.

use std::path::{Path, PathBuf};

use sandbag_linux::{Root, cgroup, machine, root};

use crate::{Fault, Result};

/// Of a second the loops take [`REAL_TIME_ROUND`](super::REAL_TIME_ROUND), at once; with
/// something to spare, us.
const NEEDED_US: i64 = 850_000;
const SECOND_US: i64 = 1_000_000;

/// From here on ordinary tasks have a server of their own instead of a limit for all others
/// ("sched/rt: Remove default bandwidth control"); budgets of groups remain.
const WITHOUT_LIMIT: (u32, u32) = (6, 12);

/// # Errors
/// [`Fault::SmallBudget`] by the limit for all tasks, or that of our group (cgroup v1).
pub(super) fn check(root: &Root) -> Result<()> {
    let mut limits: Vec<[PathBuf; 2]> = Vec::new();
    if machine::kernel_version(root).is_none_or(|version| version < WITHOUT_LIMIT) {
        let sysctl = |name: &str| root.path(format!("/proc/sys/kernel/sched_rt_{name}_us"));
        limits.push(["runtime", "period"].map(sysctl));
    }
    if let Ok(hierarchies) = cgroup::find(root) {
        let group = hierarchies.own_dir();
        let file = |name: &str| group.join(format!("cpu.rt_{name}_us"));
        limits.push(["runtime", "period"].map(file));
    }
    for [runtime, period] in limits {
        // Kernels without such limits have no such files.
        let number = |path: &Path| root::read_value::<i64>(path, "a number").ok();
        let Some((runtime_us, period_us)) = number(&runtime).zip(number(&period)) else {
            continue;
        };
        let needed_us = needed_us(period_us);
        // -1 is no limit.
        if (0..needed_us).contains(&runtime_us) {
            return Err(Fault::SmallBudget {
                file: runtime,
                runtime_us,
                period_us,
                needed_us,
            }
            .into());
        }
    }
    Ok(())
}

/// Of a period: in a short one the loops run without a break.
fn needed_us(period_us: i64) -> i64 {
    let share = NEEDED_US as f64 / SECOND_US as f64;
    let of_longer = (period_us as f64 * share).ceil() as i64;
    of_longer.max(NEEDED_US).min(period_us)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn rounds_fit_into_what_real_time_tasks_have() {
        for (period_us, needed) in [
            (1_000_000, 850_000),
            (2_000_000, 1_700_000),
            (900_000, 850_000),
            (100_000, 100_000),
        ] {
            assert_eq!(needed_us(period_us), needed);
        }
        let dir = tempfile::tempdir().unwrap();
        let kernel = dir.path().join("proc/sys/kernel");
        fs::create_dir_all(&kernel).unwrap();
        let root = Root::at(dir.path());
        let is_refused = |release: &str, runtime: &str| {
            fs::write(kernel.join("osrelease"), release).unwrap();
            fs::write(kernel.join("sched_rt_period_us"), "1000000\n").unwrap();
            fs::write(kernel.join("sched_rt_runtime_us"), runtime).unwrap();
            check(&root).is_err_and(|error| error.to_string().contains("at least 850000"))
        };
        check(&root).unwrap();
        assert!(is_refused("6.1.0-13-amd64\n", "500000\n"));
        for (release, runtime) in [
            ("6.1.0-13-amd64\n", "950000\n"),
            ("6.1.0-13-amd64\n", "-1\n"),
            ("6.12.3\n", "500000\n"),
        ] {
            assert!(!is_refused(release, runtime), "{release} {runtime}");
        }
        // Of a group, by any kernel.
        let group = dir.path().join("sys/fs/cgroup/cpu/job");
        fs::create_dir_all(&group).unwrap();
        for (path, text) in [
            (
                dir.path().join("proc/self/mountinfo"),
                "32 31 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n",
            ),
            (dir.path().join("proc/self/cgroup"), "2:cpu:/job\n"),
            (group.join("cpu.rt_period_us"), "1000000\n"),
            (group.join("cpu.rt_runtime_us"), "100000\n"),
        ] {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        assert!(is_refused("6.12.3\n", "950000\n"));
    }
}
