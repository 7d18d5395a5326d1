// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Giving threads back the CPUs that were taken from them.

use std::collections::BTreeSet;
use std::path::Path;

use sandbag_linux::process::Process;
use sandbag_linux::{CpuList, Result, Root, sched};

use crate::members;

/// Lets every thread in the group at `dir` and below use `before` again, if
/// it may use `cpus` and no others now: one that chose some of these itself
/// keeps them.
///
/// To be called while they are still in the group, because they cannot be
/// found afterwards. A cpuset does not keep it from being asked for: from Linux 6.2
/// on it is in force as soon as they leave, and before that a process that
/// leaves gets all CPUs of its new group.
pub fn give_back(dir: &Path, cpus: &CpuList, before: &CpuList) -> Vec<Result<()>> {
    let (root, mut done) = (Root::default(), BTreeSet::new());
    let mut outcomes = Vec::new();
    // Threads start others meanwhile, with what they had themselves.
    loop {
        let fresh: Vec<u32> = members::members_below(dir)
            .into_iter()
            .flat_map(|pid| Process::new(&root, pid).threads().unwrap_or_default())
            .map(|thread| thread.pid())
            .filter(|thread| !done.contains(thread))
            .filter(|thread| sched::affinity(*thread).is_ok_and(|now| now == *cpus))
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Child;

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
            return;
        }
        let mut children = [confined_to(&one), confined_to(&other)];
        let dir = tempfile::tempdir().unwrap();
        let list: Vec<String> = children.iter().map(|c| c.id().to_string()).collect();
        fs::write(dir.path().join("cgroup.procs"), list.join("\n")).unwrap();
        let outcomes = give_back(dir.path(), &one, &all);
        assert!(outcomes.len() == 1 && outcomes[0].is_ok(), "{outcomes:?}");
        let now = children
            .each_ref()
            .map(|c| sched::affinity(c.id()).unwrap());
        assert_eq!(now, [all, other]);
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
