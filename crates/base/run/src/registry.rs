// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The runs of this machine: who holds which CPUs, and what dead ones left.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbag_linux::{CpuList, Root};

use crate::error::{Error, Result};
use crate::journal::{self, Entry, Journal, RunInfo};
use crate::lock::Lock;
use crate::private;
use crate::run_process::RunId;
use crate::undo::{Leftovers, is_of, undo_on};

/// The directory of the journals.
#[derive(Debug, Clone)]
pub struct Registry {
    dir: PathBuf,
    /// The machine on which what dead runs left is undone.
    root: Root,
}

/// How long a run waits for the guardian of a dead one on its CPUs.
const GUARDIAN_PATIENCE: Duration = Duration::from_secs(3);
/// How long `sandbag restore` waits for all of them.
pub const RESTORE_PATIENCE: Duration = Duration::from_secs(10);
/// How long it waits for one that lives: a process that was just killed may
/// have to finish a write to the group tree before it can die.
const DEATH_PATIENCE: Duration = Duration::from_millis(300);
/// Between two looks at a journal that is waited for.
const GUARDIAN_POLL: Duration = Duration::from_millis(5);

/// What the journals say of the runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Runs {
    /// Those that live, by process id.
    pub alive: Vec<RunInfo>,
    /// Journals that cannot be read, in words.
    pub problems: Vec<String>,
}

/// What was found and undone of a run whose processes are all gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreOutcome {
    /// The dead supervisor.
    pub pid: u32,
    /// What could not be undone.
    pub left: Vec<String>,
}

impl fmt::Display for RestoreOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pid = self.pid;
        write!(
            f,
            "undid what sandbag process {pid} left when it was killed"
        )?;
        if self.left.is_empty() {
            Ok(())
        } else {
            write!(f, "; could not undo: {}", self.left.join("; "))
        }
    }
}

impl Registry {
    /// `/run/sandbag` for root, `$XDG_RUNTIME_DIR/sandbag` for others, made
    /// if need be.
    ///
    /// # Errors
    /// [`Error::NotPossible`] for a user without `XDG_RUNTIME_DIR`, and as
    /// [`at`](Self::at).
    pub fn open() -> Result<Self> {
        Self::at(usual_dir().ok_or_else(|| {
            Error::not_possible(
                "XDG_RUNTIME_DIR does not name a directory by its full path",
                "without root, sandbag keeps its journal there: log in through a session manager, \
                 or set it to a directory that only you can write to",
            )
        })?)
    }

    /// Whether this user has a place for journals; without one he has no runs.
    pub fn has_place() -> bool {
        usual_dir().is_some()
    }

    /// The usual one if it is there: who only looks makes none.
    pub fn existing() -> Option<Self> {
        let dir = usual_dir().filter(|dir| dir.is_dir())?;
        private::check_dir(&dir).ok()?;
        Some(Self::of(dir))
    }

    /// A registry in another directory, made if need be. It is private,
    /// whatever the umask: what a journal says is done with our rights.
    ///
    /// # Errors
    /// [`Error::NotPossible`] for a directory that others can write in.
    pub fn at(dir: PathBuf) -> Result<Self> {
        private::make_dir(&dir)?;
        Ok(Self::of(dir))
    }

