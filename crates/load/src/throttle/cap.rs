// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A limit on the CPU time of the node's group, as containers have it
//! (Documentation/scheduler/sched-bwc.rst).

use std::path::PathBuf;

use sandbag_linux::cgroup::{self, Group, Version};
use sandbag_linux::clock::monotonic;
use sandbag_linux::{Error, Result, root};

use super::Throttle;
use crate::board::BOUNDARY_NS;
use sandbag_run::node_group::NodeGroup;

/// How often it is looked whether the limit is still there: systemd writes those that it
/// knows when it reloads its files (`daemon-reload`), ns.
const LOOK_NS: u64 = 1_000_000_000;
/// The kernel takes no quota below this, us.
pub const LEAST_QUOTA_US: f64 = 1_000.0;

#[derive(Debug)]
pub struct Cap {
    group: Group,
    usage: PathBuf,
    cpus: f64,
    period_us: u64,
    level: f64,
    looked_at_ns: u64,
    taken_ns: u64,
    read: Option<CapCounters>,
    /// The group was throttled between the last two readings.
    throttled: bool,
}

#[derive(Debug, Clone, Copy)]
struct CapCounters {
    at: u64,
    usage_ns: u64,
    throttled: u64,
}

impl Cap {
    pub fn new(node: &NodeGroup, period_us: u64) -> Self {
        let version = if node.cpu.join("cpu.max").exists() {
            Version::V2
        } else {
            Version::V1
        };
        let usage = node.accounting.join(match version {
            Version::V1 => "cpuacct.usage",
            Version::V2 => "cpu.stat",
        });
        let accounting = Some(node.accounting.clone());
        Self {
            group: Group::at(version, node.cpu.clone(), accounting),
            usage,
            cpus: node.cpus.len().max(1) as f64,
            period_us,
            level: 0.0,
            looked_at_ns: 0,
            taken_ns: 0,
            read: None,
            throttled: false,
        }
    }

    fn cap(&self, level: f64) -> cgroup::Cap {
        let quota = (1.0 - level) * self.cpus * self.period_us as f64;
        cgroup::Cap {
            quota_us: quota.round().max(LEAST_QUOTA_US) as u64,
            period_us: self.period_us,
            burst_us: 0,
        }
    }

    fn counters(&self) -> Result<CapCounters> {
        let usage_ns = match self.group.version() {
            Version::V1 => root::read_value(&self.usage, "nanoseconds")?,
            Version::V2 => {
                let text = root::read(&self.usage)?;
                let found = text.lines().find_map(|l| l.strip_prefix("usage_usec "));
                let us: Option<u64> = found.and_then(|us| us.trim().parse().ok());
                us.ok_or_else(|| Error::parse(&self.usage, "usage_usec", &text))? * 1000
            }
        };
        Ok(CapCounters {
            at: monotonic(),
            usage_ns,
            throttled: self.group.throttled()?,
        })
    }

    /// Whether the limit is not the one that was written.
    fn is_lost(&mut self, now: u64) -> bool {
        if self.level == 0.0 || now < self.looked_at_ns + LOOK_NS {
            return false;
        }
        self.looked_at_ns = now;
        let cap = self.cap(self.level);
        self.group.cap().is_ok_and(|found| found != Some(cap))
    }

    /// A window without throttling has lost nothing.
    fn taken_between(&self, before: CapCounters, now: CapCounters) -> u64 {
        if now.throttled == before.throttled || self.level == 0.0 {
            return 0;
        }
        let used = now.usage_ns.saturating_sub(before.usage_ns) as f64 / self.cpus;
        ((now.at - before.at) as f64 - used).max(0.0) as u64
    }
}

impl Throttle for Cap {
    fn act(&mut self, now: u64, level: f64) -> Result<u64> {
        // Every write, even of the same value, refills the pool and forgives
        // what was overdrawn.
        if self.level != level || self.is_lost(now) {
            self.group.set_cap(Some(self.cap(level)))?;
            self.level = level;
        }
        Ok(u64::MAX)
    }

    /// The counters are read now, a moment after `at`.
    fn taken_ns(&mut self, at: u64) -> u64 {
        let Ok(now) = self.counters() else {
            return self.taken_ns;
        };
        match self.read {
            // Several boundaries at once: the first one got it all.
            Some(before) if now.at < before.at + BOUNDARY_NS / 2 && at < now.at => {}
            Some(before) => {
                self.taken_ns += self.taken_between(before, now);
                self.throttled = now.throttled != before.throttled;
                self.read = Some(now);
            }
            None => self.read = Some(now),
        }
        self.taken_ns
    }

