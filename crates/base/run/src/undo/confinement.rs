// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Giving threads back the CPUs that were taken from them.

use std::collections::BTreeSet;
use std::path::Path;

use sandbag_linux::process::Process;
use sandbag_linux::{CpuList, Result, Root, root, sched, topology};

use super::settings::write_cpuset;
use crate::members;
use crate::process_identity::ProcessIdentity;

/// Lets the group at `dir`, if it is confined, use what its parent has: the kernel refuses
/// its threads all other CPUs. What is refused here is refused to them, too, and said then.
pub fn lift(dir: &Path) {
    let read = |dir: &Path| root::read(&dir.join("cpuset.cpus")).unwrap_or_default();
    if read(dir).trim().is_empty() {
        return;
    }
    // v1 takes nothing else; the top of v2 has no list.
    let parent = dir.parent().map(read).unwrap_or_default();
    let _ = write_cpuset(&dir.join("cpuset.cpus"), parent.trim());
}

/// Lets every thread in the group at `dir` and below use `before` again, if
/// it may use `cpus` and no others now: one that chose some of these itself
/// keeps them. With `of` only those of this process and its descendants.
///
/// To be called while they are still in the group, because they cannot be
/// found afterwards, and once it is [lifted](lift). From Linux 6.2 on that is still in
/// force when they leave; before that a process that leaves gets all CPUs of its new group.
pub fn give_back(
    dir: &Path,
    cpus: &CpuList,
    before: &CpuList,
    of: Option<ProcessIdentity>,
) -> Vec<Result<()>> {
    let (root, mut done) = (Root::default(), BTreeSet::new());
    let mut outcomes = Vec::new();
    let lives =
        |of: ProcessIdentity| ProcessIdentity::of(&root, of.pid).is_ok_and(|now| now == Some(of));
    if of.is_some_and(|of| !lives(of)) {
        return outcomes;
    }
    // The kernel leaves out of an answer what is offline.
    let online = topology::cpus(&root, "online").unwrap_or_else(|_| cpus.clone());
    let answer = cpus.intersection(&online);
    // Threads start others meanwhile, with what they had themselves.
    loop {
        let fresh: Vec<u32> = members::members_below(dir)
            .into_iter()
            .filter(|pid| of.is_none_or(|of| descends_from(&root, *pid, of.pid)))
            .flat_map(|pid| Process::new(&root, pid).threads().unwrap_or_default())
            .map(|thread| thread.pid())
            .filter(|thread| !done.contains(thread))
            .filter(|thread| sched::affinity(*thread).is_ok_and(|now| now == answer))
            .collect();
        if fresh.is_empty() {
            return outcomes;
        }
        for thread in fresh {
            outcomes.push(sched::set_affinity(thread, before));
            done.insert(thread);
        }
    }
}

/// Whether a process is this one or descends from it.
fn descends_from(root: &Root, mut pid: u32, ancestor: u32) -> bool {
    while pid != ancestor {
        match Process::new(root, pid).stat() {
            Ok(stat) if stat.parent != 0 => pid = stat.parent,
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
#[path = "../../../linux/tests/support/skipped.rs"]
mod skipped;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Child;

    use super::skipped::say_skipped;
    use super::*;

    fn confined_to(cpus: &CpuList) -> Child {
        let child = crate::testing::sleeper();
        sched::set_affinity(child.id(), cpus).unwrap();
        child
    }

    #[test]
    fn who_was_confined_is_free_and_who_chose_himself_stays() {
        let all = sched::affinity(0).unwrap();
        let one = CpuList::from_iter(all.iter().next());
        let other = CpuList::from_iter(all.iter().next_back());
        if one == other {
            let test = "who_was_confined_is_free_and_who_chose_himself_stays";
            say_skipped(test, "one CPU");
            return;
        }
        let mut children = [confined_to(&one), confined_to(&other)];
        let dir = tempfile::tempdir().unwrap();
        let list: Vec<String> = children.iter().map(|c| c.id().to_string()).collect();
        fs::write(dir.path().join("cgroup.procs"), list.join("\n")).unwrap();
        let named = |pid| ProcessIdentity::of(&Root::default(), pid).unwrap();
        let second = named(children[1].id());
        assert!(give_back(dir.path(), &one, &all, second).is_empty());
        // Both descend from us; then all in the group are meant.
        for of in [named(std::process::id()), None] {
            sched::set_affinity(children[0].id(), &one).unwrap();
            let outcomes = give_back(dir.path(), &one, &all, of);
            assert!(outcomes.len() == 1 && outcomes[0].is_ok(), "{outcomes:?}");
        }
        let now = children
            .each_ref()
            .map(|c| sched::affinity(c.id()).unwrap());
        assert_eq!(now, [all, other]);
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn a_group_that_is_lifted_has_what_its_parent_has() {
        let (dir, _) = crate::testing::machine(&[
            ("v1/cpuset.cpus", "0-3\n"),
            ("v1/node/cpuset.cpus", "2-3\n"),
            // The top of v2, and a group that is not confined.
            ("v2/node/cpuset.cpus", "2-3\n"),
            ("v1/free/cpuset.cpus", "\n"),
            ("v1/none/cpu.shares", "1024\n"),
        ]);
        for (group, cpus) in [("v1/node", "0-3\n"), ("v2/node", "\n"), ("v1/free", "\n")] {
            lift(&dir.path().join(group));
            let file = dir.path().join(group).join("cpuset.cpus");
            assert_eq!(crate::testing::text(file), cpus, "{group}");
        }
        lift(&dir.path().join("v1/none"));
        assert!(!dir.path().join("v1/none/cpuset.cpus").exists());
    }
}
