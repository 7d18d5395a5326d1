// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Undoing a journal. Every step may have been done already, or never: each
//! is written so that doing it again is harmless.
//!
//! The order is: whatever burns is killed, whatever stands still goes on
//! (v1 does not even let a frozen process die) and may use its CPUs again,
//! settings are put back (real
//! time has no room to be given back while a task uses it), groups and
//! units are removed, controllers disabled. Within each of these, the last
//! change is undone first.
//!
//! Settings and controllers are the machine's: what the journal of another run
//! that lives names as well stays, and is undone with that.

mod confinement;
mod groups;
mod scope;
mod settings;
mod units;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbag_linux::cgroup::{Freezer, kill_all};
use sandbag_linux::tracefs::TraceFs;
use sandbag_linux::{Root, root};

use crate::journal::{self, Entry, Journal, RunInfo, Setting};
use crate::lock::Lock;
use crate::process_identity::ProcessIdentity;
use crate::run_process::{RunId, RunProcess};
pub use groups::continue_all;
use scope::UndoScope;
pub(crate) use scope::is_of;
use units::{Manager, Units};

/// How long those who may stop or freeze others are waited for when they were
/// killed.
const LAST_ACT: Duration = Duration::from_millis(500);

/// How long the lock of the journals is waited for. It keeps two runs from
/// changing the same setting at once; what has to be undone is undone without
/// it, too.
const LOCK_PATIENCE: Duration = Duration::from_millis(1500);

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
    undo_on(&Root::default(), journal, leftovers).all()
}

/// What could not be undone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// Another try may succeed.
    pub later: Vec<String>,
    /// No try will: lines that make no sense, or that name what a journal must
    /// not name.
    pub never: Vec<String>,
}

impl Left {
    /// All of it.
    pub fn all(mut self) -> Vec<String> {
        self.never.append(&mut self.later);
        self.never
    }
}

/// The same, told apart by whether to try again.
pub(crate) fn undo_on(root: &Root, journal: Journal, leftovers: Leftovers) -> Left {
    undo_by(
        journal,
        leftovers,
        &UndoScope::on(root),
        &mut units::Systemd,
    )
}

/// For tests, whose machines are below the directory for temporary files.
#[cfg(any(test, feature = "fixture"))]
#[must_use]
pub fn undo_in_temp(journal: Journal, leftovers: Leftovers) -> Vec<String> {
    let allowed = UndoScope::below(&std::env::temp_dir());
    undo_by(journal, leftovers, &allowed, &mut units::Systemd).all()
}

