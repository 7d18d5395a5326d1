// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Emptying and removing groups.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use sandbag_kernel::cgroup::remove_dir;
use sandbag_kernel::{Root, root};

use super::PATIENCE;
use crate::named::Named;

/// Kills every process in a group, not in those below.
pub fn kill_all(dir: &Path) {
    let at_once = dir.join("cgroup.kill");
    if at_once.exists() && root::write(&at_once, 1).is_ok() {
        return;
    }
    for pid in processes(dir) {
        // SAFETY: a signal to a process that the kernel just listed.
        unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
    }
}

/// Sends SIGCONT to every process in a group, not in those below: these were
/// none of ours to stop. One that runs is not disturbed by it.
pub fn continue_all(dir: &Path) -> Vec<sandbag_kernel::Result<()>> {
    let root = Root::default();
    let one = |pid| match Named::of(&root, pid)? {
        Some(named) => named.signal(libc::SIGCONT),
        None => Ok(()),
    };
    processes(dir).into_iter().map(one).collect()
}

fn processes(dir: &Path) -> Vec<u32> {
    root::read(&dir.join("cgroup.procs"))
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.trim().parse().ok())
        .filter(|pid| *pid != 0)
        .collect()
}

/// Removes the directories of a group; what is in them is moved to `back`,
/// which is parallel to `dirs`, or killed.
pub fn remove_groups(dirs: &[PathBuf], back: Option<&Vec<PathBuf>>) -> Result<(), String> {
    let mut problems = Vec::new();
    for (n, dir) in dirs.iter().enumerate() {
        let home = back.and_then(|back| back.get(n));
        if let Err(problem) = remove_group(dir, home.map(PathBuf::as_path)) {
            problems.push(problem);
        }
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems.join("; ")),
    }
}

/// Empties and removes one directory, groups below it first. Processes may
/// fork while they are moved or killed, so this goes on until none is left.
fn remove_group(dir: &Path, home: Option<&Path>) -> Result<(), String> {
    let give_up = Instant::now() + PATIENCE;
    for below in fs::read_dir(dir).into_iter().flatten().flatten() {
        if below.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_group(&below.path(), home)?;
        }
    }
    loop {
        let pids = processes(dir);
        if pids.is_empty() {
            break;
        }
        match home {
            None => kill_all(dir),
            Some(home) => {
                for pid in pids {
                    // It may have ended meanwhile; the next round tells.
                    let _ = root::write(&home.join("cgroup.procs"), pid);
                }
            }
        }
        if Instant::now() > give_up {
            return Err(format!("{}: processes do not leave", dir.display()));
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    remove_dir(dir, PATIENCE).map_err(|error| error.to_string())
}
