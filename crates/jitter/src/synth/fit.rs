// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The model of a recording: its periodic components, and the rest at random
//! times. Lengths are those of the recording, by their quantiles; what the
//! recording has beyond that (bursts, the order of lengths, what CPUs have in
//! common) is not in it.

use super::component::{Arrivals, Component};
use super::lengths::Lengths;
use crate::stats::spectrum;
use crate::{CpuTrace, JitterTrace, TraceEvent};

/// A component keeps its phase if it does so for this share of the trace.
const KEEPS_PHASE: f64 = 0.9;

/// What a recording is made of, each CPU for itself.
pub fn fit(trace: &JitterTrace) -> Vec<Component> {
    trace.cpus.iter().flat_map(of_cpu).collect()
}

fn of_cpu(cpu: &CpuTrace) -> Vec<Component> {
    let mut all = Vec::new();
    let known_ns = cpu.known_ns() as f64;
    if known_ns == 0.0 {
        return all;
    }
    let on_this = |arrivals, lengths| Component {
        cpus: Some(vec![cpu.cpu]),
        ..Component::new(arrivals, lengths)
    };
    let lengths_of = |events: &[TraceEvent]| {
        let lengths: Vec<u64> = events.iter().map(|event| event.length_ns).collect();
        Lengths::of_events(&lengths)
    };
    let mut periodic = spectrum(cpu).map_or_else(Vec::new, |found| found.components);
    periodic.sort_by(|a, b| b.power.total_cmp(&a.power));
    let (first, last) = (cpu.known.first(), cpu.known.last());
    let length_ns = last.map_or(0, |span| span.until_ns) - first.map_or(0, |span| span.from_ns);
    let mut rest = CpuTrace::new(cpu.cpu, cpu.known.clone(), cpu.events.clone());
    for component in periodic {
        let periods = known_ns / component.period_ns;
        let (own, others) = one_a_period(&rest, &component.fold.own(&rest), periods);
        let Some(lengths) = lengths_of(&own) else {
            continue;
        };
        let keeps = component.coherent_ns >= KEEPS_PHASE * length_ns as f64;
        all.push(on_this(
            Arrivals::Periodic {
                period_ns: component.period_ns,
                phase_ns: keeps.then_some(component.phase_ns),
                jitter_ns: component.jitter_ns,
                share: (own.len() as f64 / periods).min(1.0),
            },
            lengths,
        ));
        rest.events = others;
    }
    let per_s = rest.events.len() as f64 / known_ns * 1e9;
    if let Some(lengths) = lengths_of(&rest.events) {
        all.push(on_this(Arrivals::Poisson { per_s }, lengths));
    }
    all
}

/// A component's own events, at most one for each period, evenly taken, and all others. So the
/// model has as many events as the recording, and as much noise.
fn one_a_period(
    cpu: &CpuTrace,
    is_own: &[bool],
    periods: f64,
) -> (Vec<TraceEvent>, Vec<TraceEvent>) {
    let count = is_own.iter().filter(|own| **own).count();
    let most = count.min(periods.round() as usize);
    let mut seen = 0;
    let mut is_taken = |own: bool| {
        let before = seen;
        seen += usize::from(own);
        own && seen * most / count > before * most / count
    };
    let both = cpu.events.iter().zip(is_own);
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for (event, is_own) in both {
        let to = if is_taken(*is_own) {
            &mut own
        } else {
            &mut others
        };
        to.push(*event);
    }
    (own, others)
}
