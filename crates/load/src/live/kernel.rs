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
        self.look_at(Instant::now())
    }

    fn look_at(&mut self, now: Instant) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn it_tells_of_the_last_second_whatever_the_time_between_looks() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("proc")).unwrap();
        // Busy until a time, idle from then on, in ticks of 10 ms.
        let at = |ms: u64, busy_until_ms: u64| {
            let busy = ms.min(busy_until_ms) / 10;
            let text = format!("cpu0 {busy} 0 0 {} 0 0 0 0 0 0\n", ms / 10 - busy);
            fs::write(dir.path().join("proc/stat"), text).unwrap();
        };
        for (looks_ms, expected) in [
            // A look a second before the one that counts.
            (&[9_000, 10_000][..], 0.5),
            (&[10_000], 0.95),
            (&[9_200, 9_400, 9_600, 9_800, 10_000], 0.95),
            (&[8_500, 9_000, 9_500, 10_000], 0.5),
        ] {
            at(0, 9_500);
            let mut load = KernelLoad::open(&Root::at(dir.path())).unwrap();
            let (begin, _) = load.looks[0];
            for ms in looks_ms {
                at(*ms, 9_500);
                load.look_at(begin + Duration::from_millis(*ms)).unwrap();
            }
            let share = load.of(0).unwrap().load().unwrap();
            assert!((share - expected).abs() < 1e-9, "{looks_ms:?}: {share}");
        }
    }
}
