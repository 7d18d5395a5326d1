// SPDX-License-Identifier: Apache-2.0 OR MIT
//! sandbag's processes, found from outside.

use std::path::Path;

use nix::unistd::Pid;
use sandbag_linux::Root;
use sandbag_linux::process::{self, Process};

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
    fn of(words: &[String]) -> Self {
        match words.get(1).map(String::as_str) {
            Some("__guardian") => Self::Guardian,
            Some("__burner") => Self::Burner,
            Some("__injector") => Self::Injector,
            Some("__audit-work") => Self::Auditor,
            Some("__exec") => Self::Command,
            _ => Self::Supervisor,
        }
    }
}

/// All processes that run the program at `sandbag`, by process id. Zombies
/// run nothing.
#[must_use]
pub fn find(sandbag: &Path) -> Vec<(Pid, Role)> {
    let sandbag = sandbag.canonicalize().unwrap_or(sandbag.to_owned());
    let root = Root::default();
    let pids = process::pids(&root).unwrap_or_default().into_iter();
    pids.filter_map(|pid| {
        let process = Process::new(&root, pid);
        let runs = process.program().ok()?;
        let words = process.command_line().ok()?;
        (runs == sandbag).then(|| (Pid::from_raw(pid.cast_signed()), Role::of(&words)))
    })
    .collect()
}

/// Those of one role.
#[must_use]
pub fn of_role(sandbag: &Path, role: Role) -> Vec<Pid> {
    let mut all = find(sandbag);
    all.retain(|(_, found)| *found == role);
    all.into_iter().map(|(pid, _)| pid).collect()
}

/// Whether a process still runs a program: it is there and no zombie.
#[must_use]
pub fn runs(pid: Pid) -> bool {
    let process = Process::new(&Root::default(), pid.as_raw().unsigned_abs());
    process.program().is_ok()
}

/// What a process and its children are doing, a line each: for the report of one that does
/// not end. Only root sees where in the kernel they wait.
#[must_use]
pub fn account_of(pid: Pid) -> String {
    let root = Root::default();
    let supervisor = Process::new(&root, pid.as_raw().unsigned_abs());
    let children = supervisor.children().unwrap_or_default();
    let all = std::iter::once(supervisor.pid()).chain(children);
    let line = |pid: u32| {
        let process = Process::new(&root, pid);
        let state = process.stat().map_or('?', |stat| stat.state);
        let words = process.command_line().unwrap_or_default().join(" ");
        let of = |name: &str| root.read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let status = of("status");
        let signals = status.lines().filter(|line| line.contains("Pnd:"));
        let facts = [of("syscall"), of("stack"), signals.collect::<String>()];
        let facts = facts.join(" ").replace('\n', " ");
        format!("{pid} {state} `{words}` {}", facts.trim())
    };
    all.map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_role_is_the_first_argument() {
        for (line, role) in [
            ("sandbag __guardian fd", Role::Guardian),
            ("sandbag __burner", Role::Burner),
            ("sandbag __injector {}", Role::Injector),
            ("sandbag __exec ls", Role::Command),
            ("sandbag load all", Role::Supervisor),
            ("", Role::Supervisor),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(Role::of(&words), role, "{line}");
        }
    }

    #[test]
    fn a_process_and_its_children_are_described() {
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let account = account_of(Pid::this());
        child.kill().unwrap();
        child.wait().unwrap();
        let of = |pid: u32| {
            account
                .lines()
                .any(|line| line.starts_with(&format!("{pid} ")))
        };
        assert!(of(std::process::id()) && of(child.id()), "{account}");
    }

    #[test]
    fn processes_are_found_by_the_program_they_run() {
        let me = std::env::current_exe().unwrap();
        assert!(find(&me).contains(&(Pid::this(), Role::Supervisor)));
        assert!(find(Path::new("/nonexistent")).is_empty());
        assert!(runs(Pid::this()) && !runs(Pid::from_raw(i32::MAX)));
    }
}
