// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--max-memory` against the free memory: the kernel notices missing memory only when it
//! is written to, and then kills.

use sandbag_linux::{Root, memory};

use sandbag_ui::BadInput;

const MIB: u64 = 1 << 20;

/// The memory that may be used, bytes: what was asked for, or `usual_mib`,
/// of which at most half of what is free is taken.
pub fn memory_limit(root: &Root, asked_mib: Option<u64>, usual_mib: u64) -> Result<u64, BadInput> {
    let free = memory::available(root);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_not_granted() {
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
        // Where free memory is unknown there is no limit.
        let empty = Root::at(tree.path().join("empty"));
        assert_eq!(memory_limit(&empty, Some(u64::MAX), 7).unwrap(), u64::MAX);
    }
}
