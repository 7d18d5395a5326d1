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

/// Core types by speed, as [`crate::facts`] calls them.
const TYPES: [&str; 3] = ["low-power core", "efficiency core", "performance core"];

/// A CPU's kind in its parts: `performance core, up to 5200 MHz`.
struct Kind<'a> {
    core: Option<&'a str>,
    most_mhz: Option<f64>,
}

impl<'a> Kind<'a> {
    fn of(text: &'a str) -> Self {
        let mhz = |part: &str| -> Option<f64> {
            let number = part.strip_prefix("up to ")?.strip_suffix(" MHz")?;
            number.parse().ok().filter(|mhz| *mhz > 0.0)
        };
        let (core, last) = match text.rsplit_once(", ") {
            Some((core, last)) => (Some(core), last),
            None => (None, text),
        };
        match mhz(last) {
            Some(most) => Self {
                core,
                most_mhz: Some(most),
            },
            None => Self {
                core: Some(text),
                most_mhz: None,
            },
        }
    }

    /// Whether its core is a slower one; `None` where their order is not known.
    fn is_slower_core(&self, other: &Self) -> Option<bool> {
        let (own, other) = (self.core?, other.core?);
        let capacity = |core: &str| core.strip_prefix("capacity ")?.parse::<u32>().ok();
        let rank = |core: &str| TYPES.iter().position(|known| *known == core);
        match (capacity(own), capacity(other), rank(own), rank(other)) {
            (Some(own), Some(other), ..) => Some(own < other),
            (.., Some(own), Some(other)) => Some(own < other),
            _ => None,
        }
    }

    /// By how much it may be slower than another kind, percent. A slower core may be by
    /// anything: what its pipeline costs depends on the program.
    fn slower_pct(&self, other: &Self) -> f64 {
        let is_slower = if self.core == other.core {
            match (self.most_mhz, other.most_mhz) {
                (Some(own), Some(other)) => return ((other / own - 1.0) * 100.0).max(0.0),
                _ => None,
            }
        } else {
            self.is_slower_core(other)
        };
        match is_slower {
            Some(false) => 0.0,
            Some(true) | None => f64::INFINITY,
        }
    }
}

/// By how much a CPU may be slower than some for its kind, percent; 0 if there are only
/// slower ones.
pub fn slower_pct(cpus: &[Cpu], cpu: u32) -> f64 {
    let Some(own) = find(cpus, cpu).and_then(|cpu| cpu.kind.as_deref()) else {
        return 0.0;
    };
    let others = cpus.iter().filter_map(|other| other.kind.as_deref());
    let others = others.filter(|other| *other != own);
    let slower = others.map(|other| Kind::of(own).slower_pct(&Kind::of(other)));
    slower.fold(0.0, f64::max)
}

/// By how much a CPU may be slower than some in a test for how the machine is built, percent.
pub fn excused_pct(cpus: &[Cpu], cpu: u32, test: &str) -> f64 {
    if touches_memory(test) && node(cpus, cpu).is_some() {
        f64::INFINITY
    } else {
        slower_pct(cpus, cpu)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_slower_kind_explains_a_slower_cpu() {
        let of = |own: &str, other: &str| {
            let cpu = |(kind, cpu): (&str, u32)| Cpu {
                cpu,
                kind: Some(kind.to_owned()),
                ..Cpu::default()
            };
            slower_pct(&[(own, 0), (other, 1)].map(cpu), 0)
        };
        assert!((of("up to 4000 MHz", "up to 5000 MHz") - 25.0).abs() < 1e-9);
        assert_eq!(of("up to 5000 MHz", "up to 4000 MHz"), 0.0);
        let (big, little) = ("performance core, up to 5000 MHz", "efficiency core");
        assert_eq!([of(big, little), of(little, big)], [0.0, f64::INFINITY]);
        let favoured = of(big, "performance core, up to 5200 MHz");
        assert!((favoured - 4.0).abs() < 1e-9, "{favoured}");
        let (big, little) = ("capacity 1024", "capacity 446");
        assert_eq!([of(big, little), of(little, big)], [0.0, f64::INFINITY]);
        assert_eq!([of("a", "a"), of("a", "b")], [0.0, f64::INFINITY]);
    }
}
