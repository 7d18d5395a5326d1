// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The runs of this machine: who holds which CPUs, and what dead ones left.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbag_kernel::CpuList;

use crate::error::{Error, Result};
use crate::journal::{self, Entry, Journal, RunInfo};
use crate::undo::undo;

/// The directory of the journals.
#[derive(Debug, Clone)]
pub struct Registry {
    dir: PathBuf,
}

/// How long a run waits for the guardian of a dead one on its CPUs.
const GUARDIAN_PATIENCE: Duration = Duration::from_secs(3);
/// How long it waits for one that lives: a process that was just killed may
/// have to finish a write to the group tree before it can die.
const DEATH_PATIENCE: Duration = Duration::from_millis(300);

/// What was found and undone of a run whose processes are all gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The dead supervisor.
    pub pid: u32,
    /// What could not be undone.
    pub left: Vec<String>,
}

impl Registry {
    /// `/run/sandbag` for root, `$XDG_RUNTIME_DIR/sandbag` for others, made
    /// if need be.
    ///
    /// # Errors
    /// [`Error::NotPossible`] for a user without `XDG_RUNTIME_DIR`.
    pub fn open() -> Result<Self> {
        // SAFETY: no arguments, cannot fail.
        let dir = match unsafe { libc::geteuid() } {
            0 => PathBuf::from("/run/sandbag"),
            // Never a directory that others can write to: what a journal
            // says is done.
            _ => std::env::var_os("XDG_RUNTIME_DIR")
                .map(|dir| PathBuf::from(dir).join("sandbag"))
                .ok_or_else(|| Error::NotPossible {
                    what: "XDG_RUNTIME_DIR is not set".into(),
                    remedy: "without root, sandbag keeps its journal there: log in through a \
                             session manager, or set it to a directory that only you can write to"
                        .into(),
                })?,
        };
        Self::at(dir)
    }

    /// A registry in another directory.
    pub fn at(dir: PathBuf) -> Result<Self> {
        match fs::create_dir(&dir) {
            Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => {
                Err(Error::File { path: dir, cause })
            }
            _ => Ok(Self { dir }),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Only one process at a time looks for others, restores or registers: a
    /// journal is there a moment before it is locked, and must not be taken
    /// for a dead run's then.
    fn lock(&self) -> Result<File> {
        let failed = |cause| Error::File {
            path: self.dir.clone(),
            cause,
        };
        let dir = File::open(&self.dir).map_err(failed)?;
        // SAFETY: an open descriptor of ours.
        match unsafe { libc::flock(dir.as_raw_fd(), libc::LOCK_EX) } {
            0 => Ok(dir),
            _ => Err(failed(io::Error::last_os_error())),
        }
    }

    fn journals(&self) -> Result<Vec<PathBuf>> {
        let listing = fs::read_dir(&self.dir).map_err(|cause| Error::File {
            path: self.dir.clone(),
            cause,
        })?;
        Ok(listing
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|e| e == "journal"))
            .collect())
    }

    /// The runs that are alive.
    pub fn runs(&self) -> Result<Vec<RunInfo>> {
        let _lock = self.lock()?;
        self.runs_under_lock()
    }

    fn runs_under_lock(&self) -> Result<Vec<RunInfo>> {
        let mut runs = Vec::new();
        for path in self.journals()? {
            if Journal::take_over(&path)?.is_none()
                && let Ok(entries) = journal::entries(&path)
                && let Some(Entry::Run(info)) = entries.into_iter().next()
            {
                runs.push(info);
            }
        }
        runs.sort_by_key(|run| run.pid);
        Ok(runs)
    }

    /// Undoes what dead runs left. Runs that live are not touched.
    pub fn restore(&self) -> Result<Vec<Restored>> {
        let _lock = self.lock()?;
        let mut restored = Vec::new();
        for path in self.journals()? {
            let Some(journal) = Journal::take_over(&path)? else {
                continue;
            };
            let left = undo(&journal.entries()?);
            let pid = path
                .file_stem()
                .and_then(|name| name.to_str()?.parse().ok())
                .unwrap_or(0);
            if left.is_empty() {
                journal.close()?;
            }
            restored.push(Restored { pid, left });
        }
        Ok(restored)
    }

