// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The group of a virtual node: its directories, for those who act on it.

use std::path::{Path, PathBuf};

use sandbag_linux::cgroup::Freezer;
use serde::{Deserialize, Serialize};

/// Where a node's group is. On v2 all directories are the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeGroup {
    /// Directory in the cpu hierarchy: processes, `cpu.stat`, the cap.
    pub cpu: PathBuf,
    /// Directory in which its CPU time is accounted.
    pub accounting: PathBuf,
    /// Directory that confines it to its CPUs, where there is one.
    pub cpuset: Option<PathBuf>,
    /// Directory in the freezer hierarchy, where there is one.
    pub freezer: Option<PathBuf>,
    pub cpus: Vec<u32>,
}

impl NodeGroup {
    /// What freezes it.
    pub fn freezer(&self) -> Option<Freezer> {
        self.freezer.as_deref().and_then(Freezer::detect)
    }

    /// All its directories, each once.
    pub fn dirs(&self) -> Vec<&Path> {
        let mut dirs: Vec<&Path> = [&self.cpu, &self.accounting]
            .into_iter()
            .chain(&self.cpuset)
            .chain(&self.freezer)
            .map(PathBuf::as_path)
            .collect();
        dirs.dedup();
        dirs
    }
}
