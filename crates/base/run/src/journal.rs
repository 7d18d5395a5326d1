// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The journal: what was changed, written down before it is changed.
//!
//! One file per run, a JSON object per line. The supervisor holds a lock on it
//! (flock); a journal that another process can lock belongs to no live
//! run, and is undone by the process that finds it: the supervisor's guardian, which
//! waits for that, or another sandbag.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::lock::try_lock;
use crate::private;
use crate::process_identity::ProcessIdentity;
use crate::run_process::{RunId, RunProcess};

/// One line: a change about to be made, with what undoes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "kebab-case", deny_unknown_fields)]
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
        name: String,
    },
    /// A transient systemd unit is started.
    Unit {
        name: String,
        /// The processes in it are the command's: they are not killed but
        /// left to a scope of their own, which systemd ends with them.
        keep: bool,
    },
    /// A transient systemd slice is started for a node; who enters it gets a
    /// scope in it. To undo, what is in it goes on in the slice `back`, or is
    /// killed, and it is stopped.
    NodeSlice {
        name: String,
        dir: PathBuf,
        /// The slice that the supervisor is in.
        back: String,
    },
    /// A scope in such a slice is started. To undo, what is in it goes on in
    /// the slice `back`, unless it is killed with the node's slice.
    NodeScope {
        dir: PathBuf,
        /// The slice from which its process came.
        back: String,
        /// The group from which it came, if it goes back there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        home: Option<PathBuf>,
    },
    /// A unit of others is confined to some CPUs. To undo, it may use those again that it
    /// could before.
    UnitCpus {
        unit: String,
        /// Directory of its group.
        dir: PathBuf,
        /// Its property AllowedCPUs, empty for all.
        before: String,
        /// It was set at run time, too: PID 1 keeps that in a file.
        had_file: bool,
    },
    /// A process that enters a group may use only some CPUs from then on. To undo,
    /// threads that still may use exactly these get `before` again.
    Confined {
        /// The group's directory in the cpu hierarchy (v1) or the tree (v2).
        dir: PathBuf,
        cpus: String,
        /// Those that it could use when it entered, as a list.
        before: String,
        /// The process: its threads and those of its descendants are meant. Without it
        /// all that entries after this one do not name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        process: Option<ProcessIdentity>,
    },
    /// A setting is written.
    Setting(Setting),
    /// Processes may be stopped from now on, and continued, as often as it
    /// pleases. To undo, those that are still the same get a SIGCONT.
    Stopped { processes: Vec<ProcessIdentity> },
    /// Processes of a group and of groups below it may be stopped from now on,
    /// and continued, as often as it pleases. To undo, all that are in it get
    /// a SIGCONT, those that another process stopped as well: they cannot be
    /// distinguished.
    StoppedGroup {
        /// Its directory in the cpu hierarchy (v1) or the tree (v2).
        dir: PathBuf,
    },
    /// The command has ended: what it left is not killed, also if not all can be undone at once.
    CommandOver,
    /// A setting is as it was, and other changes are not undone yet. A later value of it is not ours.
    PutBack { path: PathBuf },
    /// An instance of tracefs is made. To undo, it is removed, and with it all
    /// that it traces.
    TraceInstance { name: String },
    /// A process of ours that is in no group of ours may stop or freeze others from now on;
    /// it dies with the supervisor. To undo, its end is waited for before those go on.
    Worker { process: ProcessIdentity },
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
#[serde(deny_unknown_fields)]
pub struct Setting {
    pub of: SettingOf,
    pub path: PathBuf,
    /// Its text before any run changed it, words separated by blanks.
    pub old: String,
}

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
    /// `pm_qos_resume_latency_us` of a CPU: us, or `n/a`.
    LatencyLimit,
    /// `cpuset.cpus` of a v2 group that others made: a list, empty for all CPUs.
    Cpuset,
}

/// What others may know about a run while it lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunInfo {
    /// The supervisor, by its number in its PID namespace.
    pub pid: u32,
    /// Which process that is. Filled in for this process when its journal is
    /// created; an earlier sandbag did not note it.
    #[serde(default)]
    pub process: Option<RunProcess>,
    /// The loaded CPUs, as a list.
    pub cpus: String,
    pub method: String,
    /// `constant 50 %` or the profile's file.
    pub load: String,
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
    /// The run whose CPUs these are, and which ends this one.
    #[serde(default)]
    pub part_of: Option<u32>,
}

/// Variable by which a run tells those that it starts as its parts who it is.
pub const PART_OF: &str = "SANDBAG_PART_OF";

