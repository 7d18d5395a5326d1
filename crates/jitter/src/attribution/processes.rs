// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time per process.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::JitterTrace;
use crate::causes::{Attribution, ProcessInfo, SourceKind};

/// Time that a process took on all CPUs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProcessRow {
    pub pid: u32,
    /// The kernel's name for it.
    pub name: String,
    /// Without interrupts and other causes inside.
    pub net_ns: u64,
    /// Net time in percent of the noise.
    pub share_pct: f64,
    /// Its facts from /proc.
    pub details: Option<ProcessInfo>,
}

/// The `most` processes with the most time.
pub fn processes(trace: &JitterTrace, all: &Attribution, most: usize) -> Vec<ProcessRow> {
    let mut net_ns: BTreeMap<u32, u64> = BTreeMap::new();
    let events = trace.cpus.iter().flat_map(|cpu| all.explain(cpu));
    for share in events.flat_map(|one| one.causes) {
        *net_ns.entry(share.cause.source).or_default() += share.net_ns;
    }
    let noise_ns: f64 = trace.cpus.iter().map(|cpu| cpu.noise_ns() as f64).sum();
    let row = |(source, net_ns): (u32, u64)| {
        let source = all.sources.get(source as usize)?;
        let pid = source.number.filter(|_| source.kind == SourceKind::Task)?;
        let is_named = |one: &ProcessInfo| one.name.is_empty() || one.name == source.name;
        let mut about = all.about.processes.iter();
        let details = about.find(|one| one.pid == pid && is_named(one));
        Some(ProcessRow {
            pid,
            name: source.name.clone(),
            net_ns,
            share_pct: 100.0 * net_ns as f64 / noise_ns.max(1.0),
            details: details.cloned(),
        })
    };
    let mut rows: Vec<ProcessRow> = net_ns.into_iter().filter_map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.net_ns));
    rows.truncate(most);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes::{AttributionSummary, Cause, CpuCauses, NoiseOrigin};
    use crate::fixture::events;
    use crate::{CpuTrace, LoopClock, Span, TraceHeader};

    #[test]
    fn a_number_that_was_used_again_is_of_two_processes() {
        let task = |name: &str| NoiseOrigin::new(SourceKind::Task, name, Some(7));
        let known = vec![Span::new(0, 1000)];
        let causes = vec![Cause::new(100, 50, 0), Cause::new(300, 20, 1)];
        let info = |name: &str| ProcessInfo {
            pid: 7,
            name: name.to_owned(),
            command: "/usr/bin/second".to_owned(),
            group: String::new(),
        };
        let all = |name: &str| Attribution {
            about: AttributionSummary {
                processes: vec![info(name)],
                ..AttributionSummary::default()
            },
            sources: vec![task("first"), task("second")],
            cpus: vec![CpuCauses::new(0, known.clone(), causes.clone())],
        };
        let cpu = CpuTrace::new(0, known.clone(), events(&[(100, 50), (300, 20)]));
        let header = TraceHeader::new("test", LoopClock::OWN, vec![0]);
        let trace = JitterTrace::new(header, vec![cpu], None);
        let has_details = |name: &str| {
            let rows = processes(&trace, &all(name), 9);
            rows.iter()
                .map(|row| row.details.is_some())
                .collect::<Vec<_>>()
        };
        assert_eq!(has_details("second"), [false, true]);
        // A file of before names none.
        assert_eq!(has_details(""), [true, true]);
    }
}
