// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The CPUs that ranks may have: where they cannot be pinned they would share CPUs without
//! a word, and wait for them.

use sandbag_linux::topology::Topology;
use sandbag_linux::{CpuList, sched};
use sandbag_ui::failure::Result;

use sandbag_ui::BadInput;
use sandbag_ui::units::Cpus;

/// Those that were asked for. Of all (or of even, odd, one per core) those that this process
/// may use: a container, a cpuset or `taskset` leave it less than the machine has.
pub(super) fn of(asked: &Cpus, topology: &Topology) -> Result<CpuList> {
    let cpus = asked.online(topology)?;
    let before = sched::affinity(0)?;
    let Cpus::List(_) = asked else {
        let ours = cpus.intersection(&before);
        return if !ours.is_empty() {
            Ok(ours)
        } else {
            Err(BadInput(format!(
                "of CPUs {cpus} this process may use none; it may use {before}"
            ))
            .into())
        };
    };
    // Who names CPUs may mean others than `taskset` left, but none that the cpuset has not.
    let refused = cpus
        .iter()
        .find(|cpu| sched::set_affinity(0, &CpuList::from_iter([*cpu])).is_err());
    sched::set_affinity(0, &before)?;
    match refused {
        None => Ok(cpus),
        Some(cpu) => Err(BadInput(format!(
            "CPU {cpu} is not left to this process (a container or a cpuset); it may use {before}"
        ))
        .into()),
    }
}
