// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Synthetic traces for tests.

use crate::JitterTrace;
use crate::synth::{Arrivals, Component, Lengths, NoiseModel, synthesise};

pub(crate) const SECOND: u64 = 1_000_000_000;

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

pub(crate) fn periodic(period_ns: f64, jitter_ns: f64, lengths: Lengths) -> Component {
    Component::new(Arrivals::periodic(period_ns, jitter_ns), lengths)
}

pub(crate) fn poisson(per_s: f64, lengths: Lengths) -> Component {
    Component::new(Arrivals::Poisson { per_s }, lengths)
}