/// The run that started this process as a part of it.
pub fn part_of() -> Option<u32> {
    let parent = std::os::unix::process::parent_id();
    let named: u32 = std::env::var(PART_OF).ok()?.parse().ok()?;
    (named == parent).then_some(parent)
}

/// Variable by which a run that begins at a given time tells its parts that time, ns of
/// CLOCK_MONOTONIC.
pub const PART_BEGINS: &str = "SANDBAG_PART_BEGINS";

/// When the run begins that started this process as a part of it, ns of CLOCK_MONOTONIC, if that
/// was given.
pub fn part_begins_ns() -> Option<u64> {
    part_of()?;
    std::env::var(PART_BEGINS).ok()?.parse().ok()
}

impl RunInfo {
    /// This process, as a run that loads no CPU; `what` says what it does.
    pub fn of_this_process(what: &str) -> Self {
        Self {
            pid: std::process::id(),
            process: None,
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
            part_of: part_of(),
        }
    }

    /// The name of the run in those of its groups and units.
    pub fn id(&self) -> RunId {
        RunId::new(self.pid, self.process.as_ref())
    }

    /// The supervisor by the number that it has here, if it lives and is
    /// proven to be the one that is meant: no other process gets a signal.
    pub fn supervisor(&self) -> Option<ProcessIdentity> {
        self.process.as_ref()?.find(self.pid)
    }

    /// The run that is meant where this one is named to be ended: the one whose part this is,
    /// which would be missed without it, if it is among these.
    pub fn whole_among<'a>(&'a self, runs: impl IntoIterator<Item = &'a Self>) -> &'a Self {
        let space = |run: &Self| run.process.as_ref().map(|process| process.pid_namespace);
        let is_whole = |run: &&Self| self.part_of == Some(run.pid) && space(run) == space(self);
        runs.into_iter().find(is_whole).unwrap_or(self)
    }

    /// Whether the supervisor has certainly ended.
    pub fn has_ended(&self) -> bool {
        let process = self.process.as_ref();
        process.is_some_and(|process| process.has_ended(self.pid))
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
    pub fn path_of(dir: &Path, run: impl Into<RunId>) -> PathBuf {
        dir.join(format!("{}.journal", run.into()))
    }

    /// Creates and locks the journal of this run, readable by its owner only.
    pub fn create(dir: &Path, mut info: RunInfo) -> Result<Self> {
        if info.pid == std::process::id() {
            info.process = RunProcess::own();
        }
        let path = Self::path_of(dir, info.id());
        let file = private::create(&path).map_err(Error::file(&path))?;
        let mut journal = Self { file, path };
        if !journal.lock()? {
            return Err(journal.failed(io::ErrorKind::WouldBlock.into()));
        }
        journal.note(Entry::Run(info))?;
        Ok(journal)
    }

    /// Opens a journal that was found, if no live process holds it.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be opened, or another user may have
    /// written it.
    pub fn take_over(path: &Path) -> Result<Option<Self>> {
        let Some(journal) = Self::open(path)? else {
            return Ok(None);
        };
        // It may have been removed between the two calls.
        Ok((journal.lock()? && path.exists()).then_some(journal))
    }

    /// Opens a journal that was found, even if it is held: for the guardian,
    /// which knows that its run has ended. `None` if it is gone.
    pub fn open(path: &Path) -> Result<Option<Self>> {
        match private::open(path) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(Error::File {
                path: path.to_owned(),
                cause,
            }),
            Ok(file) => Ok(Some(Self {
                file,
                path: path.to_owned(),
            })),
        }
    }

    /// Locks it unless another process holds it.
    pub fn lock(&self) -> Result<bool> {
        try_lock(&self.file).map_err(|cause| self.failed(cause))
    }

    /// Which file it is, whatever its name is by now.
    pub fn inode(&self) -> Result<u64> {
        let meta = self.file.metadata().map_err(|cause| self.failed(cause))?;
        Ok(meta.ino())
    }

