// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What slows a node as a whole, each on a group with spinning processes in
//! it: the process that `sandbag slow` starts for it, its orders and its notes
//! on a board of ours, and what is left when it is killed.
//!
//! Others may use the machine meanwhile, so what the spinners got is bounded
//! from above only; what was taken from them is known to the process itself.

use sandbag_linux::cgroup::{Version, find, find_freezer, remove_dir};
use sandbag_linux::child::keep_across_exec;
use sandbag_linux::clock::{monotonic, sleep_until};
use sandbag_linux::{CpuList, Root, sched};
use sandbag_load::board::{BOUNDARY_NS, Board, LoadOrder};
use sandbag_load::burn::{BurnerSetup, Duty};
use sandbag_load::method::{self, Method, MethodOptions};
use sandbag_load::throttle::{self, Throttling};
use sandbag_run::child::{BURNER_VERB, open_gate};
use sandbag_run::journal::{Journal, RunInfo};
use sandbag_run::node_group::NodeGroup;
use sandbag_run::undo::{Leftovers, undo};

use crate::prelude::*;

cases! { CASES: can_throttle;
    gov_freezes_for_its_part_of_every_period,
    cap_limits_the_group,
    lim_stops_who_is_above_its_share,
    wrekavoc_stops_for_seconds,
    what_a_killed_throttle_leaves_is_undone,
    a_pause_releases_the_node,
}

/// The group is made in v1's hierarchies; on v2 it would have to be enabled
/// for the whole tree first.
fn can_throttle() -> Result<(), String> {
    root()?;
    let found = find(&Root::default()).map_err(|error| error.to_string())?;
    find_freezer(&Root::default()).map_err(|error| error.to_string())?;
    match found.version {
        Version::V1 => Ok(()),
        Version::V2 => Err("the cpu controller is on cgroup v2".to_owned()),
    }
}

/// Spinning processes, one for each CPU.
const SPINNERS: usize = 2;
/// How much more than asked the spinners may get, as part of the time: they
/// begin before the first order, and ticks are coarse.
const TOLERANCE: f64 = 0.06;
/// How exactly a throttle knows what it took.
const NOTED: f64 = 0.02;
/// From the start to the first order: 1 to 2 boundaries.
const LEAD: u64 = 2;

/// A node of ours, with spinners in it, gone at the end.
struct Node {
    group: NodeGroup,
    spinners: Vec<Child>,
}

impl Node {
    fn new(place: &MachinePlace) -> Result<Self> {
        let found = find(&Root::default())?;
        let name = format!("sandbag-{}-node", std::process::id());
        let cpus = sched::affinity(0)?;
        let mut this = Self {
            group: NodeGroup {
                cpu: found.cpu.join(&name),
                accounting: found.cpuacct.as_ref().unwrap_or(&found.cpu).join(&name),
                cpuset: None,
                freezer: Some(find_freezer(&Root::default())?.mount.join(&name)),
                cpus: cpus.iter().take(SPINNERS).collect(),
            },
            spinners: Vec::new(),
        };
        for dir in this.group.dirs() {
            fs::create_dir(dir).with_context(|| dir.display().to_string())?;
        }
        let cpus: CpuList = this.group.cpus.iter().copied().collect();
        for _ in 0..SPINNERS {
            let child = place.program("sh", ["-c", "while :; do :; done"]).spawn()?;
            sched::set_affinity(child.id(), &cpus)?;
            for dir in this.group.dirs() {
                fs::write(dir.join("cgroup.procs"), child.id().to_string())?;
            }
            this.spinners.push(child);
        }
        Ok(this)
    }

    /// CPU time of the spinners, seconds.
    fn used_s(&self) -> Result<f64> {
        let mut ticks = 0;
        for child in &self.spinners {
            ticks += used(pid_of(child))?;
        }
        Ok(ticks as f64 / 100.0)
    }

    fn states(&self) -> String {
        let state = |child: &Child| state_of(pid_of(child)).unwrap_or('-');
        self.spinners.iter().map(state).collect()
    }

    fn is_frozen(&self) -> bool {
        let freezer = self.group.freezer();
        freezer.is_some_and(|freezer| freezer.is_frozen().unwrap_or(false))
    }

    fn stands_still(&self) -> bool {
        self.is_frozen() || self.states().contains('T')
    }

    fn is_limited(&self) -> bool {
        let quota = text_of(self.group.cpu.join("cpu.cfs_quota_us"));
        quota.is_ok_and(|quota| quota.trim() != "-1")
    }

