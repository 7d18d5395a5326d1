// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What else this machine did while a guest ran.
//!
//! A guest cannot see that its CPUs, which are threads here, had to wait for
//! other work; but here it can be seen how much other work there was.

use std::time::Duration;

use anyhow::Context;
use nix::sys::resource::{UsageWho, getrusage};

/// A moment at which the clocks were read.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// Time that all CPUs were not idle, also that a hypervisor took.
    busy: Duration,
    /// Time that they were idle.
    idle: Duration,
    /// CPU time of our children that have ended.
    children: Duration,
}

impl Reading {
    /// Reads the clocks now.
    pub fn now() -> anyhow::Result<Self> {
        let stat = std::fs::read_to_string("/proc/stat").context("/proc/stat")?;
        let (busy, idle) = all_cpus(&stat).context("/proc/stat: no line of all CPUs")?;
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
        let children = [usage.user_time(), usage.system_time()]
            .map(|time| Duration::new(time.tv_sec() as u64, 1000 * time.tv_usec() as u32));
        Ok(Self {
            busy,
            idle,
            children: children.iter().sum(),
        })
    }

    /// Percent of this machine's CPU time since `before` that went to others
    /// than children of ours that ended meanwhile.
    pub fn others_pct(&self, before: &Self) -> f64 {
        let busy = self.busy.saturating_sub(before.busy);
        let all = busy + self.idle.saturating_sub(before.idle);
        let ours = self.children.saturating_sub(before.children);
        100.0 * busy.saturating_sub(ours).as_secs_f64() / all.as_secs_f64().max(0.01)
    }
}

/// Busy and idle time of the first line (proc(5)): user nice system idle
/// iowait irq softirq steal, in ticks of 10 ms; guest time is already in user.
fn all_cpus(stat: &str) -> Option<(Duration, Duration)> {
    let fields: Vec<u64> = stat
        .lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_ascii_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    let &[user, nice, system, idle, iowait, irq, softirq, steal, ..] = fields.as_slice() else {
        return None;
    };
    let ticks = |count: u64| Duration::from_millis(10 * count);
    Some((
        ticks(user + nice + system + irq + softirq + steal),
        ticks(idle + iowait),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_all_cpus() {
        let (busy, idle) = all_cpus("cpu  100 1 20 500 50 2 3 4 9 9\ncpu0 1 1 1\n").unwrap();
        assert_eq!(busy, Duration::from_millis(1300));
        assert_eq!(idle, Duration::from_millis(5500));
        assert!(all_cpus("cpu0 1 2 3\n").is_none());
    }

    #[test]
    fn what_our_children_used_is_not_others() {
        let reading = |busy, idle, children| Reading {
            busy: Duration::from_secs(busy),
            idle: Duration::from_secs(idle),
            children: Duration::from_secs(children),
        };
        let before = reading(100, 100, 10);
        assert_eq!(reading(108, 102, 16).others_pct(&before), 20.0);
        // The clocks are not read at the same instant.
        assert_eq!(reading(108, 102, 19).others_pct(&before), 0.0);
    }
}