    /// What was taken since the last boundary is counted before.
    fn release(&mut self, _now: u64) -> Result<()> {
        if let (Some(before), Ok(now)) = (self.read, self.counters()) {
            // The kernel counts a throttled period at its end. Of one that is cut the period
            // before tells.
            let is_cut = now.at < before.at + self.period_us * 1000;
            let counted = u64::from(self.throttled && is_cut);
            let before = CapCounters {
                throttled: before.throttled.saturating_sub(counted),
                ..before
            };
            self.taken_ns += self.taken_between(before, now);
            self.read = Some(now);
        }
        self.level = 0.0;
        match self.group.set_cap(None) {
            // Its group is gone, and the limit with it.
            Err(error) if error.is_absent() => Ok(()),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn node(files: &[(&str, &str)]) -> (tempfile::TempDir, NodeGroup) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let node = NodeGroup {
            cpu: dir.path().to_owned(),
            accounting: dir.path().to_owned(),
            cpuset: None,
            freezer: None,
            cpus: vec![0, 1],
        };
        (dir, node)
    }

    const V2: &[(&str, &str)] = &[
        ("cpu.max", "max 100000\n"),
        ("cpu.max.burst", "0\n"),
        ("cpu.stat", "usage_usec 5\nnr_throttled 0\n"),
    ];

    #[test]
    fn the_sum_of_the_speeds_is_written_once_and_taken_back() {
        let (dir, node) = node(V2);
        let text = || fs::read_to_string(dir.path().join("cpu.max")).unwrap();
        let mut cap = Cap::new(&node, 100_000);
        cap.act(0, 0.25).unwrap();
        assert_eq!(text(), "150000 100000");
        fs::write(dir.path().join("cpu.max"), "as it was").unwrap();
        cap.act(1, 0.25).unwrap();
        assert_eq!(text(), "as it was");
        // A reload of systemd takes it back.
        fs::write(dir.path().join("cpu.max"), "max 100000\n").unwrap();
        cap.act(2 * LOOK_NS, 0.25).unwrap();
        assert_eq!(text(), "150000 100000");
        cap.act(2 * LOOK_NS + 1, 0.999).unwrap();
        assert_eq!(text(), "1000 100000");
        cap.release(9).unwrap();
        assert_eq!(text(), "max");
        // The same level again is a change now.
        cap.act(3, 0.999).unwrap();
        assert_eq!(text(), "1000 100000");
    }

    #[test]
    fn only_windows_with_throttling_have_lost_something() {
        let (_dir, node) = node(V2);
        let cap = Cap {
            level: 0.5,
            ..Cap::new(&node, 100_000)
        };
        let counters = |at, usage_ns, throttled| CapCounters {
            at,
            usage_ns,
            throttled,
        };
        let before = counters(1_000, 0, 7);
        assert_eq!(cap.taken_between(before, counters(2_000, 900, 7)), 0);
        assert_eq!(cap.taken_between(before, counters(2_000, 900, 8)), 550);
        // More than there is: the counters are not read at one moment.
        assert_eq!(cap.taken_between(before, counters(2_000, 2_100, 8)), 0);
    }

    #[test]
    fn a_period_that_is_cut_is_throttled_as_the_one_before() {
        let stat = "usage_usec 5\nnr_throttled 7\n";
        let (_dir, node) = node(&[("cpu.max", "max 100000\n"), ("cpu.stat", stat)]);
        let taken_ns = |throttled| {
            let before = CapCounters {
                at: monotonic() - 50_000_000,
                usage_ns: 0,
                throttled: 7,
            };
            let mut cap = Cap {
                level: 0.5,
                read: Some(before),
                throttled,
                // Not over however slow this test is.
                ..Cap::new(&node, 1_000_000_000)
            };
            for _ in 0..2 {
                cap.release(0).unwrap();
            }
            cap.taken_ns
        };
        assert_eq!(taken_ns(false), 0);
        // All but 5 us of two CPUs.
        let taken_ns = taken_ns(true);
        assert!(taken_ns >= 49_997_500, "{taken_ns}");
    }

    #[test]
    fn a_group_that_is_gone_is_released() {
        let (dir, node) = node(V2);
        let mut cap = Cap::new(&node, 100_000);
        drop(dir);
        cap.release(9).unwrap();
        assert!(cap.act(0, 0.5).is_err());
        assert_eq!(cap.taken_ns(5), 0);
    }
}