    fn failed(&self, cause: io::Error) -> Error {
        Error::File {
            path: self.path.clone(),
            cause,
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory of all journals.
    pub fn dir(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// Writes an entry. Must return before the change is made.
    pub fn note(&mut self, entry: Entry) -> Result<()> {
        let mut line = serde_json::to_vec(&entry).map_err(|e| self.failed(e.into()))?;
        line.push(b'\n');
        let before = self.file.metadata().map_err(|c| self.failed(c))?.len();
        self.file.write_all(&line).map_err(|cause| {
            // Of a full disk, a part was perhaps written: the next entry would
            // go on in that line, and neither could be read.
            let _ = self.file.set_len(before);
            self.failed(cause)
        })
    }

    /// What is in it so far.
    pub fn read(&self) -> Result<Contents> {
        contents(&self.file, &self.path)
    }

    /// All entries so far that can be read.
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
/// [`Error::File`] if it cannot be read at all, or another user may have
/// written it.
pub fn read(path: &Path) -> Result<Contents> {
    let file = private::open(path).map_err(Error::file(path))?;
    contents(&file, path)
}

/// What an open journal says; `path` names it in problems.
fn contents(mut file: &File, path: &Path) -> Result<Contents> {
    let mut text = Vec::new();
    file.rewind()
        .and_then(|()| file.read_to_end(&mut text))
        .map_err(Error::file(path))?;
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
    let back = contents.entries.iter().filter_map(|entry| match entry {
        Entry::PutBack { path } => Some(path.clone()),
        _ => None,
    });
    let back: BTreeSet<PathBuf> = back.collect();
    contents.entries.retain(|entry| {
        !matches!(entry, Entry::Setting(setting) if back.contains(&setting.path))
            && !matches!(entry, Entry::PutBack { .. })
    });
    Ok(contents)
}

/// The journal files in a directory.
pub fn all(dir: &Path) -> Result<Vec<PathBuf>> {
    let listing = fs::read_dir(dir).map_err(Error::file(dir))?;
    let mut journals: Vec<PathBuf> = listing
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "journal"))
        .collect();
    journals.sort();
    Ok(journals)
}

/// Whose journal this is, by its name.
pub fn run_of(path: &Path) -> Option<RunId> {
    path.file_stem()?.to_str()?.parse().ok()
}

/// The entries of the other runs' journals, of live and dead ones. One that
/// cannot be read has none: undoing it reports that.
pub fn of_others(own: &Journal) -> Vec<Entry> {
    entries_in(others(own))
}

/// The entries of those other runs that live, or that a process is undoing right
/// now: that process looks later than we do what others still need. A dead run needs
/// nothing, and its journal may never be undone.
///
/// To be called under the lock: a journal is there a moment before it is locked.
pub fn of_living(own: &Journal) -> Vec<Entry> {
    let is_dead = |path: &PathBuf| matches!(Journal::take_over(path), Ok(Some(_)));
    entries_in(others(own).filter(|path| !is_dead(path)))
}

fn others(own: &Journal) -> impl Iterator<Item = PathBuf> {
    let journals = all(own.dir()).unwrap_or_default().into_iter();
    journals.filter(move |path| path != own.path())
}

fn entries_in(journals: impl Iterator<Item = PathBuf>) -> Vec<Entry> {
    journals
        .filter_map(|path| read(&path).ok())
        .flat_map(|contents| contents.entries)
        .collect()
}

#[cfg(test)]
mod tests {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};

    use super::*;
    use crate::testing;

    fn info(pid: u32) -> RunInfo {
        RunInfo {
            started_s: 0,
            ..testing::info(pid)
        }
    }

    fn unit(name: &str) -> Entry {
        Entry::Unit {
            name: name.into(),
            keep: false,
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
        journal.note(unit("x.scope")).unwrap();
        journal.file.write_all(b"{\"entry\":\"gro").unwrap();
        assert_eq!(
            journal.entries().unwrap(),
            [Entry::Run(info(7)), unit("x.scope")]
        );
    }

    #[test]
    fn a_bad_line_in_the_middle_is_said_and_the_others_count() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(dir.path(), info(7)).unwrap();
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
    fn an_entry_that_could_not_be_written_whole_spoils_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(dir.path(), info(7)).unwrap();
        let full = journal.file.metadata().unwrap().len() + 10;
        let (_, most) = getrlimit(Resource::RLIMIT_FSIZE).unwrap();
        let limit = |soft| setrlimit(Resource::RLIMIT_FSIZE, soft, most).is_ok();
        // In a process of its own: the limit belongs to all threads.
        // SAFETY: the child calls what `note` calls, and ends.
        let wrong = unsafe {
            match libc::fork() {
                0 => {
                    sandbag_linux::signals::outlive_file_limits();
                    let refused = limit(full) && journal.note(unit("a")).is_err();
                    let noted = limit(most) && journal.note(unit("b")).is_ok();
                    libc::_exit(i32::from(!(refused && noted)));
                }
                child => {
                    let mut status = -1;
                    libc::waitpid(child, &raw mut status, 0);
                    status
                }
            }
        };
        assert_eq!(wrong, 0);
        let contents = journal.read().unwrap();
        assert_eq!(contents.problems, Vec::<String>::new());
        assert_eq!(contents.entries, [Entry::Run(info(7)), unit("b")]);
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
