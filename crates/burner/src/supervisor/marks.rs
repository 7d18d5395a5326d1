// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Noting counters and clocks, and making windows of them.

use sandbag_kernel::clock;

use super::burner::Common;
use super::meter::Mark;
use super::{Run, suspended_ns};
use crate::board::BOUNDARY_NS;
use crate::error::Result;
use crate::method::Scope;

impl Run<'_> {
    /// Notes the kernel's counters.
    pub(super) fn mark(&mut self, run_ns: u64) -> Result<()> {
        let sample = self.stat.sample()?;
        let times = self
            .cpus
            .iter()
            .map(|cpu| sample.get(cpu.number()).copied())
            .collect();
        let late = clock::monotonic().saturating_sub(self.clock.monotonic_ns(run_ns));
        self.cost.worst_late_ns = self.cost.worst_late_ns.max(late);
        let (root, cpus) = (self.root, self.cpus.len());
        let running = self.command.as_mut();
        let command_ns = running.and_then(|running| running.note(root, cpus));
        self.meter.mark(Mark {
            run_ns,
            times,
            command_ns,
        });
        Ok(())
    }

    pub(super) fn assemble(&mut self, common: &Common<'_>, keep: usize) {
        let (cpus, clock) = (&mut self.cpus, &self.clock);
        let own = self.method.scope() == Scope::Cpu;
        let number = |run_ns: u64| clock.monotonic_ns(run_ns) / BOUNDARY_NS;
        self.meter.finish(
            keep,
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
        let end_ns = run_ns / BOUNDARY_NS * BOUNDARY_NS;
        let last = self.clock.monotonic_ns(end_ns) / BOUNDARY_NS;
        // Give every burner the chance to note the last boundary.
        let give_up = clock::monotonic() + 2 * BOUNDARY_NS;
        while !self.cpus.iter().all(|cpu| cpu.noted(common, last)) && clock::monotonic() < give_up {
            clock::sleep_until(clock::monotonic() + BOUNDARY_NS / 20);
        }
        if self.load_ended_ns.is_none() {
            self.mark(end_ns)?;
        }
        self.assemble(common, 0);
        for cpu in &self.cpus {
            if cpu.displaced(common) {
                self.observer.warning(format!(
                    "CPU {} went away during the run, and its load with it; what was confined \
                     to it runs elsewhere",
                    cpu.number()
                ));
            }
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
            self.observer.warning(format!(
                "the profile ended {:.1} s before the command: there was no load from then on \
                 (replay --loop repeats a profile)",
                without as f64 / 1e9
            ));
        }
        let suspended = suspended_ns().saturating_sub(self.suspended_before_ns);
        if suspended > BOUNDARY_NS {
            self.observer.warning(format!(
                "the machine slept for {:.1} s during the run; that time is not in the report",
                suspended as f64 / 1e9
            ));
        }
        Ok(())
    }
}
