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
    let mut explained = 0.0;
    for component in periodic {
        // Not all that come at its phase: of others some do by chance.
        let mut is_own = component.fold.own(&rest).into_iter();
        let (own, others): (Vec<TraceEvent>, Vec<TraceEvent>) = rest
            .events
            .iter()
            .partition(|_| is_own.next().unwrap_or(false));
        let Some(lengths) = lengths_of(&own) else {
            continue;
        };
        let share = component.share_of_periods.min(1.0);
        let keeps = component.coherent_ns >= KEEPS_PHASE * length_ns as f64;
        explained += share * known_ns / component.period_ns;
        all.push(on_this(
            Arrivals::Periodic {
                period_ns: component.period_ns,
                phase_ns: keeps.then_some(component.phase_ns),
                jitter_ns: component.jitter_ns,
                share,
            },
            lengths,
        ));
        rest.events = others;
    }
    let left = rest.events.len() as f64;
    let per_s = (cpu.events.len() as f64 - explained).max(left) / known_ns * 1e9;
    if let Some(lengths) = lengths_of(&rest.events) {
        all.push(on_this(Arrivals::Poisson { per_s }, lengths));
    }
    all
}
