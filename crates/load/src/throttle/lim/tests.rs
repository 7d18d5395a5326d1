// SPDX-License-Identifier: Apache-2.0 OR MIT
//! On processes of our own; the group is a file that lists them.

#[path = "../../../../base/linux/tests/support/patience.rs"]
mod patience;

use super::*;
use crate::throttle::{Throttling, let_go_on};
use patience::repeat_until;
use sandbag_linux::clock::{monotonic, sleep_until};
use std::fs;
use std::process::{Child, Command, Stdio};

/// Processes that spin, killed at the end.
struct Spinners {
    dir: tempfile::TempDir,
    children: Vec<Child>,
}

impl Spinners {
    fn new(count: usize) -> Self {
        let spin = || {
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do :; done"]);
            command.stdin(Stdio::null()).spawn().unwrap()
        };
        let dir = tempfile::tempdir().unwrap();
        let children: Vec<Child> = std::iter::repeat_with(spin).take(count).collect();
        let this = Self { dir, children };
        this.list(&this.pids());
        this
    }

    fn pids(&self) -> Vec<u32> {
        self.children.iter().map(Child::id).collect()
    }

    fn list(&self, pids: &[u32]) {
        let lines: Vec<String> = pids.iter().map(u32::to_string).collect();
        fs::write(self.dir.path().join("cgroup.procs"), lines.join("\n")).unwrap();
    }

    fn node(&self) -> NodeGroup {
        NodeGroup {
            cpu: self.dir.path().to_owned(),
            accounting: self.dir.path().to_owned(),
            cpuset: None,
            freezer: None,
            cpus: vec![0],
        }
    }

    fn lim(&self, variant: LimVariant) -> Lim {
        Lim::new(&self.node(), variant, INTERVAL_NS)
    }

    fn state(&self, n: usize) -> char {
        let process = Process::new(&Root::default(), self.children[n].id());
        process.stat().unwrap().state
    }

    fn wait_for(&self, n: usize, stopped: bool) {
        self.await_state(n, |state| (state == 'T') == stopped);
    }

    fn await_state(&self, n: usize, is_wanted: impl Fn(char) -> bool) {
        let look = || {
            pause(1);
            self.state(n)
        };
        let state = repeat_until(look, |state| is_wanted(*state));
        assert!(is_wanted(state), "process {n} stays {state}");
    }