    /// Ends it, and fails if something of it stays: what froze or stopped it
    /// would keep it.
    fn remove(self) -> Result<()> {
        let group = self.group.clone();
        drop(self);
        for dir in group.dirs() {
            ensure!(!dir.exists(), "{} stays", dir.display());
        }
        Ok(())
    }

    /// Nothing is done to it: no stop, no standstill, no limit.
    fn is_free(&self) -> Result<()> {
        wait_until("a free node", || !self.stands_still() && !self.is_limited())?;
        let before = self.used_s()?;
        wait_for("a tick", || (self.used_s().ok()? > before).then_some(()))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(freezer) = self.group.freezer() {
            let _ = freezer.thaw();
        }
        for child in &mut self.spinners {
            let _ = child.kill();
            let _ = child.wait();
        }
        for dir in self.group.dirs() {
            let _ = remove_dir(dir, Duration::from_secs(5));
        }
    }
}

/// The process that throttles, and the board between us.
struct Throttler {
    board: Board,
    process: Child,
    throttling: Throttling,
}

impl Throttler {
    fn start(place: &MachinePlace, node: &Node, method: &Method) -> Result<Self> {
        let Duty::Throttle(throttling) = method.duty else {
            anyhow::bail!("{} does not throttle", method.name);
        };
        let board = Board::create(1)?;
        // The alarm is not used; it has to be a descriptor.
        let alarm = fs::File::create(place.path("alarm"))?;
        let alarm_fd = std::os::fd::AsRawFd::as_raw_fd(&alarm);
        keep_across_exec(board.fd())?;
        keep_across_exec(alarm_fd)?;
        let setup = BurnerSetup {
            board_fd: board.fd(),
            alarm_fd,
            watchdog_fd: None,
            slot: 0,
            cpu: node.group.cpus[0],
            parties: 1,
            duty: method.duty,
            is_apart: false,
            node: Some(node.group.clone()),
            attributes: method.attributes,
        };
        let mut command = place.sandbag([vec![BURNER_VERB.to_owned()], setup.to_args()].concat());
        let mut process = command.stdin(std::process::Stdio::piped()).spawn()?;
        open_gate(&mut process)?;
        Ok(Self {
            board,
            process,
            throttling,
        })
    }

    /// A method with its default options.
    fn by(place: &MachinePlace, node: &Node, name: &str) -> Result<Self> {
        Self::start(place, node, &method(name, MethodOptions::default())?)
    }

    fn order(&self, from_ns: u64, level: f64) {
        self.board.slot(0).publish(LoadOrder { from_ns, level });
    }

    /// What it noted at this boundary, ns.
    fn noted(&self, boundary: u64) -> Result<u64> {
        wait_for("a note", || self.board.slot(0).boundary(boundary)).map(|noted| noted.cpu_ns)
    }

    /// Ends it and a node that is free.
    fn end(self, node: Node) -> Result<()> {
        node.is_free()?;
        self.kill()?;
        node.remove()
    }

    /// Kills it, as the end of its supervisor would.
    fn kill(mut self) -> Result<()> {
        self.process.kill()?;
        let ended = finish(self.process)?;
        ensure!(ended.err.is_empty(), "it said: {}", ended.err);
        Ok(())
    }
}

/// What came of a level held for a while, as parts of the time.
#[derive(Debug)]
struct HeldNode {
    /// Per CPU, as the throttle noted it.
    taken: f64,
    /// Per CPU, by the spinners.
    used: f64,
}

/// Holds a level for `boundaries` boundaries, then 0.
fn hold(node: &Node, throttler: &Throttler, level: f64, boundaries: u64) -> Result<HeldNode> {
    let first = monotonic() / BOUNDARY_NS + LEAD;
    let last = first + boundaries;
    throttler.order(first * BOUNDARY_NS, level);
    throttler.order(last * BOUNDARY_NS, 0.0);
    sleep_until(first * BOUNDARY_NS);
    let before = node.used_s()?;
    sleep_until(last * BOUNDARY_NS);
    let used_s = node.used_s()? - before;
    let taken_ns = throttler.noted(last)? - throttler.noted(first)?;
    let ns = (boundaries * BOUNDARY_NS) as f64;
    Ok(HeldNode {
        taken: taken_ns as f64 / ns,
        used: used_s * 1e9 / ns / SPINNERS as f64,
    })
}

fn method(name: &str, options: MethodOptions) -> Result<Method> {
    method::with_options(name, &options).map_err(anyhow::Error::msg)
}

