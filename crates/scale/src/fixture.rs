// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces for tests.

use sandbag_jitter::{CpuTrace, JitterTrace, LoopClock, Span, TraceEvent, TraceHeader};

use crate::chance::Chance;

/// A stretch of time.
pub(crate) fn span(from_ns: u64, until_ns: u64) -> Span {
    Span { from_ns, until_ns }
}

/// A CPU of stretches (begin, end) and events (start, length).
pub(crate) fn cpu(known: &[(u64, u64)], events: &[(u64, u64)]) -> CpuTrace {
    CpuTrace {
        cpu: 0,
        known: known.iter().map(|(a, b)| span(*a, *b)).collect(),
        events: events
            .iter()
            .map(|(start_ns, length_ns)| TraceEvent::new(*start_ns, *length_ns))
            .collect(),
    }
}

/// A trace of such CPUs, numbered from 0.
pub(crate) fn trace(cpus: Vec<CpuTrace>) -> JitterTrace {
    let cpus: Vec<CpuTrace> = (0..)
        .zip(cpus)
        .map(|(n, c)| CpuTrace { cpu: n, ..c })
        .collect();
    JitterTrace {
        header: TraceHeader {
            recorder: "test".to_owned(),
            host: None,
            kernel: None,
            began_s: None,
            clock: LoopClock::Imported,
            cpus: cpus.iter().map(|cpu| cpu.cpu).collect(),
            real_time: None,
        },
        cpus,
        notes: None,
        attribution: None,
        warnings: Vec::new(),
    }
}

/// Events that come by chance, `per_ms` in each free millisecond, of lengths
/// that `length` draws, for so long.
pub(crate) fn by_chance(
    seed: u64,
    known_ns: u64,
    per_ms: f64,
    mut length: impl FnMut(&mut Chance) -> f64,
) -> CpuTrace {
    let mut chance = Chance::new(seed, 0);
    let mut events = Vec::new();
    let mut at_ns = 0.0;
    loop {
        at_ns += -chance.uniform().ln() * 1e6 / per_ms;
        let length_ns = length(&mut chance).max(1.0);
        if at_ns + length_ns >= known_ns as f64 {
            return cpu(&[(0, known_ns)], &events);
        }
        events.push((at_ns as u64, length_ns as u64));
        at_ns += length_ns + 1.0;
    }
}
