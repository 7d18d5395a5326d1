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
    for cpu in cpus.iter() {
        if !topology.online.contains(cpu) {
            return Err(Error::NoCpu {
                cpu,
                state: if topology.present.contains(cpu) {
                    "offline"
                } else {
                    "not present"
                },
                online: topology.online,
            });
        }
    }
    Ok(())
}
