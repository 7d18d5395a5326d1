// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes of the machine other than groups. Each is written to the journal
//! before it is made, so that undoing the journal reverts it.
//!
//! Settings belong to the machine and not to a run. A run that finds a
//! setting in another run's journal, also a dead one's, notes the original
//! value from there, and the last run that lives restores it.
//!
//! Runs of another user or mount namespace have journals that this run does
//! not see. A setting that already has the wanted value, and that no journal
//! names, was set by the administrator or by such a run: it is neither noted
//! nor written, so that the run that changed it also restores it, in
//! whatever order the two end. Files of cpufreq are always noted: a method that
//! alternates frequencies writes other values later without a note.

use std::path::Path;

use sandbag_linux::sysctl::Sysctl;
use sandbag_linux::{CpuList, root};

use crate::error::Result;
use crate::journal::{self, Entry, Journal, Setting, SettingOf};
use crate::lock::Lock;

/// Sets a tunable, unless it has this value already and no journal here names who set it.
pub fn set_sysctl(
    journal: &mut Journal,
    sysctl: &Sysctl,
    value: impl std::fmt::Display,
) -> Result<()> {
    set(journal, SettingOf::Sysctl, sysctl, value)
}

/// Sets the latency limit of a CPU in the same way.
pub fn set_latency_limit(journal: &mut Journal, limit: &Sysctl, value: &str) -> Result<()> {
    set(journal, SettingOf::LatencyLimit, limit, value)
}

fn set(
    journal: &mut Journal,
    of: SettingOf,
    sysctl: &Sysctl,
    value: impl std::fmt::Display,
) -> Result<()> {
    let value = words(&value.to_string());
    let _lock = note(journal, of, sysctl.path(), Some(&value))?;
    if is_noted(journal, sysctl.path())? {
        sysctl.set(value)?;
    }
    Ok(())
}

/// Writes a file of a cpufreq policy, such as `scaling_governor`. Only the
/// first change of a file in a run is noted: a method that alternates
/// frequencies writes the later ones itself. A driver may round the value, so
/// the file is not read back.
pub fn set_cpufreq(
    journal: &mut Journal,
    path: &Path,
    value: impl std::fmt::Display,
) -> Result<()> {
    let _lock = note(journal, SettingOf::Cpufreq, path, None)?;
    Ok(root::write(path, value)?)
}

/// Confines a v2 group that others made.
pub fn set_cpuset(journal: &mut Journal, group: &Path, cpus: &CpuList) -> Result<()> {
    let path = group.join("cpuset.cpus");
    let _lock = note(journal, SettingOf::Cpuset, &path, None)?;
    Ok(root::write(&path, cpus)?)
}

/// Notes a setting with the value it had before the first run changed it,
/// unless it is `wanted` and no other journal names it. The lock is to be held
/// until it is changed; `None` if this run has noted it before, or it cannot be
/// put back.
fn note(
    journal: &mut Journal,
    of: SettingOf,
    path: &Path,
    wanted: Option<&str>,
) -> Result<Option<Lock>> {
    if is_noted(journal, path)? {
        return Ok(None);
    }
    let lock = Lock::of(journal.dir())?;
    let now = words(&root::read(path)?);
    // `<unsupported>` cannot be put back: the speed of a governor that is not
    // in force.
    if now.starts_with('<') {
        return Ok(None);
    }
    let others = journal::of_others(journal);
    let old = others.into_iter().find_map(|entry| match entry {
        Entry::Setting(setting) if setting.path == path => Some(setting.old),
        _ => None,
    });
    if old.is_none() && wanted == Some(&now) {
        return Ok(None);
    }
    journal.note(Entry::Setting(Setting {
        of,
        path: path.to_owned(),
        old: old.unwrap_or(now),
    }))?;
    Ok(Some(lock))
}

/// Whether this run puts the setting back.
fn is_noted(journal: &Journal, path: &Path) -> Result<bool> {
    let is_it = |entry: &Entry| matches!(entry, Entry::Setting(setting) if setting.path == path);
    Ok(journal.entries()?.iter().any(is_it))
}

/// The words of a file, separated by single blanks.
fn words(text: &str) -> String {
    text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
