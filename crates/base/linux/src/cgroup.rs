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
mod version;

pub use cpuset::{confine, find_cpuset, find_cpuset_of};
pub use freezer::{Freezer, find_freezer, find_freezer_of};
pub use group::{Cap, Group, Weight, add_to, kill_all, processes, remove_dir};
pub(crate) use mounts::Mounts;
pub use mounts::{GroupTree, Hierarchies, find, find_of, groups_of, mount_points};
pub use partition::{Partition, partitions};
pub use version::Version;
