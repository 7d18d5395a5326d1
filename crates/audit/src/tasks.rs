// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who else ran: tasks that got CPU time while a test ran, and where.
//!
//! `/proc/PID/task/TID/schedstat` says how long a task ran, to the nanosecond;
//! `stat` says on which CPU it was last. All that a task ran in a stretch of
//! time is put down to that CPU: right for those that are pinned (burners,
//! the kernel's own threads) and, for short stretches, for nearly all others.
//! Tasks that came and went within the stretch are not seen.

use std::collections::{BTreeMap, HashMap};
use std::fs;

use sandbag_kernel::process::{Process, ProcessStat};
use sandbag_kernel::{Root, clock};

/// What kind of task it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// SCHED_FIFO, SCHED_RR or SCHED_DEADLINE, not of the kernel.
    RealTime,
    /// The kernel's.
    Kernel,
    /// Any other.
    Ordinary,
}

/// A task and where it ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// The CPU.
    pub cpu: u32,
    /// Of the thread.
    pub tid: u32,
    /// Of its process.
    pub pid: u32,
    /// The process's parent.
    pub parent: u32,
    /// Name of the thread.
    pub name: String,
    /// Kind.
    pub class: Class,
    /// Real-time priority, 0 of others.
    pub priority: u32,
    /// How long.
    pub ns: u64,
}

/// Number of the process whose children the kernel's threads are.
const KTHREADD: u32 = 2;
/// Policies of real-time tasks: FIFO, RR, DEADLINE.
const REAL_TIME: [u32; 3] = [1, 2, 6];

/// Looks at all tasks.
#[derive(Debug)]
pub struct Watch {
    root: Root,
    /// Processes that are not looked at: our own.
    own: Vec<u32>,
    before: HashMap<u32, u64>,
    began_ns: u64,
}

impl Watch {
    /// Of all tasks but those of these processes.
    #[must_use]
    pub fn new(root: &Root, own: Vec<u32>) -> Self {
        Self {
            root: root.clone(),
            own,
            before: HashMap::new(),
            began_ns: 0,
        }
    }

