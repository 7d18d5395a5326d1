// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part of a run that is a virtual node: a group that programs enter and
//! leave while the run goes on.

use std::collections::{BTreeMap, HashSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::rc::Rc;

use sandbag_linux::cgroup::Group;
use sandbag_linux::command_clock::{self, CommandClock};
use sandbag_linux::process::Process;
use sandbag_linux::{CpuList, Root, clock, sched, topology};

use super::control::NodeControl;
use super::feed::Feed;
use super::outcome::{NodeOutcome, RunEnd};
use super::{SupervisedRun, outcome};
use crate::frequencies;
use crate::method::Scope;
use crate::node::Target;
use crate::throttle;
use sandbag_run::command::{CommandSpec, Waiting};
use sandbag_run::error::{Error, Result};
use sandbag_run::journal::Entry;
use sandbag_run::layout::other_cpus;
use sandbag_run::members;
use sandbag_run::node_group::NodeGroup;
use sandbag_run::process_identity::ProcessIdentity;
use sandbag_run::run_process::RunId;

pub(super) struct SupervisedNode {
    pub(super) group: Rc<NodeGroup>,
    /// A program that ran already.
    pub(super) target: Option<Target>,
    /// Looks in a row at which none of it was there.
    gone_looks: u32,
    control: Option<NodeControl>,
    /// Programs that asked to enter: each has a group of its own.
    asked: usize,
    /// Those that did.
    entered: usize,
    pub(super) changes: u64,
    /// It holds its speed, or its beginning is far: else requests wait.
    pub(super) serving: bool,
    stopping: bool,
    /// CPU time of its programs, where no command measures it.
    clock: Option<NodeClock>,
    /// Processes that were in it, with their start times.
    known: BTreeMap<u32, u64>,
    /// Of a group that others made.
    books: GroupBooks,
    /// Those that were found outside, with their names.
    left: BTreeMap<u32, String>,
    /// CPUs that its group could use instead of the node's, when that was last seen.
    other_cpus: Option<CpuList>,
}

impl SupervisedNode {
    /// Whether what its clock tells contains stolen time.
    pub(super) fn counts_steal(&self) -> bool {
        self.clock.as_ref().is_some_and(NodeClock::counts_steal)
    }
}

/// The clock of a node's group. A unit or a container that starts again has another group of
/// the same name, and what is open of the one before stands still.
struct NodeClock {
    group: Group,
    cpus: CpuList,
    /// Of the group's directory.
    inode: Option<u64>,
    /// `None` once it could not be opened again.
    clock: Option<Box<dyn CommandClock>>,
    /// What was read last, ns.
    last_ns: Option<Vec<Option<u64>>>,
}

impl NodeClock {
    fn open(root: &Root, group: Group, cpus: CpuList) -> sandbag_linux::Result<Self> {
        Ok(Self {
            inode: inode(group.dir()),
            clock: Some(command_clock::open(root, &group, &cpus)?),
            last_ns: None,
            group,
            cpus,
        })
    }

    fn counts_steal(&self) -> bool {
        self.clock
            .as_ref()
            .is_some_and(|clock| clock.counts_steal())
    }

    /// CPU time so far on each CPU, ns. `None` where the group is another one than before: what
    /// the programs used until the clock of that one was open is not known.
    fn per_cpu_ns(&mut self, root: &Root) -> Option<Vec<Option<u64>>> {
        let Some(now) = inode(self.group.dir()) else {
            // It was removed, as by who removes a container: nothing runs in it.
            return self.last_ns.clone();
        };
        if self.inode != Some(now) {
            self.inode = Some(now);
            self.last_ns = None;
            self.clock = command_clock::open(root, &self.group, &self.cpus).ok();
            return None;
        }
        let mut used = vec![None; self.cpus.len()];
        self.clock.as_mut()?.per_cpu_ns(&mut used).ok()?;
        self.last_ns = Some(used.clone());
        Some(used)
    }
}

/// What a group that others made used since the run began. A unit or a container that starts
/// again has another group of the same name, with new books.
#[derive(Default)]
struct GroupBooks {
    /// What was read last, and the inode of the directory.
    last: Option<(u64, NodeOutcome)>,
    used: NodeOutcome,
}

impl GroupBooks {
    /// Adds what was used since the last reading; nothing is before the first one.
    fn read(&mut self, group: &NodeGroup) {
        // While it is not there nothing runs in it.
        let Some(inode) = inode(&group.cpu) else {
            return;
        };
        let now = outcome::of_node(group, 0, 0);
        let more = match &self.last {
            None => now.clone().since(&now),
            Some((of, last)) if *of == inode => now.clone().since(last),
            Some(_) => now.clone(),
        };
        self.used = std::mem::take(&mut self.used).plus(&more);
        self.last = Some((inode, now));
    }
}

/// `None` while it is not there.
fn inode(dir: &Path) -> Option<u64> {
    std::fs::metadata(dir).ok().map(|found| found.ino())
}

/// Looks, one a second, at a service without processes until it has ended.
const GONE_LOOKS: u32 = 5;

/// What to do where none confines a group.
const CPUSET: &str = "mount it, or let it be delegated";

/// A process that ends leaves its groups a moment before it says so.
const ENDING_NS: u64 = 5_000_000;

impl SupervisedRun<'_> {
    /// Makes the node's group, and notes what its method may leave behind. `has_command`: a
    /// command measures what the programs use.
    pub(super) fn make_node(
        &mut self,
        control: NodeControl,
        target: Option<Target>,
        has_command: bool,
    ) -> Result<()> {
        let cpus: CpuList = self.cpus.iter().map(super::LoadedCpu::number).collect();
        let run = RunId::own();
        let group = match target.as_ref().and_then(Target::in_place) {
            Some(dir) => self.layout.adopt(&mut self.journal, dir, &cpus)?,
            None => {
                let of = target.as_ref().map(|target| target.first(self.root));
                let of = of.transpose()?;
                self.layout
                    .make_node(self.root, &mut self.journal, run, &cpus, of)?
            }
        };
        if let (Scope::Node, crate::burn::Duty::Throttle(throttling)) =
            (self.method.scope, self.method.duty)
        {
            throttle::announce(&mut self.journal, throttling, &group)?;
            if let Some(need) = throttling.frequencies() {
                frequencies::prepare(self.root, &mut self.journal, &group.cpus, need)?;
            }
        }
        if let (None, Some(target)) = (&group.cpuset, &target) {
            let what = format!("{target} cannot be confined: there is no cpuset controller here");
            return Err(Error::not_possible(what, CPUSET));
        }
        if group.cpuset.is_none() {
            self.observer.warning(
                "there is no cpuset here: a program that sets its own affinity can leave the \
                 node's CPUs"
                    .to_owned(),
            );
        }
        let open = || NodeClock::open(self.root, self.group_of(&group), cpus);
        let clock = (!has_command).then(open).transpose();
        let clock = clock.unwrap_or_else(|error| {
            self.observer.warning(format!(
                "what the node's programs take of each CPU is not known: {error}"
            ));
            None
        });
        self.node = Some(SupervisedNode {
            clock,
            known: BTreeMap::new(),
            books: GroupBooks::default(),
            left: BTreeMap::new(),
            other_cpus: None,
            group: Rc::new(group),
            target,
            gone_looks: 0,
            control: Some(control),
            asked: 0,
            entered: 0,
            changes: 0,
            serving: false,
            stopping: false,
        });
        Ok(())
    }

    pub(super) fn admit_into_node(&mut self, spec: &CommandSpec) -> Result<(Waiting, Group)> {
        let waiting = Waiting::start(spec)?;
        self.enter_node(waiting.pid())?;
        let group = self.node.as_ref().map(|node| self.group_of(&node.group));
        let none = || Group::at(self.layout.version(), Default::default(), None);
        Ok((waiting, group.unwrap_or_else(none)))
    }

    fn group_of(&self, node: &NodeGroup) -> Group {
        let (cpu, accounting) = (node.cpu.clone(), node.accounting.clone());
        Group::at(self.layout.version(), cpu, Some(accounting))
    }

    /// CPU time so far of the programs in the node on each CPU.
    pub(super) fn used_in_node(&mut self) -> Option<Vec<Option<u64>>> {
        let root = self.root;
        self.node.as_mut()?.clock.as_mut()?.per_cpu_ns(root)
    }

    /// The same on all CPUs, by the books of its group.
    pub(super) fn used_in_node_ns(&self) -> Option<u64> {
        let group = &self.node.as_ref()?.group;
        outcome::used_ns(&group.cpu, &group.accounting)
    }

    /// Notes the node's processes, and those that left its groups: with the right to
    /// move themselves, or moved by another process.
    pub(super) fn watch_members(&mut self) {
        self.watch_confinement();
        let root = self.root;
        let Some(node) = &mut self.node else {
            return;
        };
        let inside: Vec<HashSet<u32>> = node
            .group
            .dirs()
            .into_iter()
            .map(|dir| members::members_below(dir).into_iter().collect())
            .collect();
        let start = |pid: u32| {
            let stat = Process::new(root, pid).stat().ok()?;
            (!stat.has_ended()).then_some((stat.times.start_ticks, stat.name))
        };
        for pid in inside.first().into_iter().flatten() {
            if !node.known.contains_key(pid)
                && !node.left.contains_key(pid)
                && let Some((began, _)) = start(*pid)
            {
                node.known.insert(*pid, began);
            }
        }
        let missing: Vec<u32> = node
            .known
            .keys()
            .copied()
            .filter(|pid| !inside.iter().all(|group| group.contains(pid)))
            .collect();
        if missing.iter().any(|pid| start(*pid).is_some()) {
            clock::sleep_until(clock::monotonic() + ENDING_NS);
        }
        for pid in missing {
            let began = node.known.remove(&pid);
            if let Some((now, name)) = start(pid)
                && began == Some(now)
            {
                node.left.insert(pid, name);
            }
        }
    }

    /// Confines a group again that others made, where something gave it other CPUs than the
    /// node's: another program, or its own new start.
    fn watch_confinement(&mut self) {
        let found = self.node.as_ref().and_then(|node| {
            let target = node.target.as_ref()?;
            let cpus: CpuList = node.group.cpus.iter().copied().collect();
            let others = other_cpus(self.root, target.in_place()?, &cpus)?;
            Some((target.to_string(), cpus, others))
        });
        // One that has no processes yet is just being made.
        let Some((target, cpus, others)) = found.filter(|_| !self.members().is_empty()) else {
            return;
        };
        let Some(node) = &mut self.node else {
            return;
        };
        let first = node.other_cpus.replace(others.clone()).is_none();
        // A group above it may have fewer than the node.
        let again = if others.without(&cpus).is_empty() {
            Ok(())
        } else {
            self.layout.confine_again(&node.group.cpu, &cpus)
        };
        if first {
            self.observer.warning(format!(
                "{target} could use CPUs {others} instead of {cpus}: something changed its \
                 cpuset, or it was started again without it"
            ));
        }
        if let (true, Err(error)) = (first, again) {
            self.observer
                .warning(format!("{target} is not confined to its CPUs: {error}"));
        }
    }

    pub(super) fn enter_node(&mut self, pid: u32) -> Result<()> {
        let Some(node) = &mut self.node else {
            return Ok(());
        };
        if let Some(target) = node
            .target
            .as_ref()
            .filter(|target| target.in_place().is_some())
        {
            let what = format!("the node is {target}, and takes no other program");
            return Err(Error::not_possible(what, "start it there"));
        }
        let (run, nth) = (RunId::own(), node.asked);
        node.asked += 1;
        let ran_before = node.target.is_some();
        let cpus: CpuList = node.group.cpus.iter().copied().collect();
        let named = ProcessIdentity::of(self.root, pid)?;
        // The first one stands for programs whose ancestors have ended as well.
        if !ran_before && (nth == 0 || named.is_some()) {
            let before = sched::affinity(pid)?;
            // Of who may use all of them the kernel leaves out those that are offline.
            let list = |name| topology::cpus(self.root, name).ok();
            let all = list("possible").filter(|_| list("online").as_ref() == Some(&before));
            let before = all.unwrap_or(before);
            self.journal.note(Entry::Confined {
                dir: node.group.cpu.clone(),
                cpus: cpus.to_string(),
                before: before.to_string(),
                process: named.filter(|_| nth > 0),
            })?;
        }
        self.layout.enter_node(
            &mut self.journal,
            (run, &node.group),
            (pid, nth),
            ran_before,
        )?;
        self.cost.writes += 1;
        // As well as the cpuset: for programs that ask before they start
        // threads, and where there is none. Who ran already keeps what it chose.
        if !ran_before {
            sched::set_affinity(pid, &cpus)?;
        }
        node.entered += 1;
        if let Ok(stat) = Process::new(self.root, pid).stat() {
            node.known.insert(pid, stat.times.start_ticks);
        }
        Ok(())
    }

    /// Takes the program that ran already into the node. What it starts meanwhile
    /// follows in the next look.
    pub(super) fn attach(&mut self) -> Result<()> {
        let Some(target) = self.node.as_ref().and_then(|node| node.target.clone()) else {
            return Ok(());
        };
        if target.in_place().is_some() {
            let inside = self.members().len();
            if let Some(node) = &mut self.node {
                node.entered = inside;
                node.books.read(&node.group);
            }
            return Ok(());
        }
        let mut moved = HashSet::new();
        loop {
            let inside = self.members();
            let mut outside = target.members(self.root)?;
            // One that ended meanwhile may still be listed.
            outside.retain(|pid| {
                !inside.contains(pid)
                    && (!moved.contains(pid) || Process::new(self.root, *pid).lives())
            });
            if outside.is_empty() {
                break;
            }
            for pid in outside {
                if !moved.insert(pid) {
                    return Err(Error::not_possible(
                        format!("process {pid} does not stay in the node"),
                        "see what moves it back",
                    ));
                }
                match self.enter_node(pid) {
                    Err(_) if !Process::new(self.root, pid).lives() => {}
                    other => other?,
                }
            }
        }
        target.first(self.root).map(drop)
    }

    /// Takes in who joined a service or a container meanwhile, once a second; whether all of
    /// what ran already has ended, or left the node. A service that starts again is given
    /// time for it.
    pub(super) fn watch_target(&mut self) -> Result<bool> {
        let Some(target) = self.node.as_ref().and_then(|node| node.target.clone()) else {
            return Ok(false);
        };
        let is_over = target.is_over(self.root, &self.members());
        if target.is_group() && !is_over {
            // A process that ended meanwhile is no failure.
            let _ = self.attach();
        }
        let Some(node) = &mut self.node else {
            return Ok(false);
        };
        node.gone_looks = if is_over { node.gone_looks + 1 } else { 0 };
        let patience = if target.is_group() { GONE_LOOKS } else { 1 };
        Ok(node.gone_looks >= patience)
    }

    /// Serves the node's socket; `Some` if the run ends.
    pub(super) fn serve(&mut self, feed: &mut Feed) -> Option<RunEnd> {
        let mut control = self.node.as_mut()?.control.take()?;
        let stop = control.serve(self, feed);
        let node = self.node.as_mut()?;
        node.control = Some(control);
        if !stop || node.stopping {
            return None;
        }
        node.stopping = true;
        match self.command.as_mut().filter(|c| c.ended.is_none()) {
            // Its end is the run's.
            Some(running) => {
                running.asked_to_end = true;
                running.tell_all(nix::sys::signal::Signal::SIGTERM);
                None
            }
            None => Some(RunEnd::Stopped),
        }
    }

    pub(super) fn members(&self) -> Vec<u32> {
        let node = self.node.as_ref();
        node.map_or_else(Vec::new, |node| members::members_below(&node.group.cpu))
    }

    pub(super) fn node_outcome(&mut self) -> Option<NodeOutcome> {
        let node = self.node.as_mut()?;
        let used = if node.books.last.is_some() {
            node.books.read(&node.group);
            node.books.used.clone()
        } else {
            outcome::of_node(&node.group, 0, 0)
        };
        Some(NodeOutcome {
            entered: node.entered,
            left: node.left.clone().into_iter().collect(),
            other_cpus: node.other_cpus.as_ref().map(CpuList::to_string),
            changes: node.changes,
            ..used
        })
    }
}

