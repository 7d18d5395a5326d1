// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What this process is allowed to do: its effective capabilities.
//!
//! Source: capabilities(7), `CapEff` of proc_pid_status(5).

use crate::{Error, Result, Root};

/// The capabilities that sandbag asks about, by their bit
/// (include/uapi/linux/capability.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Capability {
    /// Write files of others: control groups and sysctls of root.
    DacOverride = 1,
    /// Send signals to processes of others.
    Kill = 5,
    SetUid = 7,
    /// Trace processes of others, read their memory maps.
    SysPtrace = 19,
    /// Mount, and much else.
    SysAdmin = 21,
    /// Real-time classes, negative nice values, affinity of others.
    SysNice = 23,
    /// Exceed resource limits.
    SysResource = 24,
    /// Perf events of whole CPUs (5.8 and later; before, `SysAdmin`).
    PerfMon = 38,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities(u64);

impl Capabilities {
    pub fn effective(root: &Root) -> Result<Self> {
        let path = root.path("/proc/self/status");
        let text = crate::root::read(&path)?;
        let mut lines = text.lines();
        let bits = lines.find_map(|line| line.strip_prefix("CapEff:"));
        bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
            .map(Self)
            .ok_or_else(|| Error::parse(&path, "CapEff with a hexadecimal number", &text))
    }

    pub fn has(self, capability: Capability) -> bool {
        self.0 & (1 << capability as u8) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::tests::fake;

    fn status(bits: &str) -> String {
        format!("Name:\tcat\nCapPrm:\t000001ffffffffff\nCapEff:\t{bits}\nCapBnd:\t0\n")
    }

    #[test]
    fn root_has_all_and_a_user_none() {
        let (_dir, root) = fake(&[("proc/self/status", &status("000001ffffffffff"))]);
        let all = Capabilities::effective(&root).unwrap();
        assert!(all.has(Capability::SysNice) && all.has(Capability::PerfMon));
        let (_dir, root) = fake(&[("proc/self/status", &status("0000000000000000"))]);
        let none = Capabilities::effective(&root).unwrap();
        assert!(!none.has(Capability::SysAdmin) && !none.has(Capability::DacOverride));
    }

    #[test]
    fn one_bit_at_a_time() {
        let (_dir, root) = fake(&[("proc/self/status", &status("0000000000800000"))]);
        let nice = Capabilities::effective(&root).unwrap();
        assert!(nice.has(Capability::SysNice));
        assert!(!nice.has(Capability::SysAdmin) && !nice.has(Capability::SysResource));
    }

    #[test]
    fn no_line_or_no_number_is_an_error() {
        for text in ["Name:\tcat\n".to_owned(), status("xyz")] {
            let (_dir, root) = fake(&[("proc/self/status", &text)]);
            assert!(Capabilities::effective(&root).is_err());
        }
    }
}
