// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Noting counters and clocks, and making windows of them.

use sandbag_linux::clock;
use sandbag_linux::process::Process;

use super::SupervisedRun;
use super::burner::Common;
use super::cpu::LoadedCpu;
use super::meter::CounterSample;
use super::node::SupervisedNode;
use crate::board::BOUNDARY_NS;
use crate::method::Scope;
use sandbag_run::error::Result;
use sandbag_ui::text::visible;

/// More processes than these are not named.
const NAMED: usize = 5;

impl SupervisedRun<'_> {
    pub(super) fn read_counters(&mut self) -> Result<CounterSample> {
        let sample = self.stat.sample()?;
        let times = self
            .cpus
            .iter()
            .map(|cpu| sample.get(cpu.number()).copied())
            .collect();
        let (root, cpus) = (self.root, self.cpus.len());
        let running = self.command.as_mut();
        let command_ns = match running {
            Some(running) => running.note(root, cpus),
            None => self.used_in_node(),
        };
        let counts_steal = match &self.command {
            Some(running) => running.counts_steal(),
            None => self.node.as_ref().is_some_and(SupervisedNode::counts_steal),
        };
        let numbers: Vec<u32> = self.cpus.iter().map(LoadedCpu::number).collect();
        let is_known = |all: &Vec<Option<u64>>| all.iter().all(Option::is_some);
        let program_ns = match &command_ns {
            Some(of_each) if is_known(of_each) => None,
            _ => self.used_in_node_ns(),
        };
        let throttle_ns = self.used_by_throttle(&numbers);
        let beside = &mut self.beside;
        let beside_ns = (!beside.is_empty()).then(|| beside.used_ns(root, &numbers));
        Ok(CounterSample {
            at_ns: clock::monotonic(),
            times,
            command_ns,
            counts_steal,
            program_ns,
            beside_ns,
            throttle_ns,
        })
    }

    /// CPU time so far of the process that slows the node as a whole, on each of these CPUs.
    fn used_by_throttle(&mut self, cpus: &[u32]) -> Option<Vec<u64>> {
        if self.method.scope == Scope::Cpu {
            return None;
        }
        if let Some(pid) = self.cpus.first().and_then(LoadedCpu::process)
            && let Ok(stat) = Process::new(self.root, pid).stat()
            && let Ok(used_ns) = clock::process_cpu_of(pid)
        {
            self.throttle.note(pid, stat.cpu, used_ns);
        }
        Some(self.throttle.used_ns(cpus))
    }

    pub(super) fn mark(&mut self) -> Result<()> {
        let sample = self.read_counters()?;
        self.meter.sample(sample);
        Ok(())
    }

    /// Makes the windows up to a run time.
    pub(super) fn assemble(&mut self, common: &Common<'_>, until_ns: u64, end: bool) {
        let (cpus, clock) = (&mut self.cpus, &self.clock);
        let own = self.method.scope == Scope::Cpu;
        let number = |run_ns: u64| clock.monotonic_ns(run_ns) / BOUNDARY_NS;
        self.meter.finish(
            clock,
            until_ns,
            end,
            |cpu, from, to| {
                // What acts on a whole node takes the same of each CPU.
                let who = if own { cpu } else { 0 };
                cpus[who].taken(common, number(from), number(to))
            },
            self.observer,
        );
    }

    /// The end: the last window, then the burners stop.
    pub(super) fn finish(&mut self, common: &Common<'_>, run_ns: u64) -> Result<()> {
        self.observer.load_over();
        let end_ns = run_ns / BOUNDARY_NS * BOUNDARY_NS;
        // What was taken of a load that ended after that is noted at the next one.
        let load_end = self.load_ended_ns.unwrap_or(0);
        let last_ns = end_ns.max(load_end.next_multiple_of(BOUNDARY_NS));
        let last = self.clock.monotonic_ns(last_ns) / BOUNDARY_NS;
        // Give every burner the chance to note the last boundary.
        let give_up = clock::monotonic() + 2 * BOUNDARY_NS;
        while !self.cpus.iter().all(|cpu| cpu.has_note(common, last))
            && clock::monotonic() < give_up
        {
            clock::sleep_until(clock::monotonic() + BOUNDARY_NS / 20);
        }
        if self.load_ended_ns.is_none() {
            self.mark()?;
        }
        self.assemble(common, self.load_ended_ns.unwrap_or(end_ns), true);
        for at in 0..self.cpus.len() {
            self.warn_of_absence(common, at);
        }
        self.watch_members();
        self.look_for_foreign(true);
        for cpu in &self.cpus {
            if cpu.exhausted {
                self.observer.warning(format!(
                    "CPU {}: no room could be made for the load: other groups or tasks there \
                     weigh more than all that a tree of this kind takes",
                    cpu.number()
                ));
            }
            if cpu.cap_changed() {
                self.observer.warning(format!(
                    "CPU {}: the kernel changed the cap by itself (its timer could not keep up)",
                    cpu.number()
                ));
            }
        }
        let without = self
            .load_ended_ns
            .map_or(0, |end| run_ns.saturating_sub(end));
        if self.command.is_some() && without > BOUNDARY_NS {
            let s = without as f64 / 1e9;
            self.observer.warning(if self.node.is_some() {
                format!(
                    "the command went on for {s:.1} s after the time of -d, at full speed \
                     (without -d it is slowed until it ends)"
                )
            } else {
                format!(
                    "the load ended {s:.1} s before the command: there was none from then on \
                     (replay --loop repeats a profile, and without -d a load lasts as long as CMD)"
                )
            });
        }
        self.warn_of_survivors();
        let suspended = clock::suspended().saturating_sub(self.suspended_before_ns);
        if suspended > BOUNDARY_NS {
            self.observer.warning(format!(
                "the machine slept for {:.1} s during the run; that time is not in the report",
                suspended as f64 / 1e9
            ));
        }
        Ok(())
    }

    /// Says which processes outlive a node; those that it took in while they ran are asked for that.
    fn warn_of_survivors(&mut self) {
        if self.node.as_ref().is_none_or(|node| node.target.is_some()) {
            return;
        }
        let members = self.members().into_iter();
        let mut left: Vec<_> = members
            .filter_map(|pid| Process::new(self.root, pid).stat().ok())
            .filter(|stat| !stat.has_ended())
            .collect();
        if left.is_empty() {
            return;
        }
        left.sort_by_key(|stat| stat.pid);
        let named = left.iter().take(NAMED);
        let named: Vec<String> = named
            .map(|stat| format!("{} (process {})", visible(&stat.name), stat.pid))
            .collect();
        let more = if left.len() > NAMED { ", ..." } else { "" };
        self.observer.warning(format!(
            "what still runs in the node goes on at full speed: {}{more}",
            named.join(", ")
        ));
    }

    /// Says what kept the burners of a CPU off it.
    fn warn_of_absence(&mut self, common: &Common<'_>, at: usize) {
        let cpu = &self.cpus[at];
        let (number, away_ns) = (cpu.number(), cpu.away_ns(common));
        let (away_s, moves) = (away_ns as f64 / 1e9, cpu.moves(common));
        if away_ns > 0 {
            self.observer.warning(format!(
                "CPU {number} was offline, or closed to its burner by a cpuset, for {away_s:.1} s: \
                 there was no load on it in that time, and what was confined to it ran elsewhere",
            ));
        }
        if moves > 0 {
            self.observer.warning(format!(
                "something outside changed the affinity of the burner of CPU {number} ({moves} \
                 times); it moved back, and what it had taken elsewhere is a hole",
            ));
        }
    }
}
