// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The longest events of a trace with their causes.

use sandbag_ui::quantity::time;
use sandbag_ui::text::visible;

use super::explain::EventExplanation;
use crate::causes::{Attribution, NoiseOrigin, SourceKind};
use crate::{JitterTrace, TraceEvent};

/// Causes of one event that are named.
const NAMED: usize = 4;
/// Candidates are sorted and cut when there are twice as many as requested, and this many.
const SPARE: usize = 4096;

/// One of the longest events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Longest {
    pub cpu: u32,
    pub event: TraceEvent,
    /// Its causes, the one with the most time first; `None` for a trace without causes.
    pub causes: Option<String>,
}

/// The `count` longest events.
pub fn longest(trace: &JitterTrace, count: usize) -> Vec<Longest> {
    let attribution = trace.attribution.as_deref();
    let attribution = attribution.filter(|all| !all.cpus.is_empty());
    let nothing = Attribution::default();
    let mut found: Vec<(u32, EventExplanation)> = Vec::new();
    let keep_longest = |found: &mut Vec<(u32, EventExplanation)>| {
        found.sort_by_key(|(_, one)| std::cmp::Reverse(one.event.length_ns));
        found.truncate(count);
    };
    for cpu in &trace.cpus {
        for one in attribution.unwrap_or(&nothing).explain(cpu) {
            found.push((cpu.cpu, one));
            if found.len() >= count.saturating_mul(2).max(SPARE) {
                keep_longest(&mut found);
            }
        }
    }
    keep_longest(&mut found);
    let shown = found.into_iter().map(|(cpu, one)| Longest {
        cpu,
        event: one.event,
        causes: attribution.map(|all| cause_text(&one, &all.sources)),
    });
    shown.collect()
}

/// `task cc1 (123) 3.98 ms, irq local_timer 12.0 us in 4, rest 1.20 us`.
fn cause_text(one: &EventExplanation, sources: &[NoiseOrigin]) -> String {
    if !one.known {
        return "not watched".to_owned();
    }
    if one.causes.is_empty() {
        return "hypervisor or hardware".to_owned();
    }
    let mut parts: Vec<EventPart<'_>> = Vec::new();
    for share in &one.causes {
        let Some(source) = sources.get(share.cause.source as usize) else {
            continue;
        };
        let same = |part: &EventPart<'_>| {
            (part.source.kind, &part.source.name) == (source.kind, &source.name)
        };
        let at = parts.iter().position(same).unwrap_or(parts.len());
        if at == parts.len() {
            parts.push(EventPart {
                source,
                is_one: true,
                net_ns: 0,
                times: 0,
            });
        }
        let part = &mut parts[at];
        part.is_one &= part.source.number == source.number;
        part.net_ns += share.net_ns;
        part.times += 1;
    }
    parts.sort_by_key(|part| std::cmp::Reverse(part.net_ns));
    let mut words: Vec<String> = parts.iter().take(NAMED).map(EventPart::text).collect();
    if parts.len() > NAMED {
        let rest: u64 = parts[NAMED..].iter().map(|part| part.net_ns).sum();
        let others = parts.len() - NAMED;
        words.push(format!("{others} others {}", time(rest as f64)));
    }
    words.push(format!("rest {}", time(one.left_ns as f64)));
    words.join(", ")
}

/// Part of a source in an event. Tasks of the same name are one source.
struct EventPart<'a> {
    source: &'a NoiseOrigin,
    /// All causes have the same number.
    is_one: bool,
    net_ns: u64,
    times: u64,
}

impl EventPart<'_> {
    fn text(&self) -> String {
        let NoiseOrigin { kind, name, number } = self.source;
        let name = visible(name);
        let origin = match (kind, number) {
            (SourceKind::Task, Some(number)) if self.is_one => format!("task {name} ({number})"),
            (SourceKind::Fault | SourceKind::Nmi, _) => name,
            _ => format!("{} {name}", kind.name()),
        };
        let net = time(self.net_ns as f64);
        match self.times {
            1 => format!("{origin} {net}"),
            times => format!("{origin} {net} in {times}"),
        }
    }
}
