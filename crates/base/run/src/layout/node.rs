// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The group of a virtual node: confined to its CPUs, frozen and capped as a
//! whole, empty at first.
//!
//! v1: a directory in each of the hierarchies cpu, cpuacct, cpuset and
//! freezer, one level below where we are ourselves. v2: one directory beside
//! those of the burners. systemd: a slice of its own, with the CPUs as a
//! property, and a scope in it for everyone who enters; an empty scope would
//! vanish at once.
//!
//! Where the node is made for a process that runs already, that process's place takes
//! ours: on v1 its limits stay in force, and at the end it goes back to where it was.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbag_linux::cgroup::{
    self, GroupTree, Hierarchies, Version, add_to, find_cpuset_of, find_freezer_of,
};
use sandbag_linux::{CpuList, Root, root, topology};

use super::by_systemd::{not_possible, slice_of, unit_of};
use super::{Layout, LayoutKind, PREFIX};
use crate::changes;
use crate::error::{Error, Result};
use crate::journal::{self, Entry, Journal, SettingOf};
use crate::lock::Lock;
use crate::node_group::NodeGroup;
use crate::run_process::RunId;
use crate::systemd;

/// How long PID 1 may take to confine a unit after it said so.
const PATIENCE: Duration = Duration::from_secs(1);

impl Layout {
    /// Refuses a tree in which nodes have no groups.
    ///
    /// # Errors
    /// [`Error::NotPossible`] for a group of v1 that was handed to us.
    pub fn check_node(&self) -> Result<()> {
        if (self.kind, self.version()) != (LayoutKind::Delegated, Version::V1) {
            return Ok(());
        }
        Err(Error::not_possible(
            "on cgroup v1 a node has groups in several hierarchies, and --cgroup names one group",
            "leave out --cgroup",
        ))
    }

    /// Makes the group of a node of these CPUs; where it is for a process that runs
    /// already, `target`, at that process's place.
    ///
    /// # Errors
    /// [`Error::NotPossible`] where the tree does not allow it.
    pub fn make_node(
        &self,
        root: &Root,
        journal: &mut Journal,
        run: RunId,
        cpus: &CpuList,
        target: Option<u32>,
    ) -> Result<NodeGroup> {
        self.check_node()?;
        let home = match target {
            None => self.hierarchies.clone(),
            Some(_) => cgroup::find_of(root, target)?,
        };
        match self.kind {
            LayoutKind::V1 => make_v1_node(root, journal, run, cpus, (&home, target)),
            LayoutKind::V2 | LayoutKind::Delegated => self.make_v2_node(journal, run, cpus, &home),
            LayoutKind::V2Systemd => self.make_systemd_node(journal, run, cpus, &home),
        }
    }

    fn make_v2_node(
        &self,
        journal: &mut Journal,
        run: RunId,
        cpus: &CpuList,
        home: &Hierarchies,
    ) -> Result<NodeGroup> {
        let dir = self.base.join(node_name(run));
        let offered = root::read(&self.base.join("cgroup.controllers"))?;
        let confined = offered.split_whitespace().any(|c| c == "cpuset");
        if confined {
            self.enable(journal, "cpuset")?;
        }
        let node = NodeGroup {
            accounting: dir.clone(),
            cpuset: confined.then(|| dir.clone()),
            freezer: Some(dir.clone()),
            cpu: dir,
            cpus: cpus.iter().collect(),
        };
        make(journal, &node, vec![home.own_dir()])?;
        if let Some(dir) = &node.cpuset {
            cgroup::confine(Version::V2, dir, cpus)?;
        }
        Ok(node)
    }

    fn make_systemd_node(
        &self,
        journal: &mut Journal,
        run: RunId,
        cpus: &CpuList,
        home: &Hierarchies,
    ) -> Result<NodeGroup> {
        let slice = slice_name(run);
        let dir = self.hierarchies.cpu.join(&slice);
        journal.note(Entry::NodeSlice {
            name: slice.clone(),
            dir: dir.clone(),
            back: slice_of(&home.own),
        })?;
        systemd::start_node_slice(&slice, cpus).map_err(not_possible)?;
        Ok(NodeGroup {
            accounting: dir.clone(),
            cpuset: Some(dir.clone()),
            freezer: Some(dir.clone()),
            cpu: dir,
            cpus: cpus.iter().collect(),
        })
    }