    /// Where the journal of this process will be, once it is registered.
    #[must_use]
    pub fn own_journal(&self) -> PathBuf {
        Journal::path_of(&self.dir, std::process::id())
    }

    /// Registers a run and opens its journal. A run that was killed holds its
    /// CPUs until its guardian has undone it; that is waited for.
    ///
    /// # Errors
    /// [`Error::Busy`] if a live run holds one of the CPUs.
    pub fn register(&self, info: RunInfo, cpus: &CpuList) -> Result<Journal> {
        let begin = Instant::now();
        loop {
            let lock = self.lock()?;
            let Some((pid, both)) = self.holder_of(cpus)? else {
                return Journal::create(&self.dir, info);
            };
            let patience = match is_alive(pid) {
                true => DEATH_PATIENCE,
                false => GUARDIAN_PATIENCE,
            };
            if begin.elapsed() > patience {
                return Err(Error::Busy { pid, cpus: both });
            }
            drop(lock);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A run on one of these CPUs, and the CPUs that both want.
    fn holder_of(&self, cpus: &CpuList) -> Result<Option<(u32, CpuList)>> {
        let runs = self.runs_under_lock()?;
        Ok(runs.into_iter().find_map(|run| {
            let theirs: CpuList = run.cpus.parse().unwrap_or_default();
            let both = theirs.intersection(cpus);
            (!both.is_empty()).then_some((run.pid, both))
        }))
    }
}

/// Whether a process runs a program; a zombie does not.
fn is_alive(pid: u32) -> bool {
    fs::read_link(format!("/proc/{pid}/exe")).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(pid: u32, cpus: &str) -> RunInfo {
        RunInfo {
            pid,
            cpus: cpus.into(),
            method: "pace".into(),
            load: String::new(),
            command: vec![],
            started_s: 0,
            board_fd: 0,
            kill: false,
        }
    }

    #[test]
    fn the_same_cpu_cannot_be_had_twice() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::at(dir.path().join("r")).unwrap();
        let first: CpuList = "0-1".parse().unwrap();
        let me = std::process::id();
        let _held = registry.register(info(me, "0-1"), &first).unwrap();
        let second: CpuList = "1-2".parse().unwrap();
        let error = registry.register(info(11, "1-2"), &second).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("CPUs 1 ") && text.contains(&me.to_string()),
            "{text}"
        );
        let apart: CpuList = "2".parse().unwrap();
        let _other = registry.register(info(12, "2"), &apart).unwrap();
        assert_eq!(registry.runs().unwrap().len(), 2);
        assert!(registry.restore().unwrap().is_empty());
    }

    #[test]
    fn the_cpus_of_a_dead_run_are_had_when_its_guardian_is_done() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::at(dir.path().join("r")).unwrap();
        let cpus: CpuList = "0".parse().unwrap();
        // No process can have this number.
        let dead = registry.register(info(u32::MAX, "0"), &cpus).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                dead.close().unwrap();
            });
            registry.register(info(11, "0"), &cpus).unwrap();
        });
    }

    #[test]
    fn what_a_dead_run_left_is_undone_once() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::at(dir.path().join("r")).unwrap();
        let cpus: CpuList = "0".parse().unwrap();
        let group = dir.path().join("sandbag-10-cpu0");
        let mut journal = registry.register(info(10, "0"), &cpus).unwrap();
        journal
            .note(Entry::Group {
                dirs: vec![group.clone()],
                back: None,
            })
            .unwrap();
        fs::create_dir(&group).unwrap();
        drop(journal);
        let restored = registry.restore().unwrap();
        assert_eq!((restored.len(), restored[0].pid), (1, 10));
        assert!(restored[0].left.is_empty() && !group.exists());
        assert!(registry.restore().unwrap().is_empty());
    }
}
