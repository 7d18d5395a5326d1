// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Synthetic traces: events of chosen components, the same for the same seed on every
//! machine.
//!
//! Components add up. Where events of two meet, the second waits for the end
//! of the first, and a program sees one event as long as both: the work is
//! what was asked for, the number of events is less. Random events of one
//! component follow one another at a microsecond at least, so that rates and
//! lengths of a recording, in which none meet, come out as they were.

mod fit;
mod lengths;
mod named_model;

use crate::{
    CpuNotes, CpuTrace, Fault, JitterTrace, LoopClock, Notes, Result, Span, TraceEvent, TraceHeader,
};
use sandbag_stats::{Chance, GENERATOR};

pub use fit::fit;
pub use lengths::Lengths;
pub use named_model::{LIKE, NamedModel};

/// When the events of a component come.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrivals {
    /// At equal distances.
    Periodic {
        /// From one to the next, ns.
        period_ns: f64,
        /// The first, ns; `None`: at random within a period.
        phase_ns: Option<f64>,
        /// Standard deviation of each from where it is due, ns (normal).
        jitter_ns: f64,
        /// The share of periods that have their event, 0 to 1.
        share: f64,
    },
    /// At random, one independent of the other.
    Poisson {
        /// In a second.
        per_s: f64,
    },
}

impl Arrivals {
    /// In every period, the first at random within a period.
    pub const fn periodic(period_ns: f64, jitter_ns: f64) -> Self {
        Self::Periodic {
            period_ns,
            phase_ns: None,
            jitter_ns,
            share: 1.0,
        }
    }
}

/// Events of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Component {
    pub arrivals: Arrivals,
    pub lengths: Lengths,
    /// The same events at the same times on all its CPUs; else each CPU has
    /// its own.
    pub common: bool,
    /// Kernel numbers of its CPUs; `None`: all of the trace.
    pub cpus: Option<Vec<u32>>,
}

impl Component {
    /// On all CPUs, on each its own.
    pub fn new(arrivals: Arrivals, lengths: Lengths) -> Self {
        Self {
            arrivals,
            lengths,
            common: false,
            cpus: None,
        }
    }

    fn is_on(&self, cpu: u32) -> bool {
        self.cpus.as_ref().is_none_or(|all| all.contains(&cpu))
    }

    /// Mean number of events in this time.
    fn expected(&self, seconds: f64) -> f64 {
        match self.arrivals {
            Arrivals::Periodic { period_ns, .. } => seconds * 1e9 / period_ns,
            Arrivals::Poisson { per_s } => seconds * per_s,
        }
    }

    /// The share of its CPUs that it asks for in the mean; 1 or more is all of
    /// them. `None` where the mean of its lengths is not known.
    pub fn asks_for(&self) -> Option<f64> {
        let comes = match self.arrivals {
            Arrivals::Periodic { share, .. } => share,
            Arrivals::Poisson { .. } => 1.0,
        };
        Some(self.expected(1.0) * comes * self.lengths.mean_ns()? / 1e9)
    }

    fn check(&self) -> Result<(), Fault> {
        let ok = match self.arrivals {
            Arrivals::Periodic {
                period_ns,
                phase_ns,
                jitter_ns,
                share,
            } => {
                let phase_ok = phase_ns.is_none_or(|ns| ns.is_finite() && ns >= 0.0);
                period_ns.is_finite()
                    && period_ns >= 1.0
                    && jitter_ns.is_finite()
                    && jitter_ns >= 0.0
                    && phase_ok
                    && (0.0..=1.0).contains(&share)
            }
            Arrivals::Poisson { per_s } => per_s.is_finite() && per_s >= 0.0,
        };
        if ok {
            Ok(())
        } else {
            Err(Fault::Impossible("times of events that cannot be"))
        }
    }

    /// Its events within `until_ns`, in the order in which they are drawn.
    fn events(&self, chance: &mut Chance, until_ns: u64, into: &mut Vec<TraceEvent>) {
        let until = until_ns as f64;
        let mut put = |at: f64, chance: &mut Chance| {
            let length_ns = self.lengths.draw(chance);
            if at >= 0.0 && at < until {
                into.push(TraceEvent::new(at as u64, length_ns));
            }
            length_ns
        };
        match self.arrivals {
            Arrivals::Periodic {
                period_ns,
                phase_ns,
                jitter_ns,
                share,
            } => {
                let random = chance.uniform() * period_ns;
                let phase = phase_ns.unwrap_or(random);
                let count = ((until - phase) / period_ns).ceil().max(0.0) as u64;
                for i in 0..count {
                    // Drawn whether it comes or not: one more period changes
                    // nothing before it.
                    let (comes, late) = (chance.uniform() < share, chance.normal() * jitter_ns);
                    if comes {
                        let _ = put(phase + i as f64 * period_ns + late, chance);
                    }
                }
            }
            Arrivals::Poisson { per_s } if per_s > 0.0 => {
                let mean = 1e9 / per_s;
                let mut at = chance.exponential(mean);
                let mut free = 0.0;
                while at < until {
                    let start = at.max(free);
                    let length_ns = put(start, chance);
                    free = start + length_ns as f64 + APART_NS;
                    at += chance.exponential(mean);
                }
            }
            Arrivals::Poisson { .. } => {}
        }
    }
}

