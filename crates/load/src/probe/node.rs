// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Trying the group of a virtual node: whether it is confined to its CPUs,
//! can be frozen and capped, and what it costs to look at its processes.
//!
//! The group is made as a run makes it, of one CPU, with one spinner in it.
//! What acts on it are the throttles of the methods themselves.

use std::process::Child;
use std::time::{Duration, Instant};

use sandbag_linux::cgroup::{Freezer, Version};
use sandbag_linux::process::Process;
use sandbag_linux::{CpuList, clock, sched};

use super::{
    LEAD_NS, ORDINARY, ProbeBench, alarm, boundary_after, burner, cpu_of, must_live, open_gate,
    order,
};
use crate::board::Board;
use crate::burn::Duty;
use crate::frequencies::FrequencyOptions;
use crate::throttle::{self, LimVariant, Throttling};
use sandbag_run::error::Result;
use sandbag_run::journal::Journal;
use sandbag_run::node_group::NodeGroup;
use sandbag_run::run_process::RunId;

/// Time that the group may take to freeze or to go on.
const PATIENCE: Duration = Duration::from_millis(200);
/// What stands still is watched for so long.
const STILL: Duration = Duration::from_millis(20);
/// So long a spinner is given to move to another CPU, if it can.
const MOVES_WITHIN: Duration = Duration::from_millis(20);
const CAPPED_NS: u64 = 200_000_000;
const PERIOD_US: u64 = 20_000;
const MOST_NS: u64 = 1_500_000_000;
const LOOKS: usize = 21;
/// Level at which a spinner is above its share.
const STOPS: f64 = 0.99;

#[derive(Debug)]
pub struct NodeSeen {
    pub has_cpuset: bool,
    /// A spinner stayed on the group's CPU when sent to another; `None` if untried.
    pub stayed: Option<bool>,
    pub freezer: Option<Freezing>,
    /// Stopping its process by a signal, or what the kernel said to it.
    pub stopping: sandbag_linux::Result<Stopping>,
    /// Part of the time under a cap, or the kernel's refusal.
    pub capped: sandbag_linux::Result<f64>,
    pub left: Vec<String>,
}

/// A try to freeze the group and to thaw it.
#[derive(Debug)]
pub struct Freezing {
    pub version: Version,
    pub outcome: sandbag_linux::Result<FreezeResult>,
}

/// How freezing and thawing went.
#[derive(Debug, Clone, Copy)]
pub struct FreezeResult {
    /// From the order until the kernel said that it stands still.
    pub within: Duration,
    /// CPU time that the spinner used while it was frozen, ns.
    pub used_ns: u64,
    /// From the order to thaw until it used the CPU again, if it did.
    pub went_on_after: Option<Duration>,
}

/// How stopping went.
#[derive(Debug, Clone, Copy)]
pub struct Stopping {
    pub works: bool,
    pub look: Duration,
}

impl ProbeBench<'_> {
    /// Tries a node's group for half a second. `other` is a CPU outside it, `cap` the
    /// part of the time that it is capped to.
    pub fn node(&mut self, other: Option<u32>, cap: f64) -> Result<NodeSeen> {
        let (seen, left) = self.with_journal(
            1,
            |child: &mut Child| child,
            |bench, board, journal, children| bench.try_node(board, journal, children, other, cap),
        )?;
        Ok(NodeSeen { left, ..seen })
    }

    fn try_node(
        &mut self,
        board: &Board,
        journal: &mut Journal,
        children: &mut Vec<Child>,
        other: Option<u32>,
        cap: f64,
    ) -> Result<NodeSeen> {
        self.layout.prepare(journal)?;
        let run = RunId::own();
        let cpus = CpuList::from_iter([self.cpu]);
        let node = self
            .layout
            .make_node(self.root, journal, run, &cpus, None)?;
        for throttling in [LIM, GOV] {
            throttle::announce(journal, throttling, &node)?;
        }
        let alarm = alarm()?;
        children.push(burner(&self.setup(board, &alarm, 0, Duty::Spin, ORDINARY))?);
        let child = &mut children[0];
        self.layout
            .enter_node(journal, (run, &node), (child.id(), 0), false)?;
        let from_ns = boundary_after(LEAD_NS);
        order(board, 0, 1.0, from_ns, MOST_NS);
        open_gate(child)?;
        clock::sleep_until(from_ns);
        went_on(child, 0)?;
        let seen = NodeSeen {
            has_cpuset: node.cpuset.is_some(),
            freezer: node.freezer().map(|freezer| Freezing {
                version: freezer.version(),
                outcome: freezing(&freezer, child),
            }),
            stopping: stopping(&node, child),
            capped: measure_cap(&node, child, cap),
            // Last: where it does not stay, its CPU is another from here on.
            stayed: match other {
                Some(other) => Some(stays(child, self.cpu, other)?),
                None => None,
            },
            left: Vec::new(),
        };
        must_live(child)?;
        Ok(seen)
    }
}

