// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What /proc counts, before a recording and after it. Anybody may read it, it
//! costs nothing meanwhile, and it says how often, not which event.

use std::time::Instant;

use sandbag_linux::interrupts::{InterruptRow, InterruptTable};
use sandbag_linux::process::Process;
use sandbag_linux::procstat::{CpuTimes, ProcStat, tick_ns};
use sandbag_linux::{CpuList, Root};

use crate::causes::{Count, CpuCounters};

/// One reading; what the kernel does not tell is left out.
#[derive(Debug)]
pub(super) struct CounterReading {
    at: Instant,
    interrupts: InterruptTable,
    softirqs: InterruptTable,
    times: Vec<(u32, CpuTimes)>,
    loops: Vec<Loop>,
}

/// Of the thread of a loop.
#[derive(Debug, Clone, Copy)]
struct Loop {
    preempted: Option<u64>,
    waited_ns: Option<u64>,
}

impl CounterReading {
    /// Reads it all; `threads` are the loops.
    pub(super) fn now(root: &Root, threads: &[u32]) -> Self {
        let times = ProcStat::open(root).and_then(|mut stat| Ok(stat.sample()?.cpus.clone()));
        Self {
            at: Instant::now(),
            interrupts: InterruptTable::of_interrupts(root).unwrap_or_default(),
            softirqs: InterruptTable::of_softirqs(root).unwrap_or_default(),
            times: times.unwrap_or_default(),
            loops: threads
                .iter()
                .map(|thread| Loop::now(root, *thread))
                .collect(),
        }
    }

    /// What happened on these CPUs, which are those of the threads in order,
    /// since an earlier reading.
    pub(super) fn since(&self, earlier: &Self, cpus: &CpuList) -> Vec<CpuCounters> {
        let tick_ns = tick_ns();
        let of_cpu = |(place, cpu): (usize, u32)| {
            let times = |all: &[(u32, CpuTimes)]| {
                let found = all.iter().find(|(number, _)| *number == cpu);
                found.map_or_else(CpuTimes::default, |(_, times)| *times)
            };
            let (before, after) = (times(&earlier.times), times(&self.times));
            let ns = |of: fn(&CpuTimes) -> u64| {
                of(&after)
                    .saturating_sub(of(&before))
                    .saturating_mul(tick_ns)
            };
            let of_loop = |of: fn(&Loop) -> Option<u64>| {
                let before = earlier.loops.get(place).and_then(of)?;
                Some(self.loops.get(place).and_then(of)?.saturating_sub(before))
            };
            CpuCounters {
                cpu,
                elapsed_ns: u64::try_from((self.at - earlier.at).as_nanos()).unwrap_or(u64::MAX),
                interrupts: counts(&self.interrupts, &earlier.interrupts, cpu),
                softirqs: counts(&self.softirqs, &earlier.softirqs, cpu),
                irq_ns: ns(|times| times.irq),
                softirq_ns: ns(|times| times.softirq),
                steal_ns: ns(|times| times.steal),
                preempted: of_loop(|one| one.preempted),
                waited_ns: of_loop(|one| one.waited_ns),
            }
        };
        cpus.iter().enumerate().map(of_cpu).collect()
    }
}

impl Loop {
    /// Of proc_pid_status(5) and Documentation/scheduler/sched-stats.rst.
    fn now(root: &Root, thread: u32) -> Self {
        let thread = Process::current(root).thread(thread);
        let preempted = thread.status("nonvoluntary_ctxt_switches", "a number");
        Self {
            preempted: preempted.ok().flatten(),
            waited_ns: thread.schedstat().ok().map(|stat| stat.run_delay_ns),
        }
    }
}

/// The rows that moved, most first.
fn counts(now: &InterruptTable, before: &InterruptTable, cpu: u32) -> Vec<Count> {
    let mut all: Vec<Count> = now
        .of_cpu(cpu)
        .filter_map(|(row, count)| {
            let was = before.of_cpu(cpu).find(|(old, _)| old.label == row.label);
            let count = count.saturating_sub(was.map_or(0, |(_, count)| count));
            (count > 0).then(|| Count {
                name: name(row),
                count,
            })
        })
        .collect();
    all.sort_by_key(|count| std::cmp::Reverse(count.count));
    all
}

/// `36 virtio1-req.0`, `LOC Local timer interrupts`, `NET_RX`.
fn name(row: &InterruptRow) -> String {
    let is_device = row.label.bytes().all(|b| b.is_ascii_digit());
    let about = if is_device {
        row.about.split(' ').next_back().unwrap_or_default()
    } else {
        &row.about
    };
    format!("{} {about}", row.label).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(loc: u32, steal: u32, waited: u32) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [
            (
                "interrupts",
                format!(
                    "      CPU0  CPU2\n 36:  1 5 PCI-MSIX-0  1-edge   virtio1-req.0\n\
                     LOC:  7 {loc}  Local timer interrupts\nERR: 0\n"
                ),
            ),
            ("softirqs", format!("  CPU0 CPU2\n SCHED: 1 {loc}\n")),
            (
                "stat",
                format!("cpu  1 1 1 1\ncpu0 1 0 0 1 0 0 0 0\ncpu2 1 0 0 1 0 2 3 {steal}\n"),
            ),
            (
                "self/task/9/status",
                "nonvoluntary_ctxt_switches:\t4\n".to_owned(),
            ),
            ("self/task/9/schedstat", format!("100 {waited} 3\n")),
        ] {
            let path = dir.path().join("proc").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let root = Root::at(dir.path());
        (dir, root)
    }

    #[test]
    fn only_what_moved_is_told() {
        let (_a, before) = tree(10, 1, 50);
        let (_b, after) = tree(25, 3, 80);
        let cpus = CpuList::from_iter([2]);
        let first = CounterReading::now(&before, &[9]);
        let got = CounterReading::now(&after, &[9]).since(&first, &cpus);
        let [one] = &got[..] else { panic!("{got:?}") };
        assert_eq!(
            one.interrupts,
            [Count {
                name: "LOC Local timer interrupts".to_owned(),
                count: 15
            }]
        );
        assert_eq!(one.softirqs[0].name, "SCHED");
        assert_eq!((one.steal_ns, one.irq_ns), (2 * tick_ns(), 0));
        assert_eq!((one.preempted, one.waited_ns), (Some(0), Some(30)));
    }

    #[test]
    fn what_is_not_there_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        let first = CounterReading::now(&root, &[9]);
        let got = CounterReading::now(&root, &[9]).since(&first, &CpuList::from_iter([0]));
        assert!(got[0].interrupts.is_empty() && got[0].waited_ns.is_none());
    }
}
