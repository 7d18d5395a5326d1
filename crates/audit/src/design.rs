// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which CPUs are no equals by how the machine is built. Pure.

use crate::model::Cpu;

/// Whether a test's array lies on one NUMA node for all CPUs.
pub fn touches_memory(test: &str) -> bool {
    test == "memory" || test == "both"
}

/// The kind of a CPU, and that of one that is of another.
pub fn kinds(cpus: &[Cpu], cpu: u32) -> Option<(&str, &str)> {
    let own = find(cpus, cpu)?.kind.as_deref()?;
    let mut kinds = cpus.iter().filter_map(|other| other.kind.as_deref());
    Some((own, kinds.find(|other| *other != own)?))
}

/// The NUMA node of a CPU, if others are on other nodes.
pub fn node(cpus: &[Cpu], cpu: u32) -> Option<u32> {
    let own = find(cpus, cpu)?.node?;
    let mut nodes = cpus.iter().filter_map(|other| other.node);
    nodes.any(|other| other != own).then_some(own)
}

/// Why a CPU is no equal of some in a test.
pub fn difference(cpus: &[Cpu], cpu: u32, test: &str) -> Option<String> {
    let kind = kinds(cpus, cpu)
        .map(|(own, other)| format!("it is of the kind `{own}`, others are of `{other}`"));
    let node = node(cpus, cpu)
        .filter(|_| touches_memory(test))
        .map(|node| {
            format!("it is on NUMA node {node}, and the array lies on one node for all CPUs")
        });
    match (kind, node) {
        (Some(kind), Some(node)) => Some(format!("{kind}; {node}")),
        (kind, node) => kind.or(node),
    }
}

/// The CPUs that are built as this one, as far as a test is concerned; with it.
pub fn same_build(cpus: &[Cpu], cpu: u32, test: &str) -> Vec<u32> {
    let Some(own) = find(cpus, cpu) else {
        return vec![cpu];
    };
    let memory = touches_memory(test);
    let same = |other: &&Cpu| other.kind == own.kind && (!memory || other.node == own.node);
    cpus.iter().filter(same).map(|other| other.cpu).collect()
}

fn find(cpus: &[Cpu], cpu: u32) -> Option<&Cpu> {
    cpus.iter().find(|known| known.cpu == cpu)
}