/// What a trace is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct NoiseModel {
    /// Kernel numbers, ascending.
    pub cpus: Vec<u32>,
    /// How long the trace is.
    pub duration_ns: u64,
    /// Seed of all chance.
    pub seed: u64,
    /// What it has.
    pub components: Vec<Component>,
}

/// From the end of a random event to the next of its component at least, ns.
const APART_NS: f64 = 1_000.0;

/// Events of a trace at most: 1.6 GB of memory.
const MOST_EVENTS: f64 = 1e8;

/// A trace, and what became of the events that were drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Synthesis {
    pub trace: JitterTrace,
    /// Events that were drawn.
    pub drawn: u64,
    /// Of those, how many met another and are one with it.
    pub merged: u64,
    /// Of those, how many would have ended after the trace and are left out.
    pub beyond: u64,
}

/// Makes the trace.
///
/// # Errors
/// There would be too many events, or no time for them; or a component cannot
/// be.
pub fn synthesise(model: &NoiseModel) -> Result<Synthesis> {
    if model.duration_ns == 0 || model.cpus.is_empty() {
        return Err(Fault::NothingKnown.into());
    }
    if !model.cpus.is_sorted_by(|a, b| a < b) {
        return Err(Fault::Impossible("the CPUs do not ascend").into());
    }
    let seconds = model.duration_ns as f64 / 1e9;
    let mut expected = 0.0;
    for component in &model.components {
        component.check()?;
        let cpus = model.cpus.iter().filter(|cpu| component.is_on(**cpu));
        expected += component.expected(seconds) * cpus.count() as f64;
    }
    if expected > MOST_EVENTS {
        let most = MOST_EVENTS;
        return Err(Fault::TooManyEvents { expected, most }.into());
    }
    let (mut drawn, mut merged, mut beyond) = (0, 0, 0);
    let mut cpus = Vec::new();
    for number in &model.cpus {
        let mut events = Vec::new();
        for (i, component) in model.components.iter().enumerate() {
            if !component.is_on(*number) {
                continue;
            }
            let name = if component.common {
                format!("component {i}")
            } else {
                format!("component {i}, CPU {number}")
            };
            let mut chance = Chance::new(model.seed, &name);
            component.events(&mut chance, model.duration_ns, &mut events);
        }
        drawn += events.len() as u64;
        events.sort_unstable();
        let before = events.len();
        one_after_the_other(&mut events);
        merged += (before - events.len()) as u64;
        let before = events.len();
        events.retain(|event| event.end_ns() <= model.duration_ns);
        beyond += (before - events.len()) as u64;
        cpus.push(CpuTrace::new(
            *number,
            vec![Span::new(0, model.duration_ns)],
            events,
        ));
    }
    let recorder = format!(
        "sandbag {}, synthetic ({GENERATOR}, seed {})",
        env!("CARGO_PKG_VERSION"),
        model.seed
    );
    let header = TraceHeader::new(recorder, LoopClock::Imported, model.cpus.clone());
    // Nothing is too short to be in it.
    let all = |cpu: &u32| CpuNotes {
        cpu: *cpu,
        ..CpuNotes::default()
    };
    let notes = Notes {
        cpus: model.cpus.iter().map(all).collect(),
    };
    let trace = JitterTrace::new(header, cpus, Some(notes));
    Ok(Synthesis {
        trace,
        drawn,
        merged,
        beyond,
    })
}

/// Makes one event of those that meet, as long as all of them together; they
/// ascend.
fn one_after_the_other(events: &mut Vec<TraceEvent>) {
    events.dedup_by(|next, kept| {
        // Between two that touch no reading of the clock would fit.
        let meet = next.start_ns <= kept.end_ns();
        if meet {
            kept.length_ns = kept.length_ns.saturating_add(next.length_ns);
        }
        meet
    });
}

#[cfg(test)]
mod tests;
