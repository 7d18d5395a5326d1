// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program that runs already and is to be slowed: a process, or it and its
//! descendants.

use std::collections::BTreeSet;

use sandbag_linux::process::{self, Process};
use sandbag_linux::{CpuList, Root, cgroup, sched};
use sandbag_run::layout::PREFIX;
use sandbag_run::process_identity::ProcessIdentity;
use sandbag_run::{Error, Result};
use sandbag_ui::text::visible;

/// Who is slowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    process: ProcessIdentity,
    name: String,
    /// Its descendants, too.
    tree: bool,
    /// Its groups in all hierarchies, as `/proc/PID/cgroup` says it.
    groups: String,
}

impl Target {
    /// The process `pid`; with `tree` its descendants, too.
    ///
    /// # Errors
    /// [`Error::NotPossible`] for a process that must not, or cannot, be moved.
    pub fn find(root: &Root, pid: u32, tree: bool) -> Result<Self> {
        let gone = || Error::not_possible(format!("there is no process {pid}"), "see ps -e");
        let process = ProcessIdentity::of(root, pid)?.ok_or_else(gone)?;
        let name = Process::new(root, pid).stat().map_err(|_| gone())?.name;
        let target = Self {
            process,
            name,
            tree,
            groups: cgroup::groups_of(root, pid).map_err(|_| gone())?,
        };
        target.refuse(root)?;
        Ok(target)
    }

    fn refuse(&self, root: &Root) -> Result<()> {
        let shown = self.to_string();
        let no = |what: String, remedy: &str| Err(Error::not_possible(what, remedy));
        let pid = self.process.pid;
        let words = Process::new(root, pid).command_line()?;
        if pid == 1 || words.is_empty() {
            let what = match pid {
                1 => "the first of all",
                _ => "a thread of the kernel",
            };
            return no(
                format!("{shown} is {what}, which cannot be moved"),
                "name a process of your own",
            );
        }
        if self.groups.contains(&format!("/{PREFIX}")) {
            return no(
                format!("{shown} is in a group of sandbag's already"),
                "end that run first (sandbag status)",
            );
        }
        let members = self.members(root)?;
        if members.contains(&std::process::id()) {
            return no(
                format!("sandbag itself belongs to {shown}"),
                "start it from somewhere else, or leave out --tree",
            );
        }
        for member in members {
            match cgroup::groups_of(root, member) {
                Ok(groups) if groups != self.groups => {
                    return no(
                        format!("process {member} of the tree is in other groups than {shown}"),
                        "slow the processes of one group at a time",
                    );
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub fn pid(&self) -> u32 {
        self.process.pid
    }

    pub fn is_tree(&self) -> bool {
        self.tree
    }

    /// The CPUs that it may use now.
    pub fn cpus(&self) -> Result<CpuList> {
        Ok(sched::affinity(self.process.pid)?)
    }

    /// Whether the process that was meant still runs.
    pub fn lives(&self, root: &Root) -> bool {
        ProcessIdentity::of(root, self.process.pid).is_ok_and(|now| now == Some(self.process))
    }

    /// Those that are meant, as far as they live now, the first one first.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn members(&self, root: &Root) -> Result<Vec<u32>> {
        if !self.lives(root) {
            return Ok(Vec::new());
        }
        if !self.tree {
            return Ok(vec![self.process.pid]);
        }
        let all = process::processes(root)?.into_iter();
        let living = all.filter(|stat| !matches!(stat.state, 'Z' | 'X'));
        let parents: Vec<_> = living.map(|stat| (stat.pid, stat.parent)).collect();
        Ok(descendants(self.process.pid, &parents))
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = if self.tree { "process tree" } else { "process" };
        write!(f, "{what} {} ({})", self.process.pid, visible(&self.name))
    }
}

/// A process and all that descends from it, in the order of generations, by the parent of
/// every process.
fn descendants(first: u32, parents: &[(u32, u32)]) -> Vec<u32> {
    let (mut found, mut seen) = (vec![first], BTreeSet::from([first]));
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        next += 1;
        let children = parents.iter().filter(|(_, of)| *of == parent);
        found.extend(
            children
                .map(|(pid, _)| *pid)
                .filter(|pid| seen.insert(*pid)),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_all_generations() {
        let parents = [(1, 0), (10, 1), (11, 10), (12, 11), (13, 10), (14, 1)];
        assert_eq!(descendants(10, &parents), [10, 11, 13, 12]);
        assert_eq!(descendants(14, &parents), [14]);
        // Read while processes came and went: no end of it must be possible.
        assert_eq!(descendants(10, &[(10, 11), (11, 10)]), [10, 11]);
    }

    #[test]
    fn the_first_process_and_ourselves_are_refused() {
        let root = Root::default();
        let why = |pid, tree| match Target::find(&root, pid, tree) {
            Err(error) => error.to_string(),
            Ok(target) => format!("found {target}"),
        };
        assert!(
            why(1, false).contains("cannot be moved"),
            "{}",
            why(1, false)
        );
        let own = std::process::id();
        assert!(
            why(own, false).contains("sandbag itself"),
            "{}",
            why(own, false)
        );
        let parent = std::os::unix::process::parent_id();
        assert!(
            why(parent, true).contains("sandbag itself"),
            "{}",
            why(parent, true)
        );
        assert!(why(u32::MAX >> 1, false).contains("there is no process"));
    }
}
