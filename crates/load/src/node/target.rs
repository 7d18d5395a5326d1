// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program that runs already and is to be slowed: a process, or it and its
//! descendants; a unit of systemd, or a container, which are groups.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use sandbag_linux::cgroup::{self, Version};
use sandbag_linux::process::{self, Process};
use sandbag_linux::procstat::tick_ns;
use sandbag_linux::{CpuList, Root, sched};
use sandbag_run::members::members_below;
use sandbag_run::process_identity::ProcessIdentity;
use sandbag_run::registry::Registry;
use sandbag_run::{Error, Result};
use sandbag_ui::text::visible;

use crate::live;

use super::target_group::{GroupName, find_group};

/// Who is slowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// In words.
    shown: String,
    who: Who,
    /// The groups in all hierarchies, as `/proc/PID/cgroup` says it.
    groups: String,
}

/// A program that runs already, as it is named in one word: `pid:4711`, `tree:4711`,
/// `unit:nginx`, `container:web1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetName {
    /// With `true` its descendants as well.
    Process(u32, bool),
    Group(GroupName),
}

impl FromStr for TargetName {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let expected = "expected pid:N, tree:N, unit:NAME or container:NAME";
        let (kind, name) = text.split_once(':').ok_or(expected)?;
        let pid = || {
            let bad = |_| format!("`{name}` is no process id");
            name.parse().map_err(bad)
        };
        match kind {
            _ if name.is_empty() => Err(expected.to_owned()),
            "pid" => Ok(Self::Process(pid()?, false)),
            "tree" => Ok(Self::Process(pid()?, true)),
            "unit" => Ok(Self::Group(GroupName::Unit(name.to_owned()))),
            "container" => Ok(Self::Group(GroupName::Container(name.to_owned()))),
            _ => Err(expected.to_owned()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Who {
    Process(ProcessIdentity),
    Tree(ProcessIdentity),
    /// All in and below this directory. `in_place`: they stay there.
    Group {
        dir: PathBuf,
        in_place: bool,
    },
}

impl Target {
    /// The program of this name, to be looked at and not slowed.
    ///
    /// # Errors
    /// [`Error::NotPossible`] where it does not run.
    pub fn of(root: &Root, name: &TargetName) -> Result<Self> {
        match name {
            TargetName::Process(pid, tree) => Self::of_process(root, *pid, *tree),
            TargetName::Group(group) => Self::of_group(root, group),
        }
    }

    /// CPU time so far, ns: of a group of all that ever ran in it; of a tree of those that
    /// live and of their descendants that ended; of a process its own, to a tick. `None`
    /// where none is left.
    pub fn used_ns(&self, root: &Root) -> Option<u64> {
        if let Who::Group { dir, .. } = &self.who
            && let Some(ns) = live::used_ns(dir)
        {
            return Some(ns);
        }
        let members = self.members(root).ok()?;
        let with_ended = matches!(self.who, Who::Tree(_));
        let used = |pid: &u32| {
            let times = Process::new(root, *pid).stat().ok()?.times;
            let own = times.user_ticks + times.system_ticks;
            Some((own + times.ended_ticks * u64::from(with_ended)) * tick_ns())
        };
        let used: Vec<u64> = members.iter().filter_map(used).collect();
        (!used.is_empty()).then(|| used.iter().sum())
    }

    /// The process `pid`; with `tree` its descendants, too.
    ///
    /// # Errors
    /// [`Error::NotPossible`] for a process that must not, or cannot, be moved.
    pub fn process(root: &Root, pid: u32, tree: bool) -> Result<Self> {
        let target = Self::of_process(root, pid, tree)?;
        let words = Process::new(root, pid).command_line()?;
        if pid == 1 || words.is_empty() {
            let what = match pid {
                1 => "the first of all",
                _ => "a thread of the kernel",
            };
            return Err(Error::not_possible(
                format!("{target} is {what}, which cannot be moved"),
                "name a process of your own",
            ));
        }
        target.refuse(root)?;
        Ok(target)
    }

    fn of_process(root: &Root, pid: u32, tree: bool) -> Result<Self> {
        let gone = || Error::not_possible(format!("there is no process {pid}"), "see ps -e");
        let process = ProcessIdentity::of(root, pid)?.ok_or_else(gone)?;
        let named = Process::new(root, pid);
        let leader: Option<u32> = named.status("Tgid", "a process id").map_err(|_| gone())?;
        if let Some(leader) = leader.filter(|leader| *leader != pid) {
            return Err(Error::not_possible(
                format!("{pid} is a thread of process {leader}"),
                "name that process",
            ));
        }
        let name = named.stat().map_err(|_| gone())?.name;
        let (what, who) = if tree {
            ("process tree", Who::Tree(process))
        } else {
            ("process", Who::Process(process))
        };
        Ok(Self {
            shown: format!("{what} {pid} ({})", visible(&name)),
            who,
            groups: cgroup::groups_of(root, pid).map_err(|_| gone())?,
        })
    }

    /// The processes of a unit or a container.
    ///
    /// # Errors
    /// [`Error::NotPossible`] where it does not run, or its processes cannot be a node.
    pub fn group(root: &Root, name: &GroupName) -> Result<Self> {
        let target = Self::of_group(root, name)?;
        target.refuse(root)?;
        Ok(target)
    }

    fn of_group(root: &Root, name: &GroupName) -> Result<Self> {
        let dir = find_group(root, name)?;
        let not_running = || Error::not_possible(format!("{name} does not run"), "start it first");
        let first = members_below(&dir)
            .first()
            .copied()
            .ok_or_else(not_running)?;
        Ok(Self {
            shown: name.to_string(),
            groups: cgroup::groups_of(root, first).map_err(|_| not_running())?,
            who: Who::Group {
                in_place: cgroup::find(root)?.version == Version::V2,
                dir,
            },
        })
    }

    fn refuse(&self, root: &Root) -> Result<()> {
        let no = |what: String, remedy: &str| Err(Error::not_possible(what, remedy));
        if let Some(registry) = Registry::existing()
            && registry.has_group_in(&self.groups)?
        {
            return no(
                format!("{self} is in a group of sandbag's already"),
                "end that run first (sandbag status)",
            );
        }
        let members = self.members(root)?;
        if members.contains(&std::process::id()) {
            return no(
                format!("sandbag itself belongs to {self}"),
                "start it from somewhere else, or leave out --tree",
            );
        }
        let moved = self.in_place().is_none();
        for member in members.into_iter().filter(|_| moved) {
            match cgroup::groups_of(root, member) {
                Ok(groups) if groups != self.groups => {
                    return no(
                        format!("process {member} is in other groups than the rest of {self}"),
                        "slow the processes of one group at a time",
                    );
                }
                _ => {}
            }
            // All of them would go where the first one came from.
            let threads = Process::new(root, member).threads().unwrap_or_default();
            let apart = |thread: &Process| {
                let groups = cgroup::groups_of(root, thread.pid());
                groups.is_ok_and(|groups| groups != self.groups)
            };
            if let Some(thread) = threads.into_iter().find(apart) {
                return no(
                    format!(
                        "thread {} of process {member} is in other groups than the process, as \
                         those of a virtual machine of libvirt are",
                        thread.pid()
                    ),
                    "it would lose them: start such a program in a node",
                );
            }
        }
        Ok(())
    }

    /// A process that shows where it is.
    ///
    /// # Errors
    /// None is left.
    pub fn first(&self, root: &Root) -> Result<u32> {
        let gone = || Error::not_possible(format!("{self} has ended"), "start it, and try again");
        self.members(root)?.first().copied().ok_or_else(gone)
    }

    /// Its group, if it stays there.
    pub fn in_place(&self) -> Option<&Path> {
        match &self.who {
            Who::Group {
                dir,
                in_place: true,
            } => Some(dir),
            _ => None,
        }
    }

    /// Whether others than its descendants may join it: a service starts again.
    pub fn is_group(&self) -> bool {
        matches!(self.who, Who::Group { .. })
    }

    /// The CPUs that it may use now.
    ///
    /// # Errors
    /// None of its processes is left.
    pub fn cpus(&self, root: &Root) -> Result<CpuList> {
        Ok(sched::affinity(self.first(root)?)?)
    }

    /// Whether all of it has ended. `inside`: who is in the node now.
    pub fn is_over(&self, root: &Root, inside: &[u32]) -> bool {
        match &self.who {
            Who::Process(process) => !lives(root, *process),
            Who::Tree(_) => inside.is_empty(),
            Who::Group { dir, .. } => inside.is_empty() && members_below(dir).is_empty(),
        }
    }

    /// Those that are meant, as far as they live now, the first one first.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn members(&self, root: &Root) -> Result<Vec<u32>> {
        let process = match &self.who {
            Who::Group { dir, .. } => return Ok(members_below(dir)),
            Who::Process(process) | Who::Tree(process) => *process,
        };
        if !lives(root, process) {
            return Ok(Vec::new());
        }
        if matches!(self.who, Who::Process(_)) {
            return Ok(vec![process.pid]);
        }
        let all = process::processes(root)?.into_iter();
        let living = all.filter(|stat| !stat.has_ended());
        let parents: Vec<_> = living.map(|stat| (stat.pid, stat.parent)).collect();
        Ok(descendants(process.pid, &parents))
    }
}

/// Whether the process that was meant still runs.
fn lives(root: &Root, process: ProcessIdentity) -> bool {
    ProcessIdentity::of(root, process.pid).is_ok_and(|now| now == Some(process))
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown)
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
    fn a_program_is_named_in_one_word() {
        let name = |text: &str| text.parse::<TargetName>();
        assert_eq!(name("pid:7"), Ok(TargetName::Process(7, false)));
        assert_eq!(name("tree:7"), Ok(TargetName::Process(7, true)));
        let unit = GroupName::Unit("a:b".to_owned());
        assert_eq!(name("unit:a:b"), Ok(TargetName::Group(unit)));
        for (text, said) in [
            ("7", "pid:N"),
            ("unit:", "unit:NAME"),
            ("pid:x", "`x`"),
            ("x:y", "pid:N"),
        ] {
            assert!(name(text).unwrap_err().contains(said), "{text}");
        }
        let own = Target::process(&Root::default(), std::os::unix::process::parent_id(), false);
        assert!(own.unwrap().used_ns(&Root::default()).is_some());
    }

    #[test]
    fn a_thread_is_refused_with_its_process() {
        let of_itself = || {
            let thread = nix::unistd::gettid().as_raw().unsigned_abs();
            let named = TargetName::Process(thread, false);
            Target::of(&Root::default(), &named)
                .unwrap_err()
                .to_string()
        };
        let said = std::thread::spawn(of_itself).join().unwrap();
        let whose = format!("is a thread of process {}: name", std::process::id());
        assert!(said.contains(&whose), "{said}");
    }

    #[test]
    fn the_first_process_and_ourselves_are_refused() {
        let root = Root::default();
        let why = |pid, tree| match Target::process(&root, pid, tree) {
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