    fn signal(&self, n: usize, signal: i32) {
        // SAFETY: a signal to a child that was not waited for.
        unsafe { libc::kill(self.children[n].id().cast_signed(), signal) };
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn pause(ms: u64) {
    sleep_until(monotonic() + ms * 1_000_000);
}

/// Until a process has used more CPU time than this.
fn await_cpu(pid: u32, ns: u64) {
    let look = || {
        pause(1);
        process_cpu_of(pid).unwrap()
    };
    let used_ns = repeat_until(look, |used_ns| *used_ns > ns);
    assert!(used_ns > ns, "process {pid} has used {used_ns} ns");
}

/// Spinners that have run, and what limits them.
fn limited(count: usize, variant: LimVariant) -> (Spinners, Lim) {
    let spinners = Spinners::new(count);
    let mut lim = spinners.lim(variant);
    // As if they had been started in the node.
    lim.since_ns = 0;
    for pid in spinners.pids() {
        await_cpu(pid, 5 * MS);
    }
    (spinners, lim)
}

const MS: u64 = 1_000_000;
const INTERVAL_NS: u64 = 10 * MS;

/// The share that a process may have is 0: it is above it once it has run.
const ALWAYS: f64 = 1.0;
/// It is a thousand million CPUs, so that no process is above it, however late it is looked at.
const NEVER: f64 = -1e9;

fn act(lim: &mut Lim, level: f64) {
    lim.plan = None;
    lim.act(monotonic(), level).unwrap();
}

#[test]
fn the_rule_is_the_published_one() {
    assert!(exceeds(51, 100, 0.5));
    assert!(!exceeds(50, 100, 0.5));
    // What it slept is to its merit.
    assert!(!exceeds(500, 1_500, 0.5));
    // Four threads for a quarter of the time are as one for all of it.
    assert!(exceeds(4 * 25, 100, 0.5));
}

#[test]
fn above_its_share_it_is_stopped_and_below_it_goes_on() {
    let (spinners, mut lim) = limited(1, LimVariant::CpuLim);
    act(&mut lim, ALWAYS);
    spinners.wait_for(0, true);
    let stopped = monotonic();
    let before = lim.taken_ns(stopped);
    assert_eq!(lim.taken_ns(stopped + 500) - before, 500);
    act(&mut lim, NEVER);
    spinners.wait_for(0, false);
    assert_eq!(lim.taken.rate(), 0.0);
}

#[test]
fn what_we_stopped_goes_on_when_released_and_when_it_leaves() {
    let (spinners, mut lim) = limited(2, LimVariant::CpuLim);
    act(&mut lim, ALWAYS);
    spinners.wait_for(0, true);
    spinners.wait_for(1, true);
    spinners.list(&spinners.pids()[..1]);
    act(&mut lim, ALWAYS);
    spinners.wait_for(1, false);
    spinners.wait_for(0, true);
    lim.release(monotonic()).unwrap();
    spinners.wait_for(0, false);
}

#[test]
fn what_a_killed_worker_stopped_goes_on_before_its_successor_begins() {
    let (spinners, mut lim) = limited(2, LimVariant::CpuLim);
    act(&mut lim, ALWAYS);
    spinners.wait_for(0, true);
    spinners.wait_for(1, true);
    // Killed, it releases nothing, and the next one knows of nothing.
    drop(lim);
    let mut next = spinners.lim(LimVariant::CpuLim);
    act(&mut next, NEVER);
    next.release(monotonic()).unwrap();
    assert_eq!((spinners.state(0), spinners.state(1)), ('T', 'T'));
    let throttling = Throttling::Lim {
        variant: LimVariant::CpuLim,
        interval_ns: INTERVAL_NS,
    };
    let_go_on(throttling, &spinners.node()).unwrap();
    spinners.wait_for(0, false);
    spinners.wait_for(1, false);
}

#[test]
fn what_its_user_stopped_stays_so() {
    let (spinners, mut lim) = limited(2, LimVariant::CpuLim);
    spinners.signal(0, libc::SIGSTOP);
    spinners.wait_for(0, true);
    act(&mut lim, ALWAYS);
    spinners.wait_for(1, true);
    act(&mut lim, NEVER);
    spinners.wait_for(1, false);
    lim.release(monotonic()).unwrap();
    assert_eq!(spinners.state(0), 'T');
}

#[test]
fn the_speed_is_that_of_those_who_want_to_run() {
    let mut spinners = Spinners::new(2);
    let mut sleep = Command::new("sleep");
    let sleeper = sleep.arg("1000").stdin(Stdio::null()).spawn().unwrap();
    spinners.children.push(sleeper);
    spinners.list(&spinners.pids());
    let mut lim = spinners.lim(LimVariant::CpuLim);
    // It begins with some work, too; from then on it sleeps.
    spinners.await_state(2, |state| state == 'S');
    act(&mut lim, NEVER);
    assert_eq!(lim.taken.rate(), 0.0);
    act(&mut lim, NEVER);
    let sleeper = &lim.known[&spinners.pids()[2]];
    assert!(!sleeper.ran && !sleeper.stopped);
    // One of the two is stopped, as if it alone were above its share.
    let [spinner, other, _] = spinners.pids()[..] else {
        panic!("three processes");
    };
    for pid in [spinner, other] {
        await_cpu(pid, lim.known[&pid].cpu_ns + MS);
    }
    // As if it had used its CPU time at once: its share of no time is nothing.
    lim.known.get_mut(&spinner).unwrap().began_ns = u64::MAX;
    act(&mut lim, NEVER);
    assert!(lim.known[&spinner].stopped);
    assert!((lim.taken.rate() - 0.5).abs() < 1e-12, "{lim:?}");
}

#[test]
fn who_ran_before_the_node_is_judged_from_its_first_look_on() {
    let spinners = Spinners::new(1);
    let pid = spinners.pids()[0];
    await_cpu(pid, STARTS_WITHIN_NS);
    // It uses nothing between the two readings of its CPU clock, which advances by whole ticks.
    spinners.signal(0, libc::SIGSTOP);
    spinners.wait_for(0, true);
    let mut lim = spinners.lim(LimVariant::CpuLim);
    act(&mut lim, ALWAYS);
    let known = &lim.known[&pid];
    assert!(known.began_ns >= lim.since_ns && known.before_ns > STARTS_WITHIN_NS);
    assert_eq!(known.cpu_ns, known.before_ns);
}

#[test]
fn a_pause_is_neither_credit_nor_debt() {
    let (mut spinners, mut lim) = limited(1, LimVariant::CpuLim);
    let begin = monotonic();
    lim.pause(begin).unwrap();
    let old = spinners.pids()[0];
    let (began_ns, used_ns) = (lim.known[&old].began_ns, lim.known[&old].cpu_ns);
    assert!(used_ns > 0);
    // It goes on, as who joined a node does, and another one begins.
    spinners.children.append(&mut Spinners::new(1).children);
    spinners.list(&spinners.pids());
    for pid in spinners.pids() {
        await_cpu(pid, used_ns + 5 * MS);
    }
    let end = begin + 600_000 * MS;
    lim.resume(end).unwrap();
    assert_eq!(lim.known[&old].began_ns, began_ns + 600_000 * MS);
    assert!(lim.known[&old].before_ns >= 5 * MS);
    assert_eq!(lim.known[&old].cpu_ns - lim.known[&old].before_ns, used_ns);
    let new = &lim.known[&spinners.pids()[1]];
    assert_eq!(new.before_ns, new.cpu_ns);
    // Its beginning is known to a tick.
    assert!(new.began_ns <= end && new.began_ns + tick_ns() >= end);
}

#[test]
fn who_was_continued_by_somebody_is_stopped_again() {
    let (spinners, mut lim) = limited(1, LimVariant::CpuLim);
    act(&mut lim, ALWAYS);
    spinners.wait_for(0, true);
    spinners.signal(0, libc::SIGCONT);
    let pid = spinners.pids()[0];
    await_cpu(pid, lim.known[&pid].cpu_ns + 5 * MS);
    act(&mut lim, ALWAYS);
    spinners.wait_for(0, true);
}

#[test]
fn who_was_just_continued_counts_as_one_that_wants_a_cpu() {
    let (spinners, mut lim) = limited(2, LimVariant::CpuLim);
    act(&mut lim, ALWAYS);
    spinners.wait_for(0, true);
    spinners.wait_for(1, true);
    // One that used little so far, and one that used too much.
    for (pid, began_ns) in spinners.pids().into_iter().zip([0, u64::MAX]) {
        lim.known.get_mut(&pid).unwrap().began_ns = began_ns;
    }
    let from = monotonic();
    lim.plan = None;
    lim.act(from, 0.5).unwrap();
    spinners.wait_for(0, false);
    assert_eq!(spinners.state(1), 'T');
    let taken_ns = lim.taken_ns(from);
    assert_eq!(lim.taken_ns(from + 1_000 * MS) - taken_ns, 500 * MS);
}

#[test]
fn wrekavoc_stops_for_whole_seconds() {
    let (spinners, mut lim) = limited(1, LimVariant::Wrekavoc);
    let begin = monotonic();
    lim.act(begin, ALWAYS).unwrap();
    spinners.wait_for(0, true);
    lim.plan = None;
    lim.act(begin + 900_000_000, NEVER).unwrap();
    assert_eq!(spinners.state(0), 'T');
    lim.plan = None;
    lim.act(begin + 1_100_000_000, NEVER).unwrap();
    spinners.wait_for(0, false);
}

#[test]
fn who_ended_is_forgotten_and_a_group_that_is_gone_is_empty() {
    let mut spinners = Spinners::new(1);
    let mut lim = spinners.lim(LimVariant::CpuLim);
    act(&mut lim, NEVER);
    assert_eq!(lim.known.len(), 1);
    spinners.children[0].kill().unwrap();
    spinners.children[0].wait().unwrap();
    act(&mut lim, ALWAYS);
    assert!(lim.known.is_empty());
    fs::remove_file(spinners.dir.path().join("cgroup.procs")).unwrap();
    act(&mut lim, ALWAYS);
}
