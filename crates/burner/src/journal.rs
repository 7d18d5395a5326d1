// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The journal: what was changed, written down before it is changed.
//!
//! One file per run, a JSON object per line. The supervisor holds a lock on it
//! (flock); a journal that can be locked by somebody else belongs to nobody
//! alive, and is undone by whoever finds it: the supervisor's guardian, which
//! waits for that, or another sandbag.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::named::Named;

/// One line: a change about to be made, with what undoes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "kebab-case")]
pub enum Entry {
    /// First line: whose journal this is.
    Run(RunInfo),
    /// A group is made. To undo, its processes are killed, or moved to
    /// `back` where that is given, and the directories removed.
    Group {
        /// Its directory in each hierarchy.
        dirs: Vec<PathBuf>,
        /// Where surviving processes belong, parallel to `dirs`.
        back: Option<Vec<PathBuf>>,
    },
    /// A controller is enabled for the children of a v2 group.
    Controller {
        /// The group's `cgroup.subtree_control`.
        path: PathBuf,
        /// The controller.
        name: String,
    },
    /// A transient systemd unit is started.
    Unit {
        /// Its name.
        name: String,
        /// The processes in it are the command's: they are not killed but
        /// left to a scope of their own, which systemd ends with them.
        keep: bool,
    },
    /// A transient systemd slice is started for a node; who enters it gets a
    /// scope in it. To undo, what is in it goes on in the slice `back`, or is
    /// killed, and it is stopped.
    NodeSlice {
        /// Its name.
        name: String,
        /// Its group.
        dir: PathBuf,
        /// The slice that the supervisor is in.
        back: String,
    },
    /// A scope in such a slice is started. To undo, what is in it goes on in
    /// the slice `back`, unless it is killed with the node's slice.
    NodeScope {
        /// Its group.
        dir: PathBuf,
        /// The slice from which its process came.
        back: String,
    },
    /// Who enters a group may use only some CPUs from then on. To undo,
    /// threads that still may use exactly these get `before` again.
    Confined {
        /// The group's directory in the cpu hierarchy (v1) or the tree (v2).
        dir: PathBuf,
        /// These CPUs, as a list.
        cpus: String,
        /// Those that the supervisor may use, as a list.
        before: String,
    },
    /// A setting is written.
    Setting(Setting),
    /// Processes may be stopped from now on, and continued, as often as it
    /// pleases. To undo, those that are still the same get a SIGCONT.
    Stopped {
        /// The processes.
        processes: Vec<Named>,
    },
    /// Processes of a group and of groups below it may be stopped from now on,
    /// and continued, as often as it pleases. To undo, all that are in it get
    /// a SIGCONT, those that somebody else stopped as well: nobody can tell
    /// them apart.
    StoppedGroup {
        /// Its directory in the cpu hierarchy (v1) or the tree (v2).
        dir: PathBuf,
    },
    /// An instance of tracefs is made. To undo, it is removed, and with it all
    /// that it traces.
    TraceInstance {
        /// Its name among `instances`.
        name: String,
    },
    /// A group may be frozen from now on, and thawed, as often as it
    /// pleases. To undo, it is thawed.
    Frozen {
        /// Its directory in the freezer hierarchy (v1) or the tree (v2).
        dir: PathBuf,
    },
}

/// A file of the machine's that is written, with what was in it before. To
/// undo, that is written again, unless another run needs it changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// What kind of file.
    pub of: SettingOf,
    /// The file.
    pub path: PathBuf,
    /// Its text before any run changed it, words separated by blanks.
    pub old: String,
}

/// The kinds of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SettingOf {
    /// A tunable below `/proc/sys`, such as `kernel.sched_rt_runtime_us`.
    Sysctl,
    /// `cpu.rt_runtime_us` of a v1 group: its real-time budget, microseconds
    /// per `cpu.rt_period_us`.
    RtRuntime,
    /// A file of a cpufreq policy: governor or frequency, kHz.
    Cpufreq,
}

/// What others may know about a run while it lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunInfo {
    /// The supervisor.
    pub pid: u32,
    /// The loaded CPUs, as a list.
    pub cpus: String,
    /// Method by name.
    pub method: String,
    /// `constant 50 %` or the profile's file.
    pub load: String,
    /// The wrapped command, if any.
    pub command: Vec<String>,
    /// Wall-clock start, seconds since the epoch.
    pub started_s: u64,
    /// Descriptor of the board in the supervisor.
    pub board_fd: RawFd,
    /// Kill what the command left, too, if we die.
    pub kill: bool,
    /// Others may load these CPUs, too: jitter is injected beside any load.
    #[serde(default)]
    pub shares: bool,
}

impl RunInfo {
    /// Of a process that loads nothing and only has something to undo, `what` it
    /// does: others may load any CPU meanwhile.
    #[must_use]
    pub fn of_watcher(what: &str) -> Self {
        Self {
            pid: std::process::id(),
            cpus: String::new(),
            method: "none".to_owned(),
            load: what.to_owned(),
            command: Vec::new(),
            started_s: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |time| time.as_secs()),
            board_fd: -1,
            kill: false,
            shares: false,
        }
    }
}

/// An open, locked journal.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
}

impl Journal {
    /// Where the journal of a run is.
    #[must_use]
    pub fn path_of(dir: &Path, pid: u32) -> PathBuf {
        dir.join(format!("{pid}.journal"))
    }

    /// Creates and locks the journal of this run.
    pub fn create(dir: &Path, info: RunInfo) -> Result<Self> {
        let path = Self::path_of(dir, info.pid);
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(&path)
            .map_err(|cause| Error::File {
                path: path.clone(),
                cause,
            })?;
        let mut journal = Self { file, path };
        if !journal.try_lock() {
            return Err(journal.failed(io::ErrorKind::WouldBlock.into()));
        }
        journal.note(Entry::Run(info))?;
        Ok(journal)
    }