    /// Confines a group of the v2 tree that others made, where it is: its processes are a
    /// node then, with the limits that they have.
    ///
    /// # Errors
    /// [`Error::NotPossible`] where it is neither a unit nor has a cpuset of its own, or a
    /// group above it does not have these CPUs.
    pub fn adopt(&self, journal: &mut Journal, dir: &Path, cpus: &CpuList) -> Result<NodeGroup> {
        // Looking, noting and changing are one step.
        let lock = refuse_adopted(journal, dir)?;
        if self.kind == LayoutKind::V2Systemd {
            let Some(name) = self.unit_at(dir) else {
                let what = format!("{} is no unit that holds processes", dir.display());
                return Err(Error::not_possible(what, "name a service or a scope"));
            };
            let before = systemd::allowed_cpus(&name).map_err(not_possible)?;
            journal.note(Entry::UnitCpus {
                before,
                dir: dir.to_owned(),
                had_file: systemd::has_file_of_cpus(&name),
                unit: name.clone(),
            })?;
            systemd::set_allowed_cpus(&name, cpus).map_err(not_possible)?;
            drop(lock);
        } else if dir.join("cpuset.cpus").exists() {
            // It takes the lock itself, and what another run noted counts then.
            drop(lock);
            changes::set_cpuset(journal, dir, cpus)?;
        } else {
            let what = format!("{} has no cpuset of its own", dir.display());
            return Err(Error::not_possible(
                what,
                "enable that controller for it, or use --pid",
            ));
        }
        await_confined(dir, cpus)?;
        Ok(NodeGroup {
            cpu: dir.to_owned(),
            accounting: dir.to_owned(),
            cpuset: Some(dir.to_owned()),
            freezer: Some(dir.to_owned()),
            cpus: cpus.iter().collect(),
        })
    }

    /// Confines a group again that was [adopted](Self::adopt), without waiting for it.
    ///
    /// # Errors
    /// PID 1 or the kernel refuses.
    pub fn confine_again(&self, dir: &Path, cpus: &CpuList) -> Result<()> {
        match self.unit_at(dir) {
            Some(name) => systemd::set_allowed_cpus(&name, cpus).map_err(not_possible),
            None => Ok(root::write(&dir.join("cpuset.cpus"), cpus)?),
        }
    }

    /// The unit of PID 1's whose group this is.
    fn unit_at(&self, dir: &Path) -> Option<String> {
        let own = dir.strip_prefix(&self.hierarchies.cpu).unwrap_or(dir);
        unit_of(own).filter(|_| self.kind == LayoutKind::V2Systemd)
    }

    /// Takes a process into a node's group. `nth` counts those who entered. One that ran
    /// before goes back to its group at the end, others stay in the slice from which they came.
    pub fn enter_node(
        &self,
        journal: &mut Journal,
        (run, node): (RunId, &NodeGroup),
        (pid, nth): (u32, usize),
        ran_before: bool,
    ) -> Result<()> {
        if self.kind != LayoutKind::V2Systemd {
            return Ok(node
                .dirs()
                .into_iter()
                .try_for_each(|dir| add_to(dir, pid))?);
        }
        let scope = format!("{PREFIX}{run}node{nth}.scope");
        let own = systemd::group_of(pid).unwrap_or_default();
        journal.note(Entry::NodeScope {
            dir: node.cpu.join(&scope),
            back: slice_of(&own),
            home: ran_before.then(|| self.hierarchies.cpu.join(&own)),
        })?;
        systemd::start_scope(&scope, &slice_name(run), &[pid]).map_err(not_possible)?;
        systemd::wait_for_scope(&self.hierarchies.cpu, pid, &scope).map_err(not_possible)?;
        Ok(())
    }
}

