// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The two interfaces to control groups.

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
