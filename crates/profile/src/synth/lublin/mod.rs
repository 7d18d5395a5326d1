// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Jobs of a parallel machine after Lublin and Feitelson, "The workload on
//! parallel supercomputers: modeling the characteristics of rigid jobs" (JPDC
//! 2003): sizes, run times and arrivals with a daily cycle, of batch and
//! interactive jobs or of both in one.
//!
//! The published program adds whole seconds to the time of arrival, half a
//! second too little per job, while its daily cycle goes on exactly: after
//! some thousand jobs the cycle has drifted. Here the clock is exact;
//! [`ArrivalClock::WholeSeconds`] is the program's, which it reproduces job for job.

mod arrivals;
mod parameters;

use crate::{Job, NS_PER_S};

use crate::synth::chance::Drand48;
use arrivals::Arrivals;
use parameters::{ALL, BATCH, INTERACTIVE, Parameters};

/// Jobs with a longer logarithm of the run time are drawn again.
const MOST_LN_RUNTIME: f64 = 12.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Types {
    /// Batch and interactive ones, each with its own parameters and cycle.
    Two,
    /// One kind, fitted to all jobs.
    One,
}

/// How times of arrival are added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrivalClock {
    /// Without loss.
    Exact,
    /// As the published C program: each interval is cut to whole seconds.
    WholeSeconds,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    pub seed: u32,
    pub types: Types,
    pub clock: ArrivalClock,
    /// Hour of the day, 0 to 23, at which time 0 is.
    pub start_hour: u32,
    /// CPUs of the machine, a job's largest size; `None` is the published one
    /// (128).
    pub machine: Option<u32>,
    /// Rate of arrivals in parts of the published one: 0.5 doubles every
    /// interval. The daily cycle stays a day long.
    pub rate: f64,
    /// Load of a CPU on which a job runs, percent.
    pub busy_pct: f64,
}

/// What [`Lublin`] makes; [`fn@crate::schedule`] puts jobs on CPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LublinJobs {
    /// When, how long, and on how many CPUs.
    pub job: Job,
    /// Whether it is a batch job.
    pub batch: bool,
}

/// Jobs without end, by time of arrival.
#[derive(Debug, Clone)]
pub struct Lublin {
    chance: Drand48,
    kinds: Vec<JobKind>,
    /// CPUs of the machine: rounding to a power of two may exceed it.
    most: u32,
    busy_pct: f64,
}

#[derive(Debug, Clone)]
struct JobKind {
    parameters: Parameters,
    arrivals: Arrivals,
    batch: bool,
}

impl Lublin {
    /// The first job is yet to come.
    pub fn new(options: &Options) -> Self {
        let mut chance = Drand48::new(options.seed);
        // Batch draws its first arrival first.
        let of_types: &[(Parameters, bool)] = match options.types {
            Types::Two => &[(BATCH, true), (INTERACTIVE, false)],
            Types::One => &[(ALL, false)],
        };
        if options.types == Types::One {
            // The program draws the first arrival of two kinds in any case,
            // and uses the second.
            let _unused = Arrivals::new(&ALL, options, &mut chance);
        }
        let kinds = of_types
            .iter()
            .map(|(parameters, batch)| {
                let parameters = match options.machine {
                    Some(cpus) => parameters.for_machine(cpus),
                    None => *parameters,
                };
                let arrivals = Arrivals::new(&parameters, options, &mut chance);
                JobKind {
                    parameters,
                    arrivals,
                    batch: *batch,
                }
            })
            .collect();
        Self {
            chance,
            kinds,
            most: options.machine.unwrap_or(u32::MAX),
            busy_pct: options.busy_pct,
        }
    }
}

impl Iterator for Lublin {
    type Item = LublinJobs;

    /// Always there.
    fn next(&mut self) -> Option<LublinJobs> {
        // The earlier one; of two at the same time the interactive one, which
        // is the last.
        let kind = self
            .kinds
            .iter_mut()
            .rev()
            .min_by(|a, b| a.arrivals.next_s().total_cmp(&b.arrivals.next_s()))?;
        let arrival_s = kind.arrivals.next_s();
        kind.arrivals.draw(&kind.parameters, &mut self.chance);
        let cpus = size(&kind.parameters, &mut self.chance).min(self.most);
        let runtime_s = runtime(&kind.parameters, cpus, &mut self.chance);
        let job = Job {
            arrival_ns: ns(arrival_s),
            runtime_ns: ns(runtime_s),
            cpus,
            load_pct: self.busy_pct,
        };
        Some(LublinJobs {
            job,
            batch: kind.batch,
        })
    }
}

fn ns(seconds: f64) -> u64 {
    (seconds.max(0.0) * NS_PER_S as f64) as u64
}

/// Serial with some probability; else a two-stage uniform logarithm, often
/// rounded, so that powers of two prevail.
fn size(p: &Parameters, chance: &mut Drand48) -> u32 {
    let u = chance.uniform();
    if u <= p.serial {
        return 1;
    }
    let first = chance.uniform() <= p.uprob;
    let v = chance.uniform();
    let mut log2 = if first {
        p.ulow + (p.umed - p.ulow) * v
    } else {
        p.umed + (p.uhi - p.umed) * v
    };
    if u <= p.serial + p.pow2 {
        log2 = libm::floor(log2 + 0.5);
    }
    libm::floor(libm::pow(2.0, log2) + 0.5) as u32
}

/// Hyper-gamma logarithm, whose mixture depends on the size.
fn runtime(p: &Parameters, cpus: u32, chance: &mut Drand48) -> f64 {
    let mixture = (p.pa * f64::from(cpus) + p.pb).clamp(0.0, 1.0);
    loop {
        let ln = if chance.uniform() <= mixture {
            chance.gamma(p.a1, p.b1)
        } else {
            chance.gamma(p.a2, p.b2)
        };
        if ln <= MOST_LN_RUNTIME {
            return libm::floor(libm::exp(ln));
        }
    }
}
