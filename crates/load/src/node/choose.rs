// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which CPUs a node gets that only says how many cores it wants. Rules, the
//! stronger first:
//!
//! 1. Cores are taken whole, with every CPU (hardware thread) of theirs.
//! 2. CPUs that are taken, and CPUs that the load balancer does not serve
//!    (`isolcpus=`), are left out.
//! 3. CPUs that change their frequency together stay together. Where that
//!    cannot be, the methods that work by frequency must refuse
//!    ([`Domains::Whole`]); for the others a domain may be split.
//! 4. One last-level cache before one NUMA node before several; of those with
//!    enough cores, the one that has the fewest, so that room for larger nodes
//!    stays. Where one is not enough, one is filled before the next.
//! 5. Not the core of CPU 0, which serves most interrupts, if there is a choice.
//!
//! Cores that must stay together are a *block*: under rule 3 a frequency domain.
//! Exactly N cores of whole blocks is a subset sum, which a table decides.

use std::collections::BTreeMap;

use sandbag_linux::CpuList;
use sandbag_linux::topology::Cpu;

use crate::node::machine::NodeMachine;

/// Whether frequency domains may be split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Domains {
    /// Never: for methods that set frequencies.
    Whole,
    /// Only if there is no other way.
    MaySplit,
}

/// The CPUs that were chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub cpus: CpuList,
    pub cores: Vec<CpuList>,
    /// Frequency domains of which not all CPUs were taken.
    pub split: Vec<CpuList>,
    pub why: String,
}

/// Why there are not as many cores as were wanted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoChoice {
    #[error("a node of 0 cores has nothing to run on: write 1 or more")]
    None,
    #[error(
        "{wanted} cores wanted, {free} of {all} are free (a core is free if none of its CPUs is \
         taken or isolated{taken}): ask for at most {free}, or name the CPUs"
    )]
    TooFew {
        wanted: usize,
        free: usize,
        all: usize,
        /// `; taken are CPUs 0-3`, or nothing.
        taken: String,
    },
    /// Enough are left, but not without splitting a frequency domain.
    #[error(
        "{wanted} cores cannot be had without splitting a group of CPUs that change their \
         frequency together ({domains}): ask for {possible} cores, or use a method that does not \
         work by frequency (--method hogs)"
    )]
    WouldSplit {
        wanted: usize,
        domains: String,
        possible: String,
    },
}

impl NoChoice {
    /// Whether the number is at fault, and not who has the cores now.
    pub fn is_wrong_number(&self) -> bool {
        match self {
            Self::None => true,
            Self::TooFew { wanted, all, .. } => wanted > all,
            Self::WouldSplit { .. } => false,
        }
    }
}

/// A core that is free.
#[derive(Debug, Clone)]
struct Core {
    cpus: CpuList,
    /// Last-level cache, as its CPUs; empty where it is not known.
    cache: CpuList,
    numa: Option<u32>,
    domain: Option<usize>,
}

/// Cores that are taken together or not at all.
type CoreBlock = Vec<Core>;

/// Chooses `wanted` whole cores of a machine without any CPU of `taken`.
pub fn choose(
    machine: &NodeMachine,
    wanted: usize,
    taken: &CpuList,
    domains: Domains,
) -> Result<Choice, NoChoice> {
    if wanted == 0 {
        return Err(NoChoice::None);
    }
    let topology = &machine.topology;
    let not_ours = topology.online.without(&topology.usable);
    let unfit: CpuList = [taken, &topology.isolated, &not_ours]
        .into_iter()
        .flat_map(CpuList::iter)
        .collect();
    let all = cores(machine);
    let free: Vec<Core> = all
        .iter()
        .filter(|core| core.cpus.intersection(&unfit).is_empty())
        .cloned()
        .collect();
    if free.len() < wanted {
        let there = unfit.intersection(&topology.online);
        return Err(NoChoice::TooFew {
            wanted,
            free: free.len(),
            all: all.len(),
            taken: if there.is_empty() {
                String::new()
            } else {
                format!("; those are CPUs {there}")
            },
        });
    }
    let whole = whole_domains(machine, &free);
    let picked = pick(&whole, wanted).or_else(|| match domains {
        Domains::Whole => None,
        Domains::MaySplit => pick(&single_cores(machine, &free), wanted),
    });
    let Some(mut picked) = picked else {
        return Err(would_split(machine, wanted, &whole));
    };
    picked.sort_by(|a, b| a.cpus.cmp(&b.cpus));
    let cpus: CpuList = picked.iter().flat_map(|core| core.cpus.iter()).collect();
    let split = machine.split_by(&cpus);
    Ok(Choice {
        why: reason(machine, &picked, &cpus, &split),
        cores: picked.into_iter().map(|core| core.cpus).collect(),
        cpus,
        split,
    })
}