impl SupervisedNode {
    pub(super) fn control(&mut self) -> Option<&mut NodeControl> {
        self.control.as_mut()
    }

    pub(super) fn fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        let control = self.control.as_ref().filter(|_| self.serving);
        control.map(NodeControl::fd)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use sandbag_linux::cgroup::Version;

    use super::*;

    #[test]
    fn the_books_of_a_unit_are_read_each_second_and_counted_from_the_first_time() {
        let dir = tempfile::tempdir().unwrap();
        let unit = dir.path().join("unit");
        let group = NodeGroup {
            cpu: unit.clone(),
            accounting: unit.clone(),
            cpuset: None,
            freezer: None,
            cpus: vec![0],
        };
        let write = |used_us: u64, waited_us: u64| {
            let stat = format!("usage_usec {used_us}\nnr_throttled 0\nthrottled_usec 0\n");
            fs::write(unit.join("cpu.stat"), stat).unwrap();
            let pressure = format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={waited_us}\n");
            fs::write(unit.join("cpu.pressure"), pressure).unwrap();
        };
        let mut books = GroupBooks::default();
        let mut read = || {
            books.read(&group);
            (books.used.used_ns, books.used.waited_ns)
        };
        fs::create_dir(&unit).unwrap();
        write(500, 50);
        assert_eq!(read(), (Some(0), Some(0)));
        write(700, 60);
        assert_eq!(read(), (Some(200_000), Some(10_000)));
        write(900, 90);
        assert_eq!(read(), (Some(400_000), Some(40_000)));
        // It starts again; two directories that are there have two inodes.
        fs::rename(&unit, dir.path().join("before")).unwrap();
        fs::create_dir(&unit).unwrap();
        write(30, 5);
        assert_eq!(read(), (Some(430_000), Some(45_000)));
        // It is removed.
        fs::rename(&unit, dir.path().join("gone")).unwrap();
        assert_eq!(read(), (Some(430_000), Some(45_000)));
    }

