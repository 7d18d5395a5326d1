// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether CPUs are online, before anything is started.

use sandbag_linux::{Root, topology};

use crate::{Error, Result};

/// Whether a CPU is online, for errors before anything is started.
///
/// # Errors
/// [`Error::NoCpu`] for the first that is not.
pub fn check_online(root: &Root, cpus: &sandbag_linux::CpuList) -> Result<()> {
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
