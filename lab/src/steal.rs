// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What disturbs a measurement: time that the hypervisor gave to others, and
//! CPU time of processes that are none of the lab's.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use sandbag_linux::procstat::{CpuDelta, ProcStat, StatSample, tick_ns};
use sandbag_linux::{CpuList, Root};
use sandbag_stats::window::share_pct;

/// Disturbance of some CPUs from the making of the meter until it is asked.
#[derive(Debug)]
pub struct StealMeter {
    stat: ProcStat,
    start: StatSample,
    begin: Instant,
    own: Duration,
    cpus: CpuList,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Disturbance {
    pub steal_pct: f64,
    /// Busy time of these CPUs beyond the CPU time of this process and of its
    /// children that ended, percent of the delivered time.
    pub foreign_pct: f64,
}

impl StealMeter {
    pub fn start(root: &Root, cpus: &CpuList) -> Result<Self> {
        let own = own_time()?;
        let mut stat = ProcStat::open(root)?;
        let start = stat.sample()?.clone();
        Ok(Self {
            stat,
            start,
            begin: Instant::now(),
            own,
            cpus: cpus.clone(),
        })
    }

    /// Steal and foreign load since then. Programs of the lab must have ended
    /// and been waited for.
    pub fn disturbance(&mut self) -> Result<Disturbance> {
        let own = own_time()?.saturating_sub(self.own);
        let elapsed = self.begin.elapsed();
        let now = self.stat.sample()?;
        let deltas: Vec<CpuDelta> = now
            .cpus
            .iter()
            .filter(|(cpu, _)| self.cpus.contains(*cpu))
            .filter_map(|(cpu, times)| Some(times.since(self.start.get(*cpu)?, tick_ns())))
            .collect();
        Ok(disturbance(&deltas, elapsed, own))
    }
}

fn disturbance(deltas: &[CpuDelta], elapsed: Duration, own: Duration) -> Disturbance {
    let total: u64 = deltas.iter().map(CpuDelta::total_ns).sum();
    let steal: u64 = deltas.iter().map(|d| d.steal_ns).sum();
    let idle: u64 = deltas.iter().map(|d| d.idle_ns).sum();
    let wall = elapsed.as_nanos() as u64 * deltas.len() as u64;
    let delivered = wall.saturating_sub(steal);
    // Idle time and steal are known to a tick of each CPU.
    let unknown = 2 * tick_ns() * deltas.len() as u64;
    let ours = own.as_nanos() as u64 + idle + unknown;
    Disturbance {
        steal_pct: share_pct(steal, total),
        foreign_pct: share_pct(delivered.saturating_sub(ours), delivered),
    }
}

/// CPU time of this process and of all children that were waited for.
fn own_time() -> Result<Duration> {
    let mut sum = Duration::ZERO;
    for who in [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN] {
        let usage = getrusage(who).context("getrusage")?;
        let time = |value: TimeVal| {
            Duration::from_secs(value.tv_sec().unsigned_abs())
                + Duration::from_micros(value.tv_usec().unsigned_abs())
        };
        sum += time(usage.user_time()) + time(usage.system_time());
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn steal_is_a_share_of_all_time() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        fs::create_dir_all(root.path("/proc")).unwrap();
        let stat = root.path("/proc/stat");
        fs::write(
            &stat,
            "cpu0 0 0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\n",
        )
        .unwrap();
        let mut meter = StealMeter::start(&root, &CpuList::from_iter([0, 1])).unwrap();
        fs::write(
            &stat,
            "cpu0 90 0 0 0 0 0 0 10 0 0\ncpu1 50 0 0 50 0 0 0 0 0 0\n",
        )
        .unwrap();
        assert!((meter.disturbance().unwrap().steal_pct - 5.0).abs() < 1e-9);
    }

    #[test]
    fn foreign_load_is_what_neither_idled_nor_was_ours() {
        let delta = |idle_ms: u64| CpuDelta {
            idle_ns: idle_ms * 1_000_000,
            ..CpuDelta::default()
        };
        let of = |own_ms| {
            let elapsed = Duration::from_secs(10);
            let own = Duration::from_millis(own_ms);
            disturbance(&[delta(5000), delta(9000)], elapsed, own).foreign_pct
        };
        // Busy for 5 s and 1 s; 40 ms cannot be known.
        assert!(of(5960).abs() < 1e-9 && of(7000).abs() < 1e-9);
        assert!((of(3960) - 10.0).abs() < 1e-9);
    }
}
