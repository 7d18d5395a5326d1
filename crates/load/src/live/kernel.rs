// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel counted of each CPU between two looks.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use sandbag_linux::procstat::{CpuDelta, ProcStat, StatSample, tick_ns};
use sandbag_linux::{Result, Root};

/// How far back the counters of a load's reading go.
pub const SPAN: Duration = Duration::from_secs(1);

/// `/proc/stat`, looked at again and again.
#[derive(Debug)]
pub struct KernelLoad {
    stat: ProcStat,
    /// Looks of the last second and the one before it, at least two; the newest is last.
    looks: VecDeque<(Instant, StatSample)>,
}

impl KernelLoad {
    /// Takes the first look.
    ///
    /// # Errors
    /// `/proc/stat` cannot be read.
    pub fn open(root: &Root) -> Result<Self> {
        let mut load = Self {
            stat: ProcStat::open(root)?,
            looks: VecDeque::new(),
        };
        load.look()?;
        Ok(load)
    }

    /// Takes another look.
    ///
    /// # Errors
    /// `/proc/stat` cannot be read.
    pub fn look(&mut self) -> Result<()> {
        let now = Instant::now();
        let is_old = |look: Option<&(Instant, _)>| {
            look.is_some_and(|(at, _)| now.duration_since(*at) + SLACK >= SPAN)
        };
        let mut sample = StatSample::default();
        while is_old(self.looks.get(1)) {
            if let Some((_, old)) = self.looks.pop_front() {
                sample = old;
            }
        }
        self.stat.sample_into(&mut sample)?;
        self.looks.push_back((now, sample));
        Ok(())
    }

    /// What a CPU did since a look a second ago; where there was none, since the last one
    /// before. `None` where it was offline, or no time passed.
    pub fn of(&self, cpu: u32) -> Option<CpuDelta> {
        let (_, before) = self.looks.front()?;
        let (_, now) = self.looks.back()?;
        let delta = now.get(cpu)?.since(before.get(cpu)?, tick_ns());
        (delta.total_ns() > 0).then_some(delta)
    }
}

/// A look that comes this much early is a second after the one before.
const SLACK: Duration = Duration::from_millis(50);