fn undo_by(
    mut journal: Journal,
    leftovers: Leftovers,
    allowed: &UndoScope,
    manager: &mut dyn Manager,
) -> Left {
    let contents = match journal.read() {
        Ok(contents) => contents,
        Err(error) => {
            return Left {
                later: vec![error.to_string()],
                ..Left::default()
            };
        }
    };
    let mut never = contents.problems;
    let run = contents.entries.iter().find_map(|entry| match entry {
        Entry::Run(info) => Some(info.clone()),
        _ => None,
    });
    let process = run.as_ref().and_then(|info| info.process.as_ref());
    if process.is_some_and(RunProcess::is_of_earlier_boot) {
        // Nothing of it outlived the kernel.
        return Left {
            later: journal
                .close()
                .err()
                .map(|e| e.to_string())
                .into_iter()
                .collect(),
            ..Left::default()
        };
    }
    let id = run
        .as_ref()
        .map(RunInfo::id)
        .or_else(|| journal::run_of(journal.path()));
    let id = id.unwrap_or_else(RunId::own);
    let mut entries = contents.entries;
    entries.retain(|entry| {
        let checked = allowed.check(entry, id);
        never.extend(checked.as_ref().err().map(|why| {
            format!(
                "{}: {why}: see who wrote that, then remove the file",
                journal.path().display()
            )
        }));
        checked.is_ok()
    });
    let mut left = Vec::new();
    let is_to_kill = run.as_ref().is_some_and(|info| info.kill);
    let is_over = entries.contains(&Entry::CommandOver);
    if is_to_kill && leftovers == Leftovers::GoBack && !is_over {
        // For who tries again what cannot be undone now.
        let _ = journal.note(Entry::CommandOver);
    }
    let kill = leftovers == Leftovers::AsNoted && is_to_kill && !is_over;
    let mut units = Units::of_run(id, manager);
    for entry in entries.iter().rev() {
        if let Entry::Group { dirs, back: None } = entry {
            dirs.iter().for_each(|dir| {
                // Tried again, and said, when the group is removed.
                let _ = kill_all(dir);
            });
        }
    }
    await_end_of_killed(&entries, process);
    for entry in &entries {
        match entry {
            Entry::Group {
                dirs,
                back: Some(_),
            } => dirs.iter().for_each(|dir| {
                confinement::lift(dir);
                groups::lift_cap(dir);
            }),
            Entry::NodeSlice { dir, .. } => {
                confinement::lift(dir);
                groups::lift_cap(dir);
            }
            _ => {}
        }
    }
    left.extend(entries.iter().rev().flat_map(|entry| go_on(entry, process)));
    let mut patience = LOCK_PATIENCE;
    if entries.iter().any(|e| matches!(e, Entry::Setting(_))) {
        // Early, for groups may take their time. What is refused now, or
        // needed by a run that ends meanwhile, has another chance below.
        let lock = Lock::within(journal.dir(), patience);
        if lock.is_err() {
            patience = Duration::ZERO;
        }
        let _ = put_settings_back(&entries, &journal::of_living(&journal));
    }
    for entry in entries.iter().rev() {
        match entry {
            Entry::Group { dirs, back } => {
                left.extend(groups::remove_groups(dirs, back.as_ref().filter(|_| !kill)))
            }
            Entry::Unit { name, keep: false } => left.extend(units.stop(name).err()),
            Entry::Unit { name, keep: true } if kill => left.extend(units.kill_all(name).err()),
            Entry::NodeScope {
                dir,
                back,
                home: None,
            } if !kill => left.extend(units.empty(dir, back).err()),
            Entry::NodeScope {
                dir,
                back,
                home: Some(home),
            } => left.extend(units.give_back(dir, home, back).err()),
            Entry::UnitCpus {
                unit,
                dir,
                before,
                had_file,
            } => {
                left.extend(units.free(unit, before, *had_file).err());
                left.extend(free_group(dir, before).err());
            }
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
    // does not need it any more. Without the lock it is put back all the same:
    // the process that has it may be stopped for good.
    let _lock = Lock::within(journal.dir(), patience);
    let others = journal::of_living(&journal);
    let refused = put_settings_back(&entries, &others);
    left.extend(refused.iter().map(|(_, why)| why.clone()));
    left.extend(entries.iter().rev().filter_map(|entry| match entry {
        Entry::Controller { path, name } if !others.contains(entry) => {
            disable(path, name, &journal).err()
        }
        _ => None,
    }));
    if left.is_empty() && never.is_empty() {
        left.extend(journal.close().err().map(|error| error.to_string()));
    } else {
        let settings = entries.iter().filter_map(|entry| match entry {
            Entry::Setting(setting) => Some(&setting.path),
            _ => None,
        });
        for path in settings {
            if refused.iter().all(|(refused, _)| refused != path) {
                let path = path.clone();
                let _ = journal.note(Entry::PutBack { path });
            }
        }
        // Still within that step: to the next run our journal must be that of a dead one, or each
        // would leave a setting to the other.
        drop(journal);
    }
    Left { later: left, never }
}

/// A killed process ends only when it leaves the system call it is in, and
/// that may be the one that stops a process or freezes a group. What goes on
/// before that would be stopped for good. A frozen group's own processes end
/// when it is thawed, so they are not waited for.
fn await_end_of_killed(entries: &[Entry], run: Option<&RunProcess>) {
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
        // The kernel kills it a moment after the supervisor's end is known here.
        if let Entry::Worker { process } = entry
            && let Some(worker) = here(*process, run)
        {
            groups::await_end_of(worker, give_up);
        }
        if let Entry::Group { dirs, back: None } = entry
            && !dirs.iter().any(frozen)
        {
            for dir in dirs {
                groups::await_end(dir, give_up);
            }
        }
    }
}

/// All but those that `others` still need changed.
fn put_settings_back(entries: &[Entry], others: &[Entry]) -> Vec<(PathBuf, String)> {
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
/// may not; what failed. `process` is the run's.
fn go_on(entry: &Entry, process: Option<&RunProcess>) -> Vec<String> {
    let outcomes: Vec<sandbag_linux::Result<()>> = match entry {
        Entry::Frozen { dir } => {
            let freezer = Freezer::detect(dir);
            vec![freezer.map_or(Ok(()), |freezer| freezer.thaw())]
        }
        Entry::Stopped { processes } => processes
            .iter()
            .filter_map(|stopped| here(*stopped, process))
            .map(|stopped| stopped.signal(libc::SIGCONT))
            .collect(),
        Entry::StoppedGroup { dir } => groups::continue_all(dir),
        Entry::Confined {
            dir,
            cpus,
            before,
            process: of,
        } => {
            let of = of.map(|of| here(of, process));
            match (cpus.parse(), before.parse(), of) {
                // It cannot be seen from here.
                (_, _, Some(None)) => Vec::new(),
                (Ok(cpus), Ok(before), of) => {
                    confinement::give_back(dir, &cpus, &before, of.flatten())
                }
                _ => Vec::new(),
            }
        }
        _ => Vec::new(),
    };
    let failed = outcomes.into_iter().filter_map(Result::err);
    failed
        .filter(|error| !error.is_absent())
        .map(|error| error.to_string())
        .collect()
}

/// A process that the run's journal names, by its number here: the run may
/// have been in another PID namespace.
fn here(named: ProcessIdentity, run: Option<&RunProcess>) -> Option<ProcessIdentity> {
    match run.filter(|run| !run.is_of_our_namespace()) {
        None => Some(named),
        Some(run) => {
            let elsewhere = RunProcess {
                start_ticks: named.start_ticks,
                ..run.clone()
            };
            elsewhere.find(named.pid)
        }
    }
}

/// Where another unit keeps the controller enabled, systemd (252) leaves the CPUs of a
/// group as they were when its unit may use all again.
fn free_group(dir: &Path, before: &str) -> Result<(), String> {
    let file = dir.join("cpuset.cpus");
    if !before.is_empty() || !file.exists() {
        return Ok(());
    }
    match settings::write_cpuset(&file, "") {
        Err(error) if !error.is_absent() => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// Removes an instance of tracefs, wherever that is mounted today.
fn end_tracing(name: &str) -> Result<(), String> {
    let tree = TraceFs::open(&Root::default());
    let removed = tree.and_then(|tree| tree.remove(name));
    removed.map_err(|error| error.to_string())
}

/// Disables a controller that we enabled; the tree may be gone.
fn disable(path: &Path, name: &str, own: &Journal) -> Result<(), String> {
    if !path.exists() {
        return Ok(());
    }
    let outcome = root::write(path, format!("-{name}"));
    disabled(outcome, || {
        is_enabled_below(path, name, &journal::of_others(own))
    })
}

/// What became of that. EBUSY: a group below has it enabled for its own groups
/// (Documentation/admin-guide/cgroup-v2.rst). If that is none of a run of ours,
/// which disables it in time, others use the controller, and it stays.
fn disabled(
    outcome: sandbag_linux::Result<()>,
    by_run_below: impl Fn() -> bool,
) -> Result<(), String> {
    match outcome {
        Err(error) if error.errno() == Some(libc::EBUSY) && !by_run_below() => Ok(()),
        outcome => outcome.map_err(|error| error.to_string()),
    }
}

/// Whether one of these entries enables the controller in a group below that of `path`.
fn is_enabled_below(path: &Path, name: &str, entries: &[Entry]) -> bool {
    entries.iter().any(|entry| match entry {
        Entry::Controller {
            path: theirs,
            name: enabled,
        } => {
            let below = theirs.parent().zip(path.parent());
            enabled == name
                && below.is_some_and(|(theirs, ours)| theirs != ours && theirs.starts_with(ours))
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests;
