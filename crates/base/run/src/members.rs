// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who is in a group.

use std::fs;
use std::path::Path;

use sandbag_linux::cgroup::processes;

/// The processes of the group at `dir` and of all groups below it; of groups
/// that cannot be read, none.
pub fn members_below(dir: &Path) -> Vec<u32> {
    let mut all = Vec::new();
    add(dir, &mut all);
    all
}

fn add(dir: &Path, all: &mut Vec<u32>) {
    all.extend(processes(dir).unwrap_or_default());
    for below in fs::read_dir(dir).into_iter().flatten().flatten() {
        if below.file_type().is_ok_and(|kind| kind.is_dir()) {
            add(&below.path(), all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_groups_below_count() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        // 0 is a process that we cannot see, and to kill(2) it is ourselves.
        fs::write(dir.path().join("cgroup.procs"), "12\n0\n11\n").unwrap();
        fs::write(dir.path().join("a/b/cgroup.procs"), "13\n").unwrap();
        assert_eq!(members_below(dir.path()), [12, 11, 13]);
        assert!(members_below(&dir.path().join("gone")).is_empty());
    }
}
