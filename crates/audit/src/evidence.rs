// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What else happened on a CPU while a test ran there: counters of the kernel
//! right before and right after, outside of what is timed.
//!
//! Before its timed part a run warms the CPU for some milliseconds: counts are
//! of both together, and [`Stretch::lasted_ns`] is how long that was.

use std::collections::BTreeMap;
use std::rc::Rc;

use sandbag_linux::interrupts::InterruptTable;
use sandbag_linux::procstat::{CpuTimes, ProcStat, tick_ns};
use sandbag_linux::{Result, Root, clock, root};

use crate::model::Evidence;
use crate::tasks::TaskTime;
use crate::work::RunFigures;

/// Tasks that are named with a run.
const TASKS: usize = 5;

#[derive(Debug, Clone, Default)]
pub struct CpuCounters {
    at_ns: u64,
    times: CpuTimes,
    interrupts: Rc<InterruptTable>,
    softirqs: Rc<InterruptTable>,
    throttled: Option<u64>,
}

#[derive(Debug)]
pub struct CounterReader {
    root: Root,
    stat: ProcStat,
}

/// What happened between two moments.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stretch {
    pub evidence: Evidence,
    pub lasted_ns: u64,
}

impl CounterReader {
    pub fn open(root: &Root) -> Result<Self> {
        Ok(Self {
            root: root.clone(),
            stat: ProcStat::open(root)?,
        })
    }

    /// The counters now; what cannot be read is 0.
    pub fn now(&mut self, cpu: u32) -> CpuCounters {
        self.now_on(&[cpu]).pop().unwrap_or_default()
    }

    /// The same of several CPUs, whose counters stand in the same files: each is read once.
    pub fn now_on(&mut self, cpus: &[u32]) -> Vec<CpuCounters> {
        let sample = self.stat.sample().ok();
        let times = |cpu| sample.as_ref()?.get(cpu).copied();
        let times: Vec<CpuTimes> = cpus
            .iter()
            .map(|cpu| times(*cpu).unwrap_or_default())
            .collect();
        let interrupts = Rc::new(InterruptTable::of_interrupts(&self.root).unwrap_or_default());
        let softirqs = Rc::new(InterruptTable::of_softirqs(&self.root).unwrap_or_default());
        let throttled: Vec<Option<u64>> = cpus
            .iter()
            .map(|cpu| throttle_count(&self.root, *cpu))
            .collect();
        let at_ns = clock::monotonic();
        let each = times.into_iter().zip(throttled);
        each.map(|(times, throttled)| CpuCounters {
            at_ns,
            times,
            interrupts: Rc::clone(&interrupts),
            softirqs: Rc::clone(&softirqs),
            throttled,
        })
        .collect()
    }

    /// What happened since; `figures` are the run's own.
    pub fn stretch_since(
        &mut self,
        cpu: u32,
        before: &CpuCounters,
        figures: &RunFigures,
    ) -> Stretch {
        let at_ns = clock::monotonic();
        let after = self.now(cpu);
        Stretch::between(cpu, before, &after, figures, at_ns)
    }

    /// The same of several CPUs at once, without figures of their own.
    pub fn stretches_since(&mut self, cpus: &[u32], before: &[CpuCounters]) -> Vec<Stretch> {
        let at_ns = clock::monotonic();
        let after = self.now_on(cpus);
        let figures = RunFigures::default();
        let each = cpus.iter().zip(before).zip(&after);
        each.map(|((cpu, before), after)| Stretch::between(*cpu, before, after, &figures, at_ns))
            .collect()
    }
}

impl Stretch {
    /// What happened until `after` was read, from `at_ns` on.
    fn between(
        cpu: u32,
        before: &CpuCounters,
        after: &CpuCounters,
        figures: &RunFigures,
        at_ns: u64,
    ) -> Self {
        let ticks = |now: u64, before: u64| now.saturating_sub(before) * tick_ns();
        Self {
            evidence: Evidence {
                voluntary: figures.voluntary,
                involuntary: figures.involuntary,
                waited_ns: figures.waited_ns,
                steal_ns: ticks(after.times.steal, before.times.steal),
                irq_ns: ticks(after.times.irq, before.times.irq),
                softirq_ns: ticks(after.times.softirq, before.times.softirq),
                interrupts: increases(cpu, &before.interrupts, &after.interrupts, true),
                softirqs: increases(cpu, &before.softirqs, &after.softirqs, false),
                frequency_khz: figures.frequency_khz,
                throttled: after
                    .throttled
                    .zip(before.throttled)
                    .map(|(now, before)| now.saturating_sub(before)),
                tasks: Vec::new(),
            },
            lasted_ns: at_ns.saturating_sub(before.at_ns),
        }
    }
}

/// The tasks that ran most beside a run, for its evidence.
pub fn top_tasks(cpu: u32, ran: &[TaskTime]) -> Vec<(String, u64)> {
    let own = ran.iter().filter(|ran| ran.cpu == cpu);
    let mut tasks: Vec<(String, u64)> = own.map(|ran| (ran.name.clone(), ran.ns)).collect();
    tasks.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    tasks.truncate(TASKS);
    tasks
}