/// Waits until a v2 group may use these CPUs and no others. Of those that the groups above it do
/// not have it gets none; where it would have none at all, it has theirs.
fn await_confined(dir: &Path, cpus: &CpuList) -> Result<()> {
    let give_up = Instant::now() + PATIENCE;
    loop {
        let now = root::read_value::<CpuList>(&dir.join("cpuset.cpus.effective"), "a list of CPUs");
        if now.as_ref().is_ok_and(|now| now == cpus) {
            return Ok(());
        }
        if Instant::now() > give_up {
            let what = format!("{} may use only CPUs {}", dir.display(), now?);
            return Err(Error::not_possible(what, "name CPUs that its slice has"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The CPUs that a v2 group may use, where these are not those of `cpus` that are online; `None`
/// also where the group is gone.
pub fn other_cpus(root: &Root, dir: &Path, cpus: &CpuList) -> Option<CpuList> {
    let now = root::read_value::<CpuList>(&dir.join("cpuset.cpus.effective"), "a list of CPUs");
    let online = topology::cpus(root, "online").ok();
    let expected = online.map_or_else(|| cpus.clone(), |online| cpus.intersection(&online));
    now.ok()
        .filter(|now| !expected.is_empty() && *now != expected)
}

/// Two runs that confine the same group would put back what the other one wrote.
fn refuse_adopted(journal: &Journal, dir: &Path) -> Result<Lock> {
    let lock = Lock::of(journal.dir())?;
    let is_it = |entry: &Entry| match entry {
        Entry::UnitCpus { dir: theirs, .. } => theirs == dir,
        Entry::Setting(setting) => {
            setting.of == SettingOf::Cpuset && setting.path.parent() == Some(dir)
        }
        _ => false,
    };
    if journal::of_others(journal).iter().any(is_it) {
        let what = format!("another run slows {} already", dir.display());
        return Err(Error::not_possible(what, "end that first (sandbag status)"));
    }
    Ok(lock)
}

/// One level below the place of a process, `target` or our own.
fn make_v1_node(
    root: &Root,
    journal: &mut Journal,
    run: RunId,
    cpus: &CpuList,
    (h, target): (&Hierarchies, Option<u32>),
) -> Result<NodeGroup> {
    let name = node_name(run);
    let accounting = h
        .cpuacct
        .as_ref()
        .filter(|mount| **mount != h.cpu)
        .map(|mount| mount.join(&h.own_cpuacct));
    // The tree of v2 has no cpuset and no freezer for the group of a v1 hierarchy.
    let of_v1 = |tree: sandbag_linux::Result<GroupTree>| {
        let tree = tree.ok().filter(|tree| tree.version == Version::V1);
        tree.map(|tree| tree.own_dir())
    };
    let cpuset = of_v1(find_cpuset_of(root, target));
    let freezer = of_v1(find_freezer_of(root, target));
    let cpu = h.own_dir();
    let node = NodeGroup {
        accounting: accounting.as_ref().unwrap_or(&cpu).join(&name),
        cpuset: cpuset.as_ref().map(|dir| dir.join(&name)),
        freezer: freezer.as_ref().map(|dir| dir.join(&name)),
        cpu: cpu.join(&name),
        cpus: cpus.iter().collect(),
    };
    let back = node
        .dirs()
        .into_iter()
        .filter_map(|dir| dir.parent().map(PathBuf::from));
    make(journal, &node, back.collect())?;
    if let Some(dir) = &node.cpuset {
        cgroup::confine(Version::V1, dir, cpus)?;
    }
    Ok(node)
}

fn node_name(run: RunId) -> String {
    format!("{PREFIX}-{run}-node")
}

/// Without a dash: see the burners' slices.
fn slice_name(run: RunId) -> String {
    format!("{PREFIX}{run}node.slice")
}

/// Makes the directories; what is in them at the end goes to `back`, where we
/// are ourselves.
fn make(journal: &mut Journal, node: &NodeGroup, back: Vec<PathBuf>) -> Result<()> {
    let dirs: Vec<PathBuf> = node.dirs().into_iter().map(PathBuf::from).collect();
    journal.note(Entry::Group {
        dirs: dirs.clone(),
        back: Some(back),
    })?;
    for dir in &dirs {
        std::fs::create_dir(dir).map_err(|cause| {
            Error::from(sandbag_linux::Error::Make {
                path: dir.clone(),
                cause,
            })
        })?;
    }
    Ok(())
}
