// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Freezing a group: none of its processes, nor of the groups below, runs
//! until it is thawed, and none of them can tell or prevent it.
//!
//! v1 has a hierarchy of its own for it (`freezer.state`), in v2 every group
//! but the root has `cgroup.freeze` (since Linux 5.2). Both are asynchronous:
//! a process freezes on its next way out of the kernel.
//!
//! A process that is frozen by v1 does not even die of SIGKILL before it is
//! thawed; one that is frozen by v2 does.
//!
//! Sources: Documentation/admin-guide/cgroup-v1/freezer-subsystem.rst,
//! cgroup-v2.rst ("cgroup.freeze", "cgroup.events").

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::mounts::{GroupTree, Mounts};
use super::version::Version;
use crate::root::{read, write};
use crate::{Error, Result, Root};

const STATE: &str = "freezer.state";
const FREEZE: &str = "cgroup.freeze";
const EVENTS: &str = "cgroup.events";

/// First and longest pause between two looks at the state.
const LOOKS: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(2));

/// Finds v1's freezer hierarchy, else the v2 tree.
pub fn find_freezer(root: &Root) -> Result<GroupTree> {
    find_freezer_of(root, None)
}

/// The same with the place of process `of` in it; `None` is this process.
pub fn find_freezer_of(root: &Root, of: Option<u32>) -> Result<GroupTree> {
    let tree = Mounts::of(root, of)?.with("freezer")?;
    tree.ok_or_else(|| Error::Missing {
        what: "the cgroup freezer".into(),
        remedy: "mount it (mount -t cgroup2 none /sys/fs/cgroup, or v1's freezer)".into(),
    })
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Freezer {
    version: Version,
    dir: PathBuf,
}

impl Freezer {
    /// The freezer of the group at `dir`: a directory of v1's freezer
    /// hierarchy, or of the v2 tree. Nothing is asked or made.
    pub fn at(version: Version, dir: PathBuf) -> Self {
        Self { version, dir }
    }

    /// The freezer of the group at `dir` by the files that are there; `None`
    /// if it has none: it is gone, or the root of its tree.
    pub fn detect(dir: &Path) -> Option<Self> {
        [Version::V1, Version::V2]
            .into_iter()
            .map(|version| Self::at(version, dir.to_owned()))
            .find(|freezer| freezer.control().exists())
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn version(&self) -> Version {
        self.version
    }

    /// The file that orders it.
    fn control(&self) -> PathBuf {
        self.dir.join(match self.version {
            Version::V1 => STATE,
            Version::V2 => FREEZE,
        })
    }

    /// Freezes the group and returns when everything in it stands still. If
    /// that is not so within `patience` (a process hangs in the kernel), it is
    /// thawed again: nothing stays half frozen.
    ///
    /// # Errors
    /// [`Error::Write`] if there is no such group or it cannot be frozen,
    /// [`Error::Late`] after `patience`.
    pub fn freeze(&self, patience: Duration) -> Result<()> {
        self.begin()?;
        let outcome = self.wait(patience);
        if outcome.is_err() {
            // The error that led here is the one to hear of.
            let _ = self.thaw();
        }
        outcome
    }

    /// Orders the group to freeze and returns at once. From now on none of
    /// its processes executes its own program: one that runs is interrupted,
    /// one that waits for a CPU or in the kernel freezes before it returns to
    /// its program. On a busy machine it may be long until the last of them
    /// got the CPU for that, and the group counts as frozen only then.
    pub fn begin(&self) -> Result<()> {
        match self.version {
            Version::V1 => write(&self.control(), "FROZEN"),
            Version::V2 => write(&self.control(), 1),
        }
    }

    fn wait(&self, patience: Duration) -> Result<()> {
        let begin = Instant::now();
        let (mut pause, longest) = LOOKS;
        loop {
            let (path, wanted, got) = self.state()?;
            if got == wanted {
                return Ok(());
            }
            if begin.elapsed() >= patience {
                return Err(Error::Late {
                    path,
                    wanted: wanted.to_owned(),
                    got,
                    waited_ms: patience.as_millis(),
                });
            }
            thread::sleep(pause);
            pause = (pause * 2).min(longest);
        }
    }

    /// Lets the group go on. It need not be frozen. Returns at once; the
    /// processes are runnable a moment later. What lies in a frozen parent
    /// stays frozen.
    ///
    /// # Errors
    /// [`Error::Write`]; [`Error::is_absent`] if there is no such group.
    pub fn thaw(&self) -> Result<()> {
        match self.version {
            Version::V1 => write(&self.control(), "THAWED"),
            Version::V2 => write(&self.control(), 0),
        }
    }

    /// Whether everything in the group stands still, by its own freezer or a
    /// parent's.
    pub fn is_frozen(&self) -> Result<bool> {
        let (_, wanted, got) = self.state()?;
        Ok(got == wanted)
    }

    /// The file that tells the state, what it says of a frozen group, and
    /// what it says.
    fn state(&self) -> Result<(PathBuf, &'static str, String)> {
        match self.version {
            Version::V1 => {
                let path = self.dir.join(STATE);
                let state = read(&path)?.trim().to_owned();
                Ok((path, "FROZEN", state))
            }
            Version::V2 => {
                let path = self.dir.join(EVENTS);
                let text = read(&path)?;
                let line = text.lines().find(|line| line.starts_with("frozen "));
                let line = line.ok_or_else(|| Error::parse(&path, "frozen 0 or 1", &text))?;
                Ok((path, "frozen 1", line.trim_end().to_owned()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::tests::{fake, text};
    use std::fs;

    const NOT_LONG: Duration = Duration::from_millis(30);
    const LONG: Duration = Duration::from_secs(20);

    const V2: &[(&str, &str)] = &[(FREEZE, "0\n"), (EVENTS, "populated 1\nfrozen 0\n")];

    #[test]
    fn v1_is_frozen_when_it_says_so() {
        // What is written is what the file then says: frozen at once.
        let dir = fake(&[(STATE, "THAWED\n")]).0;
        let freezer = Freezer::at(Version::V1, dir.path().to_owned());
        assert!(!freezer.is_frozen().unwrap());
        freezer.freeze(NOT_LONG).unwrap();
        assert!(freezer.is_frozen().unwrap());
        freezer.thaw().unwrap();
        assert_eq!(text(&dir, STATE), "THAWED");
        freezer.begin().unwrap();
        assert_eq!(text(&dir, STATE), "FROZEN");
    }

    #[test]
    fn v2_is_frozen_when_the_events_say_so() {
        let dir = fake(V2).0;
        let freezer = Freezer::at(Version::V2, dir.path().to_owned());
        std::thread::scope(|scope| {
            // The kernel: some time after the order, the event.
            scope.spawn(|| {
                while text(&dir, FREEZE) != "1" {
                    thread::sleep(Duration::from_millis(1));
                }
                // In one step, as the kernel does it.
                let new = dir.path().join("new");
                fs::write(&new, "populated 1\nfrozen 1\n").unwrap();
                fs::rename(&new, dir.path().join(EVENTS)).unwrap();
            });
            freezer.freeze(LONG).unwrap();
        });
        assert!(freezer.is_frozen().unwrap());
    }

    #[test]
    fn what_does_not_freeze_in_time_is_thawed_again() {
        let dir = fake(V2).0;
        let freezer = Freezer::at(Version::V2, dir.path().to_owned());
        let error = freezer.freeze(NOT_LONG).unwrap_err();
        assert!(matches!(error, Error::Late { .. }), "{error}");
        let error = error.to_string();
        let end = "cgroup.events still says `frozen 0` and not `frozen 1` after 30 ms";
        assert!(error.ends_with(end), "{error}");
        assert_eq!(text(&dir, FREEZE), "0");
    }

    #[test]
    fn a_group_that_is_gone_has_no_freezer() {
        let dir = fake(V2).0;
        let gone = dir.path().join("gone");
        assert_eq!(Freezer::detect(&gone), None);
        let freezer = Freezer::at(Version::V2, gone);
        assert!(freezer.thaw().unwrap_err().is_absent());
        let found = Freezer::detect(dir.path()).unwrap();
        assert_eq!(found.version(), Version::V2);
        let v1 = fake(&[(STATE, "THAWED\n")]).0;
        assert_eq!(Freezer::detect(v1.path()).unwrap().version(), Version::V1);
    }

    fn machine(mountinfo: &str, cgroup: &str) -> (tempfile::TempDir, Root) {
        fake(&[
            ("proc/self/mountinfo", mountinfo),
            ("proc/self/cgroup", cgroup),
        ])
    }

    #[test]
    fn v1_is_preferred_where_both_are_mounted() {
        let (_dir, root) = machine(
            "34 31 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
             35 31 0:30 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n",
            "6:freezer:/box/1\n0::/x\n",
        );
        let tree = find_freezer(&root).unwrap();
        assert_eq!(tree.version, Version::V1);
        assert_eq!(tree.own_dir(), root.path("/sys/fs/cgroup/freezer/box/1"));
    }

    #[test]
    fn a_machine_with_v2_alone_freezes_there_and_one_with_neither_says_so() {
        let (_dir, root) = machine(
            "34 31 0:29 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "0::/x\n",
        );
        let tree = find_freezer(&root).unwrap();
        assert_eq!(tree.version, Version::V2);
        assert_eq!(tree.own_dir(), root.path("/sys/fs/cgroup/x"));
        let (_dir, root) = machine("31 23 0:26 / /tmp rw - tmpfs tmpfs rw\n", "0::/\n");
        let error = find_freezer(&root).unwrap_err().to_string();
        assert!(error.contains("freezer is missing"), "{error}");
    }
}
