// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPUs that enter no idle state in which they would take time to wake up, as beside a task
//! that always runs.

use std::fs::OpenOptions;

use sandbag_linux::{CpuList, Root, cpuidle};

use crate::changes;
use crate::error::{Error, Result};
use crate::journal::Journal;

/// Whether this kernel can keep these CPUs awake.
///
/// # Errors
/// [`Error::NotPossible`] with the reason.
pub fn check(root: &Root, cpus: &CpuList) -> Result<()> {
    let impossible = |what: String| {
        let remedy = "without --feel competitor the load is held here, too".to_owned();
        Err(Error::NotPossible { what, remedy })
    };
    if cpuidle::always_polls(root)? {
        return Ok(());
    }
    if cpuidle::driver(root)?.is_none() {
        return impossible("without a driver of idle states CPUs cannot be kept awake".into());
    }
    for cpu in cpus.iter() {
        let limit = cpuidle::latency_limit(root, cpu);
        let path = limit.path().display();
        // What a write would say, such as in a container whose `/sys` is read-only.
        if let Err(error) = OpenOptions::new().write(true).open(limit.path()) {
            return impossible(format!("CPU {cpu} cannot be kept awake: {path}: {error}"));
        }
    }
    Ok(())
}

/// Keeps these CPUs awake until the journal is undone.
///
/// # Errors
/// As [`check`]; and where the kernel does not take it.
pub fn keep(root: &Root, journal: &mut Journal, cpus: &CpuList) -> Result<()> {
    check(root, cpus)?;
    if cpuidle::always_polls(root)? {
        return Ok(());
    }
    for cpu in cpus.iter() {
        let limit = cpuidle::latency_limit(root, cpu);
        changes::set_latency_limit(journal, &limit, cpuidle::NO_DELAY)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use crate::undo::{Leftovers, undo_in_temp};

    const DRIVER: (&str, &str) = (
        "sys/devices/system/cpu/cpuidle/current_driver",
        "haltpoll\n",
    );
    const LIMITS: [&str; 2] = [
        "sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us",
        "sys/devices/system/cpu/cpu1/power/pm_qos_resume_latency_us",
    ];

    #[test]
    fn only_the_loaded_cpus_are_kept_awake_and_then_as_before() {
        let (dir, root) = testing::machine(&[DRIVER, (LIMITS[0], "0\n"), (LIMITS[1], "35\n")]);
        let text = |path: &str| testing::text(dir.path().join(path));
        let mut journal = testing::journal(&dir.path().join("journals"), testing::info(1), &[]);
        keep(&root, &mut journal, &CpuList::from_iter([1])).unwrap();
        assert_eq!(LIMITS.map(text), ["0\n", "n/a"]);
        assert_eq!(
            undo_in_temp(journal, Leftovers::AsNoted),
            Vec::<String>::new()
        );
        assert_eq!(LIMITS.map(text), ["0\n", "35"]);
    }

    #[test]
    fn cpus_that_never_sleep_are_awake_without_a_change() {
        let line = ("proc/cmdline", "quiet idle=poll\n");
        let (dir, root) = testing::machine(&[line, (LIMITS[0], "0\n")]);
        let mut journal = testing::journal(&dir.path().join("journals"), testing::info(1), &[]);
        keep(&root, &mut journal, &CpuList::from_iter([0])).unwrap();
        assert_eq!(testing::text(dir.path().join(LIMITS[0])), "0\n");
    }

    #[test]
    fn where_it_would_have_no_effect_it_is_refused() {
        let reason = |files: &[(&str, &str)]| {
            let (_dir, root) = testing::machine(files);
            let error = check(&root, &CpuList::from_iter([0])).unwrap_err();
            assert!(matches!(error, Error::NotPossible { .. }));
            error.to_string()
        };
        assert!(reason(&[(LIMITS[0], "0\n")]).contains("without a driver of idle states"));
        assert!(reason(&[DRIVER, (LIMITS[1], "0\n")]).contains("CPU 0 cannot be kept awake"));
    }
}
