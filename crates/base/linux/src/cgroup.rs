// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Control groups, version 1 and 2: find the hierarchies, make groups, set
//! their weight and cap, move processes, freeze and thaw them, remove them.
//!
//! Sources: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/*.rst.
//! What the two versions call differently is one value here: a [`Weight`] in
//! units of the default, a [`Cap`] in microseconds.

mod cpuset;
mod freezer;
mod group;
mod mounts;
mod partition;

pub use cpuset::{confine, find_cpuset};
pub use freezer::{Freezer, find_freezer};
pub use group::{Cap, Group, Weight, kill_all, processes, remove_dir};
pub(crate) use mounts::Mounts;
pub use mounts::{GroupTree, Hierarchies, find, mount_points};
pub use partition::{Partition, partitions};

/// Which of the two interfaces a group lives in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Separately mounted controllers, `cpu.shares`, `cpu.cfs_quota_us`.
    V1,
    /// One tree, `cpu.weight`, `cpu.max`.
    V2,
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
        })
    }
}
