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
        let all = [&self.cpu, &self.accounting]
            .into_iter()
            .chain(&self.cpuset)
            .chain(&self.freezer);
        let mut dirs: Vec<&Path> = Vec::new();
        for dir in all {
            if !dirs.contains(&dir.as_path()) {
                dirs.push(dir);
            }
        }
        dirs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_that_are_mounted_together_are_one_directory() {
        let dir = |of: &str| PathBuf::from(format!("/sys/fs/cgroup/{of}/sandbag-7-node"));
        let node = NodeGroup {
            cpu: dir("cpu,cpuset"),
            accounting: dir("cpuacct"),
            cpuset: Some(dir("cpu,cpuset")),
            freezer: Some(dir("cpuacct")),
            cpus: vec![0],
        };
        assert_eq!(node.dirs(), [dir("cpu,cpuset"), dir("cpuacct")]);
    }
}
