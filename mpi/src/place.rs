// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The places of ranks: each on a CPU of its own, as far as the launcher allows.

use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator as _, CommunicatorCollectives as _, Root as _};
use sandbag_linux::container::{CpuLimit, cpu_limit};
use sandbag_linux::{CpuList, Root, sched};

/// The place of a rank.
#[derive(Debug, Clone)]
pub struct Place {
    /// Machine, and its CPU or CPUs.
    pub name: String,
    /// Its ranks wait for CPU time: more of them than CPUs share it, or a CPU limit is below what
    /// those of the machine take.
    pub oversubscribed: bool,
}

/// CPU numbers below this are compared.
const CPUS: usize = 4096;
/// Longest gathered name of a place, bytes.
const NAME: usize = 64;
/// Stands for the rest of a longer one.
const MORE: &str = "...";

/// Pins this rank to one of the CPUs that the launcher left it: ranks with the same set of CPUs
/// divide it. Collective: all ranks call it.
pub fn find(world: &SimpleCommunicator, pins: bool) -> Place {
    let host = mpi::environment::processor_name().unwrap_or_default();
    let node = world.split_shared(world.rank());
    let allowed = sched::affinity(0).unwrap_or_default();
    let mut mine = [0u64; CPUS / 64];
    for cpu in allowed.iter().filter(|cpu| (*cpu as usize) < CPUS) {
        mine[cpu as usize / 64] |= 1 << (cpu % 64);
    }
    let mut all = vec![0u64; mine.len() * node.size().unsigned_abs() as usize];
    node.all_gather_into(&mine[..], &mut all[..]);
    let same = |other: &&[u64]| **other == mine;
    let before = node.rank().unsigned_abs() as usize;
    let sharing = all.chunks_exact(mine.len()).filter(same).count();
    let number = all
        .chunks_exact(mine.len())
        .take(before)
        .filter(same)
        .count();
    // One that cannot be read is a matter of `sandbag doctor`.
    let limit = cpu_limit(&Root::default()).unwrap_or(None);
    let limit = limit.as_ref().map(CpuLimit::cpus);
    let busy = busy_cpus(all.chunks_exact(mine.len()));
    let cpus: Vec<u32> = allowed.iter().collect();
    let chosen = match cpus[..] {
        [] => None,
        _ => Some(cpus[number % cpus.len()]),
    };
    let pinned = chosen.filter(|cpu| {
        let one: CpuList = std::iter::once(*cpu).collect();
        (pins || cpus.len() == 1) && sched::set_affinity(0, &one).is_ok()
    });
    Place {
        name: match pinned {
            Some(cpu) => format!("{host} CPU {cpu}"),
            None => format!("{host} CPUs {allowed}"),
        },
        oversubscribed: sharing > cpus.len() || limit.is_some_and(|limit| busy as f64 > limit),
    }
}

/// How many CPUs the ranks of a machine keep busy, by the CPUs that each may use.
fn busy_cpus<'a>(ranks: impl ExactSizeIterator<Item = &'a [u64]>) -> usize {
    let count = ranks.len();
    let all = ranks.fold([0; CPUS / 64], |mut all, own| {
        all.iter_mut().zip(own).for_each(|(all, own)| *all |= own);
        all
    });
    let cpus: u32 = all.iter().map(|word| word.count_ones()).sum();
    count.min(cpus as usize)
}

/// A name that fits, without half a number at its end.
fn fitting(name: &str) -> String {
    if name.len() <= NAME {
        return name.to_owned();
    }
    let mut end = NAME - MORE.len();
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let head = &name[..end];
    let whole = head.rfind(',').map_or(head, |comma| &head[..=comma]);
    format!("{whole}{MORE}")
}

/// The names of all places, on rank 0; nothing elsewhere. Collective.
pub fn names(world: &SimpleCommunicator, place: &Place) -> Vec<String> {
    let mut mine = [0u8; NAME];
    for (to, from) in mine.iter_mut().zip(fitting(&place.name).bytes()) {
        *to = from;
    }
    let root = world.process_at_rank(0);
    if world.rank() != 0 {
        root.gather_into(&mine[..]);
        return Vec::new();
    }
    let mut all = vec![0u8; NAME * world.size().unsigned_abs() as usize];
    root.gather_into_root(&mine[..], &mut all[..]);
    let text = |name: &[u8]| {
        let name = String::from_utf8_lossy(name);
        name.trim_end_matches('\0').to_owned()
    };
    all.chunks_exact(NAME).map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_of_cpus_ends_with_a_whole_number() {
        let short = "n1 CPUs 0-3";
        assert_eq!(fitting(short), short);
        let cpus: Vec<String> = (100..130).map(|cpu| cpu.to_string()).collect();
        let name = fitting(&format!("node17 CPUs {}", cpus.join(",")));
        assert!(name.len() <= NAME && name.ends_with(",111,..."), "{name}");
        let host = fitting(&"ä".repeat(NAME));
        assert!(host.len() <= NAME && host.ends_with("ä..."), "{host}");
    }

    #[test]
    fn ranks_keep_no_more_cpus_busy_than_they_may_use() {
        let cpus = |word: u64| {
            let mut all = [0; CPUS / 64];
            all[1] = word;
            all
        };
        let (two, third) = (cpus(0b11), cpus(0b100));
        for (ranks, busy) in [
            (vec![&two[..]; 1], 1),
            (vec![&two[..]; 3], 2),
            (vec![&two[..], &third[..]], 2),
            (vec![&two[..], &two[..], &third[..], &third[..]], 3),
        ] {
            assert_eq!(busy_cpus(ranks.into_iter()), busy);
        }
    }
}
