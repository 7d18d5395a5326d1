// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Confining a group to CPUs, whatever affinity its tasks set themselves.
//!
//! Sources: Documentation/admin-guide/cgroup-v1/cpusets.rst, cgroup-v2.rst
//! ("cpuset.cpus", "cpuset.mems").

use std::path::Path;

use super::mounts::{GroupTree, Mounts};
use super::version::Version;
use crate::root::{read, write};
use crate::{CpuList, Error, Result, Root};

const CPUS: &str = "cpuset.cpus";
const MEMS: &str = "cpuset.mems";

/// Finds v1's cpuset hierarchy, else the v2 tree if it offers the controller.
pub fn find_cpuset(root: &Root) -> Result<GroupTree> {
    find_cpuset_of(root, None)
}

/// The same with the place of process `of` in it; `None` is this process.
pub fn find_cpuset_of(root: &Root, of: Option<u32>) -> Result<GroupTree> {
    let tree = Mounts::of(root, of)?.offering("cpuset")?;
    tree.ok_or_else(|| Error::Missing {
        what: "the cgroup cpuset controller".into(),
        remedy: "boot without cgroup_disable=cpuset, or mount its hierarchy".into(),
    })
}

/// Confines the group at `dir` to `cpus`. On v1 a group takes no task before
/// it has memory nodes too: those of its parent.
pub fn confine(version: Version, dir: &Path, cpus: &CpuList) -> Result<()> {
    if version == Version::V1 {
        let parent = dir.parent().unwrap_or(dir);
        let nodes = read(&parent.join(MEMS))?;
        write(&dir.join(MEMS), nodes.trim())?;
    }
    write(&dir.join(CPUS), cpus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn fake(mountinfo: &str, controllers: &str) -> (tempfile::TempDir, Root) {
        crate::process::tests::fake(&[
            ("proc/self/mountinfo", mountinfo),
            ("proc/self/cgroup", "3:cpuset:/own\n0::/\n"),
            ("sys/fs/cgroup/cgroup.controllers", controllers),
            ("sys/fs/cgroup/cpuset/cpuset.mems", "0-1\n"),
            ("sys/fs/cgroup/cpuset/g/cpuset.mems", ""),
            ("sys/fs/cgroup/cpuset/g/cpuset.cpus", ""),
        ])
    }

    #[test]
    fn a_v1_group_gets_its_parents_memory_first() {
        let (dir, root) = fake(
            "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup none rw,cpuset\n",
            "",
        );
        let tree = find_cpuset(&root).unwrap();
        assert_eq!(tree.version, Version::V1);
        assert_eq!(tree.own, Path::new("own"));
        let group = dir.path().join("sys/fs/cgroup/cpuset/g");
        confine(tree.version, &group, &"0,2-3".parse().unwrap()).unwrap();
        assert_eq!(fs::read_to_string(group.join(MEMS)).unwrap(), "0-1");
        assert_eq!(fs::read_to_string(group.join(CPUS)).unwrap(), "0,2,3");
    }

    #[test]
    fn a_v2_tree_without_the_controller_is_none() {
        let v2 = "25 1 0:22 / /sys/fs/cgroup rw - cgroup2 none rw\n";
        assert!(find_cpuset(&fake(v2, "cpu memory\n").1).is_err());
        let found = find_cpuset(&fake(v2, "cpuset cpu\n").1).unwrap();
        assert_eq!(found.version, Version::V2);
    }
}
