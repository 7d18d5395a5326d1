// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The exact clocks of each CPU at one instant, read on that CPU.
//!
//! Idle time in nanoseconds is in `/proc/timer_list` (root only), without the current idle
//! period; a reader on the CPU ends that period, so nothing is missing. The same holds for
//! the run times of tasks. All values of a CPU are read within a fraction of a millisecond
//! under `SCHED_FIFO`, so that no competitor comes in between.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use sandbag_linux::process::Process;
use sandbag_linux::procstat::{ProcStat, tick_ns};
use sandbag_linux::{CpuList, Root};

use crate::bench::compete::account::Account;
use sandbag_linux::clock;
use sandbag_linux::sched::{self, Attributes};

/// Clocks of one CPU, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuClocks {
    pub wall_ns: u64,
    pub idle_ns: u64,
    /// Steal since boot, in ticks of 10 ms.
    pub steal_ns: u64,
    pub burner_ns: u64,
    pub competitors_ns: u64,
    /// All tasks since boot, by v1's `cpuacct.usage_percpu` of the root group.
    pub tasks_ns: Option<u64>,
    /// What this reading took of the CPU before the clocks stood as above...
    pub reading_before_ns: u64,
    /// ... and after it.
    pub reading_after_ns: u64,
}

#[derive(Debug)]
pub struct Sources<'a> {
    pub cpus: &'a CpuList,
    pub accounts: Vec<&'a Account>,
    pub cpuacct: Option<&'a Path>,
}

impl Sources<'_> {
    /// Reads the clocks of every CPU, in the order of the list. `burners` are
    /// threads with the CPU that each is pinned to.
    pub fn read(&self, burners: &[(u32, Process)]) -> Result<Vec<CpuClocks>> {
        let everywhere = sched::affinity(0)?;
        // Without real-time (in a group without a budget, say) the reading is
        // less exact, which the closing error will show.
        let realtime = sched::set_attributes(0, Attributes::Fifo { priority: 1 }).is_ok();
        let mut stat = ProcStat::open(&Root::default())?;
        let clocks = self
            .cpus
            .iter()
            .map(|cpu| {
                sched::set_affinity(0, &CpuList::from_iter([cpu]))?;
                self.read_here(cpu, burners, &mut stat)
            })
            .collect();
        sched::set_affinity(0, &everywhere)?;
        if realtime {
            let ordinary = Attributes::Fair {
                nice: 0,
                slice_ns: 0,
            };
            sched::set_attributes(0, ordinary)?;
        }
        clocks
    }

    fn read_here(
        &self,
        cpu: u32,
        burners: &[(u32, Process)],
        stat: &mut ProcStat,
    ) -> Result<CpuClocks> {
        let arrived_ns = clock::thread_cpu();
        let timers = std::fs::read_to_string("/proc/timer_list").ok();
        let wall_ns = clock::monotonic();
        let read_ns = clock::thread_cpu();
        let tasks_ns = self
            .cpuacct
            .and_then(|dir| percpu(dir.join("cpuacct.usage_percpu"), cpu));
        let burner_ns = burners
            .iter()
            .filter(|(on, _)| *on == cpu)
            // A burner that has just ended has no more to say.
            .filter_map(|(_, thread)| thread.schedstat().ok())
            .map(|s| s.exec_ns)
            .sum();
        let competitors_ns = self.accounts.iter().map(|a| a.cpu_ns(cpu as usize)).sum();
        let times = *stat
            .sample()?
            .get(cpu)
            .with_context(|| format!("CPU {cpu} has gone offline"))?;
        let idle_ns = timers
            .and_then(|text| idle_ns(&text, cpu))
            // A kernel without tickless idle leaves the field at 0.
            .filter(|ns| *ns > 0)
            .unwrap_or((times.idle + times.iowait) * tick_ns());
        Ok(CpuClocks {
            wall_ns,
            idle_ns,
            steal_ns: times.steal * tick_ns(),
            burner_ns,
            competitors_ns,
            tasks_ns,
            reading_before_ns: read_ns - arrived_ns,
            reading_after_ns: clock::thread_cpu() - read_ns,
        })
    }
}

/// Idle time of a CPU, with and without waiting for I/O, from the text of
/// `/proc/timer_list`.
fn idle_ns(text: &str, cpu: u32) -> Option<u64> {
    let heading = format!("cpu: {cpu}");
    let mut lines = text.lines().skip_while(|l| *l != heading).skip(1);
    let mut field = |name: &str| -> Option<u64> {
        lines
            .by_ref()
            .take_while(|l| !l.starts_with("cpu: "))
            .find_map(|l| l.trim().strip_prefix(name)?.trim_start().strip_prefix(':'))
            .and_then(|value| value.trim().strip_suffix("nsecs")?.trim().parse().ok())
    };
    Some(field(".idle_sleeptime")? + field(".iowait_sleeptime")?)
}

/// The value of a CPU in a file with one number per possible CPU.
fn percpu(path: PathBuf, cpu: u32) -> Option<u64> {
    std::fs::read_to_string(path)
        .ok()?
        .split_whitespace()
        .nth(cpu as usize)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMER_LIST: &str = "\
Timer List Version: v0.10
now at 1025451716052 nsecs

cpu: 0
 clock 0:
  .idle_calls     : 26127
  .idle_sleeptime : 1092051062182 nsecs
  .iowait_sleeptime: 1403149520 nsecs
  .last_jiffies   : 4295216808

cpu: 1
 clock 0:
  .idle_sleeptime : 100 nsecs
  .iowait_sleeptime: 7 nsecs
Tick Device: mode:     1
";

    #[test]
    fn idle_time_of_each_cpu() {
        assert_eq!(
            idle_ns(TIMER_LIST, 0),
            Some(1_092_051_062_182 + 1_403_149_520)
        );
        assert_eq!(idle_ns(TIMER_LIST, 1), Some(107));
        assert_eq!(idle_ns(TIMER_LIST, 2), None);
    }

    #[test]
    fn a_cpu_without_the_field_does_not_borrow_its_neighbours() {
        let text = TIMER_LIST.replacen("  .idle_sleeptime : 1092051062182 nsecs\n", "", 1);
        assert_eq!(idle_ns(&text, 0), None);
    }

    #[test]
    fn percpu_files_are_by_position() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("usage");
        std::fs::write(&path, "11 22 33 \n").unwrap();
        assert_eq!(percpu(path.clone(), 2), Some(33));
        assert_eq!(percpu(path, 3), None);
    }
}
