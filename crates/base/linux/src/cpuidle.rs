// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Idle states: what a CPU does that has nothing to run, and how soon it must be back.
//!
//! Source: Documentation/admin-guide/pm/cpuidle.rst, ABI/testing/sysfs-devices-power.

use crate::sysctl::Sysctl;
use crate::topology::optional;
use crate::{Result, Root};

/// The latency limit that allows no delay at all: governors choose the first idle state, in
/// which x86 polls.
pub const NO_DELAY: &str = "n/a";
/// Its file, below the directory of a CPU.
pub const LATENCY_LIMIT: &str = "pm_qos_resume_latency_us";

/// How long `cpu` may take to wake up: us, `0` for no limit, or [`NO_DELAY`].
pub fn latency_limit(root: &Root, cpu: u32) -> Sysctl {
    let dir = root.path(format!("/sys/devices/system/cpu/cpu{cpu}/power"));
    Sysctl::at(dir.join(LATENCY_LIMIT))
}

/// The driver of idle states, such as `intel_idle` or `haltpoll`. Without one, which is
/// `None`, an idle CPU halts whatever its latency limit.
///
/// # Errors
/// [`Error::Read`](crate::Error::Read), unless the file is not there.
pub fn driver(root: &Root) -> Result<Option<String>> {
    let file = root.path("/sys/devices/system/cpu/cpuidle/current_driver");
    let name = optional(crate::root::read(&file))?;
    let name = name.map(|name| name.trim().to_owned());
    Ok(name.filter(|name| !name.is_empty() && name != "none"))
}

/// Whether the kernel was booted so that idle CPUs never sleep (`idle=poll`), for which no
/// driver is needed. Of several settings the last counts, as for the kernel.
///
/// # Errors
/// [`Error::Read`](crate::Error::Read), unless the file is not there.
pub fn always_polls(root: &Root) -> Result<bool> {
    let line = optional(crate::root::read(&root.path("/proc/cmdline")))?.unwrap_or_default();
    let last = line
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("idle="))
        .next_back();
    Ok(last == Some("poll"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::tests::fake;

    #[test]
    fn a_driver_is_named_or_there_is_none() {
        const FILE: &str = "sys/devices/system/cpu/cpuidle/current_driver";
        let of = |files: &[(&str, &str)]| {
            let (_dir, root) = fake(files);
            driver(&root).unwrap()
        };
        assert_eq!(of(&[(FILE, "haltpoll\n")]).as_deref(), Some("haltpoll"));
        assert_eq!(of(&[(FILE, "none\n")]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn the_last_setting_says_whether_idle_cpus_poll() {
        let of = |line: &str| {
            let (_dir, root) = fake(&[("proc/cmdline", line)]);
            always_polls(&root).unwrap()
        };
        assert!(of("quiet idle=halt idle=poll panic=-1\n"));
        assert!(!of("idle=poll idle=halt\n"));
        assert!(!of("intel_idle=poll quiet\n"));
    }

    #[test]
    fn a_limit_is_set_and_read_back() {
        let file = "sys/devices/system/cpu/cpu3/power/pm_qos_resume_latency_us";
        let (_dir, root) = fake(&[(file, "0\n")]);
        let limit = latency_limit(&root, 3);
        assert_eq!(limit.get().unwrap(), "0");
        limit.set(NO_DELAY).unwrap();
        assert_eq!(limit.get().unwrap(), NO_DELAY);
        assert!(latency_limit(&root, 4).get().unwrap_err().is_absent());
    }
}