    fn of(dir: PathBuf) -> Self {
        Self {
            dir,
            root: Root::default(),
        }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The runs that are alive.
    ///
    /// # Errors
    /// The directory cannot be read. A journal that cannot is passed over;
    /// [`look`](Self::look) names it.
    pub fn runs(&self) -> Result<Vec<RunInfo>> {
        Ok(self.look()?.alive)
    }

    /// The runs that are alive, and the journals that do not say.
    pub fn look(&self) -> Result<Runs> {
        let _lock = Lock::of(&self.dir)?;
        self.look_under_lock()
    }

    fn look_under_lock(&self) -> Result<Runs> {
        let mut runs = Runs::default();
        for path in journal::all(&self.dir)? {
            match first_if_alive(&path) {
                Ok(None) => {}
                Ok(Some(info)) => runs.alive.push(info),
                Err(problem) => runs.problems.push(problem),
            }
        }
        runs.alive.sort_by_key(|run| run.pid);
        Ok(runs)
    }

    /// Whether one of these groups, lines of `/proc/PID/cgroup`, is in one of a run that lives, or
    /// that is not undone yet.
    pub fn has_group_in(&self, groups: &str) -> Result<bool> {
        let journals = journal::all(&self.dir)?;
        let runs: Vec<RunId> = journals.iter().filter_map(|j| journal::run_of(j)).collect();
        let mut names = groups.split(['/', '\n']);
        Ok(names.any(|name| runs.iter().any(|run| is_of(*run, name))))
    }

    /// Undoes what dead runs left. Runs that live are not touched, and a
    /// journal that cannot be read does not keep the others from being
    /// undone: it is among what is returned, with its problem.
    pub fn restore(&self) -> Result<Vec<RestoreOutcome>> {
        let lock = Lock::of(&self.dir)?;
        let mut found = Vec::new();
        for path in journal::all(&self.dir)? {
            let pid = journal::run_of(&path).map_or(0, |run| run.pid());
            match Journal::take_over(&path) {
                Ok(None) => {}
                Ok(Some(journal)) => found.push((pid, Ok(journal))),
                Err(error) => found.push((pid, Err(error))),
            }
        }
        // Ours now; undoing takes the lock itself, where it needs it.
        drop(lock);
        let restored = found.into_iter().map(|(pid, journal)| RestoreOutcome {
            pid,
            left: match journal {
                Ok(journal) => undo_on(&self.root, journal, Leftovers::AsNoted).all(),
                Err(error) => vec![error.to_string()],
            },
        });
        Ok(restored.collect())
    }

    /// As [`restore`](Self::restore), after the guardians of runs that were killed just now are
    /// done with theirs; what one still has after `patience` is among what is left.
    pub fn restore_all(&self, patience: Duration) -> Result<Vec<RestoreOutcome>> {
        let begin = Instant::now();
        let mut guarded = BTreeSet::new();
        let held = loop {
            let alive = self.runs()?.into_iter();
            let ended = alive.filter(RunInfo::has_ended).map(|run| run.pid);
            let held: BTreeSet<u32> = ended.collect();
            guarded.extend(&held);
            if held.is_empty() || begin.elapsed() > patience {
                break held;
            }
            std::thread::sleep(GUARDIAN_POLL);
        };
        let mut restored = self.restore()?;
        guarded.retain(|pid| restored.iter().all(|run| run.pid != *pid));
        restored.extend(guarded.into_iter().map(|pid| {
            RestoreOutcome {
                pid,
                left: held
                    .contains(&pid)
                    .then(|| "another process of sandbag is still undoing it".to_owned())
                    .into_iter()
                    .collect(),
            }
        }));
        Ok(restored)
    }

    /// Where the journal of this process will be, once it is registered.
    pub fn own_journal(&self) -> PathBuf {
        Journal::path_of(&self.dir, RunId::own())
    }

    /// Registers a run and opens its journal. A run that was killed holds its
    /// CPUs until its guardian has undone it; that is waited for. One that
    /// shares its CPUs holds none: register it on an empty list.
    ///
    /// # Errors
    /// [`Error::Busy`] if a live run holds one of the CPUs.
    pub fn register(&self, info: RunInfo, cpus: &CpuList) -> Result<Journal> {
        let begin = Instant::now();
        loop {
            let lock = Lock::of(&self.dir)?;
            let Some((holder, both)) = self.holder_of(cpus)? else {
                return Journal::create(&self.dir, info);
            };
            let patience = if !holder.has_ended() {
                DEATH_PATIENCE
            } else {
                GUARDIAN_PATIENCE
            };
            if begin.elapsed() > patience {
                return Err(Error::Busy {
                    pid: holder.pid,
                    cpus: both,
                });
            }
            drop(lock);
            std::thread::sleep(GUARDIAN_POLL);
        }
    }

    /// A run on one of these CPUs, and the CPUs that both want.
    fn holder_of(&self, cpus: &CpuList) -> Result<Option<(RunInfo, CpuList)>> {
        let runs = self.look_under_lock()?.alive.into_iter();
        let mut holding = runs.filter(|run| !run.shares);
        Ok(holding.find_map(|run| {
            let theirs: CpuList = run.cpus.parse().unwrap_or_default();
            let both = theirs.intersection(cpus);
            (!both.is_empty()).then_some((run, both))
        }))
    }
}

/// The directory of this user. Never one that others can write to: what a
/// journal says is done.
fn usual_dir() -> Option<PathBuf> {
    // SAFETY: no arguments, cannot fail.
    match unsafe { libc::geteuid() } {
        0 => Some(PathBuf::from("/run/sandbag")),
        _ => std::env::var_os("XDG_RUNTIME_DIR")
            .map(|dir| PathBuf::from(dir).join("sandbag"))
            .filter(|dir| dir.is_absolute()),
    }
}

/// Whose journal this is, if he lives.
fn first_if_alive(path: &Path) -> std::result::Result<Option<RunInfo>, String> {
    let taken = Journal::take_over(path).map_err(|error| error.to_string())?;
    // Between the two it may have been undone and removed.
    if taken.is_some() || !path.exists() {
        return Ok(None);
    }
    match journal::read(path) {
        Err(_) if !path.exists() => Ok(None),
        Err(error) => Err(error.to_string()),
        Ok(contents) => match contents.entries.into_iter().next() {
            Some(Entry::Run(info)) => Ok(Some(info)),
            _ => Err(format!("{}: does not say whose run it is", path.display())),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::run_process::RunProcess;
    use crate::testing;

    /// A registry whose machine has a tree of groups at `dir`.
    fn registry(dir: &Path) -> Registry {
        let mounts = "25 1 0:22 / / rw - cgroup2 cgroup2 rw\n";
        let files = [
            ("proc/self/mountinfo", mounts),
            ("proc/self/cgroup", "0::/\n"),
        ];
        testing::put(dir, &files);
        Registry {
            root: Root::at(dir),
            ..Registry::at(dir.join("r")).unwrap()
        }
    }

    fn info(pid: u32, cpus: &str) -> RunInfo {
        RunInfo {
            cpus: cpus.into(),
            ..testing::info(pid)
        }
    }

    /// Registers a run of this process number on these CPUs.
    fn register(registry: &Registry, pid: u32, cpus: &str) -> Result<Journal> {
        registry.register(info(pid, cpus), &cpus.parse().unwrap())
    }

    #[test]
    fn the_same_cpu_cannot_be_had_twice() {
        let dir = tempfile::tempdir().unwrap();
        let registry = registry(dir.path());
        let me = std::process::id();
        let _held = register(&registry, me, "0-1").unwrap();
        let text = register(&registry, 11, "1-2").unwrap_err().to_string();
        assert!(text.starts_with("CPUs 1 "), "{text}");
        assert!(text.contains(&me.to_string()), "{text}");
        let _other = register(&registry, 12, "2").unwrap();
        assert_eq!(registry.runs().unwrap().len(), 2);
        assert!(registry.restore().unwrap().is_empty());
    }

    #[test]
    fn groups_are_a_run_s_while_it_has_a_journal() {
        let dir = tempfile::tempdir().unwrap();
        let registry = registry(dir.path());
        let held = register(&registry, 12, "0").unwrap();
        for (groups, theirs) in [
            ("4:cpu,cpuacct:/user/sandbag-12-node\n0::/\n", true),
            ("0::/sandbag12node.slice/sandbag12node0.scope\n", true),
            ("0::/system.slice/sandbag12cmd.scope\n", true),
            ("0::/system.slice/sandbag12left0.scope\n", false),
            ("0::/system.slice/sandbag13cmd.scope\n", false),
            ("0::/system.slice/sandbag-exporter.service\n", false),
        ] {
            assert_eq!(registry.has_group_in(groups).unwrap(), theirs, "{groups}");
        }
        held.close().unwrap();
        let left = registry.has_group_in("0::/system.slice/sandbag12cmd.scope\n");
        assert!(!left.unwrap());
    }

    #[test]
    fn a_run_that_shares_its_cpus_keeps_nobody_from_them() {
        let dir = tempfile::tempdir().unwrap();
        let registry = registry(dir.path());
        let jitter = RunInfo {
            shares: true,
            ..info(12, "0-1")
        };
        let _shared = registry.register(jitter, &CpuList::default()).unwrap();
        let _held = register(&registry, 13, "0-1").unwrap();
        let runs = registry.runs().unwrap();
        assert_eq!(runs.len(), 2);
        assert_eq!((runs[0].cpus.as_str(), runs[0].shares), ("0-1", true));
    }

    #[test]
    fn the_cpus_of_a_dead_run_are_had_when_its_guardian_is_done() {
        let dir = tempfile::tempdir().unwrap();
        let registry = registry(dir.path());
        let cpus: CpuList = "0".parse().unwrap();
        // No process can have this number.
        let dead = RunInfo {
            process: RunProcess::own(),
            ..info(u32::MAX, "0")
        };
        let dead = registry.register(dead, &cpus).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                dead.close().unwrap();
            });
            register(&registry, 11, "0").unwrap();
        });
    }

    #[test]
    fn what_a_guardian_is_undoing_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let registry = registry(dir.path());
        let of_dead = |pid| RunInfo {
            process: RunProcess::own(),
            ..info(pid, "")
        };
        // No process can have these numbers.
        let [soon, never] = [u32::MAX - 1, u32::MAX].map(|pid| {
            let held = registry.register(of_dead(pid), &CpuList::default());
            held.unwrap()
        });
        let all = || registry.restore_all(Duration::from_secs(1)).unwrap();
        let restored = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                soon.close().unwrap();
            });
            all()
        });
        let left: Vec<(u32, usize)> = restored.iter().map(|r| (r.pid, r.left.len())).collect();
        assert_eq!(left, [(u32::MAX - 1, 0), (u32::MAX, 1)]);
        drop(never);
        assert!(all()[0].left.is_empty());
        assert!(all().is_empty());
    }

    #[test]
    fn a_journal_that_cannot_be_read_stops_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let registry = registry(dir.path());
        let held = register(&registry, 12, "0").unwrap();
        let dead = |pid: u32| Journal::path_of(registry.dir(), pid);
        // Not a file; a live one without its first line; a dead one with a
        // line of another sandbag; a dead one in order.
        fs::create_dir(dead(9)).unwrap();
        let mute = register(&registry, 13, "").unwrap();
        fs::write(mute.path(), "nonsense\n").unwrap();
        let group = dir.path().join("sandbag-10-cpu0");
        fs::create_dir(&group).unwrap();
        let noted = serde_json::to_string(&testing::group(&group));
        fs::write(dead(10), format!("nonsense\n{}\n", noted.unwrap())).unwrap();
        fs::write(dead(11), "").unwrap();
        let runs = registry.look().unwrap();
        assert_eq!(runs.alive.len(), 1, "{runs:?}");
        assert_eq!(runs.problems.len(), 2, "{runs:?}");
        let restored = registry.restore().unwrap();
        let pids: Vec<u32> = restored.iter().map(|r| r.pid).collect();
        assert_eq!(pids, [10, 11, 9], "{restored:?}");
        assert_eq!(restored[0].left.len(), 1, "{restored:?}");
        assert!(restored[0].left[0].contains("10.journal:1"));
        assert!(!group.exists() && dead(10).exists() && !dead(11).exists());
        assert_eq!(restored[2].left.len(), 1, "{restored:?}");
        drop(held);
    }

    #[test]
    fn what_a_dead_run_left_is_undone_once() {
        let dir = tempfile::tempdir().unwrap();
        let registry = registry(dir.path());
        let group = dir.path().join("sandbag-10-cpu0");
        let mut journal = register(&registry, 10, "0").unwrap();
        journal.note(testing::group(&group)).unwrap();
        fs::create_dir(&group).unwrap();
        drop(journal);
        let restored = registry.restore().unwrap();
        assert_eq!((restored.len(), restored[0].pid), (1, 10));
        assert!(restored[0].left.is_empty() && !group.exists());
        assert!(registry.restore().unwrap().is_empty());
    }
}