const LIM: Throttling = Throttling::Lim {
    variant: LimVariant::CpuLim,
    interval_ns: 10_000_000,
};
const GOV: Throttling = Throttling::Governor {
    period_ns: 100_000_000,
    wishes: FrequencyOptions {
        split_domains: false,
        calibrate: false,
    },
};

/// Time until the spinner used more than `before` ns, within the patience.
fn went_on(child: &Child, before: u64) -> sandbag_linux::Result<Option<Duration>> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if cpu_of(child)? > before {
            return Ok(Some(begin.elapsed()));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(None)
}

fn freezing(freezer: &Freezer, child: &Child) -> sandbag_linux::Result<FreezeResult> {
    let begin = Instant::now();
    freezer.freeze(PATIENCE)?;
    let within = begin.elapsed();
    let before = cpu_of(child)?;
    std::thread::sleep(STILL);
    let after = cpu_of(child)?;
    freezer.thaw()?;
    Ok(FreezeResult {
        within,
        used_ns: after - before,
        went_on_after: went_on(child, after)?,
    })
}

/// By the throttle of `lim`.
fn stopping(node: &NodeGroup, child: &Child) -> sandbag_linux::Result<Stopping> {
    let mut lim = throttle::make(LIM, node)?;
    lim.act(clock::monotonic(), STOPS)?;
    let stopped = is_stopped(child);
    lim.release(clock::monotonic())?;
    let goes_on = went_on(child, cpu_of(child)?)?.is_some();
    let mut looks = Vec::with_capacity(LOOKS);
    for _ in 0..LOOKS {
        let begin = Instant::now();
        // At full speed no process is above its share.
        lim.act(clock::monotonic(), 0.0)?;
        looks.push(begin.elapsed());
        // It looks anew only after a release.
        lim.release(clock::monotonic())?;
    }
    looks.sort_unstable();
    Ok(Stopping {
        works: stopped && goes_on,
        look: looks[LOOKS / 2],
    })
}

/// A signal is acted upon when the process next leaves the kernel.
fn is_stopped(child: &Child) -> bool {
    let root = sandbag_linux::Root::default();
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        match Process::new(&root, child.id()).stat() {
            Ok(stat) if stat.state == 'T' => return true,
            Ok(_) => std::thread::sleep(Duration::from_micros(200)),
            Err(_) => return false,
        }
    }
    false
}

/// By the throttle of `cap`.
fn measure_cap(node: &NodeGroup, child: &Child, cap: f64) -> sandbag_linux::Result<f64> {
    let throttling = Throttling::Cap {
        period_us: PERIOD_US,
    };
    let mut throttle = throttle::make(throttling, node)?;
    throttle.act(clock::monotonic(), 1.0 - cap)?;
    let (begin, before) = (clock::monotonic(), cpu_of(child)?);
    clock::sleep_until(begin + CAPPED_NS);
    let (end, after) = (clock::monotonic(), cpu_of(child)?);
    throttle.release(end)?;
    Ok((after - before) as f64 / (end - begin) as f64)
}

/// Whether a spinner stays on its CPU when it is sent to another.
fn stays(child: &Child, own: u32, other: u32) -> Result<bool> {
    let _ = sched::set_affinity(child.id(), &CpuList::from_iter([other]));
    let root = sandbag_linux::Root::default();
    let begin = Instant::now();
    while begin.elapsed() < MOVES_WITHIN {
        if Process::new(&root, child.id()).stat()?.cpu != own {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(true)
}
