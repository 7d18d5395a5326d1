// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time that the hypervisor gave to others.

use anyhow::Result;
use sandbag_kernel::procstat::{CpuDelta, ProcStat, Sample, tick_ns};
use sandbag_kernel::{CpuList, Root};

/// Steal of some CPUs from its making until it is asked.
#[derive(Debug)]
pub struct StealMeter {
    stat: ProcStat,
    start: Sample,
    cpus: CpuList,
}

impl StealMeter {
    /// Begins.
    ///
    /// # Errors
    /// `/proc/stat` cannot be read.
    pub fn start(root: &Root, cpus: &CpuList) -> Result<Self> {
        let mut stat = ProcStat::open(root)?;
        let start = stat.sample()?.clone();
        Ok(Self {
            stat,
            start,
            cpus: cpus.clone(),
        })
    }

    /// Steal since then, percent of these CPUs' time.
    ///
    /// # Errors
    /// `/proc/stat` cannot be read.
    pub fn steal_pct(&mut self) -> Result<f64> {
        let now = self.stat.sample()?;
        let deltas: Vec<CpuDelta> = now
            .cpus
            .iter()
            .filter(|(cpu, _)| self.cpus.contains(*cpu))
            .filter_map(|(cpu, times)| Some(times.since(self.start.get(*cpu)?, tick_ns())))
            .collect();
        let total: u64 = deltas.iter().map(CpuDelta::total_ns).sum();
        let steal: u64 = deltas.iter().map(|d| d.steal_ns).sum();
        Ok(sandbag_measure::window::share_pct(steal, total))
    }
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
        assert!((meter.steal_pct().unwrap() - 5.0).abs() < 1e-9);
    }
}
