// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--max-memory`, compared with the free memory, also that of a container: the kernel
//! kills a process that uses more.

use sandbag_linux::{Root, container, memory};

use sandbag_ui::BadInput;

const MIB: u64 = 1 << 20;

/// The memory that may be used, bytes: `asked_mib`, or `usual_mib` but at most half of
/// the free memory.
///
/// # Errors
/// `asked_mib` is more than is free.
pub fn memory_limit(root: &Root, asked_mib: Option<u64>, usual_mib: u64) -> Result<u64, BadInput> {
    let free = free_bytes(root);
    match (asked_mib, free) {
        (None, free) => {
            let half = free.map_or(u64::MAX, |bytes| bytes / 2);
            Ok((usual_mib * MIB).min(half.max(MIB)))
        }
        (Some(mib), Some(free)) if mib > free / MIB => Err(BadInput(format!(
            "--max-memory {mib} is more than is free here: {} MiB",
            free / MIB
        ))),
        (Some(mib), _) => Ok(mib.saturating_mul(MIB)),
    }
}

/// What is free on the machine, and within the limit of our group; `None` if neither is known.
fn free_bytes(root: &Root) -> Option<u64> {
    let group = container::memory_room(root).ok().flatten();
    [memory::available(root), group].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_is_free_is_refused() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir(tree.path().join("proc")).unwrap();
        let file = tree.path().join("proc/meminfo");
        std::fs::write(file, "MemAvailable: 102400 kB\n").unwrap();
        let root = Root::at(tree.path());
        assert_eq!(memory_limit(&root, Some(100), 7).unwrap(), 100 * MIB);
        let error = memory_limit(&root, Some(101), 7).unwrap_err().to_string();
        assert!(error.contains("more than is free here: 100 MiB"), "{error}");
        assert!(memory_limit(&root, Some(u64::MAX), 7).is_err());
        assert_eq!(memory_limit(&root, None, 7).unwrap(), 7 * MIB);
        assert_eq!(memory_limit(&root, None, 256).unwrap(), 50 * MIB);
        // A group's limit.
        let put = |path: &str, text: &str| {
            let path = tree.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("proc/self/cgroup", "0::/job\n");
        put(
            "proc/self/mountinfo",
            "25 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        );
        put("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
        put("sys/fs/cgroup/job/memory.max", "41943040\n");
        put("sys/fs/cgroup/job/memory.current", "20971520\n");
        let error = memory_limit(&root, Some(100), 7).unwrap_err().to_string();
        assert!(error.contains("more than is free here: 20 MiB"), "{error}");
        assert_eq!(memory_limit(&root, None, 256).unwrap(), 10 * MIB);
        // Unknown free memory is no limit.
        let empty = Root::at(tree.path().join("empty"));
        assert_eq!(memory_limit(&empty, Some(u64::MAX), 7).unwrap(), u64::MAX);
    }
}