/// The rows that counted, with what they are about.
fn increases(
    cpu: u32,
    before: &InterruptTable,
    after: &InterruptTable,
    about: bool,
) -> Vec<(String, u64)> {
    let earlier: BTreeMap<&str, u64> = before
        .of_cpu(cpu)
        .map(|(row, count)| (row.label.as_str(), count))
        .collect();
    let rows = after.of_cpu(cpu).filter_map(|(row, count)| {
        let earlier = earlier.get(row.label.as_str()).copied().unwrap_or(0);
        let more = count.saturating_sub(earlier);
        let name = if about && !row.about.is_empty() {
            format!("{} {}", row.label, row.about)
        } else {
            row.label.clone()
        };
        (more > 0).then_some((name, more))
    });
    rows.collect()
}

/// Throttle events of core and package (Documentation/ABI/testing/
/// sysfs-devices-system-cpu, `thermal_throttle`).
fn throttle_count(of: &Root, cpu: u32) -> Option<u64> {
    let dir = of.path(format!("/sys/devices/system/cpu/cpu{cpu}/thermal_throttle"));
    let count = |name: &str| root::read_value::<u64>(&dir.join(name), "a number").ok();
    match (
        count("core_throttle_count"),
        count("package_throttle_count"),
    ) {
        (None, None) => None,
        (core, package) => Some(core.unwrap_or(0) + package.unwrap_or(0)),
    }
}

/// Adds one to a sum; of frequencies the mean is kept elsewhere.
pub fn add(sum: &mut Evidence, one: &Evidence) {
    sum.voluntary += one.voluntary;
    sum.involuntary += one.involuntary;
    sum.waited_ns += one.waited_ns;
    sum.steal_ns += one.steal_ns;
    sum.irq_ns += one.irq_ns;
    sum.softirq_ns += one.softirq_ns;
    sum.throttled = match (sum.throttled, one.throttled) {
        (None, other) | (other, None) => other,
        (Some(a), Some(b)) => Some(a + b),
    };
    for (all, some) in [
        (&mut sum.interrupts, &one.interrupts),
        (&mut sum.softirqs, &one.softirqs),
        (&mut sum.tasks, &one.tasks),
    ] {
        for (name, count) in some {
            match all.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) => *sum += count,
                None => all.push((name.clone(), *count)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{add_file as write, tree};

    #[test]
    fn counters_are_held_against_each_other() {
        let (_dir, root) = tree(&[]);
        let throttle = "/sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count";
        write(&root, "/proc/stat", "cpu0 1 1 1 1\ncpu1 0 0 0 0 0 3 4 5\n");
        write(
            &root,
            "/proc/interrupts",
            "  CPU0 CPU1\n 36: 5 7 edge virtio1-req.0\nLOC: 1 2 Local timer interrupts\n",
        );
        write(&root, "/proc/softirqs", "  CPU0 CPU1\nTIMER: 1 2\n");
        write(&root, throttle, "2\n");
        let mut reader = CounterReader::open(&root).unwrap();
        let before = reader.now(1);
        write(&root, "/proc/stat", "cpu0 1 1 1 1\ncpu1 0 0 0 0 0 4 4 8\n");
        write(
            &root,
            "/proc/interrupts",
            "  CPU0 CPU1\n 36: 9 7 edge virtio1-req.0\nLOC: 1 252 Local timer interrupts\n",
        );
        write(&root, "/proc/softirqs", "  CPU0 CPU1\nTIMER: 1 12\n");
        write(&root, throttle, "3\n");
        let figures = RunFigures {
            involuntary: 7,
            frequency_khz: Some(2_000_000),
            ..RunFigures::default()
        };
        let found = reader.stretch_since(1, &before, &figures).evidence;
        let tick = tick_ns();
        assert_eq!(
            (found.irq_ns, found.softirq_ns, found.steal_ns),
            (tick, 0, 3 * tick)
        );
        assert_eq!(
            found.interrupts,
            [("LOC Local timer interrupts".to_owned(), 250)]
        );
        assert_eq!(found.softirqs, [("TIMER".to_owned(), 10)]);
        assert_eq!((found.throttled, found.involuntary), (Some(1), 7));
        let mut sum = Evidence::default();
        add(&mut sum, &found);
        add(&mut sum, &found);
        assert_eq!(sum.interrupts[0].1, 500);
        assert_eq!(sum.throttled, Some(2));
    }

    #[test]
    fn a_machine_that_says_nothing_is_no_failure() {
        let (_dir, root) = tree(&[]);
        assert!(CounterReader::open(&root).is_err());
        write(&root, "/proc/stat", "cpu0 1 1 1 1\n");
        let mut reader = CounterReader::open(&root).unwrap();
        let before = reader.now(0);
        let found = reader.stretch_since(0, &before, &RunFigures::default());
        assert_eq!(found.evidence, Evidence::default());
    }
}