    /// This process is ours as well.
    pub fn own(&mut self, pid: u32) {
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
    pub fn end(&mut self) -> (Vec<Ran>, u64) {
        let lasted_ns = clock::monotonic().saturating_sub(self.began_ns);
        let mut ran = Vec::new();
        for (pid, tid, now_ns) in self.look() {
            // One that is new ran all its time in the stretch.
            let before_ns = self.before.get(&tid).copied().unwrap_or(0);
            let ns = now_ns.saturating_sub(before_ns);
            if ns == 0 {
                continue;
            }
            // Of a thread too, though its directory is in no list.
            let Ok(stat) = Process::new(&self.root, tid).stat() else {
                continue;
            };
            ran.push(Ran {
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
        for pid in numbers(&self.root.path("/proc")) {
            if self.own.contains(&pid) {
                continue;
            }
            let tasks = self.root.path(format!("/proc/{pid}/task"));
            for tid in numbers(&tasks) {
                let text = fs::read_to_string(tasks.join(format!("{tid}/schedstat")));
                let ns = text
                    .ok()
                    .and_then(|text| text.split(' ').next()?.parse().ok());
                all.extend(ns.map(|ns| (pid, tid, ns)));
            }
        }
        all
    }
}

fn class(pid: u32, stat: &ProcessStat) -> Class {
    if pid == KTHREADD || stat.parent == KTHREADD {
        Class::Kernel
    } else if REAL_TIME.contains(&stat.policy) {
        Class::RealTime
    } else {
        Class::Ordinary
    }
}

fn numbers(dir: &std::path::Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    names.collect()
}

/// All that ran beside the tests, in sum.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Others {
    /// By CPU, for how long it was watched while tests ran there, ns.
    pub watched_ns: BTreeMap<u32, u64>,
    ran: HashMap<(u32, u32), Ran>,
    /// The other threads of a CPU's core.
    siblings: BTreeMap<u32, Vec<u32>>,
    /// By CPU under test: who ran on its siblings.
    beside: HashMap<(u32, u32), Ran>,
}

impl Others {
    /// Of CPUs that share cores so.
    #[must_use]
    pub fn new(siblings: BTreeMap<u32, Vec<u32>>) -> Self {
        Self {
            siblings,
            ..Self::default()
        }
    }

    /// Adds a stretch in which a test ran on `cpu`.
    pub fn add(&mut self, cpu: u32, ran: &[Ran], lasted_ns: u64) {
        *self.watched_ns.entry(cpu).or_default() += lasted_ns;
        let siblings = self.siblings.get(&cpu).map_or(&[][..], Vec::as_slice);
        for one in ran {
            let place = match one.cpu {
                own if own == cpu => &mut self.ran,
                other if siblings.contains(&other) => &mut self.beside,
                _ => continue,
            };
            place
                .entry((cpu, one.tid))
                .and_modify(|known| known.ns = known.ns.saturating_add(one.ns))
                .or_insert_with(|| one.clone());
        }
    }

    /// Who ran on the siblings of a CPU while it was tested, most first.
    #[must_use]
    pub fn beside(&self, cpu: u32) -> Vec<&Ran> {
        let own = self.beside.iter().filter(|((of, _), _)| *of == cpu);
        let mut all: Vec<&Ran> = own.map(|(_, ran)| ran).collect();
        all.sort_by(|a, b| b.ns.cmp(&a.ns).then(a.tid.cmp(&b.tid)));
        all
    }

    /// By how much the siblings of a CPU were busier than those of the others
    /// while those were tested, percent of a CPU.
    #[must_use]
    pub fn more_beside_pct(&self, cpu: u32) -> f64 {
        let of = |cpu: u32| {
            let ns: u64 = self.beside(cpu).iter().map(|ran| ran.ns).sum();
            self.pct(cpu, ns)
        };
        let others = self.watched_ns.keys().filter(|other| **other != cpu);
        let elsewhere: Vec<f64> = others.map(|other| of(*other)).collect();
        of(cpu) - elsewhere.iter().sum::<f64>() / elsewhere.len().max(1) as f64
    }

    /// Who ran on a CPU, most first.
    #[must_use]
    pub fn on(&self, cpu: u32) -> Vec<&Ran> {
        let mut all: Vec<&Ran> = self.ran.values().filter(|ran| ran.cpu == cpu).collect();
        all.sort_by(|a, b| b.ns.cmp(&a.ns).then(a.tid.cmp(&b.tid)));
        all
    }

    /// Share of the time that tasks of this name took on average of the other
    /// CPUs, percent; 0 without others.
    #[must_use]
    pub fn elsewhere_pct(&self, cpu: u32, name: &str) -> f64 {
        let others = || self.watched_ns.iter().filter(|(other, _)| **other != cpu);
        let watched: u64 = others().map(|(_, ns)| ns).sum();
        let ran = self.ran.values();
        let same = ran.filter(|ran| ran.cpu != cpu && family(&ran.name) == family(name));
        let ns: u64 = same.map(|ran| ran.ns).sum();
        match watched {
            0 => 0.0,
            _ => ns as f64 / watched as f64 * 100.0,
        }
    }

    /// Share of the CPU's watched time, percent.
    #[must_use]
    pub fn pct(&self, cpu: u32, ns: u64) -> f64 {
        match self.watched_ns.get(&cpu) {
            Some(watched) if *watched > 0 => ns as f64 / *watched as f64 * 100.0,
            _ => 0.0,
        }
    }
}

/// A task's name without its numbers: `kworker/1:2-events` and
/// `kworker/0:1-events` are one family.
#[must_use]
pub fn family(name: &str) -> String {
    name.chars().filter(|c| !c.is_ascii_digit()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_runs_is_seen_where_it_runs() {
        let root = Root::default();
        let cpu = sandbag_kernel::sched::affinity(0)
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
        let mut watch = Watch::new(&root, vec![std::process::id()]);
        watch.begin();
        std::thread::sleep(std::time::Duration::from_millis(100));
        let (ran, lasted_ns) = watch.end();
        busy.kill().unwrap();
        busy.wait().unwrap();
        let found = ran.iter().find(|ran| ran.pid == busy.id());
        let found = found.unwrap_or_else(|| panic!("{ran:?}"));
        assert!(
            found.ns > 1_000_000 && lasted_ns >= 100_000_000,
            "{found:?}"
        );
        assert_eq!(found.class, Class::Ordinary);
        assert!(!ran.iter().any(|ran| ran.pid == std::process::id()));
    }

    #[test]
    fn shares_are_of_the_time_that_a_cpu_was_watched() {
        let ran = |cpu, tid, name: &str, ns| Ran {
            cpu,
            tid,
            pid: tid,
            parent: 1,
            name: name.to_owned(),
            class: Class::Ordinary,
            priority: 0,
            ns,
        };
        let mut others = Others::default();
        others.add(0, &[ran(0, 5, "kworker/0:1", 10), ran(1, 6, "x", 99)], 1000);
        others.add(0, &[ran(0, 5, "kworker/0:1", 20)], 1000);
        others.add(1, &[ran(1, 7, "kworker/1:4", 5)], 500);
        let on: Vec<u64> = others.on(0).iter().map(|ran| ran.ns).collect();
        assert_eq!(on, [30]);
        assert!((others.pct(0, 30) - 1.5).abs() < 1e-12);
        assert!((others.elsewhere_pct(0, "kworker/0:1") - 1.0).abs() < 1e-12);
        assert_eq!(others.elsewhere_pct(0, "y"), 0.0);
        assert!(others.beside(0).is_empty());
    }

    #[test]
    fn who_runs_on_the_other_thread_of_a_core_is_beside() {
        let ran = |cpu, tid, ns| Ran {
            cpu,
            tid,
            pid: tid,
            parent: 1,
            name: "x".to_owned(),
            class: Class::Ordinary,
            priority: 0,
            ns,
        };
        let cores = [(0, vec![2]), (1, vec![3]), (2, vec![0]), (3, vec![1])];
        let mut others = Others::new(BTreeMap::from(cores));
        for cpu in 0..4 {
            others.add(cpu, &[ran(2, 5, 800), ran(1, 6, 40)], 1000);
        }
        assert_eq!(others.beside(0)[0].tid, 5);
        assert_eq!(others.on(2)[0].ns, 800);
        // Beside CPU 0: 80 %; beside 3: 4 %; beside 1 and 2: nothing.
        assert!((others.more_beside_pct(0) - (80.0 - 4.0 / 3.0)).abs() < 1e-9);
        assert!(others.more_beside_pct(1) < 0.0);
    }
}
