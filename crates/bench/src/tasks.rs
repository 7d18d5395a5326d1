// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who else ran: the run times of all threads of the machine.
//!
//! The third of the three ways needs "other busy" from a source of its own,
//! not as what is left over. It is the sum over all threads that are neither
//! burners nor competitors nor the benchmark's reader: sandbag's supervisor,
//! kernel threads, services. A thread counts for the CPU it was seen on last,
//! which is exact for the pinned ones and near enough for the rest, whose sum
//! is small. A thread that lives only between the two readings is missed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Result;
use sandbag_kernel::process::Process;
use sandbag_kernel::{CpuList, Root};

/// Run times by thread and its start, nanoseconds, with the CPU it was on.
#[derive(Debug, Default)]
pub struct Others(BTreeMap<(u32, u64), (u64, u32)>);

/// One look at all threads.
#[derive(Debug, Default)]
pub struct Census {
    /// Threads of sandbag that are pinned to exactly one CPU.
    pub burners: Vec<(u32, Process)>,
    /// Everyone else but the benchmark itself.
    pub others: Others,
}

/// Looks at all threads. `sandbag` is the measured program, `ourselves` this
/// one: its processes are the competitors (which keep their own books) and
/// the reader; only its other threads of this process count as others.
pub fn census(root: &Root, sandbag: &Path, ourselves: &Path) -> Result<Census> {
    let mut census = Census::default();
    let me = std::process::id();
    for entry in fs::read_dir(root.path("/proc"))?.flatten() {
        let Some(pid) = number(&entry.file_name()) else {
            continue;
        };
        // Kernel threads have no program.
        let program = fs::read_link(entry.path().join("exe")).unwrap_or_default();
        if program == ourselves && pid != me {
            continue;
        }
        let Ok(threads) = Process::new(root, pid).threads() else {
            continue;
        };
        for thread in threads {
            if thread.pid() == me {
                continue;
            }
            let status = entry.path().join(format!("task/{}/status", thread.pid()));
            let pinned = (program == sandbag)
                .then(|| fs::read_to_string(status).ok())
                .flatten()
                .and_then(|text| only_cpu(&text));
            match pinned {
                Some(cpu) => census.burners.push((cpu, thread)),
                None => census.others.add(&thread),
            }
        }
    }
    Ok(census)
}

impl Others {
    fn add(&mut self, thread: &Process) {
        // A thread that has ended meanwhile is not there.
        if let (Ok(stat), Ok(sched)) = (thread.stat(), thread.schedstat()) {
            self.0.insert(
                (thread.pid(), stat.times.start_ticks),
                (sched.exec_ns, stat.cpu),
            );
        }
    }

    /// Run time since `earlier` by CPU, in the order of `cpus`.
    pub fn since(&self, earlier: &Self, cpus: &CpuList) -> Vec<u64> {
        cpus.iter()
            .map(|cpu| {
                self.0
                    .iter()
                    .filter(|(_, (_, on))| *on == cpu)
                    .map(|(thread, (now, _))| {
                        let before = earlier.0.get(thread).map_or(0, |(ns, _)| *ns);
                        now.saturating_sub(before)
                    })
                    .sum()
            })
            .collect()
    }
}

fn number(name: &std::ffi::OsStr) -> Option<u32> {
    name.to_str()?.parse().ok()
}

/// The CPU in `/proc/PID/status`, if there is exactly one that is allowed.
fn only_cpu(status: &str) -> Option<u32> {
    let list: CpuList = status
        .lines()
        .find_map(|l| l.strip_prefix("Cpus_allowed_list:"))?
        .parse()
        .ok()?;
    let mut cpus = list.iter();
    let first = cpus.next()?;
    cpus.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_means_to_one_cpu() {
        assert_eq!(only_cpu("Name:\tx\nCpus_allowed_list:\t3\n"), Some(3));
        assert_eq!(only_cpu("Cpus_allowed_list:\t0-1\n"), None);
        assert_eq!(only_cpu("Name:\tx\n"), None);
    }

    #[test]
    fn a_number_that_is_used_again_is_another_thread() {
        let early = Others(BTreeMap::from([((7, 100), (50, 0)), ((8, 1), (10, 1))]));
        let late = Others(BTreeMap::from([
            ((7, 900), (20, 0)),
            ((8, 1), (15, 1)),
            ((9, 901), (3, 1)),
        ]));
        let cpus: CpuList = "0-1".parse().unwrap();
        assert_eq!(late.since(&early, &cpus), [20, 8]);
    }
}
