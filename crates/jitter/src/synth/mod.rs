// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Synthetic traces: events of chosen components, the same for the same seed on every
//! machine.
//!
//! Components add up. Where events of two meet, the second waits for the end
//! of the first, and a program sees one event as long as both: the work is
//! what was asked for, the number of events is less. Random events of one
//! component follow one another at a microsecond at least, so that rates and
//! lengths of a recording, in which none meet, come out as they were.

mod component;
mod fit;
mod lengths;
mod named_model;

use crate::{
    CpuNotes, CpuTrace, Fault, JitterTrace, LoopClock, Notes, Result, Span, TraceEvent, TraceHeader,
};
use sandbag_stats::{Chance, GENERATOR};

pub use component::{Arrivals, Component};
pub use fit::fit;
pub use lengths::Lengths;
pub use named_model::{LIKE, NamedModel};

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
