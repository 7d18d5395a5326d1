// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What of the machine's configuration is asked once.

use sandbag_linux::{CpuList, Root};
use sandbag_run::registry::Registry;

use crate::suspects::Holder;

/// Runs of sandbag that are alive. Makes no registry where there is none.
pub fn holders() -> Vec<Holder> {
    let runs = Registry::existing().and_then(|registry| registry.runs().ok());
    runs.unwrap_or_default()
        .into_iter()
        .filter(|run| run.pid != std::process::id() && !run.cpus.is_empty())
        .map(|run| Holder {
            pid: run.pid,
            cpus: run.cpus.parse().unwrap_or_default(),
            method: run.method,
            load: run.load,
        })
        .collect()
}

/// Undoes what dead runs left, as every run does: a load of theirs would be found here.
pub fn restore() {
    if let Some(registry) = Registry::existing() {
        // What could not be undone a load would say.
        let _ = registry.restore();
    }
}

/// Where interrupts may go: number, CPUs (Documentation/core-api/irq/
/// irq-affinity.rst).
pub fn affinity(root: &Root) -> Vec<(String, CpuList)> {
    let Ok(entries) = std::fs::read_dir(root.path("/proc/irq")) else {
        return Vec::new();
    };
    let mut all: Vec<(String, CpuList)> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let number = entry.file_name().to_str()?.to_owned();
            let text = std::fs::read_to_string(entry.path().join("smp_affinity_list"));
            Some((number, text.ok()?.parse().ok()?))
        })
        .collect();
    all.sort();
    all
}
