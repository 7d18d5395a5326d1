// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Undoing a journal. Every step may have been done already, or never: each
//! is written so that doing it again is harmless.
//!
//! The order is: whatever burns is killed, whatever stands still goes on
//! (v1 does not even let a frozen process die) and may use its CPUs again,
//! settings are put back (real
//! time has no room to be given back while somebody uses it), groups and
//! units are removed, controllers disabled. Within each of these, the last
//! change is undone first.
//!
//! Settings and controllers are the machine's: what another run's journal
//! names as well stays, and is undone with that.

mod confined;
mod groups;
mod settings;
mod units;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbag_kernel::cgroup::{Freezer, kill_all};
use sandbag_kernel::tracefs::TraceFs;
use sandbag_kernel::{Root, root};

use crate::journal::{self, Entry, Journal, Setting};
use crate::lock::Lock;
use units::{Manager, Units};

/// How long those who may stop or freeze others are waited for when they were
/// killed.
const LAST_ACT: Duration = Duration::from_millis(500);

/// How long a group is tried to be removed after its processes were killed,
/// and a setting to be put back.
const PATIENCE: Duration = Duration::from_millis(1500);

/// What becomes of processes that are in the command's group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leftovers {
    /// They go back to where the command came from: it ended by itself.
    GoBack,
    /// They go back, or are killed if the journal says so (`--kill`): sandbag
    /// ended before the command.
    AsNoted,
}

/// Undoes a journal and removes it. Returns what could not be undone, in
/// words; everything else is undone all the same, and the journal stays for
/// the next who finds it.
///
/// Takes the lock of its directory.
#[must_use]
pub fn undo(journal: Journal, leftovers: Leftovers) -> Vec<String> {
    undo_by(journal, leftovers, &mut units::Systemd)
}

fn undo_by(journal: Journal, leftovers: Leftovers, manager: &mut dyn Manager) -> Vec<String> {
    let journal::Contents {
        entries,
        problems: mut left,
    } = match journal.read() {
        Ok(contents) => contents,
        Err(error) => return vec![error.to_string()],
    };
    let run = entries.iter().find_map(|entry| match entry {
        Entry::Run(info) => Some(info),
        _ => None,
    });
    let kill = leftovers == Leftovers::AsNoted && run.is_some_and(|info| info.kill);
    let mut units = Units::of_run(run.map_or_else(std::process::id, |info| info.pid), manager);
    for entry in entries.iter().rev() {
        if let Entry::Group { dirs, back: None } = entry {
            dirs.iter().for_each(|dir| {
                // Tried again, and said, when the group is removed.
                let _ = kill_all(dir);
            });
        }
    }
    await_end_of_killed(&entries);
    left.extend(entries.iter().rev().flat_map(go_on));
    if entries.iter().any(|e| matches!(e, Entry::Setting(_))) {
        // Early, for groups may take their time. What is refused now, or
        // needed by a run that ends meanwhile, has another chance below.
        let _lock = Lock::of(journal.dir());
        let _ = put_settings_back(&entries, &journal::of_others(&journal));
    }
    for entry in entries.iter().rev() {
        match entry {
            Entry::Group { dirs, back } => {
                left.extend(groups::remove_groups(dirs, back.as_ref().filter(|_| !kill)))
            }
            Entry::Unit { name, keep } if !*keep || kill => left.extend(units.stop(name).err()),
            Entry::NodeScope { dir, back } if !kill => left.extend(units.empty(dir, back).err()),
            Entry::NodeSlice { name, dir, back } => {
                let back = Some(back.as_str()).filter(|_| !kill);
                left.extend(units.end_slice(name, dir, back).err());
            }
            Entry::TraceInstance { name } => left.extend(end_tracing(name).err()),
            _ => {}
        }
    }
    // One step with the removal of the journal: another run either still sees
    // that we need what is shared, and puts it back itself, or we see that it
    // does not need it any more.
    let lock = Lock::of(journal.dir());
    let others = journal::of_others(&journal);
    left.extend(put_settings_back(&entries, &others));
    left.extend(entries.iter().rev().filter_map(|entry| match entry {
        Entry::Controller { path, name } if !others.contains(entry) => disable(path, name).err(),
        _ => None,
    }));
    left.extend(lock.as_ref().err().map(ToString::to_string));
    if left.is_empty() {
        left.extend(journal.close().err().map(|error| error.to_string()));
    }
    left
}

/// Whoever was killed ends only when it leaves the system call it is in, and
/// that may be the one that stops a process or freezes a group. What goes on
/// before that would be stopped for good. A frozen group's own processes end
/// when it is thawed, so nobody waits for them.
fn await_end_of_killed(entries: &[Entry]) {
    let stops = |entry: &Entry| {
        matches!(
            entry,
            Entry::Stopped { .. } | Entry::StoppedGroup { .. } | Entry::Frozen { .. }
        )
    };
    if !entries.iter().any(stops) {
        return;
    }
    let frozen = |dir: &PathBuf| {
        entries
            .iter()
            .any(|entry| matches!(entry, Entry::Frozen { dir: frozen } if frozen == dir))
    };
    let give_up = Instant::now() + LAST_ACT;
    for entry in entries {
        if let Entry::Group { dirs, back: None } = entry
            && !dirs.iter().any(frozen)
        {
            for dir in dirs {
                groups::await_end(dir, give_up);
            }
        }
    }
}

/// All but those that another run still needs changed.
fn put_settings_back(entries: &[Entry], others: &[Entry]) -> Vec<String> {
    let settings = |entries: &'_ [Entry]| -> Vec<Setting> {
        let settings = entries.iter().rev().filter_map(|entry| match entry {
            Entry::Setting(setting) => Some(setting.clone()),
            _ => None,
        });
        settings.collect()
    };
    let needed = settings(others);
    let ours = settings(entries);
    settings::put_back(
        ours.iter()
            .filter(|ours| needed.iter().all(|theirs| theirs.path != ours.path)),
    )
}

/// Lets everything go on that the entry says may stand still, and run where it
/// may not; what failed.
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
        Entry::Confined { dir, cpus, before } => match (cpus.parse(), before.parse()) {
            (Ok(cpus), Ok(before)) => confined::give_back(dir, &cpus, &before),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    };
    let failed = outcomes.into_iter().filter_map(Result::err);
    failed
        .filter(|error| !error.is_absent())
        .map(|error| error.to_string())
        .collect()
}

/// Removes an instance of tracefs, wherever that is mounted today.
fn end_tracing(name: &str) -> Result<(), String> {
    let tree = TraceFs::open(&Root::default());
    let removed = tree.and_then(|tree| tree.remove(name));
    removed.map_err(|error| error.to_string())
}

/// Disables a controller that we enabled; the tree may be gone.
fn disable(path: &Path, name: &str) -> Result<(), String> {
    match path.exists() {
        true => root::write(path, format!("-{name}")).map_err(|error| error.to_string()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;