fn gov_freezes_for_its_part_of_every_period(place: &MachinePlace) -> Result<()> {
    let node = Node::new(place)?;
    let throttler = Throttler::by(place, &node, "gov")?;
    for level in [0.5, 0.9, 0.2] {
        let held = hold(&node, &throttler, level, 20)?;
        ensure!((held.taken - level).abs() < NOTED, "{level}: {held:?}");
        figure!(held.used < 1.0 - level + TOLERANCE, "{level}: {held:?}");
        node.is_free()?;
    }
    throttler.kill()?;
    node.remove()
}

fn cap_limits_the_group(place: &MachinePlace) -> Result<()> {
    let node = Node::new(place)?;
    let throttler = Throttler::by(place, &node, "cap")?;
    let held = hold(&node, &throttler, 0.7, 20)?;
    figure!(held.used < 0.3 + TOLERANCE, "{held:?}");
    // Spinners that never got as far as their limit lost nothing by it; what
    // others took of the CPUs while they were limited counts as taken.
    let limited = held.used > 0.3 - TOLERANCE / 2.0;
    figure!(held.taken > 0.7 - TOLERANCE || !limited, "{held:?}");
    throttler.end(node)
}

fn lim_stops_who_is_above_its_share(place: &MachinePlace) -> Result<()> {
    let node = Node::new(place)?;
    let throttler = Throttler::by(place, &node, "lim")?;
    // Low, so that the spinners exceed it also on a busy machine.
    let held = hold(&node, &throttler, 0.9, 20)?;
    figure!(held.used < 0.1 + TOLERANCE, "{held:?}");
    figure!(held.taken > 0.5, "{held:?}");
    throttler.end(node)
}

fn wrekavoc_stops_for_seconds(place: &MachinePlace) -> Result<()> {
    let node = Node::new(place)?;
    let mut options = MethodOptions::default();
    options.lim.lim_variant = Some(throttle::LimVariant::Wrekavoc);
    let throttler = Throttler::start(place, &node, &method("lim", options)?)?;
    throttler.order(monotonic(), 0.95);
    let all = "T".repeat(SPINNERS);
    wait_until("the stop", || node.states() == all)?;
    let begin = monotonic();
    wait_until("the end of it", || node.states() != all)?;
    let stood_s = (monotonic() - begin) as f64 / 1e9;
    figure!(stood_s > 0.7, "a stop of {stood_s} s");
    throttler.order(monotonic(), 0.0);
    throttler.end(node)
}

/// A journal like a run's, in our directory.
fn journal(place: &MachinePlace) -> Result<Journal> {
    let dir = place.path("journals");
    fs::create_dir_all(&dir)?;
    let info = RunInfo {
        process: None,
        ..RunInfo::of_this_process("test")
    };
    Ok(Journal::create(&dir, info)?)
}

fn what_a_killed_throttle_leaves_is_undone(place: &MachinePlace) -> Result<()> {
    let node = Node::new(place)?;
    for name in ["gov", "lim"] {
        let throttler = Throttler::by(place, &node, name)?;
        let mut journal = journal(place)?;
        throttle::announce(&mut journal, throttler.throttling, &node.group)?;
        throttler.order(monotonic(), 0.98);
        wait_until("a standstill", || node.stands_still())?;
        // Almost all of the time; if it goes on just now, it did no harm.
        throttler.kill()?;
        let left = undo(journal, Leftovers::AsNoted);
        ensure!(left.is_empty(), "{name}: {left:?}");
        node.is_free().context(name)?;
    }
    node.remove()
}

fn a_pause_releases_the_node(place: &MachinePlace) -> Result<()> {
    let node = Node::new(place)?;
    for name in ["gov", "cap", "lim"] {
        let throttler = Throttler::by(place, &node, name)?;
        let slot = throttler.board.slot(0);
        let slowed = || node.stands_still() || node.is_limited();
        throttler.order(monotonic(), 0.9);
        wait_until("its beginning", slowed)?;
        throttler.board.set_paused(true);
        wait_for("the release", || {
            let idle = slot.idle.load(std::sync::atomic::Ordering::Acquire);
            (idle == 1).then_some(())
        })?;
        node.is_free().context(name)?;
        throttler.board.set_paused(false);
        wait_until("its going on", slowed)?;
        throttler.order(monotonic(), 0.0);
        node.is_free().context(name)?;
        throttler.kill()?;
    }
    node.remove()
}
