// SPDX-License-Identifier: Apache-2.0 OR MIT
//! sandbag's processes, found from outside.

use std::fs;
use std::path::Path;

use nix::unistd::Pid;

/// What a process is there for, told by its first argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Started by the user; anything that is none of the others.
    Supervisor,
    /// Undoes the journal when the supervisor dies.
    Guardian,
    /// Takes the load of one CPU.
    Burner,
    /// Takes a CPU when an event of a trace is due.
    Injector,
    /// Runs the tests of an audit.
    Auditor,
    /// On its way to become the wrapped command.
    Command,
}

impl Role {
    fn of(cmdline: &[u8]) -> Self {
        match cmdline.split(|byte| *byte == 0).nth(1) {
            Some(b"__guardian") => Self::Guardian,
            Some(b"__burner") => Self::Burner,
            Some(b"__injector") => Self::Injector,
            Some(b"__audit-work") => Self::Auditor,
            Some(b"__exec") => Self::Command,
            _ => Self::Supervisor,
        }
    }
}

/// All processes that run the program at `sandbag`, by process id. Zombies
/// run nothing.
#[must_use]
pub fn find(sandbag: &Path) -> Vec<(Pid, Role)> {
    let sandbag = sandbag.canonicalize().unwrap_or(sandbag.to_owned());
    let mut found: Vec<(Pid, Role)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let runs = fs::read_link(entry.path().join("exe")).ok()?;
            let cmdline = fs::read(entry.path().join("cmdline")).ok()?;
            (runs == sandbag).then(|| (Pid::from_raw(pid), Role::of(&cmdline)))
        })
        .collect();
    found.sort_by_key(|(pid, _)| *pid);
    found
}

/// Whether a process still runs a program: it is there and no zombie.
#[must_use]
pub fn runs(pid: Pid) -> bool {
    fs::read_link(format!("/proc/{pid}/exe")).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_role_is_the_first_argument() {
        assert_eq!(Role::of(b"sandbag\0__guardian\0fd\0"), Role::Guardian);
        assert_eq!(Role::of(b"sandbag\0__burner\0"), Role::Burner);
        assert_eq!(Role::of(b"sandbag\0__injector\0{}\0"), Role::Injector);
        assert_eq!(Role::of(b"sandbag\0__exec\0ls\0"), Role::Command);
        assert_eq!(Role::of(b"sandbag\0load\0all\0"), Role::Supervisor);
        assert_eq!(Role::of(b""), Role::Supervisor);
    }

    #[test]
    fn processes_are_found_by_the_program_they_run() {
        let me = std::env::current_exe().unwrap();
        assert!(find(&me).contains(&(Pid::this(), Role::Supervisor)));
        assert!(find(Path::new("/nonexistent")).is_empty());
        assert!(runs(Pid::this()) && !runs(Pid::from_raw(i32::MAX)));
    }
}