    /// Opens a journal that was found, if nobody alive holds it.
    pub fn take_over(path: &Path) -> Result<Option<Self>> {
        let file = match OpenOptions::new().append(true).open(path) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|cause| Error::File {
                path: path.to_owned(),
                cause,
            })?,
        };
        let journal = Self {
            file,
            path: path.to_owned(),
        };
        // It may have been removed between the two calls.
        Ok((journal.try_lock() && path.exists()).then_some(journal))
    }

    fn try_lock(&self) -> bool {
        // SAFETY: an open descriptor of ours.
        unsafe { libc::flock(self.file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0 }
    }

    fn failed(&self, cause: io::Error) -> Error {
        Error::File {
            path: self.path.clone(),
            cause,
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory of all journals.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// Writes an entry. Must return before the change is made.
    pub fn note(&mut self, entry: Entry) -> Result<()> {
        let mut line = serde_json::to_vec(&entry).map_err(|e| self.failed(e.into()))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(|c| self.failed(c))
    }

    /// What is in it so far.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be read at all.
    pub fn read(&self) -> Result<Contents> {
        read(&self.path)
    }

    /// All entries so far that can be read.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn entries(&self) -> Result<Vec<Entry>> {
        Ok(self.read()?.entries)
    }

    /// Removes the file: everything is undone.
    pub fn close(self) -> Result<()> {
        match fs::remove_file(&self.path) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(self.failed(cause)),
            _ => Ok(()),
        }
    }
}

/// What a journal says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// Its entries, in the order in which they were noted.
    pub entries: Vec<Entry>,
    /// Lines that cannot be read, each with its place and the remedy: what
    /// they announced may have been done and is not known.
    pub problems: Vec<String>,
}

/// Reads a journal file.
///
/// A last line without an end was being written when its run was killed:
/// what it announces was not done. Any other line that makes no sense is a
/// problem, of a disk or of a newer sandbag, and the others still count.
///
/// # Errors
/// [`Error::File`] if it cannot be read at all.
pub fn read(path: &Path) -> Result<Contents> {
    let text = fs::read(path).map_err(|cause| Error::File {
        path: path.to_owned(),
        cause,
    })?;
    let mut contents = Contents::default();
    let mut lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    // Empty if the text ends with a line's end.
    let torn = lines.pop().unwrap_or_default();
    for (n, line) in lines.into_iter().enumerate() {
        match serde_json::from_slice(line) {
            Ok(entry) => contents.entries.push(entry),
            Err(error) => contents.problems.push(format!(
                "{}:{}: not understood ({error}): see whether what it says is still so, then \
                 remove the file",
                path.display(),
                n + 1
            )),
        }
    }
    contents.entries.extend(serde_json::from_slice(torn).ok());
    Ok(contents)
}

/// The journal files in a directory.
///
/// # Errors
/// [`Error::File`] if the directory cannot be read.
pub fn all(dir: &Path) -> Result<Vec<PathBuf>> {
    let listing = fs::read_dir(dir).map_err(|cause| Error::File {
        path: dir.to_owned(),
        cause,
    })?;
    let mut journals: Vec<PathBuf> = listing
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "journal"))
        .collect();
    journals.sort();
    Ok(journals)
}

/// The entries of the other runs' journals, of live and dead ones. One that
/// cannot be read has none: whoever undoes it says so.
#[must_use]
pub fn of_others(own: &Journal) -> Vec<Entry> {
    let others = all(own.dir()).unwrap_or_default().into_iter();
    others
        .filter(|path| path != own.path())
        .filter_map(|path| read(&path).ok())
        .flat_map(|contents| contents.entries)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(pid: u32) -> RunInfo {
        RunInfo {
            pid,
            cpus: "0-1".into(),
            method: "pace".into(),
            load: "constant 50 %".into(),
            command: vec![],
            started_s: 0,
            board_fd: 5,
            kill: false,
            shares: false,
        }
    }

    #[test]
    fn a_held_journal_cannot_be_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::create(dir.path(), info(7)).unwrap();
        let path = journal.path().to_owned();
        assert!(Journal::take_over(&path).unwrap().is_none());
        drop(journal);
        assert!(Journal::take_over(&path).unwrap().is_some());
    }

    #[test]
    fn a_torn_last_line_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(dir.path(), info(7)).unwrap();
        let unit = Entry::Unit {
            name: "x.scope".into(),
            keep: false,
        };
        journal.note(unit.clone()).unwrap();
        journal.file.write_all(b"{\"entry\":\"gro").unwrap();
        assert_eq!(journal.entries().unwrap(), [Entry::Run(info(7)), unit]);
    }

    #[test]
    fn a_bad_line_in_the_middle_is_said_and_the_others_count() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(dir.path(), info(7)).unwrap();
        let unit = |name: &str| Entry::Unit {
            name: name.into(),
            keep: false,
        };
        journal.note(unit("a")).unwrap();
        journal
            .file
            .write_all(b"{\"entry\":\"of a newer sandbag\"}\n\xff\0\n")
            .unwrap();
        journal.note(unit("b")).unwrap();
        let contents = journal.read().unwrap();
        assert_eq!(
            contents.entries,
            [Entry::Run(info(7)), unit("a"), unit("b")]
        );
        let problems = contents.problems;
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("7.journal:3: "), "{problems:?}");
        assert!(problems[1].contains("remove the file"), "{problems:?}");
    }

    #[test]
    fn closing_removes_it() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::create(dir.path(), info(7)).unwrap();
        let path = journal.path().to_owned();
        journal.close().unwrap();
        assert!(!path.exists());
    }
}
