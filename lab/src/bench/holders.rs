// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who keeps a mount busy: processes with an open file, a directory or a
//! mapping below it. Only what `/proc` shows can be found; a process that
//! nobody may look at (PID 1 of some virtual machines) is named as one that
//! may be it.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use sandbag_linux::Root;

/// The answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// Numbers and names of those who hold something, and what.
    found: Vec<(u32, String, PathBuf)>,
    /// Of those who could not be looked at.
    hidden: Vec<(u32, String)>,
}

impl Holders {
    /// Looks at all processes.
    pub fn find(root: &Root, below: &Path) -> Self {
        let mut holders = Self::default();
        let mut pids: Vec<u32> = fs::read_dir(root.path("/proc"))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|e| e.file_name().to_str()?.parse().ok())
            .collect();
        pids.sort_unstable();
        for pid in pids {
            let dir = root.path(format!("/proc/{pid}"));
            let name = || {
                let name = fs::read_to_string(dir.join("comm")).unwrap_or_default();
                name.trim().to_owned()
            };
            // A process that has ended meanwhile holds nothing. One that may
            // not be traced hides its files even from root, though not always
            // their number.
            let hides = |e: std::io::Error| e.kind() == std::io::ErrorKind::PermissionDenied;
            if fs::read_link(dir.join("cwd")).is_err_and(hides) {
                holders.hidden.push((pid, name()));
                continue;
            }
            let held = fs::read_dir(dir.join("fd"))
                .into_iter()
                .flatten()
                .flatten()
                .map(|file| file.path())
                .chain(["cwd", "root"].map(|link| dir.join(link)))
                .filter_map(|link| fs::read_link(link).ok())
                .find(|to| to.starts_with(below));
            holders.found.extend(held.map(|to| (pid, name(), to)));
        }
        holders
    }
}

impl fmt::Display for Holders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.found.is_empty() {
            f.write_str("no process that can be looked at holds it")?;
        }
        for (at, (pid, name, path)) in self.found.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}process {pid} ({name}) holds {}", path.display())?;
        }
        for (pid, name) in &self.hidden {
            write!(
                f,
                ", but process {pid} ({name}), which even root may not look at, can be the one"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn process(root: &Root, pid: u32, name: &str, fd: &str, cwd: &str) {
        let dir = root.path(format!("/proc/{pid}"));
        fs::create_dir_all(dir.join("fd")).unwrap();
        fs::write(dir.join("comm"), format!("{name}\n")).unwrap();
        symlink(fd, dir.join("fd/3")).unwrap();
        symlink(cwd, dir.join("cwd")).unwrap();
    }

    #[test]
    fn open_files_and_working_directories_hold_a_mount() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        process(&root, 7, "reader", "/sys/fs/cgroup/cpu/cpu.shares", "/");
        process(&root, 8, "shell", "/dev/null", "/sys/fs/cgroup/cpu");
        process(&root, 9, "other", "/sys/fs/cgroup/cpuset/tasks", "/");
        let said = Holders::find(&root, Path::new("/sys/fs/cgroup/cpu")).to_string();
        assert_eq!(
            said,
            "process 7 (reader) holds /sys/fs/cgroup/cpu/cpu.shares, \
             process 8 (shell) holds /sys/fs/cgroup/cpu"
        );
    }

    #[test]
    fn who_cannot_be_looked_at_is_named() {
        let holders = Holders {
            found: Vec::new(),
            hidden: vec![(1, "init".to_owned())],
        };
        let said = holders.to_string();
        assert!(said.starts_with("no process that can be looked at holds it"));
        assert!(said.contains("process 1 (init)"), "{said}");
    }
}
