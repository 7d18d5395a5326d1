// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Foreign load: which processes, neither ours nor the program's, used CPU
//! time while a window had more of it than it may have.
//!
//! All processes are read once before the run and again only after a window
//! with too much foreign load, ever more rarely: reading them costs more than
//! everything else that the supervisor does.

use std::collections::{HashMap, HashSet};

use sandbag_linux::process::{self, ProcessStat};
use sandbag_linux::procstat::tick_ns;
use sandbag_linux::{CpuList, clock, sched};
use sandbag_stats::Window;
use sandbag_stats::verdict::NOISY_FOREIGN_PCT;
use sandbag_stats::window::share_pct;

use super::SupervisedRun;
use super::meter::WINDOW_NS;
use super::outcome::ForeignProcess;
use super::running::RunningCommand;
use crate::method::Scope;

/// A process for good: number and start time, since numbers are used again.
type Id = (u32, u64);

#[derive(Debug)]
pub(super) struct Foreign {
    first: HashMap<Id, u64>,
    grown: HashMap<Id, (String, u64)>,
    /// Those that were seen as the program's: of one that was killed it may not be known any
    /// more whose it was.
    ours: HashSet<Id>,
    /// When to read them again (monotonic), and how long to wait after that.
    next_ns: u64,
    wait_ns: u64,
}

/// Reading all processes is not repeated more often than this in the end.
const LONGEST_WAIT_NS: u64 = 64 * WINDOW_NS;

impl Foreign {
    fn begin(all: &[ProcessStat]) -> Self {
        Self {
            first: all.iter().map(|p| (id(p), ticks(p))).collect(),
            grown: HashMap::new(),
            ours: HashSet::new(),
            next_ns: 0,
            wait_ns: WINDOW_NS,
        }
    }

    fn is_due(&mut self, now_ns: u64) -> bool {
        if now_ns < self.next_ns {
            return false;
        }
        self.next_ns = now_ns + self.wait_ns;
        self.wait_ns = (2 * self.wait_ns).min(LONGEST_WAIT_NS);
        true
    }

    /// Notes those that used CPU time and are foreign; `program`: those that are the program's.
    fn note(
        &mut self,
        all: &[ProcessStat],
        program: &HashSet<u32>,
        is_foreign: impl Fn(&ProcessStat) -> bool,
    ) {
        let of_program = all.iter().filter(|process| program.contains(&process.pid));
        self.ours.extend(of_program.map(id));
        for process in all {
            if self.ours.contains(&id(process)) {
                continue;
            }
            let before = self.first.get(&id(process)).copied().unwrap_or(0);
            let used = ticks(process).saturating_sub(before);
            if used > 0 && is_foreign(process) {
                self.grown.insert(id(process), (process.name.clone(), used));
            }
        }
    }

    fn found(&self, tick_ns: u64) -> Vec<ForeignProcess> {
        let mut found: Vec<ForeignProcess> = self
            .grown
            .iter()
            .map(|((pid, _), (name, ticks))| ForeignProcess {
                pid: *pid,
                name: name.clone(),
                used_ns: ticks * tick_ns,
            })
            .collect();
        found.sort_by_key(|process| (std::cmp::Reverse(process.used_ns), process.pid));
        found
    }
}

fn id(process: &ProcessStat) -> Id {
    (process.pid, process.times.start_ticks)
}

fn ticks(process: &ProcessStat) -> u64 {
    process.times.user_ticks + process.times.system_ticks
}

