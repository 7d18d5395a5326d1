// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Other load: the run times of all threads that are neither burners nor competitors nor the
//! benchmark's reader, such as sandbag's supervisor, kernel threads and services. A thread
//! counts for the CPU it was seen on last, which is exact for pinned ones. A thread that
//! lives only between the two readings is missed.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use sandbag_linux::process::{self, Process};
use sandbag_linux::{CpuList, Root, clock};

/// Run times by thread and its start, nanoseconds, with the CPU it was on.
#[derive(Debug, Default)]
pub struct CompetingThreads {
    threads: BTreeMap<(u32, u64), (u64, u32)>,
    /// The middle of the look, which takes some milliseconds;
    /// `CLOCK_MONOTONIC`.
    at_ns: u64,
}

/// Looks at all threads. `sandbag` is the measured program, of which the
/// threads that are pinned to one CPU are burners; `ourselves` is this one: its
/// processes are the competitors (which keep their own books) and the reader.
/// Only the reader's other threads count as others.
pub fn others(root: &Root, sandbag: &Path, ourselves: &Path) -> Result<CompetingThreads> {
    let mut others = CompetingThreads::default();
    let began_ns = clock::monotonic();
    let me = std::process::id();
    for pid in process::pids(root)? {
        let process = Process::new(root, pid);
        // Empty for a kernel thread and a zombie.
        let program = process.program().unwrap_or_default();
        if program == ourselves && pid != me {
            continue;
        }
        for thread in process.threads().unwrap_or_default() {
            let burns = program == sandbag && only_cpu(&thread).is_some();
            if thread.pid() != me && !burns {
                others.add(&thread);
            }
        }
    }
    others.at_ns = u64::midpoint(began_ns, clock::monotonic());
    Ok(others)
}

/// The burners of the sandbag `pid`, each with its CPU: of the process, its
/// children and theirs, the threads of the same program that are pinned to
/// exactly one CPU. Looks at few files, so that it may run during the hold.
pub fn burners(root: &Root, pid: u32, sandbag: &Path) -> Vec<(u32, Process)> {
    let mut found = Vec::new();
    let mut families = vec![pid];
    while let Some(pid) = families.pop() {
        let process = Process::new(root, pid);
        if !process.program().is_ok_and(|program| program == sandbag) {
            continue;
        }
        // A process that has ended meanwhile has neither threads nor children.
        families.extend(process.children().unwrap_or_default());
        for thread in process.threads().unwrap_or_default() {
            found.extend(only_cpu(&thread).map(|cpu| (cpu, thread)));
        }
    }
    found
}

impl CompetingThreads {
    fn add(&mut self, thread: &Process) {
        // A thread that has ended meanwhile is not there.
        if let (Ok(stat), Ok(sched)) = (thread.stat(), thread.schedstat()) {
            self.threads.insert(
                (thread.pid(), stat.times.start_ticks),
                (sched.exec_ns, stat.cpu),
            );
        }
    }

    /// Run time since `earlier` by CPU, in the order of `cpus`, within a window
    /// of `window_ns` between the two looks: the looks are before and after
    /// the window, and who ran all the time ran outside of it, too.
    pub fn since(&self, earlier: &Self, cpus: &CpuList, window_ns: u64) -> Vec<u64> {
        let between = self.at_ns.saturating_sub(earlier.at_ns).max(1);
        let inside = (window_ns as f64 / between as f64).min(1.0);
        cpus.iter()
            .map(|cpu| {
                let all: u64 = self
                    .threads
                    .iter()
                    .filter(|(_, (_, on))| *on == cpu)
                    .map(|(thread, (now, _))| {
                        let before = earlier.threads.get(thread).map_or(0, |(ns, _)| *ns);
                        now.saturating_sub(before)
                    })
                    .sum();
                (all as f64 * inside) as u64
            })
            .collect()
    }
}

/// The CPU of a thread that may run on exactly one.
fn only_cpu(thread: &Process) -> Option<u32> {
    let list: CpuList = thread.status("Cpus_allowed_list", "CPUs").ok()??;
    let mut cpus = list.iter();
    let first = cpus.next()?;
    cpus.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn burners_are_pinned_relatives_of_the_same_program() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        let process = |pid: u32, program: &str, cpus: &str, children: &str| {
            let task = root.path(format!("/proc/{pid}/task/{pid}"));
            fs::create_dir_all(&task).unwrap();
            fs::write(task.join("children"), children).unwrap();
            fs::write(task.join("status"), format!("Cpus_allowed_list:\t{cpus}\n")).unwrap();
            std::os::unix::fs::symlink(program, root.path(format!("/proc/{pid}/exe"))).unwrap();
        };
        process(10, "/bin/sandbag", "0-1", "11 12 13 ");
        process(11, "/bin/sandbag", "0", "");
        process(12, "/bin/sandbag", "1", "14 ");
        process(13, "/bin/app", "0", "");
        process(14, "/bin/sandbag", "1", "");
        process(20, "/bin/sandbag", "0", "");
        let mut found: Vec<(u32, u32)> = burners(&root, 10, Path::new("/bin/sandbag"))
            .iter()
            .map(|(cpu, thread)| (*cpu, thread.pid()))
            .collect();
        found.sort_unstable();
        assert_eq!(found, [(0, 11), (1, 12), (1, 14)]);
    }

    #[test]
    fn a_number_that_is_used_again_is_another_thread() {
        let early = CompetingThreads {
            threads: BTreeMap::from([((7, 100), (50, 0)), ((8, 1), (10, 1))]),
            at_ns: 1000,
        };
        let late = CompetingThreads {
            threads: BTreeMap::from([((7, 900), (20, 0)), ((8, 1), (15, 1)), ((9, 901), (3, 1))]),
            at_ns: 1100,
        };
        let cpus: CpuList = "0-1".parse().unwrap();
        assert_eq!(late.since(&early, &cpus, 100), [20, 8]);
        // The window is half of the time between the looks.
        assert_eq!(late.since(&early, &cpus, 50), [10, 4]);
    }
}
