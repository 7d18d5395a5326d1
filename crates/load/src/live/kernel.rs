// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel counted of each CPU between two looks.

use sandbag_linux::procstat::{CpuDelta, ProcStat, StatSample, tick_ns};
use sandbag_linux::{Result, Root};

/// `/proc/stat`, looked at again and again.
#[derive(Debug)]
pub struct KernelLoad {
    stat: ProcStat,
    before: StatSample,
    now: StatSample,
}

impl KernelLoad {
    /// Takes the first look.
    ///
    /// # Errors
    /// `/proc/stat` cannot be read.
    pub fn open(root: &Root) -> Result<Self> {
        let mut stat = ProcStat::open(root)?;
        let mut now = StatSample::default();
        stat.sample_into(&mut now)?;
        Ok(Self {
            stat,
            before: now.clone(),
            now,
        })
    }

    /// Takes another look.
    ///
    /// # Errors
    /// `/proc/stat` cannot be read.
    pub fn look(&mut self) -> Result<()> {
        std::mem::swap(&mut self.before, &mut self.now);
        self.stat.sample_into(&mut self.now)
    }

    /// What a CPU did between the last two looks; `None` where it was offline, or no time
    /// passed.
    pub fn of(&self, cpu: u32) -> Option<CpuDelta> {
        let delta = self.now.get(cpu)?.since(self.before.get(cpu)?, tick_ns());
        (delta.total_ns() > 0).then_some(delta)
    }
}
