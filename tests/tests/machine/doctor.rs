// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag doctor` on this machine: it tries every method, and nothing of
//! what it tried stays, wherever it was started and whenever it is killed.

use std::collections::BTreeMap;

use sandbag_load::method::{NAMES, SLOWING};
use serde::Deserialize;

use crate::groups::CompetingTask;
use crate::prelude::*;

cases! { CASES: root;
    doctor_tries_every_method_and_leaves_nothing,
    doctor_started_where_real_time_has_no_budget,
    doctor_limits_its_real_time_tasks,
    doctor_killed_at_any_moment_leaves_nothing,
}

/// It promises 4 s; others may use the machine.
const LONGEST: Duration = Duration::from_secs(12);
/// Times that it is killed.
const KILLS: usize = 12;
/// At a moment within this; it takes about 2 s.
const MOMENTS_MS: u64 = 2_500;

#[derive(Debug, Deserialize)]
struct Report {
    methods: Vec<Line>,
    probes: Vec<Line>,
    works: Option<bool>,
    works_for_nodes: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct Line {
    name: String,
    state: String,
    why: String,
    #[serde(default)]
    default_for: Vec<String>,
}

impl Report {
    fn of(ended: &PlaceExit) -> Result<Self> {
        serde_json::from_str(&ended.out).with_context(|| format!("{ended:?}"))
    }

    /// A probe that was made here.
    fn tried(&self, name: &str) -> Result<&Line> {
        let line = self.probes.iter().find(|line| line.name == name);
        let line = line.with_context(|| format!("no probe {name}: {self:?}"))?;
        ensure!(line.state != "untried", "{line:?}");
        Ok(line)
    }
}

fn doctor_tries_every_method_and_leaves_nothing(place: &MachinePlace) -> Result<()> {
    let begin = Instant::now();
    let ended = place.run("doctor --json")?.expect(0)?;
    let took = begin.elapsed();
    figure!(took < LONGEST, "it took {took:?}");
    case::note(&format!("{:.1} s", took.as_secs_f64()));
    let report = Report::of(&ended)?;
    let methods: BTreeMap<&str, &Line> = report
        .methods
        .iter()
        .map(|line| (line.name.as_str(), line))
        .collect();
    for name in NAMES.iter().chain(&SLOWING) {
        let line = methods.get(name).with_context(|| (*name).to_owned())?;
        ensure!(line.state != "untried" && !line.why.is_empty(), "{line:?}");
    }
    ensure!(methods["pace"].default_for == ["loads"], "{report:?}");
    ensure!(methods["hogs"].default_for == ["nodes"], "{report:?}");
    ensure!(report.works == Some(true), "{report:?}");
    ensure!(report.works_for_nodes == Some(true), "{report:?}");
    // What root can do on every machine that these tests run on, however
    // busy.
    for name in ["real-time", "freezer", "stopping", "node cap"] {
        let line = report.tried(name)?;
        ensure!(line.state != "no", "{line:?}");
    }
    Ok(())
}

/// A fresh group of v1 has no budget where the kernel has budgets: a task in
/// it is refused the class (EPERM). Burners go to the root group.
fn doctor_started_where_real_time_has_no_budget(place: &MachinePlace) -> Result<()> {
    let beside = CompetingTask::with_weight(100)?;
    match fs::read_to_string(beside.dir().join("cpu.rt_runtime_us")) {
        Ok(text) => ensure!(text.trim() == "0", "a fresh group has {text}"),
        Err(_) => case::note("no real-time budgets here (CONFIG_RT_GROUP_SCHED, v1)"),
    }
    let script = format!("exec {} doctor --json", place.sandbag.display());
    let shell = beside.shell(&script);
    let arguments: Vec<_> = shell.get_args().collect();
    let ended = finish(place.program(shell.get_program(), arguments).spawn()?)?;
    let line = Report::of(&ended)?;
    let line = line.tried("real-time")?;
    ensure!(line.state != "no", "{line:?}");
    Ok(())
}

/// SCHED_FIFO and SCHED_DEADLINE (sched(7)).
const REAL_TIME: [u32; 2] = [1, 6];

/// Looks at its burners all the time.
fn doctor_limits_its_real_time_tasks(place: &MachinePlace) -> Result<()> {
    let mut run = place.start("doctor --json")?;
    let mut seen = BTreeMap::new();
    while run.try_wait()?.is_none() {
        for pid in place.ours(Role::Burner) {
            if let Some(used) = real_time(pid)? {
                seen.insert(pid, used);
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    finish(run)?;
    place.as_before()?;
    ensure!(!seen.is_empty(), "there was no real-time task");
    for (pid, used) in seen {
        // It is given 20 ms; a second try is another process.
        ensure!(used < Duration::from_millis(50), "{pid} used {used:?}");
    }
    Ok(())
}

/// CPU time of a process of a real-time class, after a look at its limit;
/// `None` for others.
fn real_time(pid: Pid) -> Result<Option<Duration>> {
    let process = Process::new(&Root::default(), pid.as_raw().unsigned_abs());
    let limits = fs::read_to_string(format!("/proc/{pid}/limits"));
    // It may have ended.
    let (Ok(stat), Ok(limits)) = (process.stat(), limits) else {
        return Ok(None);
    };
    if !REAL_TIME.contains(&stat.policy) {
        return Ok(None);
    }
    let limit = limits
        .lines()
        .find(|line| line.starts_with("Max realtime timeout"))
        .with_context(|| limits.clone())?;
    ensure!(!limit.contains("unlimited"), "{pid}: {limit}");
    let used = process.schedstat().map_or(0, |times| times.exec_ns);
    Ok(Some(Duration::from_nanos(used)))
}

fn doctor_killed_at_any_moment_leaves_nothing(place: &MachinePlace) -> Result<()> {
    let seed = fastrand::u64(..);
    let mut chance = fastrand::Rng::with_seed(seed);
    for round in 0..case::rounds(KILLS) {
        let run = place.start("doctor")?;
        let moment = Duration::from_millis(chance.u64(0..MOMENTS_MS));
        std::thread::sleep(moment);
        killed(run)?;
        place
            .as_before()
            .with_context(|| format!("round {round}, after {moment:?}, seed {seed}"))?;
    }
    Ok(())
}

fn killed(mut run: Child) -> Result<()> {
    run.kill()?;
    finish(run)?;
    Ok(())
}