impl SupervisedRun<'_> {
    /// Reads all processes for the first time, where a program can be disturbed.
    pub(super) fn expect_foreign(&mut self) {
        if let Ok(all) = process::processes(self.root) {
            self.foreign = Some(Foreign::begin(&all));
        }
    }

    /// Reads the processes after a window with foreign load; once more at the `end`.
    pub(super) fn look_for_foreign(&mut self, end: bool) {
        let disturbed = self.is_disturbed();
        let Some(mut foreign) = self.foreign.take() else {
            return;
        };
        let again = end && !foreign.grown.is_empty();
        if (again || disturbed && (foreign.is_due(clock::monotonic()) || end))
            && let Ok(all) = process::processes(self.root)
        {
            let ours = std::process::id();
            let program: HashSet<u32> = self.program().into_iter().collect();
            let cpus: CpuList = self.cpus.iter().map(super::LoadedCpu::number).collect();
            foreign.note(&all, &program, |process| {
                let parents = [ours].into_iter().chain(self.beside.pids());
                let is_ours = parents
                    .into_iter()
                    .any(|pid| process.pid == pid || process.parent == pid);
                !is_ours
                    && sched::affinity(process.pid)
                        .is_ok_and(|may| may.iter().any(|cpu| cpus.contains(cpu)))
            });
        }
        self.foreign = Some(foreign);
    }

    /// Whether foreign load took more of a CPU than it may in the latest windows.
    fn is_disturbed(&self) -> bool {
        let burns = self.method.scope == Scope::Cpu;
        let latest = || (0..self.cpus.len()).filter_map(|cpu| self.meter.latest(cpu));
        let is_much =
            |foreign_ns, delivered_ns| share_pct(foreign_ns, delivered_ns) > NOISY_FOREIGN_PCT;
        let on_a_cpu = latest().any(|window| {
            let foreign_ns = window.foreign_ns(burns).unwrap_or(0);
            is_much(foreign_ns, window.delivered_ns())
        });
        // Where the time of the programs is known of all CPUs together only.
        let together_ns = self.meter.latest_program_ns().and_then(|program_ns| {
            let busy_ns = latest().map(|window| window.busy_ns).sum::<Option<u64>>()?;
            let burned = latest().map(|window| if burns { window.burner_ns } else { 0 });
            Some(busy_ns.saturating_sub(burned.sum::<u64>() + program_ns))
        });
        let least_ns = latest().map(Window::delivered_ns).min();
        on_a_cpu || is_much(together_ns.unwrap_or(0), least_ns.unwrap_or(0))
    }

    /// The processes in the command's care and in the node.
    fn program(&self) -> Vec<u32> {
        let of_command = self.command.as_ref().map(RunningCommand::everyone);
        let mut all = of_command.unwrap_or_default();
        all.extend(self.members());
        all
    }

    pub(super) fn foreign_processes(&self) -> Vec<ForeignProcess> {
        let foreign = self.foreign.as_ref();
        foreign.map_or_else(Vec::new, |foreign| foreign.found(tick_ns()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbag_linux::process::ProcessTimes;

    fn process(pid: u32, start_ticks: u64, used: u64) -> ProcessStat {
        ProcessStat {
            pid,
            name: format!("p{pid}"),
            state: 'R',
            parent: 1,
            times: ProcessTimes {
                user_ticks: used,
                system_ticks: 0,
                ended_ticks: 0,
                start_ticks,
            },
            nice: 0,
            threads: 1,
            cpu: 0,
            rt_priority: 0,
            policy: 0,
        }
    }

    #[test]
    fn foreign_processes_are_named_by_what_they_used_since_the_beginning() {
        let mut foreign = Foreign::begin(&[process(1, 5, 100), process(2, 6, 1000)]);
        // 2 did nothing, 3 is new, 4 has the number of one that ended.
        let none = HashSet::new();
        foreign.note(&[process(1, 5, 150), process(2, 6, 1000)], &none, |_| true);
        foreign.note(
            &[process(1, 9, 30), process(3, 8, 70), process(4, 8, 9)],
            &none,
            |process| process.pid != 4,
        );
        let used: Vec<(&str, u64)> = foreign
            .found(10)
            .iter()
            .map(|p| p.used_ns)
            .zip(["p3", "p1", "p1"])
            .map(|(ns, name)| (name, ns))
            .collect();
        assert_eq!(used, [("p3", 700), ("p1", 500), ("p1", 300)]);
        assert_eq!(foreign.found(10)[0].name, "p3");
    }

    #[test]
    fn one_that_was_the_program_s_is_never_foreign() {
        let mut foreign = Foreign::begin(&[]);
        foreign.note(&[process(7, 3, 40)], &HashSet::from([7]), |_| true);
        // It was killed and has another parent; later its number is another one's.
        foreign.note(&[process(7, 3, 90)], &HashSet::new(), |_| true);
        assert!(foreign.found(10).is_empty());
        foreign.note(&[process(7, 99, 5)], &HashSet::new(), |_| true);
        assert_eq!(foreign.found(10).len(), 1);
    }

    #[test]
    fn all_processes_are_read_ever_more_rarely() {
        let mut foreign = Foreign::begin(&[]);
        let looks = (0..3600).filter(|s| foreign.is_due(s * WINDOW_NS)).count();
        assert!((50..70).contains(&looks), "{looks}");
    }
}
