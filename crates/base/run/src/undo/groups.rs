// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Emptying and removing groups.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbag_linux::cgroup::{Group, Version, kill_all, processes, remove_dir};
use sandbag_linux::process::Process;
use sandbag_linux::{Root, root};

use super::PATIENCE;
use crate::members;
use crate::process_identity::ProcessIdentity;

/// Sends SIGCONT to every process in a group and in those below. One that runs
/// is not disturbed by it.
pub fn continue_all(dir: &Path) -> Vec<sandbag_linux::Result<()>> {
    let root = Root::default();
    let one = |pid| match ProcessIdentity::of(&root, pid)? {
        Some(named) => named.signal(libc::SIGCONT),
        None => Ok(()),
    };
    members::members_below(dir).into_iter().map(one).collect()
}

/// Waits until no process in a group or below it can act any more: all have ended,
/// whether or not their parents have asked for it.
pub fn await_end(dir: &Path, give_up: Instant) {
    let root = Root::default();
    let acts = |pid: &u32| Process::new(&root, *pid).lives();
    while members::members_below(dir).iter().any(acts) && Instant::now() < give_up {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The same for one process.
pub fn await_end_of(process: ProcessIdentity, give_up: Instant) {
    let root = Root::default();
    let acts = || ProcessIdentity::of(&root, process.pid).is_ok_and(|now| now == Some(process));
    while acts() && Instant::now() < give_up {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Removes the directories of a group; what is in them is moved to `back`,
/// which is parallel to `dirs`, or killed. Returns what failed, in words;
/// everything else is done.
pub fn remove_groups(dirs: &[PathBuf], back: Option<&Vec<PathBuf>>) -> Vec<String> {
    let mut problems = Vec::new();
    for (n, dir) in dirs.iter().enumerate() {
        let home = back.and_then(|back| back.get(n));
        remove_group(dir, home.map(PathBuf::as_path), &mut problems);
    }
    problems
}

/// Empties one directory, and removes it after the groups below it. A threaded group below
/// does not list its processes; this one does.
fn remove_group(dir: &Path, home: Option<&Path>, problems: &mut Vec<String>) {
    let before = problems.len();
    problems.extend(empty(dir, home).err());
    for below in fs::read_dir(dir).into_iter().flatten().flatten() {
        if below.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_group(&below.path(), home, problems);
        }
    }
    // With something left in it or below it cannot go.
    if problems.len() == before {
        problems.extend(remove_dir(dir, PATIENCE).err().map(|e| e.to_string()));
    }
}

/// Moves a process to its group, or to the nearest one above where that is gone: systemd, and
/// others, remove a group that is empty.
fn give_home(home: &Path, pid: u32) -> sandbag_linux::Result<()> {
    let outcome = root::write(&home.join("cgroup.procs"), pid);
    if outcome.is_ok() || home.exists() {
        return outcome;
    }
    // One that has controllers for its children takes none.
    let above = home.ancestors().skip(1).map(|dir| dir.join("cgroup.procs"));
    let mut above = above.filter(|list| list.exists());
    above
        .find_map(|list| root::write(&list, pid).ok())
        .map_or(outcome, Ok)
}

/// Takes back a limit on the CPU time of a group of ours: who cannot leave it goes on at full
/// speed all the same.
pub fn lift_cap(dir: &Path) {
    for version in [Version::V2, Version::V1] {
        let group = Group::at(version, dir.to_owned(), None);
        if matches!(group.cap(), Ok(Some(_))) {
            let _ = group.set_cap(None);
        }
    }
}

/// Processes may fork while they are moved or killed, so this goes on until
/// none is left.
fn empty(dir: &Path, home: Option<&Path>) -> Result<(), String> {
    let give_up = Instant::now() + PATIENCE;
    loop {
        // A directory without a list is not, or no more, a group.
        let pids = processes(dir).unwrap_or_default();
        if pids.is_empty() {
            return Ok(());
        }
        let mut refused = None;
        match home {
            None => refused = kill_all(dir).err(),
            Some(home) => {
                for pid in pids {
                    // It may have ended meanwhile; the next round tells.
                    refused = give_home(home, pid).err();
                }
            }
        }
        if Instant::now() > give_up {
            let why = refused.map_or_else(String::new, |error| match error.errno() {
                Some(libc::ESRCH) => " (they have ended, but their parents have not yet asked \
                                      for it)"
                    .to_owned(),
                _ => format!(" ({error})"),
            });
            return Err(format!("{}: processes do not leave{why}", dir.display()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_ended_is_not_waited_for_and_who_has_not_is() {
        let dir = tempfile::tempdir().unwrap();
        let begin = Instant::now();
        let mut child = crate::testing::sleeper();
        fs::write(dir.path().join("cgroup.procs"), child.id().to_string()).unwrap();
        await_end(dir.path(), begin + Duration::from_millis(20));
        assert!(begin.elapsed() >= Duration::from_millis(20));
        let named = ProcessIdentity::of(&Root::default(), child.id()).unwrap();
        let named = named.unwrap();
        let second = Instant::now();
        await_end_of(named, second + Duration::from_millis(20));
        assert!(second.elapsed() >= Duration::from_millis(20));
        // A zombie: its parent has not waited for it.
        child.kill().unwrap();
        let hour = Duration::from_secs(3600);
        await_end(dir.path(), begin + hour);
        await_end_of(named, begin + hour);
        assert!(begin.elapsed() < hour);
        child.wait().unwrap();
    }

    #[test]
    fn who_has_no_group_any_more_goes_to_the_one_above() {
        let dir = tempfile::tempdir().unwrap();
        let above = dir.path().join("slice");
        fs::create_dir(&above).unwrap();
        fs::write(above.join("cgroup.procs"), "").unwrap();
        give_home(&above.join("gone.scope"), 7).unwrap();
        assert_eq!(crate::testing::text(above.join("cgroup.procs")), "7");
        // Where it is there, and refuses, nothing else is tried.
        fs::create_dir(above.join("full.scope")).unwrap();
        give_home(&above.join("full.scope"), 8).unwrap_err();
        assert_eq!(crate::testing::text(above.join("cgroup.procs")), "7");
    }

    #[test]
    fn a_limit_is_lifted_on_either_version() {
        let dir = tempfile::tempdir().unwrap();
        for (name, limit, none) in [
            ("cpu.max", "50000 100000\n", "max"),
            ("cpu.cfs_quota_us", "50000\n", "-1"),
        ] {
            fs::write(dir.path().join("cpu.cfs_period_us"), "100000\n").unwrap();
            fs::write(dir.path().join(name), limit).unwrap();
            lift_cap(dir.path());
            assert_eq!(crate::testing::text(dir.path().join(name)), none);
            fs::remove_file(dir.path().join(name)).unwrap();
        }
    }

    #[test]
    fn a_group_that_cannot_go_does_not_keep_the_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["a/1", "a/2/deep", "b", "home"] {
            fs::create_dir_all(path(name)).unwrap();
        }
        // No kernel takes it back: it stays in the list.
        fs::write(path("a/1/cgroup.procs"), "1\n").unwrap();
        fs::write(path("home/cgroup.procs"), "").unwrap();
        let problems = remove_groups(
            &[path("a"), path("b")],
            Some(&vec![path("home"), path("home")]),
        );
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("a/1: processes do not leave"));
        assert!(path("a/1").exists() && !path("a/2").exists() && !path("b").exists());
    }
}
