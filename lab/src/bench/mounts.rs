// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which cgroup hierarchies are mounted where, from `/proc/self/mounts`
//! (fstab(5), proc_pid_mounts(5)).

use std::path::{Path, PathBuf};

use sandbag_linux::mountinfo::unescape;
use serde::{Deserialize, Serialize};

/// One line of `/proc/self/mounts`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mount {
    /// What is mounted; for cgroups a free text.
    pub source: String,
    /// Where.
    pub target: PathBuf,
    /// Type of the file system.
    pub kind: String,
    /// All options, flags and the type's own, comma-separated.
    pub options: String,
}

impl Mount {
    /// Whether `name` is among the options; for a v1 hierarchy these are its
    /// controllers.
    pub fn has(&self, name: &str) -> bool {
        self.options.split(',').any(|o| o == name)
    }
}

/// The cgroup mounts in `text`, v1 and v2, in order.
pub fn cgroup_mounts(text: &str) -> Vec<Mount> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            let mount = Mount {
                source: unescape(words.next()?).into_string().ok()?,
                target: PathBuf::from(unescape(words.next()?)),
                kind: words.next()?.to_owned(),
                options: words.next()?.to_owned(),
            };
            matches!(mount.kind.as_str(), "cgroup" | "cgroup2").then_some(mount)
        })
        .collect()
}

/// Where the v1 hierarchy of `controller` is mounted.
pub fn v1_mount<'a>(mounts: &'a [Mount], controller: &str) -> Option<&'a Path> {
    mounts
        .iter()
        .find(|m| m.kind == "cgroup" && m.has(controller))
        .map(|m| m.target.as_path())
}

/// Where the v2 tree is mounted.
pub fn v2_mount(mounts: &[Mount]) -> Option<&Path> {
    mounts
        .iter()
        .find(|m| m.kind == "cgroup2")
        .map(|m| m.target.as_path())
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A machine with both versions, controllers mounted apart.
    pub const HYBRID: &str = "\
proc /proc proc rw,relatime 0 0
tmpfs /sys/fs/cgroup tmpfs rw,relatime,mode=755 0 0
cgroup /sys/fs/cgroup/cpu cgroup rw,nosuid,relatime,cpu 0 0
cgroup /sys/fs/cgroup/cpuacct cgroup rw,relatime,cpuacct 0 0
cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0
";

    #[test]
    fn finds_the_hierarchies() {
        let mounts = cgroup_mounts(HYBRID);
        assert_eq!(mounts.len(), 5);
        assert_eq!(
            v1_mount(&mounts, "cpu"),
            Some(Path::new("/sys/fs/cgroup/cpu"))
        );
        assert_eq!(v1_mount(&mounts, "pids"), None);
        assert_eq!(v2_mount(&mounts), Some(Path::new("/sys/fs/cgroup/unified")));
    }

    #[test]
    fn spaces_in_paths() {
        let mounts = cgroup_mounts("cgroup /a\\040b\\134c cgroup rw,cpu 0 0\n");
        assert_eq!(mounts[0].target, Path::new("/a b\\c"));
    }

    #[test]
    fn broken_lines_are_not_mounts() {
        assert!(cgroup_mounts("cgroup /a\n\nx\n").is_empty());
    }
}
