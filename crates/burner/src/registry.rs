// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The runs of this machine: who holds which CPUs, and what dead ones left.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use sandbag_kernel::CpuList;

use crate::error::{Error, Result};
use crate::journal::{self, Entry, Journal, RunInfo};
use crate::undo::undo;

/// The directory of the journals.
#[derive(Debug, Clone)]
pub struct Registry {
    dir: PathBuf,
}

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
    pub fn open() -> Result<Self> {
        // SAFETY: no arguments, cannot fail.
        let dir = match unsafe { libc::geteuid() } {
            0 => PathBuf::from("/run/sandbag"),
            _ => std::env::var_os("XDG_RUNTIME_DIR")
                .map_or_else(std::env::temp_dir, PathBuf::from)
                .join("sandbag"),
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

    /// Only one process at a time looks for others and registers.
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

    /// Registers a run and opens its journal.
    ///
    /// # Errors
    /// [`Error::Busy`] if a live run holds one of the CPUs.
    pub fn register(&self, info: RunInfo, cpus: &CpuList) -> Result<Journal> {
        let _lock = self.lock()?;
        for other in self.runs()? {
            let theirs: CpuList = other.cpus.parse().unwrap_or_default();
            let both = theirs.intersection(cpus);
            if !both.is_empty() {
                return Err(Error::Busy {
                    pid: other.pid,
                    cpus: both,
                });
            }
        }
        Journal::create(&self.dir, info)
    }
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
        let _held = registry.register(info(10, "0-1"), &first).unwrap();
        let second: CpuList = "1-2".parse().unwrap();
        let error = registry.register(info(11, "1-2"), &second).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("CPUs 1 ") && text.contains("10"), "{text}");
        let apart: CpuList = "2".parse().unwrap();
        let _other = registry.register(info(12, "2"), &apart).unwrap();
        assert_eq!(registry.runs().unwrap().len(), 2);
        assert!(registry.restore().unwrap().is_empty());
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
