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
        let details = all.about.processes.iter().find(|one| one.pid == pid);
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
