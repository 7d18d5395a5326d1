// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Putting settings back.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbag_linux::sysctl::Sysctl;
use sandbag_linux::{Root, root};

use super::PATIENCE;
use crate::journal::{Setting, SettingOf};

/// Writes the old values, the last change first. One that is refused is tried
/// again after the others: a lowest frequency above the highest, or a budget
/// above that of all, is refused until the other is back. Those that are refused after all,
/// and why.
pub fn put_back<'a>(settings: impl Iterator<Item = &'a Setting>) -> Vec<(PathBuf, String)> {
    let refused: Vec<&Setting> = settings
        .filter(|setting| put_one_back(setting).is_err())
        .collect();
    refused
        .into_iter()
        .filter_map(|setting| Some((setting, put_one_back(setting).err()?)))
        .map(|(setting, error)| (setting.path.clone(), error.to_string()))
        .collect()
}

fn put_one_back(setting: &Setting) -> sandbag_linux::Result<()> {
    let begin = Instant::now();
    // A frequency policy says so while all its CPUs are offline.
    let waits = !matches!(setting.of, SettingOf::Cpufreq);
    loop {
        let outcome = write(setting);
        match &outcome {
            // The group is gone, or the CPU is offline.
            Err(error) if error.is_absent() => return Ok(()),
            // Bandwidth of a process that is about to die.
            Err(error)
                if error.errno() == Some(libc::EBUSY) && waits && begin.elapsed() < PATIENCE =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            _ => return outcome,
        }
    }
}

/// Writes a group's CPUs. None at all mean all, but the kernel takes them only from a group
/// without processes (ENOSPC); others get all that there can be.
pub fn write_cpuset(file: &Path, cpus: &str) -> sandbag_linux::Result<()> {
    match root::write(file, format!("{cpus}\n")) {
        Err(error) if error.errno() == Some(libc::ENOSPC) => {
            let possible = Root::default().read("/sys/devices/system/cpu/possible")?;
            root::write(file, possible.trim())
        }
        outcome => outcome,
    }
}

fn write(setting: &Setting) -> sandbag_linux::Result<()> {
    let sysctl = Sysctl::at(setting.path.clone());
    // Not written without need: each write to a real-time budget rebuilds
    // something in the kernel.
    // `<unsupported>` is not a value: the speed of a governor that is no
    // longer in force.
    let now = sysctl.get()?;
    if now == setting.old || now.starts_with('<') {
        return Ok(());
    }
    match setting.of {
        SettingOf::Sysctl | SettingOf::LatencyLimit => sysctl.set(&setting.old),
        SettingOf::RtRuntime | SettingOf::Cpufreq => root::write(&setting.path, &setting.old),
        SettingOf::Cpuset => write_cpuset(&setting.path, &setting.old),
    }
}
