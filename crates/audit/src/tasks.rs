// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who else ran: tasks that got CPU time while a test ran, and where.
//!
//! `/proc/PID/task/TID/schedstat` says how long a task ran, to the nanosecond;
//! `stat` says on which CPU it was last. All that a task ran in a stretch of
//! time is put down to that CPU: right for those that are pinned (burners,
//! the kernel's own threads) and, for short stretches, for nearly all others.
//! Tasks that came and went within the stretch are not seen.

use std::collections::HashMap;

use sandbag_linux::process::{self, Process, ProcessStat};
use sandbag_linux::{Root, clock};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskClass {
    /// SCHED_FIFO, SCHED_RR or SCHED_DEADLINE, not of the kernel.
    RealTime,
    Kernel,
    Ordinary,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskTime {
    pub cpu: u32,
    pub tid: u32,
    pub pid: u32,
    pub parent: u32,
    pub name: String,
    pub class: TaskClass,
    /// Real-time priority, 0 of others.
    pub priority: u32,
    pub ns: u64,
}

/// Number of the process whose children the kernel's threads are.
const KTHREADD: u32 = 2;
/// Policies of real-time tasks: FIFO, RR, DEADLINE.
const REAL_TIME: [u32; 3] = [1, 2, 6];

#[derive(Debug)]
pub struct TaskWatch {
    root: Root,
    /// Processes that are not looked at: our own.
    own: Vec<u32>,
    before: HashMap<u32, u64>,
    began_ns: u64,
}

impl TaskWatch {
    /// Of all tasks but those of these processes.
    pub fn new(root: &Root, own: Vec<u32>) -> Self {
        Self {
            root: root.clone(),
            own,
            before: HashMap::new(),
            began_ns: 0,
        }
    }

    pub fn exclude(&mut self, pid: u32) {
        self.own.push(pid);
    }

    /// A stretch begins. How long the look took, ns.
    pub fn begin(&mut self) -> u64 {
        let begin = clock::monotonic();
        self.before = self
            .look()
            .into_iter()
            .map(|(_, tid, ns)| (tid, ns))
            .collect();
        self.began_ns = clock::monotonic();
        self.began_ns.saturating_sub(begin)
    }

    /// It ended: who ran in it, and for how long it lasted, ns.
    pub fn end(&mut self) -> (Vec<TaskTime>, u64) {
        let lasted_ns = clock::monotonic().saturating_sub(self.began_ns);
        let mut ran = Vec::new();
        for (pid, tid, now_ns) in self.look() {
            // One that is new ran all its time in the stretch.
            let before_ns = self.before.get(&tid).copied().unwrap_or(0);
            let ns = now_ns.saturating_sub(before_ns);
            if ns == 0 {
                continue;
            }
            let Ok(stat) = Process::new(&self.root, pid).thread(tid).stat() else {
                continue;
            };
            ran.push(TaskTime {
                cpu: stat.cpu,
                tid,
                pid,
                parent: stat.parent,
                class: class(pid, &stat),
                priority: stat.rt_priority,
                name: stat.name,
                ns: ns.min(lasted_ns),
            });
        }
        (ran, lasted_ns)
    }

    /// Process, thread and run time of all that are there.
    fn look(&self) -> Vec<(u32, u32, u64)> {
        let mut all = Vec::with_capacity(self.before.len() + 16);
        for pid in process::pids(&self.root).unwrap_or_default() {
            if self.own.contains(&pid) {
                continue;
            }
            let threads = Process::new(&self.root, pid).threads();
            for thread in threads.unwrap_or_default() {
                let ran = thread.schedstat();
                all.extend(ran.ok().map(|ran| (pid, thread.pid(), ran.exec_ns)));
            }
        }
        all
    }
}

fn class(pid: u32, stat: &ProcessStat) -> TaskClass {
    if pid == KTHREADD || stat.parent == KTHREADD {
        TaskClass::Kernel
    } else if REAL_TIME.contains(&stat.policy) {
        TaskClass::RealTime
    } else {
        TaskClass::Ordinary
    }
}

#[cfg(test)]
#[path = "../../base/linux/tests/support/patience.rs"]
mod patience;

#[cfg(test)]
mod tests {
    use super::patience::repeat_until;
    use super::*;

    #[test]
    fn a_task_that_runs_is_seen_where_it_runs() {
        let root = Root::default();
        let cpu = sandbag_linux::sched::affinity(0)
            .unwrap()
            .iter()
            .next()
            .unwrap();
        let mut busy = std::process::Command::new("sh");
        busy.args([
            "-c",
            &format!("taskset -pc {cpu} $$ >/dev/null; while :; do :; done"),
        ]);
        let mut busy = busy.spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let mut watch = TaskWatch::new(&root, vec![std::process::id()]);
        let stretch = || {
            watch.begin();
            std::thread::sleep(std::time::Duration::from_millis(100));
            watch.end()
        };
        // Again while other programs have the CPU.
        let (ran, lasted_ns) = repeat_until(stretch, |(ran, _)| {
            ran.iter()
                .any(|ran| ran.pid == busy.id() && ran.ns > 1_000_000)
        });
        busy.kill().unwrap();
        busy.wait().unwrap();
        let found = ran.iter().find(|ran| ran.pid == busy.id());
        let found = found.unwrap_or_else(|| panic!("{ran:?}"));
        assert!(
            found.ns > 1_000_000 && lasted_ns >= 100_000_000,
            "{found:?}"
        );
        assert_eq!(found.class, TaskClass::Ordinary);
        assert!(!ran.iter().any(|ran| ran.pid == std::process::id()));
    }
}
