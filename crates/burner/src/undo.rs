// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Undoing a journal, last change first. Every step may have been done
//! already, or never: each is written so that doing it again is harmless.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbag_kernel::cgroup::remove_dir;
use sandbag_kernel::root;

use crate::journal::Entry;
use crate::systemd;

/// How long a group is tried to be removed after its processes were killed.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Undoes `entries` (as they were noted, so from the last to the first).
/// Returns what could not be undone, in words; everything else is undone all
/// the same.
#[must_use]
pub fn undo(entries: &[Entry]) -> Vec<String> {
    let kill = entries
        .iter()
        .any(|entry| matches!(entry, Entry::Run(info) if info.kill));
    // First stop everything that burns, then take the time to clean up.
    for entry in entries.iter().rev() {
        if let Entry::Group { dirs, back: None } = entry {
            dirs.iter().for_each(|dir| kill_all(dir));
        }
    }
    let mut left = Vec::new();
    for entry in entries.iter().rev() {
        let result = match entry {
            Entry::Run(_) => Ok(()),
            Entry::Group { dirs, back } => match back {
                Some(back) if !kill => remove_groups(dirs, Some(back)),
                _ => remove_groups(dirs, None),
            },
            Entry::Controller { path, name } => disable(path, name),
            Entry::Unit { name, keep } => match *keep && !kill {
                true => Ok(()),
                false => systemd::stop(name),
            },
        };
        if let Err(error) = result {
            left.push(error);
        }
    }
    left
}

fn kill_all(dir: &Path) {
    let at_once = dir.join("cgroup.kill");
    if at_once.exists() && root::write(&at_once, 1).is_ok() {
        return;
    }
    for pid in processes(dir) {
        // SAFETY: a signal to a process that the kernel just listed.
        unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
    }
}

fn processes(dir: &Path) -> Vec<u32> {
    root::read(&dir.join("cgroup.procs"))
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.trim().parse().ok())
        .filter(|pid| *pid != 0)
        .collect()
}

fn remove_groups(dirs: &[PathBuf], back: Option<&Vec<PathBuf>>) -> Result<(), String> {
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
        std::thread::sleep(Duration::from_millis(2));
    }
    remove_dir(dir, PATIENCE).map_err(|error| error.to_string())
}

/// Disables a controller that we enabled, unless another run's groups still
/// stand there and need it; they note the same entry and do it themselves.
fn disable(path: &Path, name: &str) -> Result<(), String> {
    let dir = path.parent().unwrap_or(path);
    let in_use = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .any(|entry| {
            let name = entry.file_name();
            name.to_string_lossy().starts_with(crate::layout::PREFIX)
        });
    if in_use || !path.exists() {
        return Ok(());
    }
    root::write(path, format!("-{name}")).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_announced_but_not_done_is_no_problem() {
        let dir = tempfile::tempdir().unwrap();
        let entries = [Entry::Group {
            dirs: vec![dir.path().join("never-made")],
            back: None,
        }];
        assert_eq!(undo(&entries), Vec::<String>::new());
    }

    #[test]
    fn a_group_with_children_goes_children_first() {
        let dir = tempfile::tempdir().unwrap();
        let group = dir.path().join("sandbag-1-cmd");
        fs::create_dir_all(group.join("below/deeper")).unwrap();
        let entries = [Entry::Group {
            dirs: vec![group.clone()],
            back: Some(vec![dir.path().to_owned()]),
        }];
        assert_eq!(undo(&entries), Vec::<String>::new());
        assert!(!group.exists());
    }

    #[test]
    fn a_controller_that_another_run_needs_stays() {
        let dir = tempfile::tempdir().unwrap();
        let control = dir.path().join("cgroup.subtree_control");
        fs::write(&control, "cpu").unwrap();
        fs::create_dir(dir.path().join("sandbag-9-cpu0")).unwrap();
        let entries = [Entry::Controller {
            path: control.clone(),
            name: "cpu".into(),
        }];
        assert_eq!(undo(&entries), Vec::<String>::new());
        assert_eq!(fs::read_to_string(&control).unwrap(), "cpu");
        fs::remove_dir(dir.path().join("sandbag-9-cpu0")).unwrap();
        assert_eq!(undo(&entries), Vec::<String>::new());
        assert_eq!(fs::read_to_string(&control).unwrap(), "-cpu");
    }
}
