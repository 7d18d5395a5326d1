// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What nodes need to know of a machine. Read once; everything that decides
//! works on this value, so that tests can make machines up.

use std::collections::BTreeMap;

use sandbag_linux::cpufreq::{self, Policy};
use sandbag_linux::topology::Topology;
use sandbag_linux::{CpuList, Result, Root};

/// CPUs, what they share, and what they reach.
#[derive(Debug, Clone)]
pub struct NodeMachine {
    /// The CPUs and their caches, cores and NUMA nodes.
    pub topology: Topology,
    /// The groups of CPUs that change their frequency together, where there
    /// is more than one CPU in one; online CPUs only.
    pub domains: Vec<CpuList>,
    /// Highest frequency of the hardware, kHz; lacks CPUs without cpufreq.
    pub max_khz: BTreeMap<u32, u64>,
    /// Highest frequency that may be set, kHz; lacks CPUs of which none may.
    pub settable_khz: BTreeMap<u32, u64>,
}

impl NodeMachine {
    pub fn read(root: &Root) -> Result<Self> {
        let topology = Topology::read(root)?;
        let mut domains: Vec<CpuList> = Vec::new();
        let (mut max_khz, mut settable_khz) = (BTreeMap::new(), BTreeMap::new());
        for cpu in topology.online.iter() {
            let Some(frequency) = cpufreq::frequency(root, cpu)? else {
                continue;
            };
            max_khz.extend(frequency.hardware_max_khz.map(|khz| (cpu, khz)));
            let policies = Policy::of(root, &CpuList::from_iter([cpu])).unwrap_or_default();
            settable_khz.extend(policies.iter().map(|policy| (cpu, policy.highest_khz())));
            let related = frequency.related.intersection(&topology.online);
            if related.len() > 1 && !domains.contains(&related) {
                domains.push(related);
            }
        }
        Ok(Self {
            topology,
            domains,
            max_khz,
            settable_khz,
        })
    }

    /// The frequency that is full speed to a method, kHz. Those that set frequencies exceed no
    /// bound that the user set.
    pub fn full_khz(&self, method: &str, cpu: u32) -> Option<u64> {
        let settable = self.settable_khz.get(&cpu);
        let settable = settable.filter(|_| matches!(method, "freq" | "gov"));
        settable.or_else(|| self.max_khz.get(&cpu)).copied()
    }

    /// The frequency domains of which `cpus` has some CPUs but not all.
    pub fn split_by(&self, cpus: &CpuList) -> Vec<CpuList> {
        let parted = |domain: &&CpuList| {
            let both = domain.intersection(cpus).len();
            both > 0 && both < domain.len()
        };
        self.domains.iter().filter(parted).cloned().collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::fake_machine::{fake, put};
    use sandbag_linux::topology::Cpu;

    /// A machine of `caches` last-level caches of `cores` cores of `threads`
    /// CPUs, numbered as firmware mostly does: first the first CPU of every
    /// core, then the second ones. `domain` cores change their frequency
    /// together.
    pub(crate) fn machine(caches: u32, cores: u32, threads: u32, domain: u32) -> NodeMachine {
        let all = caches * cores;
        let cpus_of = |cores: std::ops::Range<u32>| -> CpuList {
            (0..threads)
                .flat_map(|t| cores.clone().map(move |core| t * all + core))
                .collect()
        };
        let mut cpus: Vec<Cpu> = (0..all * threads)
            .map(|cpu| {
                let core = cpu % all;
                let cache = core / cores;
                Cpu {
                    cpu,
                    core: Some(core.cast_signed()),
                    package: Some(0),
                    siblings: cpus_of(core..core + 1),
                    last_level_cache: Some(cpus_of(cache * cores..(cache + 1) * cores)),
                    node: Some(0),
                }
            })
            .collect();
        cpus.sort_by_key(|cpu| cpu.cpu);
        let online: CpuList = (0..all * threads).collect();
        let domains = (0..all)
            .step_by(domain as usize)
            .map(|first| cpus_of(first..(first + domain).min(all)))
            .filter(|list| list.len() > 1)
            .collect();
        NodeMachine {
            topology: Topology {
                offline: CpuList::default(),
                present: online.clone(),
                possible: online.clone(),
                isolated: CpuList::default(),
                usable: online.clone(),
                online,
                cpus,
            },
            domains,
            max_khz: (0..all * threads).map(|cpu| (cpu, 2_400_000)).collect(),
            settable_khz: BTreeMap::new(),
        }
    }

    #[test]
    fn frequencies_and_domains_of_a_tree() {
        let (_dir, root) = fake(&[("sys/devices/system/cpu/online", "0-3\n")]);
        for (cpu, related) in ["0 1 7\n", "0 1 7\n", "2\n"].iter().enumerate() {
            put(
                &root.path(format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq")),
                &[("cpuinfo_max_freq", "2930000\n"), ("related_cpus", related)],
            );
        }
        let bounds = [
            ("scaling_min_freq", "800000\n"),
            ("scaling_max_freq", "2000000\n"),
        ];
        put(&root.path("/sys/devices/system/cpu/cpu2/cpufreq"), &bounds);
        let machine = NodeMachine::read(&root).unwrap();
        assert_eq!(machine.full_khz("hogs", 2), Some(2_930_000));
        for method in ["freq", "gov"] {
            assert_eq!(machine.full_khz(method, 2), Some(2_000_000));
            assert_eq!(machine.full_khz(method, 3), None);
        }
        assert_eq!(machine.domains, ["0-1".parse().unwrap()]);
        assert_eq!(machine.split_by(&"1-2".parse().unwrap()).len(), 1);
        assert!(machine.split_by(&"0-2".parse().unwrap()).is_empty());
    }
}
