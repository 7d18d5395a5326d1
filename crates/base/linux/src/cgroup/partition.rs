// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Groups that have CPUs to themselves: exclusive cpusets of version 1,
//! partitions of version 2.
//!
//! Sources: Documentation/admin-guide/cgroup-v1/cpusets.rst (1.4, exclusive
//! cpusets), cgroup-v2.rst ("cpuset.cpus.partition").

use std::fs;
use std::path::Path;

use super::cpuset::find_cpuset;
use super::mounts::GroupTree;
use super::version::Version;
use crate::root::read;
use crate::{CpuList, Root};

/// Groups that are looked at, and how deep they lie: systems with more have them
/// for containers, which get no CPUs to themselves by these means.
const MOST: usize = 2000;
const DEEPEST: usize = 5;

/// A group with CPUs of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Its path in the hierarchy: `/machine.slice`.
    pub group: String,
    /// `exclusive`, or the kind of a partition: `root`, `isolated`.
    pub kind: String,
    pub cpus: CpuList,
}

/// All of them; none where there are no cpusets.
pub fn partitions(root: &Root) -> Vec<Partition> {
    let Ok(tree) = find_cpuset(root) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut next = vec![(tree.mount.clone(), 0)];
    let mut looked = 0;
    while let Some((dir, depth)) = next.pop() {
        if depth > 0 {
            found.extend(partition(&tree, &dir));
        }
        looked += 1;
        if depth == DEEPEST || looked > MOST {
            continue;
        }
        let entries = fs::read_dir(&dir).into_iter().flatten().flatten();
        let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        next.extend(dirs.map(|entry| (entry.path(), depth + 1)));
    }
    found.sort_by(|a, b| a.group.cmp(&b.group));
    found
}

fn partition(tree: &GroupTree, dir: &Path) -> Option<Partition> {
    let word = |name: &str| Some(read(&dir.join(name)).ok()?.trim().to_owned());
    let (kind, cpus) = match tree.version {
        Version::V1 => {
            let exclusive = word("cpuset.cpu_exclusive")? == "1";
            (exclusive.then(|| "exclusive".to_owned())?, "cpuset.cpus")
        }
        Version::V2 => {
            // `root invalid (...)` is none.
            let kind = word("cpuset.cpus.partition")?;
            let is_one = kind == "root" || kind == "isolated";
            (is_one.then_some(kind)?, "cpuset.cpus.effective")
        }
    };
    let cpus: CpuList = word(cpus)?.parse().ok()?;
    let group = dir.strip_prefix(&tree.mount).ok()?.display().to_string();
    (!cpus.is_empty()).then(|| Partition {
        group: format!("/{group}"),
        kind,
        cpus,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::tests::fake;

    const GROUPS: (&str, &str) = ("proc/self/cgroup", "3:cpuset:/\n0::/\n");

    #[test]
    fn those_of_version_2() {
        let v2 = "25 1 0:22 / /sys/fs/cgroup rw - cgroup2 none rw\n";
        let at = "sys/fs/cgroup";
        let files = [
            ("proc/self/mountinfo", v2),
            GROUPS,
            (&*format!("{at}/cgroup.controllers"), "cpuset\n"),
            (&*format!("{at}/a/cpuset.cpus.partition"), "member\n"),
            (&*format!("{at}/a/cpuset.cpus.effective"), "0-3\n"),
            (&*format!("{at}/a/b/cpuset.cpus.partition"), "isolated\n"),
            (&*format!("{at}/a/b/cpuset.cpus.effective"), "3\n"),
            (
                &*format!("{at}/c/cpuset.cpus.partition"),
                "root invalid (Parent is not a partition root)\n",
            ),
            (&*format!("{at}/c/cpuset.cpus.effective"), "1\n"),
        ];
        let (_dir, root) = fake(&files);
        assert_eq!(
            partitions(&root),
            [Partition {
                group: "/a/b".to_owned(),
                kind: "isolated".to_owned(),
                cpus: "3".parse().unwrap(),
            }]
        );
    }

    #[test]
    fn those_of_version_1() {
        let v1 = "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup none rw,cpuset\n";
        let at = "sys/fs/cgroup/cpuset";
        let files = [
            ("proc/self/mountinfo", v1),
            GROUPS,
            (&*format!("{at}/cpuset.cpu_exclusive"), "1\n"),
            (&*format!("{at}/cpuset.cpus"), "0-7\n"),
            (&*format!("{at}/batch/cpuset.cpu_exclusive"), "1\n"),
            (&*format!("{at}/batch/cpuset.cpus"), "4-7\n"),
            (&*format!("{at}/rest/cpuset.cpu_exclusive"), "0\n"),
            (&*format!("{at}/rest/cpuset.cpus"), "0-3\n"),
        ];
        let (_dir, root) = fake(&files);
        let found = partitions(&root);
        assert_eq!(found.len(), 1);
        assert_eq!((&*found[0].group, &*found[0].kind), ("/batch", "exclusive"));
        assert!(partitions(&Root::at(std::path::Path::new("/nowhere"))).is_empty());
    }
}
