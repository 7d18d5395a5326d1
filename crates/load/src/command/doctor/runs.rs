// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Other runs of this machine: those that live, and what dead ones left.

use std::fs;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::{Pid, geteuid};
use sandbag_run::journal::{Journal, RunInfo, run_of};
use sandbag_run::layout::{Layout, PREFIX};
use sandbag_run::lock::Lock;
use sandbag_run::registry::Registry;
use sandbag_run::run_process::{RunId, RunProcess};

use super::check::Check;
use crate::live::words::run_text;

pub fn alive(runs: &[RunInfo]) -> Check {
    if runs.is_empty() {
        return Check::ok("runs", "none now");
    }
    let each: Vec<String> = runs
        .iter()
        .map(|run| format!("{} ({})", run.pid, run_text(run, &run.load)))
        .collect();
    Check::warn("runs", each.join(", ")).remedy("sandbag status shows them, sandbag stop ends them")
}

/// What dead runs left: journals without a lock, and groups without a journal.
pub fn left(registry: &Registry, layout: Option<&Layout>, runs: &[RunInfo]) -> Check {
    let journals = match dead_journals(registry.dir()) {
        Ok(journals) => journals,
        Err(error) => return Check::warn("leftovers", format!("could not look: {error}")),
    };
    if !journals.is_empty() {
        let each: Vec<String> = journals.iter().map(u32::to_string).collect();
        return Check::warn("leftovers", format!("of dead runs: {}", each.join(", ")))
            .remedy("sandbag restore undoes them; so does the next run");
    }
    let groups = layout.map_or_else(Vec::new, |layout| {
        orphans(&layout.hierarchies().cpu, runs, has_ended)
    });
    if groups.is_empty() {
        Check::ok("leftovers", "none")
    } else {
        Check::warn(
            "leftovers",
            format!("groups that no journal knows: {}", groups.join(", ")),
        )
        .remedy("end what runs in them (cgroup.procs), then rmdir them")
    }
}

fn dead_journals(dir: &Path) -> sandbag_run::Result<Vec<u32>> {
    // A new journal is there a moment before its run locks it.
    let _lock = Lock::of(dir)?;
    let mut dead: Vec<u32> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "journal"))
        // The lock is given back at once: this only looks.
        .filter(|path| matches!(Journal::take_over(path), Ok(Some(_))))
        .filter_map(|path| Some(run_of(&path)?.pid()))
        .collect();
    dead.sort_unstable();
    Ok(dead)
}

/// Whether the supervisor of a run has certainly ended, by the name of its groups: the journals
/// of another user, or of another container, are not seen here.
fn has_ended(id: RunId) -> bool {
    let name = id.to_string();
    let rest: Vec<u64> = name
        .split('x')
        .skip(1)
        .filter_map(|number| number.parse().ok())
        .collect();
    match (<[u64; 2]>::try_from(&rest[..]), RunProcess::own()) {
        // The namespaces of other users' processes are seen by root only.
        (Ok([pid_namespace, _]), Some(process))
            if pid_namespace != process.pid_namespace && !geteuid().is_root() =>
        {
            false
        }
        (Ok([pid_namespace, start_ticks]), Some(process)) => RunProcess {
            start_ticks,
            pid_namespace,
            ..process
        }
        .has_ended(id.pid()),
        (Ok(_), None) => false,
        // A process of the first namespace. Also one that `/proc` hides (hidepid) gives EPERM.
        (Err(_), _) => {
            let (own, pid) = (RunId::own(), Pid::from_raw(id.pid().cast_signed()));
            own == RunId::from(own.pid()) && kill(pid, None) == Err(Errno::ESRCH)
        }
    }
}

/// Groups of ours at the top of the tree whose run has ended.
fn orphans(top: &Path, runs: &[RunInfo], has_ended: impl Fn(RunId) -> bool) -> Vec<String> {
    let mut groups: Vec<String> = fs::read_dir(top)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let rest = name.strip_prefix(PREFIX)?;
            let id: String = rest
                .trim_start_matches('-')
                .chars()
                .take_while(|c| c.is_ascii_digit() || *c == 'x')
                .collect();
            let id: RunId = id.parse().ok()?;
            (!runs.iter().any(|run| run.id() == id) && has_ended(id)).then_some(name)
        })
        .collect();
    groups.sort_unstable();
    groups
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;
    use sandbag_linux::process::Process;
    use sandbag_linux::{CpuList, Root};

    fn info(pid: u32) -> RunInfo {
        RunInfo {
            pid,
            cpus: "0".into(),
            ..RunInfo::of_this_process("test")
        }
    }

    #[test]
    fn a_journal_is_dead_when_nobody_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::at(dir.path().join("r")).unwrap();
        let cpus: CpuList = "0".parse().unwrap();
        let journal = registry.register(info(10), &cpus).unwrap();
        assert_eq!(dead_journals(registry.dir()).unwrap(), Vec::<u32>::new());
        drop(journal);
        assert_eq!(dead_journals(registry.dir()).unwrap(), [10]);
        let check = left(&registry, None, &[]);
        assert!(check.remedy.unwrap().contains("sandbag restore"));
    }

    #[test]
    fn groups_of_a_living_run_are_no_leftovers() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "sandbag-7-cpu0",
            "sandbag-8-cpu1",
            "sandbag8c0n0.slice",
            "sandbags",
        ] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        assert_eq!(
            orphans(dir.path(), &[info(7)], |_| true),
            ["sandbag-8-cpu1", "sandbag8c0n0.slice"]
        );
        // One whose journal is not ours.
        let nothing: [&str; 0] = [];
        assert_eq!(orphans(dir.path(), &[info(7)], |_| false), nothing);
    }

    #[test]
    fn a_run_has_ended_when_its_supervisor_has() {
        assert!(!has_ended(RunId::own()));
        let mut child = Command::new("sleep");
        let mut child = child.arg("1000").stdin(Stdio::null()).spawn().unwrap();
        let stat = Process::new(&Root::default(), child.id()).stat().unwrap();
        let process = RunProcess {
            start_ticks: stat.times.start_ticks,
            ..RunProcess::own().unwrap()
        };
        let run = RunId::new(child.id(), Some(&process));
        assert!(!has_ended(run));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(has_ended(run));
        // In a container nothing is known of the processes outside of it.
        let own = RunId::own();
        let elsewhere = RunProcess {
            pid_namespace: process.pid_namespace + 1_000_000,
            ..process
        };
        let elsewhere = RunId::new(child.id(), Some(&elsewhere));
        let sees_all = own == RunId::from(own.pid());
        assert_eq!(has_ended(elsewhere), sees_all);
        assert_eq!(has_ended(RunId::from(child.id())), sees_all);
    }

    #[test]
    fn journals_are_not_looked_at_while_another_process_makes_one() {
        let dir = tempfile::tempdir().unwrap();
        let lock = Lock::of(dir.path()).unwrap();
        let released = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                dead_journals(dir.path()).unwrap();
                assert!(released.load(Ordering::SeqCst));
            });
            std::thread::sleep(Duration::from_millis(30));
            released.store(true, Ordering::SeqCst);
            drop(lock);
        });
    }
}
