// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What else this machine did while a guest ran.
//!
//! A guest cannot see that its CPUs, which are threads here, had to wait for
//! other work; but here it can be seen how much other work there was.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};

use crate::stat::{self, CpuTime};

/// A moment at which the clocks were read.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// Of all CPUs.
    cpus: CpuTime,
    /// CPU time of our children that have ended, seconds.
    children_s: f64,
}

impl Reading {
    /// Reads the clocks now.
    pub fn now() -> anyhow::Result<Self> {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
        let children = [usage.user_time(), usage.system_time()]
            .map(|time| Duration::new(time.tv_sec() as u64, 1000 * time.tv_usec() as u32));
        Ok(Self {
            cpus: stat::read_cpu(None)?,
            children_s: children.iter().sum::<Duration>().as_secs_f64(),
        })
    }

    /// Percent of this machine's CPU time since `before` that went to others
    /// than children of ours that ended meanwhile, or to the hypervisor.
    pub fn others_pct(&self, before: &Self) -> f64 {
        let time = self.cpus.since(before.cpus);
        let busy_s = time.busy_s + time.steal_s;
        // The clocks are not read at the same instant.
        let others_s = (busy_s - (self.children_s - before.children_s)).max(0.0);
        100.0 * others_s / (busy_s + time.idle_s).max(0.01)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_our_children_used_is_not_others() {
        let reading = |busy_s, idle_s, children_s| Reading {
            cpus: CpuTime {
                busy_s,
                idle_s,
                ..CpuTime::default()
            },
            children_s,
        };
        let before = reading(100.0, 100.0, 10.0);
        assert_eq!(reading(108.0, 102.0, 16.0).others_pct(&before), 20.0);
        assert_eq!(reading(108.0, 102.0, 19.0).others_pct(&before), 0.0);
    }
}
