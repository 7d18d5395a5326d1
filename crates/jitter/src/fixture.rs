// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Synthetic traces for tests, and what tests ask of the machine.

use sandbag_linux::Root;
use sandbag_linux::counter::{self, CounterError};

use crate::replay::PlannedEvent;
use crate::skipped::say_skipped;
use crate::synth::{Arrivals, Component, Lengths, NoiseModel, synthesise};
use crate::{JitterTrace, Span, TraceEvent};

pub(crate) const SECOND: u64 = 1_000_000_000;

/// Whether a test cannot run because this machine has no constant counter; says so.
pub(crate) fn is_skipped_without_counter(test: &str) -> bool {
    let Err(CounterError::Unusable(why)) = counter::check(&Root::default()) else {
        return false;
    };
    say_skipped(test, why);
    true
}

/// A trace of CPUs from 0.
pub(crate) fn trace(cpus: u32, ns: u64, seed: u64, components: Vec<Component>) -> JitterTrace {
    let (cpus, duration_ns) = ((0..cpus).collect(), ns);
    synthesise(&NoiseModel {
        cpus,
        duration_ns,
        seed,
        components,
    })
    .unwrap()
    .trace
}

/// Events by start and length.
pub(crate) fn events(pairs: &[(u64, u64)]) -> Vec<TraceEvent> {
    let event = |(start_ns, length_ns): &(u64, u64)| TraceEvent::new(*start_ns, *length_ns);
    pairs.iter().map(event).collect()
}

/// Spans by begin and end.
pub(crate) fn spans(pairs: &[(u64, u64)]) -> Vec<Span> {
    let span = |(from_ns, until_ns): &(u64, u64)| Span::new(*from_ns, *until_ns);
    pairs.iter().map(span).collect()
}

/// Events of a plan by due time and length.
pub(crate) fn planned(pairs: &[(u64, u64)]) -> Vec<PlannedEvent> {
    let event = |(due_ns, length_ns): &(u64, u64)| PlannedEvent::new(*due_ns, *length_ns);
    pairs.iter().map(event).collect()
}

pub(crate) fn periodic(period_ns: f64, jitter_ns: f64, lengths: Lengths) -> Component {
    Component::new(Arrivals::periodic(period_ns, jitter_ns), lengths)
}

pub(crate) fn poisson(per_s: f64, lengths: Lengths) -> Component {
    Component::new(Arrivals::Poisson { per_s }, lengths)
}