fn cores(machine: &NodeMachine) -> Vec<Core> {
    let first = |cpu: &&Cpu| cpu.siblings.iter().next() == Some(cpu.cpu);
    let cpus = &machine.topology.cpus;
    cpus.iter()
        .filter(first)
        .map(|cpu| Core {
            cpus: cpu.siblings.clone(),
            cache: cpu.last_level_cache.clone().unwrap_or_default(),
            numa: cpu.node,
            domain: machine.domains.iter().position(|d| d.contains(cpu.cpu)),
        })
        .collect()
}

/// Each free core alone; first those whose domain is split already, then
/// domain by domain, so that few are split.
fn single_cores(machine: &NodeMachine, free: &[Core]) -> Vec<CoreBlock> {
    let all_free: CpuList = free.iter().flat_map(|core| core.cpus.iter()).collect();
    let broken = machine.split_by(&all_free);
    let mut cores = free.to_vec();
    cores.sort_by_key(|core| {
        let domain = core.domain.map(|n| &machine.domains[n]);
        (domain.is_some_and(|d| !broken.contains(d)), core.domain)
    });
    cores.into_iter().map(|core| vec![core]).collect()
}

/// Free cores in blocks that split no domain, without domains partly taken.
fn whole_domains(machine: &NodeMachine, free: &[Core]) -> Vec<CoreBlock> {
    let mut blocks: BTreeMap<(Option<usize>, u32), CoreBlock> = BTreeMap::new();
    for core in free {
        let own = core.cpus.iter().next().unwrap_or_default();
        // Cores without a domain are blocks of one.
        let key = core.domain.map_or((None, own), |domain| (Some(domain), 0));
        blocks.entry(key).or_default().push(core.clone());
    }
    blocks
        .into_values()
        .filter(|block| {
            let cpus: CpuList = block.iter().flat_map(|core| core.cpus.iter()).collect();
            machine.split_by(&cpus).is_empty()
        })
        .collect()
}

/// Exactly `wanted` cores, from as near together as can be.
fn pick(blocks: &[CoreBlock], wanted: usize) -> Option<Vec<Core>> {
    let mut caches = scopes(blocks, |core| core.cache.clone());
    // Cores of which the kernel names no cache have none in common that is known.
    caches.retain(|scope| !scope[0][0].cache.is_empty());
    let numa = scopes(blocks, |core| core.numa);
    let all = vec![blocks.to_vec()];
    for mut scopes in [caches, numa, all] {
        // The fewest cores first.
        scopes.sort_by_key(|scope| scope.iter().map(Vec::len).sum::<usize>());
        for with_cpu0 in [false, true] {
            for scope in &scopes {
                let usable = |block: &&CoreBlock| with_cpu0 || !has_cpu0(block);
                let found = fill(scope.iter().filter(usable).collect(), wanted);
                if found.is_some() {
                    return found;
                }
            }
        }
    }
    None
}

fn has_cpu0(block: &[Core]) -> bool {
    block.iter().any(|core| core.cpus.contains(0))
}

/// The blocks by what their first core has in common.
fn scopes<K: Ord>(blocks: &[CoreBlock], of: impl Fn(&Core) -> K) -> Vec<Vec<CoreBlock>> {
    let mut scopes: BTreeMap<K, Vec<CoreBlock>> = BTreeMap::new();
    for block in blocks {
        if let Some(first) = block.first() {
            scopes.entry(of(first)).or_default().push(block.clone());
        }
    }
    scopes.into_values().collect()
}

/// Exactly `wanted` cores in whole blocks: cache after cache, the one with
/// most free cores first, the block of CPU 0 last in its cache.
fn fill(mut blocks: Vec<&CoreBlock>, wanted: usize) -> Option<Vec<Core>> {
    let mut room: BTreeMap<&CpuList, usize> = BTreeMap::new();
    for core in blocks.iter().copied().flatten() {
        *room.entry(&core.cache).or_default() += 1;
    }
    let place = |block: &&CoreBlock| {
        let cache = &block[0].cache;
        let room = room.get(cache).copied().unwrap_or(0);
        (std::cmp::Reverse(room), cache.clone(), has_cpu0(block))
    };
    // Stable: within a cache the order that the caller chose stays.
    blocks.sort_by_cached_key(place);
    // reach[n][m]: m cores can be had exactly of blocks n and later.
    let mut reach = vec![vec![false; wanted + 1]; blocks.len() + 1];
    reach[blocks.len()][0] = true;
    for n in (0..blocks.len()).rev() {
        for m in 0..=wanted {
            let with = m >= blocks[n].len() && reach[n + 1][m - blocks[n].len()];
            reach[n][m] = reach[n + 1][m] || with;
        }
    }
    if !reach[0][wanted] {
        return None;
    }
    let (mut left, mut picked) = (wanted, Vec::with_capacity(wanted));
    for (n, block) in blocks.iter().enumerate() {
        if left >= block.len() && reach[n + 1][left - block.len()] {
            left -= block.len();
            picked.extend(block.iter().cloned());
        }
    }
    Some(picked)
}

