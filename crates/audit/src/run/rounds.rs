// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rounds of a test: runs in their order with the evidence beside them,
//! until there is enough.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::session::Session;
use crate::effects;
use crate::evidence::most;
use crate::model::{Sample, Test};
use crate::options::Progress;
use crate::plan::{self, Enough};
use crate::work::Figures;

/// Why a test does not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Halt {
    /// We were asked to stop.
    Stopped,
    /// It cannot be done.
    Failed(String),
    /// A CPU went away; the test goes on without it.
    Displaced {
        /// Which.
        cpu: u32,
        /// How.
        why: String,
    },
}

/// Counts the rounds of a test.
pub struct Round {
    enough: Enough,
    begin: Instant,
    done: u32,
    half_width_pct: Option<f64>,
    noise: bool,
}

impl Round {
    /// Before the first.
    pub fn new(session: &Session<'_>, noise: bool) -> Self {
        Self {
            enough: Enough::of(session.options),
            begin: Instant::now(),
            done: 0,
            half_width_pct: None,
            noise,
        }
    }

    /// Whether there is to be another one: to be asked before each.
    pub fn next(&mut self, session: &mut Session<'_>, test: &Test) -> Result<bool, Halt> {
        if session.stopped() {
            return Err(Halt::Stopped);
        }
        if session.cpus.is_empty() {
            return Err(Halt::Failed("no CPU is left".to_owned()));
        }
        let first = test.samples.is_empty() && self.done == 0;
        if !first {
            self.done += 1;
        }
        if self.enough.looks(self.done) {
            let (cpus, level) = (&session.cpus, session.level);
            self.half_width_pct = effects::half_width_pct(&test.samples, cpus, self.noise, level);
        }
        let took = self.begin.elapsed();
        if self.done > 0 {
            (session.progress)(Progress::Round {
                name: test.name.clone(),
                round: self.done,
                most: self.enough.rounds.1,
                half_width_pct: self.half_width_pct,
                done: self.share(took),
            });
        }
        Ok(!self.enough.reached(self.done, took, self.half_width_pct))
    }

    /// The number of the round that now runs.
    pub fn number(&self) -> u32 {
        self.done
    }

    /// How far the test is at least, 0 to 1.
    fn share(&self, took: Duration) -> f64 {
        let fewest = f64::from(self.done) / f64::from(self.enough.rounds.0.max(1));
        let time = took.as_secs_f64() / self.enough.limit.as_secs_f64().max(1e-3);
        let most = f64::from(self.done) / f64::from(self.enough.rounds.1.max(1));
        fewest.min(time).max(most).min(1.0)
    }
}

impl Session<'_> {
    /// Runs the rounds of a test by `one`, which runs a length on a CPU.
    pub(super) fn rounds(
        &mut self,
        test: &mut Test,
        mut one: impl FnMut(&mut Self, u32, u64) -> Result<Figures, Halt>,
    ) -> Result<(), Halt> {
        let mut round = Round::new(self, false);
        let outcome = loop {
            match round.next(self, test) {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(halt) => break Err(halt),
            }
            match self.round(test, round.number(), &mut one) {
                Ok(()) => {}
                Err(Halt::Displaced { cpu, why }) => self.lose(cpu, why),
                Err(halt) => break Err(halt),
            }
        };
        // What has nothing to be compared with does not count.
        keep_whole(&mut test.samples, &self.cpus);
        outcome
    }

    fn round(
        &mut self,
        test: &mut Test,
        number: u32,
        one: &mut impl FnMut(&mut Self, u32, u64) -> Result<Figures, Halt>,
    ) -> Result<(), Halt> {
        if !self.each_run {
            self.watch.begin();
        }
        let (seed, lengths) = (self.options.seed, test.lengths.len());
        for block in plan::round(seed, &test.name, number, lengths, &self.cpus) {
            for cpu in block.cpus {
                if self.stopped() {
                    return Err(Halt::Stopped);
                }
                let sample = self.sample(
                    cpu,
                    number,
                    block.length,
                    || test.lengths[block.length],
                    one,
                )?;
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

    fn sample(
        &mut self,
        cpu: u32,
        round: u32,
        length: usize,
        units: impl Fn() -> u64,
        one: &mut impl FnMut(&mut Self, u32, u64) -> Result<Figures, Halt>,
    ) -> Result<Sample, Halt> {
        if self.each_run {
            self.watch.begin();
        }
        let before = self.reader.now(cpu);
        let at_ns = self.since_begin();
        let figures = one(self, cpu, units())?;
        let mut stretch = self.reader.since(cpu, &before, &figures);
        if self.each_run {
            let (ran, lasted_ns) = self.watch.end();
            self.others.add(cpu, &ran, lasted_ns);
            stretch.evidence.tasks = most(cpu, &ran);
        }
        self.note(cpu, &stretch);
        Ok(Sample {
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

/// Keeps the samples of blocks in which each of these CPUs ran.
fn keep_whole(samples: &mut Vec<Sample>, cpus: &[u32]) {
    let mut count: BTreeMap<(u32, usize), usize> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| cpus.contains(&sample.cpu)) {
        *count.entry((sample.round, sample.length)).or_default() += 1;
    }
    samples.retain(|sample| {
        cpus.contains(&sample.cpu) && count.get(&(sample.round, sample.length)) == Some(&cpus.len())
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Evidence;

    #[test]
    fn only_whole_blocks_of_the_cpus_that_are_left_count() {
        let sample = |cpu, round| Sample {
            cpu,
            round,
            length: 0,
            at_ns: 0,
            elapsed_ns: 1,
            user_ns: 1,
            system_ns: 0,
            noise_pct: None,
            evidence: Evidence::default(),
        };
        let mut samples = vec![
            sample(0, 0),
            sample(1, 0),
            sample(2, 0),
            sample(0, 1),
            sample(2, 1),
            sample(0, 2),
        ];
        keep_whole(&mut samples, &[0, 2]);
        let left: Vec<(u32, u32)> = samples.iter().map(|s| (s.cpu, s.round)).collect();
        assert_eq!(left, [(0, 0), (2, 0), (0, 1), (2, 1)]);
    }
}
