// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The places of ranks: each on a CPU of its own, as far as the launcher allows.

use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator as _, CommunicatorCollectives as _, Root as _};
use sandbag_linux::{CpuList, sched};

/// The place of a rank.
#[derive(Debug, Clone)]
pub struct Place {
    /// Machine, and its CPU or CPUs.
    pub name: String,
    /// More ranks than CPUs share this place.
    pub oversubscribed: bool,
}

/// CPU numbers below this are compared.
const CPUS: usize = 4096;
/// Longest gathered name of a place, bytes.
const NAME: usize = 64;

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
        oversubscribed: sharing > cpus.len(),
    }
}

/// The names of all places, on rank 0; nothing elsewhere. Collective.
pub fn names(world: &SimpleCommunicator, place: &Place) -> Vec<String> {
    let mut mine = [0u8; NAME];
    for (to, from) in mine.iter_mut().zip(place.name.bytes()) {
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