fn would_split(machine: &NodeMachine, wanted: usize, whole: &[CoreBlock]) -> NoChoice {
    let most = whole.iter().map(Vec::len).sum::<usize>();
    let fits = |n: &usize| pick(whole, *n).is_some();
    let below = (1..wanted).rev().find(fits);
    let above = (wanted + 1..=most).find(fits);
    let possible: Vec<String> = below
        .into_iter()
        .chain(above)
        .map(|n| n.to_string())
        .collect();
    let domains: Vec<String> = machine
        .domains
        .iter()
        .map(|d| format!("CPUs {d}"))
        .collect();
    NoChoice::WouldSplit {
        wanted,
        domains: domains.join("; "),
        possible: if possible.is_empty() {
            "no number of".to_owned()
        } else {
            possible.join(" or ")
        },
    }
}

fn reason(machine: &NodeMachine, picked: &[Core], cpus: &CpuList, split: &[CpuList]) -> String {
    let n = picked.len();
    let mut reasons = vec![match picked.iter().map(|core| core.cpus.len()).max() {
        Some(threads) if threads > 1 => format!(
            "{n} whole core{} with every hardware thread, so that no other node is on the second \
             thread of a core",
            plural(n)
        ),
        _ => format!("{n} core{}", plural(n)),
    }];
    let mut caches: Vec<&CpuList> = picked.iter().map(|core| &core.cache).collect();
    caches.sort();
    caches.dedup();
    match caches.as_slice() {
        [only] if only.is_empty() => {}
        [only] => reasons.push(format!("one last-level cache (that of CPUs {only})")),
        several => reasons.push(format!(
            "{} last-level caches, because none has enough free cores",
            several.len()
        )),
    }
    if !machine.domains.is_empty() {
        reasons.push(match split {
            [] => "no frequency domain split".to_owned(),
            split => {
                let split: Vec<String> = split.iter().map(ToString::to_string).collect();
                format!(
                    "the frequency domain of CPUs {} split, because there is no other way",
                    split.join(" and of CPUs ")
                )
            }
        });
    }
    reasons.push(if cpus.contains(0) {
        "with CPU 0, which serves most interrupts, because the rest is not enough or \
         less near"
            .to_owned()
    } else {
        "without CPU 0, which serves most interrupts".to_owned()
    });
    format!("chose CPUs {cpus}: {}", reasons.join("; "))
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::machine::tests::machine;
    use proptest::prelude::*;

    fn cpu_list(text: &str) -> CpuList {
        text.parse().unwrap()
    }

    fn choose_cpus(machine: &NodeMachine, wanted: usize, not: &str) -> Choice {
        choose(machine, wanted, &cpu_list(not), Domains::MaySplit).unwrap()
    }

    #[test]
    fn whole_cores_and_not_cpu_0() {
        let machine = machine(1, 4, 2, 1);
        let choice = choose_cpus(&machine, 2, "");
        assert_eq!(choice.cpus.to_string(), "1,2,5,6");
        assert_eq!(choice.cores.len(), 2);
        assert!(
            choice.why.contains("every hardware thread"),
            "{}",
            choice.why
        );
        assert!(choice.why.contains("without CPU 0"), "{}", choice.why);
        // A core with a taken CPU is not free.
        assert_eq!(choose_cpus(&machine, 2, "5").cpus.to_string(), "2,3,6,7");
        let choice = choose_cpus(&machine, 4, "");
        assert_eq!(choice.cpus.len(), 8);
        assert!(choice.why.contains("with CPU 0"), "{}", choice.why);
    }

    #[test]
    fn one_cache_before_the_next() {
        let machine = machine(3, 4, 1, 1);
        // CPU 0 is in the first cache, which nevertheless is the better place
        // than two caches.
        assert_eq!(choose_cpus(&machine, 4, "4,8").cpus.to_string(), "0-3");
        assert_eq!(choose_cpus(&machine, 4, "").cpus.to_string(), "4-7");
        // The cache with the least room that is enough.
        assert_eq!(choose_cpus(&machine, 2, "8,9").cpus.to_string(), "10,11");
        let wide = choose_cpus(&machine, 6, "");
        assert_eq!(wide.cpus.to_string(), "4-9");
        assert!(wide.why.contains("2 last-level caches"), "{}", wide.why);
    }

    #[test]
    fn one_numa_node_before_several() {
        let mut machine = machine(4, 2, 1, 1);
        for cpu in &mut machine.topology.cpus {
            cpu.node = Some(cpu.cpu / 4);
        }
        assert_eq!(choose_cpus(&machine, 4, "").cpus.to_string(), "4-7");
        assert_eq!(choose_cpus(&machine, 3, "1").cpus.to_string(), "4-6");
    }

    #[test]
    fn a_frequency_domain_stays_whole() {
        let machine = machine(1, 8, 1, 2);
        let whole = |wanted, not: &str| choose(&machine, wanted, &cpu_list(not), Domains::Whole);
        assert_eq!(whole(2, "").unwrap().cpus.to_string(), "2,3");
        assert_eq!(whole(4, "2").unwrap().cpus.to_string(), "4-7");
        let error = whole(3, "").unwrap_err();
        assert!(
            matches!(&error, NoChoice::WouldSplit { possible, .. } if possible == "2 or 4"),
            "{error}"
        );
        let split = choose_cpus(&machine, 3, "");
        assert_eq!(split.split.len(), 1);
        assert!(split.why.contains("split, because"), "{}", split.why);
        // What is split already is taken before a whole one.
        assert_eq!(choose_cpus(&machine, 1, "4").cpus.to_string(), "5");
        assert!(whole(1, "").is_err());
    }

    #[test]
    fn what_is_not_there_is_said() {
        let mut machine = machine(1, 4, 1, 1);
        machine.topology.isolated = cpu_list("3");
        let error = choose(&machine, 3, &cpu_list("1"), Domains::MaySplit).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("2 of 4 are free") && text.contains("CPUs 1,3"),
            "{text}"
        );
        assert_eq!(
            choose(&machine, 0, &cpu_list(""), Domains::MaySplit),
            Err(NoChoice::None)
        );
        for (wanted, wrong) in [(0, true), (3, false), (4, false), (5, true)] {
            let no = choose(&machine, wanted, &cpu_list("1"), Domains::MaySplit);
            assert_eq!(no.unwrap_err().is_wrong_number(), wrong, "{wanted}");
        }
    }

    #[test]
    fn a_machine_that_says_little() {
        let mut machine = machine(1, 2, 1, 1);
        for cpu in &mut machine.topology.cpus {
            (cpu.last_level_cache, cpu.node, cpu.core) = (None, None, None);
        }
        let choice = choose_cpus(&machine, 1, "");
        assert_eq!(choice.cpus.to_string(), "1");
        assert!(!choice.why.contains("cache"), "{}", choice.why);
    }

    fn any_machine() -> impl Strategy<Value = NodeMachine> {
        (1u32..4, 1u32..5, 1u32..3, 1u32..6)
            .prop_map(|(caches, cores, threads, domain)| machine(caches, cores, threads, domain))
    }

    proptest! {
        #[test]
        fn nodes_share_nothing_and_get_what_they_asked_for(
            machine in any_machine(),
            not in prop::collection::btree_set(0u32..24, 0..6),
            wants in prop::collection::vec((1usize..6, any::<bool>()), 1..6),
        ) {
            let mut taken: CpuList = not.into_iter().collect();
            for (wanted, whole) in wants {
                let domains = if whole { Domains::Whole } else { Domains::MaySplit };
                let free = cores(&machine)
                    .iter()
                    .filter(|core| core.cpus.intersection(&taken).is_empty())
                    .count();
                match choose(&machine, wanted, &taken, domains) {
                    Ok(choice) => {
                        prop_assert_eq!(choice.cores.len(), wanted);
                        prop_assert!(choice.cpus.intersection(&taken).is_empty());
                        prop_assert!(choice.cpus.without(&machine.topology.online).is_empty());
                        for cpu in choice.cpus.iter() {
                            let siblings = &machine.topology.get(cpu).unwrap().siblings;
                            prop_assert!(siblings.without(&choice.cpus).is_empty());
                        }
                        prop_assert_eq!(&choice.split, &machine.split_by(&choice.cpus));
                        prop_assert!(!whole || choice.split.is_empty());
                        taken = taken.iter().chain(choice.cpus.iter()).collect();
                    }
                    Err(NoChoice::WouldSplit { .. }) => prop_assert!(whole),
                    Err(_) => prop_assert!(free < wanted),
                }
            }
        }
    }
}
