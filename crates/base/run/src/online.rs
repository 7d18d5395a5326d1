// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether CPUs are online, and ours to use, before anything is started.

use sandbag_linux::{CpuList, Root, topology};

use crate::{Error, Result};

/// Whether a CPU is online, for errors before anything is started.
///
/// # Errors
/// [`Error::NoCpu`] for the first that is not.
pub fn check_online(root: &Root, cpus: &CpuList) -> Result<()> {
    let topology = topology::Topology::read(root)?;
    let Some(cpu) = cpus.without(&topology.online).iter().next() else {
        return Ok(());
    };
    let is_there = topology.present.contains(cpu);
    Err(Error::NoCpu {
        cpu,
        state: if is_there { "offline" } else { "not present" },
        online: topology.online,
    })
}

/// Refuses CPUs that are not among these, which the cpuset has.
///
/// # Errors
/// [`Error::NotPossible`] for the first.
pub fn check_usable(usable: &CpuList, cpus: &CpuList) -> Result<()> {
    match cpus.without(usable).iter().next() {
        None => Ok(()),
        Some(cpu) => Err(Error::not_possible(
            format!("CPU {cpu} is not left to sandbag: its cpuset has {usable}"),
            "name others, or widen the cpuset (docker run --cpuset-cpus, sbatch)",
        )),
    }
}
