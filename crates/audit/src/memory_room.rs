// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much memory a test may take without causing an out-of-memory kill.

use sandbag_linux::container::memory_room;
use sandbag_linux::{Error, Result, Root, memory};

/// Left to the others whatever is asked for, where there is so much...
const RESERVE: u64 = 256 << 20;
/// ...and else this part of the room.
const RESERVED: u64 = 4;
/// Taken by default, at most: beyond any cache, and still moved through often.
const DEFAULT: u64 = 256 << 20;
/// Of what is free, the default takes a part of this at most.
const PART: u64 = 4;

/// Bytes that can be had: available by the kernel's estimate, and within our
/// group's limit.
pub fn room(root: &Root) -> Result<u64> {
    let available = memory::available(root).ok_or_else(|| {
        let path = root.path("/proc/meminfo");
        Error::parse(&path, "a line `MemAvailable: N kB`", "something else")
    })?;
    // A kernel without groups limits none.
    let group = match memory_room(root) {
        Err(error) if error.is_absent() => None,
        room => room?,
    };
    let group = group.unwrap_or(u64::MAX);
    Ok(available.min(group))
}

/// What is left to the others of so much room.
pub fn reserve(room: u64) -> u64 {
    RESERVE.min(room / RESERVED)
}

/// The size of the array where none was asked for.
pub fn default_bytes(root: &Root) -> Result<u64> {
    let bytes = DEFAULT.min(room(root)? / PART);
    // A power of two: where little is free it is another bit of memory each time, and audits
    // of arrays of other sizes are not compared.
    Ok(bytes.checked_ilog2().map_or(0, |log| 1 << log))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{add_file, tree};

    #[test]
    fn the_group_s_limit_counts() {
        let (_dir, root) = tree(&[]);
        let write = |path: &str, text: &str| add_file(&root, path, text);
        assert!(room(&root).is_err());
        write(
            "/proc/meminfo",
            "MemTotal: 9 kB\nMemAvailable:    4096 kB\n",
        );
        assert_eq!(room(&root).unwrap(), 4096 << 10);
        write("/proc/self/cgroup", "4:memory:/a/b\n0::/\n");
        write(
            "/proc/self/mountinfo",
            "30 1 0:1 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
        );
        let group = "/sys/fs/cgroup/memory";
        write(
            &format!("{group}/memory.limit_in_bytes"),
            "9223372036854771712\n",
        );
        write(&format!("{group}/memory.usage_in_bytes"), "5000\n");
        assert_eq!(room(&root).unwrap(), 4096 << 10);
        write(&format!("{group}/a/b/memory.limit_in_bytes"), "100000\n");
        write(&format!("{group}/a/b/memory.usage_in_bytes"), "60000\n");
        write(
            &format!("{group}/a/b/memory.stat"),
            "cache 1\ntotal_inactive_file 20000\n",
        );
        assert_eq!(room(&root).unwrap(), 60_000);
        assert_eq!(default_bytes(&root).unwrap(), 8192);
    }
}
