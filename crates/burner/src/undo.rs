// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Undoing a journal. Every step may have been done already, or never: each
//! is written so that doing it again is harmless.
//!
//! The order is: whatever burns is killed, whatever stands still goes on
//! (v1 does not even let a frozen process die), settings are put back (real
//! time has no room to be given back while somebody uses it), groups and
//! units are removed. Within each of these, the last change is undone first.

mod groups;
mod settings;

use std::fs;
use std::path::Path;
use std::time::Duration;

use sandbag_kernel::cgroup::Freezer;
use sandbag_kernel::root;

use crate::journal::Entry;
use crate::systemd;

/// How long a group is tried to be removed after its processes were killed,
/// and a setting to be put back.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Undoes `entries`. Returns what could not be undone, in words; everything
/// else is undone all the same.
#[must_use]
pub fn undo(entries: &[Entry]) -> Vec<String> {
    let kill = entries
        .iter()
        .any(|entry| matches!(entry, Entry::Run(info) if info.kill));
    for entry in entries.iter().rev() {
        if let Entry::Group { dirs, back: None } = entry {
            dirs.iter().for_each(|dir| groups::kill_all(dir));
        }
    }
    let mut left: Vec<String> = entries.iter().rev().flat_map(go_on).collect();
    left.extend(settings::put_back(entries.iter().rev().filter_map(
        |entry| match entry {
            Entry::Setting(setting) => Some(setting),
            _ => None,
        },
    )));
    for entry in entries.iter().rev() {
        let result = match entry {
            Entry::Run(_)
            | Entry::Setting(_)
            | Entry::Stopped { .. }
            | Entry::StoppedGroup { .. }
            | Entry::Frozen { .. } => Ok(()),
            Entry::Group { dirs, back } => match back {
                Some(back) if !kill => groups::remove_groups(dirs, Some(back)),
                _ => groups::remove_groups(dirs, None),
            },
            Entry::Controller { path, name } => disable(path, name),
            Entry::Unit { name, keep } => match *keep && !kill {
                true => Ok(()),
                false => systemd::stop(name),
            },
        };
        left.extend(result.err());
    }
    left
}

/// Lets everything go on that the entry says may stand still; what failed.
fn go_on(entry: &Entry) -> Vec<String> {
    let outcomes: Vec<sandbag_kernel::Result<()>> = match entry {
        Entry::Frozen { dir } => {
            let freezer = Freezer::detect(dir);
            vec![freezer.map_or(Ok(()), |freezer| freezer.thaw())]
        }
        Entry::Stopped { processes } => processes
            .iter()
            .map(|process| process.signal(libc::SIGCONT))
            .collect(),
        Entry::StoppedGroup { dir } => groups::continue_all(dir),
        _ => Vec::new(),
    };
    let failed = outcomes.into_iter().filter_map(Result::err);
    failed
        .filter(|error| !error.is_absent())
        .map(|error| error.to_string())
        .collect()
}

/// Disables a controller that we enabled, unless another run's groups still
/// stand there and need it; they note the same entry and do it themselves.
fn disable(path: &Path, name: &str) -> Result<(), String> {
    let dir = path.parent().unwrap_or(path);
    let in_use = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .any(|entry| {
            let name = entry.file_name();
            name.to_string_lossy().starts_with(crate::layout::PREFIX)
        });
    if in_use || !path.exists() {
        return Ok(());
    }
    root::write(path, format!("-{name}")).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
