// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The longest events of a trace with their causes, as terminals and pages have
//! them.

use crate::attribution::{CpuCauses, EventExplanation, NoiseOrigin, SourceKind, explain};
use crate::{JitterTrace, TraceEvent};

use sandbag_ui::quantity::time;
use sandbag_ui::text::visible;

/// Causes of one event that are named.
const NAMED: usize = 4;
/// Beyond those that are asked for so many are kept, so that sorting is rare.
const SPARE: usize = 4096;

/// One of the longest events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Longest {
    /// The CPU that it was on.
    pub cpu: u32,
    pub event: TraceEvent,
    /// What had the CPU in it, most first; `None` for a trace without causes.
    pub causes: Option<String>,
}

/// The longest events, so many.
#[must_use]
pub fn longest(trace: &JitterTrace, count: usize) -> Vec<Longest> {
    let all = trace.attribution.as_deref();
    let all = all.filter(|all| !all.cpus.is_empty());
    let nothing = CpuCauses::default();
    let mut found: Vec<(u32, EventExplanation)> = Vec::new();
    for cpu in &trace.cpus {
        let causes = all.and_then(|all| all.of(cpu.cpu)).unwrap_or(&nothing);
        for one in explain(&cpu.events, causes) {
            found.push((cpu.cpu, one));
            // Never many more than are asked for.
            if found.len() >= count.saturating_mul(2).max(SPARE) {
                keep_longest(&mut found, count);
            }
        }
    }
    keep_longest(&mut found, count);
    let shown = found.into_iter().map(|(cpu, one)| Longest {
        cpu,
        event: one.event,
        causes: all.map(|all| cause_text(&one, &all.sources)),
    });
    shown.collect()
}

fn keep_longest(found: &mut Vec<(u32, EventExplanation)>, count: usize) {
    found.sort_by_key(|(_, one)| std::cmp::Reverse(one.event.length_ns));
    found.truncate(count);
}

/// `task cc1 (123) 3.98 ms, irq local_timer 12.0 us in 4, rest 1.20 us`.
fn cause_text(one: &EventExplanation, sources: &[NoiseOrigin]) -> String {
    if !one.known {
        return "not watched".to_owned();
    }
    if one.causes.is_empty() {
        return "hypervisor or hardware".to_owned();
    }
    let mut parts: Vec<SourceShare<'_>> = Vec::new();
    for share in &one.causes {
        let Some(source) = sources.get(share.cause.source as usize) else {
            continue;
        };
        let same = |part: &&mut SourceShare<'_>| {
            (part.source.kind, &part.source.name) == (source.kind, &source.name)
        };
        let part = match parts.iter_mut().find(same) {
            Some(part) => part,
            None => {
                parts.push(SourceShare {
                    source,
                    is_one: true,
                    net_ns: 0,
                    times: 0,
                });
                let last = parts.len() - 1;
                &mut parts[last]
            }
        };
        part.is_one &= part.source.number == source.number;
        part.net_ns += share.net_ns;
        part.times += 1;
    }
    parts.sort_by_key(|part| std::cmp::Reverse(part.net_ns));
    let mut words: Vec<String> = parts.iter().take(NAMED).map(SourceShare::text).collect();
    if parts.len() > NAMED {
        let rest: u64 = parts[NAMED..].iter().map(|part| part.net_ns).sum();
        let others = parts.len() - NAMED;
        words.push(format!("{others} others {}", time(rest as f64)));
    }
    words.push(format!("rest {}", time(one.left_ns as f64)));
    words.join(", ")
}

/// What something took of an event; tasks of the same name are one.
struct SourceShare<'a> {
    source: &'a NoiseOrigin,
    is_one: bool,
    net_ns: u64,
    times: u64,
}

impl SourceShare<'_> {
    fn text(&self) -> String {
        let NoiseOrigin { kind, name, number } = self.source;
        let name = visible(name);
        let who = match (kind, number) {
            (SourceKind::Task, Some(number)) if self.is_one => format!("task {name} ({number})"),
            (SourceKind::Fault | SourceKind::Nmi, _) => name,
            _ => format!("{} {name}", kind.name()),
        };
        let net = time(self.net_ns as f64);
        match self.times {
            1 => format!("{who} {net}"),
            times => format!("{who} {net} in {times}"),
        }
    }
}
