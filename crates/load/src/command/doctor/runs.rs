// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Other runs of this machine: those that live, and what dead ones left.

use std::fs;
use std::path::Path;

use sandbag_run::journal::{Journal, RunInfo, run_of};
use sandbag_run::layout::{Layout, PREFIX};
use sandbag_run::registry::Registry;
use sandbag_run::run_process::RunId;

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
    let journals = dead_journals(registry.dir());
    if !journals.is_empty() {
        let each: Vec<String> = journals.iter().map(u32::to_string).collect();
        return Check::warn("leftovers", format!("of dead runs: {}", each.join(", ")))
            .remedy("sandbag restore undoes them; so does the next run");
    }
    let groups = layout.map_or_else(Vec::new, |layout| orphans(&layout.hierarchies().cpu, runs));
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

fn dead_journals(dir: &Path) -> Vec<u32> {
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
    dead
}

/// Groups of ours at the top of the tree whose run is not alive.
fn orphans(top: &Path, runs: &[RunInfo]) -> Vec<String> {
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
            (!runs.iter().any(|run| run.id() == id)).then_some(name)
        })
        .collect();
    groups.sort_unstable();
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbag_linux::CpuList;

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
        assert_eq!(dead_journals(registry.dir()), Vec::<u32>::new());
        drop(journal);
        assert_eq!(dead_journals(registry.dir()), [10]);
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
            orphans(dir.path(), &[info(7)]),
            ["sandbag-8-cpu1", "sandbag8c0n0.slice"]
        );
    }
}
