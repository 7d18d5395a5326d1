// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much memory there is.

use crate::Root;

/// Bytes that can be had without swapping (MemAvailable of /proc/meminfo,
/// proc(5)); `None` where the kernel does not say. A limit of our own group
/// is not looked at.
pub fn available(root: &Root) -> Option<u64> {
    let text = root.read("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_in_kib() {
        for (text, bytes) in [
            ("", None),
            ("MemTotal:  9 kB\nMemAvailable:    2048 kB\n", Some(2 << 20)),
            ("MemAvailable: much\n", None),
        ] {
            let (_dir, root) = crate::process::tests::fake(&[("proc/meminfo", text)]);
            assert_eq!(available(&root), bytes);
        }
    }
}
