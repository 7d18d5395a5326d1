// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All that ran beside the tests, in sum: on the CPU under test, and on the other
//! threads of its core. Pure.

use std::collections::{BTreeMap, HashMap};

use crate::tasks::TaskTime;

/// All that ran beside the tests, in sum.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CompetingTasks {
    /// By CPU, for how long it was watched while tests ran there, ns.
    pub watched_ns: BTreeMap<u32, u64>,
    ran: HashMap<(u32, u32), TaskTime>,
    /// The other threads of a CPU's core.
    siblings: BTreeMap<u32, Vec<u32>>,
    /// By CPU under test: who ran on its siblings.
    beside: HashMap<(u32, u32), TaskTime>,
}

impl CompetingTasks {
    pub fn new(siblings: BTreeMap<u32, Vec<u32>>) -> Self {
        Self {
            siblings,
            ..Self::default()
        }
    }

    /// Adds a stretch in which a test ran on `cpu`.
    pub fn add(&mut self, cpu: u32, ran: &[TaskTime], lasted_ns: u64) {
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
    pub fn sibling_tasks(&self, cpu: u32) -> Vec<&TaskTime> {
        let own = self.beside.iter().filter(|((of, _), _)| *of == cpu);
        most_first(own.map(|(_, ran)| ran))
    }

    /// By how much the siblings of a CPU were busier than those of the others
    /// while those were tested, percent of a CPU.
    pub fn more_beside_pct(&self, cpu: u32) -> f64 {
        let of = |cpu: u32| {
            let ns: u64 = self.sibling_tasks(cpu).iter().map(|ran| ran.ns).sum();
            self.pct(cpu, ns)
        };
        let others = self.watched_ns.keys().filter(|other| **other != cpu);
        let elsewhere: Vec<f64> = others.map(|other| of(*other)).collect();
        of(cpu) - elsewhere.iter().sum::<f64>() / elsewhere.len().max(1) as f64
    }

    /// Who ran on a CPU, most first.
    pub fn on(&self, cpu: u32) -> Vec<&TaskTime> {
        most_first(self.ran.values().filter(|ran| ran.cpu == cpu))
    }

    /// Share of the time that tasks of this name took on average of the other
    /// CPUs, percent; 0 without others.
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
    pub fn pct(&self, cpu: u32, ns: u64) -> f64 {
        match self.watched_ns.get(&cpu) {
            Some(watched) if *watched > 0 => ns as f64 / *watched as f64 * 100.0,
            _ => 0.0,
        }
    }
}

fn most_first<'a>(tasks: impl Iterator<Item = &'a TaskTime>) -> Vec<&'a TaskTime> {
    let mut all: Vec<&TaskTime> = tasks.collect();
    all.sort_by(|a, b| b.ns.cmp(&a.ns).then(a.tid.cmp(&b.tid)));
    all
}

/// A task's name without its numbers: `kworker/1:2-events` and
/// `kworker/0:1-events` are one family.
pub fn family(name: &str) -> String {
    name.chars().filter(|c| !c.is_ascii_digit()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::TaskClass;

    fn ran(cpu: u32, tid: u32, name: &str, ns: u64) -> TaskTime {
        TaskTime {
            cpu,
            tid,
            pid: tid,
            parent: 1,
            name: name.to_owned(),
            class: TaskClass::Ordinary,
            priority: 0,
            ns,
        }
    }

    #[test]
    fn shares_are_of_the_time_that_a_cpu_was_watched() {
        let mut others = CompetingTasks::default();
        others.add(0, &[ran(0, 5, "kworker/0:1", 10), ran(1, 6, "x", 99)], 1000);
        others.add(0, &[ran(0, 5, "kworker/0:1", 20)], 1000);
        others.add(1, &[ran(1, 7, "kworker/1:4", 5)], 500);
        let on: Vec<u64> = others.on(0).iter().map(|ran| ran.ns).collect();
        assert_eq!(on, [30]);
        assert!((others.pct(0, 30) - 1.5).abs() < 1e-12);
        assert!((others.elsewhere_pct(0, "kworker/0:1") - 1.0).abs() < 1e-12);
        assert_eq!(others.elsewhere_pct(0, "y"), 0.0);
        assert!(others.sibling_tasks(0).is_empty());
    }

    #[test]
    fn who_runs_on_the_other_thread_of_a_core_is_beside() {
        let cores = [(0, vec![2]), (1, vec![3]), (2, vec![0]), (3, vec![1])];
        let mut others = CompetingTasks::new(BTreeMap::from(cores));
        for cpu in 0..4 {
            others.add(cpu, &[ran(2, 5, "x", 800), ran(1, 6, "x", 40)], 1000);
        }
        assert_eq!(others.sibling_tasks(0)[0].tid, 5);
        assert_eq!(others.on(2)[0].ns, 800);
        // Beside CPU 0: 80 %; beside 3: 4 %; beside 1 and 2: nothing.
        assert!((others.more_beside_pct(0) - (80.0 - 4.0 / 3.0)).abs() < 1e-9);
        assert!(others.more_beside_pct(1) < 0.0);
    }
}
