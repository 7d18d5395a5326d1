// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which processes took how much.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Attribution, CpuCauses, ProcessInfo, SourceKind, explain};
use crate::JitterTrace;

/// How much a process took on all CPUs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProcessRow {
    /// Its number.
    pub pid: u32,
    /// The kernel's name for it.
    pub name: String,
    /// Time, without what came in between.
    pub net_ns: u64,
    /// That, of all noise.
    pub share_pct: f64,
    /// What /proc had of it.
    pub details: Option<ProcessInfo>,
}

/// The processes that took most, the first of them so many.
#[must_use]
pub fn processes(trace: &JitterTrace, all: &Attribution, most: usize) -> Vec<ProcessRow> {
    let nothing = CpuCauses::default();
    let mut taken: BTreeMap<u32, u64> = BTreeMap::new();
    let mut noise_ns = 0u64;
    for cpu in &trace.cpus {
        for one in explain(&cpu.events, all.of(cpu.cpu).unwrap_or(&nothing)) {
            noise_ns = noise_ns.saturating_add(one.event.length_ns);
            for share in &one.causes {
                *taken.entry(share.cause.source).or_default() += share.net_ns;
            }
        }
    }
    let row = |(source, net_ns): (u32, u64)| {
        let source = all.sources.get(source as usize)?;
        let pid = source.number.filter(|_| source.kind == SourceKind::Task)?;
        let details = all.about.processes.iter().find(|one| one.pid == pid);
        Some(ProcessRow {
            pid,
            name: source.name.clone(),
            net_ns,
            share_pct: 100.0 * net_ns as f64 / noise_ns.max(1) as f64,
            details: details.cloned(),
        })
    };
    let mut rows: Vec<ProcessRow> = taken.into_iter().filter_map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.net_ns));
    rows.truncate(most);
    rows
}