    /// Of v1, whose clock is a file.
    #[test]
    fn the_clock_of_a_unit_that_starts_again_is_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let cpu = dir.path().join("sys/devices/system/cpu");
        fs::create_dir_all(&cpu).unwrap();
        fs::write(cpu.join("possible"), "0-1\n").unwrap();
        let root = Root::at(dir.path());
        let unit = dir.path().join("unit");
        let start = |usage: &str| {
            let made = dir.path().join("made");
            fs::create_dir(&made).unwrap();
            fs::write(made.join("cpuacct.usage_percpu"), usage).unwrap();
            // While the one before is there: no file system gives its number to this one.
            let _ = fs::rename(&unit, dir.path().join("gone"));
            fs::rename(&made, &unit).unwrap();
        };
        start("100 200\n");
        let group = Group::at(Version::V1, unit.clone(), None);
        let mut clock = NodeClock::open(&root, group, (0..2).collect()).unwrap();
        assert_eq!(clock.per_cpu_ns(&root), Some(vec![Some(100), Some(200)]));
        start("7 8\n");
        assert_eq!(clock.per_cpu_ns(&root), None);
        assert_eq!(clock.per_cpu_ns(&root), Some(vec![Some(7), Some(8)]));
        // Nothing is new while it is gone, and a clock that is open cannot be read.
        fs::write(unit.join("cpuacct.usage_percpu"), "").unwrap();
        fs::rename(&unit, dir.path().join("away")).unwrap();
        assert_eq!(clock.per_cpu_ns(&root), Some(vec![Some(7), Some(8)]));
    }
}
