// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The runs of a round in their order, with the evidence beside them.

use std::time::Duration;

use super::session::AuditSession;
use crate::error::Halt;
use crate::evidence::top_tasks;
use crate::model::{AuditSample, Test};
use crate::work::RunFigures;
use crate::{noise, plan};

impl AuditSession<'_> {
    /// A round by `one`, which runs a length on a CPU.
    pub(super) fn round(
        &mut self,
        test: &mut Test,
        number: u32,
        mut one: impl FnMut(&mut Self, u32, u64) -> Result<RunFigures, Halt>,
    ) -> Result<(), Halt> {
        if !self.each_run {
            self.watch.begin();
        }
        let (seed, lengths) = (self.options.seed, test.lengths.len());
        for block in plan::round(seed, &test.name, number, lengths, &self.cpus) {
            for cpu in block.cpus {
                if self.is_stopped() {
                    return Err(Halt::Stopped);
                }
                let units = test.lengths[block.length];
                let sample = self.sample(cpu, number, block.length, units, &mut one)?;
                test.samples.push(sample);
            }
        }
        if !self.each_run {
            let (ran, lasted_ns) = self.watch.end();
            for cpu in self.cpus.clone() {
                self.others.add(cpu, &ran, lasted_ns);
            }
        }
        Ok(())
    }

    /// A round of the noise test: all CPUs look at once, so in no order.
    pub(super) fn noise_round(&mut self, test: &mut Test, number: u32) -> Result<(), Halt> {
        let cpus = self.cpus.clone();
        let list = cpus.iter().copied().collect();
        let (seed, lengths) = (self.options.seed, test.lengths.len());
        for block in plan::round(seed, &test.name, number, lengths, &[]) {
            if self.is_stopped() {
                return Err(Halt::Stopped);
            }
            let length = Duration::from_millis(test.lengths[block.length]);
            let before = self.reader.now_on(&cpus);
            let at_ns = self.since_begin();
            let looked = noise::look(self.root, &list, length, false)?;
            let stretches = self.reader.stretches_since(&cpus, &before);
            for (cpu, stretch) in cpus.iter().zip(stretches) {
                let own = looked.cpus.iter().find(|(number, ..)| number == cpu);
                let (_, known_ns, pct) = own.copied().unwrap_or_default();
                self.note(*cpu, &stretch);
                test.samples.push(AuditSample {
                    cpu: *cpu,
                    round: number,
                    length: block.length,
                    at_ns,
                    elapsed_ns: known_ns,
                    user_ns: 0,
                    system_ns: 0,
                    noise_pct: (known_ns > 0).then_some(pct),
                    evidence: stretch.evidence,
                });
            }
        }
        Ok(())
    }

    fn sample(
        &mut self,
        cpu: u32,
        round: u32,
        length: usize,
        units: u64,
        one: &mut impl FnMut(&mut Self, u32, u64) -> Result<RunFigures, Halt>,
    ) -> Result<AuditSample, Halt> {
        if self.each_run {
            self.watch.begin();
        }
        let before = self.reader.now(cpu);
        let at_ns = self.since_begin();
        let figures = one(self, cpu, units)?;
        let mut stretch = self.reader.stretch_since(cpu, &before, &figures);
        if self.each_run {
            let (ran, lasted_ns) = self.watch.end();
            self.others.add(cpu, &ran, lasted_ns);
            stretch.evidence.tasks = top_tasks(cpu, &ran);
        }
        self.note(cpu, &stretch);
        Ok(AuditSample {
            cpu,
            round,
            length,
            at_ns,
            elapsed_ns: figures.elapsed_ns,
            user_ns: figures.user_ns,
            system_ns: figures.system_ns,
            noise_pct: None,
            evidence: stretch.evidence,
        })
    }
}
