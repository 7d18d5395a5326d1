// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The runs of this machine, looked at again and again.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::Duration;

use sandbag_linux::procstat::CpuDelta;
use sandbag_linux::{CpuList, Root, clock};
use sandbag_run::journal::{Journal, RunInfo};
use sandbag_run::registry::Registry;
use sandbag_ui::failure::{Context as _, Result};

use super::kernel::KernelLoad;
use super::program::ProgramUse;
use super::reading::{self, Reading};
use crate::board::Board;
use crate::method;
use crate::node::protocol::{CpuSpeed, Reply, Request, Status};
use crate::node::socket::{Directory, ask};

/// How long a look waits for a node: the others are to be seen every second.
const LOOK_LIMIT: Duration = Duration::from_millis(200);

/// A run as it was seen last.
#[derive(Debug)]
pub struct WatchedRun {
    pub run: RunInfo,
    /// Of a virtual node that answers.
    pub node: Option<Status>,
    /// Empty where its memory cannot be seen: it is in another PID namespace.
    pub reading: Reading,
    /// What its command, or all in its node, used since the last look, percent of one CPU.
    pub program_pct: Option<f64>,
    board: Option<Board>,
    program: ProgramUse,
}

/// All runs.
#[derive(Debug)]
pub struct Watch {
    registry: Registry,
    kernel: KernelLoad,
    pub runs: Vec<WatchedRun>,
    /// Journals that could not be read.
    pub problems: Vec<String>,
}

impl Watch {
    /// Looks for the first time. What the kernel counts is known from the second look on.
    ///
    /// # Errors
    /// The registry or `/proc/stat` cannot be read.
    pub fn open() -> Result<Self> {
        Self::of(Registry::open()?)
    }

    /// The same of the runs of another registry.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn of(registry: Registry) -> Result<Self> {
        let mut watch = Self {
            registry,
            kernel: KernelLoad::open(&Root::default())?,
            runs: Vec::new(),
            problems: Vec::new(),
        };
        watch.read()?;
        Ok(watch)
    }

    /// Notes what the kernel counted until now. Between two looks that are further apart than
    /// [`SPAN`], to be called that long before the second.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn note(&mut self) -> Result<()> {
        Ok(self.kernel.look()?)
    }

    /// Looks again.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn look(&mut self) -> Result<()> {
        self.kernel.look()?;
        self.read()
    }

    fn read(&mut self) -> Result<()> {
        let found = self.registry.look()?;
        self.problems = found.problems;
        let mut known = std::mem::take(&mut self.runs);
        let mut before = |run: &RunInfo| {
            let at = known.iter().position(|known| known.run.id() == run.id())?;
            Some(known.swap_remove(at))
        };
        let mut runs = Vec::new();
        for run in found.alive {
            let before = before(&run);
            runs.push(self.see(run, before));
        }
        self.runs = runs;
        Ok(())
    }

    /// Looks at a run that was perhaps seen before.
    fn see(&self, run: RunInfo, before: Option<WatchedRun>) -> WatchedRun {
        let new = || WatchedRun {
            run: run.clone(),
            node: None,
            reading: Reading::default(),
            program_pct: None,
            board: None,
            program: ProgramUse::default(),
        };
        let mut seen = before.unwrap_or_else(new);
        if seen.program.is_unknown() {
            let journal = Journal::path_of(self.registry.dir(), run.id());
            seen.program = ProgramUse::of(&journal, run.pid);
        }
        seen.board = seen.board.or_else(|| open_board(&run).ok());
        let kernel = |cpu| self.kernel.of(cpu);
        let read = |board| reading::read(board, clock::monotonic(), kernel);
        seen.reading = seen.board.as_ref().map(read).unwrap_or_default();
        if method::by_name(&run.method).is_some_and(|m| m.scope == method::Scope::Node) {
            for_all_cpus(&mut seen.reading, &run, kernel);
        }
        seen.program_pct = seen.program.look();
        match &mut seen.node {
            Some(node) => speeds_of(node, &seen.reading),
            // It is asked once, for its name; its speeds stand on its board.
            None if run.load.starts_with("node ") => {
                seen.node = self.ask(&run).or_else(|| paused_node(&run, &seen.reading));
                let new = seen.node.iter_mut();
                new.for_each(|node| measure_first(node, &seen.reading));
            }
            None => {}
        }
        seen
    }

    /// Adds to what a node says the speeds that it has not measured yet, and its board has.
    pub fn measure(&self, node: &mut Status) {
        if let Some(seen) = self.runs.iter().find(|seen| seen.run.pid == node.pid) {
            measure_first(node, &seen.reading);
        }
    }

    /// What a node says; none where it does not serve yet, and is asked at the next look.
    fn ask(&self, run: &RunInfo) -> Option<Status> {
        let name = run.load.strip_prefix("node ")?.split(',').next()?;
        let directory = Directory::in_registry(self.registry.dir());
        match ask(
            &directory,
            &name.parse().ok()?,
            &Request::Status,
            LOOK_LIMIT,
        ) {
            Ok(Reply::Status(status)) if status.pid == run.pid => Some(status),
            _ => None,
        }
    }
}

/// What acts on a whole node takes the same of each of its CPUs.
fn for_all_cpus(reading: &mut Reading, run: &RunInfo, kernel: impl Fn(u32) -> Option<CpuDelta>) {
    let (Some(one), Ok(cpus)) = (reading.cpus.first().copied(), run.cpus.parse::<CpuList>()) else {
        return;
    };
    let of = |cpu| reading::CpuReading {
        cpu,
        burns: false,
        kernel: kernel(cpu),
        ..one
    };
    reading.cpus = cpus.iter().map(of).collect();
}

/// A node that stands still and does not answer, by its journal and its board.
fn paused_node(run: &RunInfo, reading: &Reading) -> Option<Status> {
    let name = run.load.strip_prefix("node ").filter(|_| reading.paused)?;
    let speed = |cpu: &reading::CpuReading| CpuSpeed {
        cpu: cpu.cpu,
        asked: 1.0 - cpu.asked_pct / 100.0,
        got: None,
    };
    Some(Status {
        name: name.to_owned(),
        pid: run.pid,
        cpus: run.cpus.clone(),
        speeds: reading.cpus.iter().map(speed).collect(),
        method: run.method.clone(),
        members: Vec::new(),
    })
}

/// The first speeds: a node's own come a second later. Only where what is asked now was asked
/// for the whole second.
fn measure_first(node: &mut Status, reading: &Reading) {
    if reading.paused {
        return;
    }
    for speed in node.speeds.iter_mut().filter(|speed| speed.got.is_none()) {
        let is_whole = |cpu: &&reading::CpuReading| {
            let asked = 1.0 - cpu.asked_pct / 100.0;
            cpu.cpu == speed.cpu && cpu.asked_pct > 0.0 && (asked - speed.asked).abs() < 1e-6
        };
        let cpu = reading.cpus.iter().find(is_whole);
        speed.got = cpu.map(|cpu| 1.0 - cpu.got_pct / 100.0);
    }
}

/// The speeds that these loads leave.
fn speeds_of(node: &mut Status, reading: &Reading) {
    for speed in &mut node.speeds {
        if let Some(cpu) = reading.cpus.iter().find(|cpu| cpu.cpu == speed.cpu) {
            speed.asked = 1.0 - cpu.asked_pct / 100.0;
            speed.got = Some(1.0 - cpu.got_pct / 100.0);
        }
    }
}

/// Maps what a run's burners share.
fn open_board(run: &RunInfo) -> Result<Board> {
    let supervisor = run.supervisor().context("it cannot be seen from here")?;
    let path = format!("/proc/{}/fd/{}", supervisor.pid, run.board_fd);
    let file = File::open(&path).with_context(|| path.clone())?;
    Board::open(OwnedFd::from(file), false).context(path)
}

#[cfg(test)]
impl WatchedRun {
    /// A run that was seen so, for what shows runs.
    pub fn seen(
        run: RunInfo,
        node: Option<Status>,
        reading: Reading,
        program_pct: Option<f64>,
    ) -> Self {
        Self {
            run,
            node,
            reading,
            program_pct,
            board: None,
            program: ProgramUse::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::CpuReading;

    #[test]
    fn a_node_that_stands_still_keeps_its_speeds() {
        let one = CpuReading {
            cpu: 1,
            asked_pct: 55.0,
            got_pct: 0.0,
            total_ns: 0,
            burns: true,
            kernel: None,
        };
        let mut reading = Reading {
            cpus: vec![one],
            paused: true,
        };
        let run = RunInfo::of_this_process("node small");
        let node = paused_node(&run, &reading);
        let load = crate::live::words::load_of(&run, node.as_ref());
        assert_eq!(load, "node small, speed 1=0.45");
        assert_eq!(node.unwrap().speeds[0].got, None);
        // It may just have begun.
        reading.paused = false;
        assert!(paused_node(&run, &reading).is_none());
    }

    #[test]
    fn a_node_that_has_measured_nothing_yet_has_the_speeds_of_a_whole_second() {
        let mut one = CpuReading {
            cpu: 1,
            asked_pct: 30.0,
            got_pct: 29.0,
            total_ns: 0,
            burns: true,
            kernel: None,
        };
        let run = RunInfo::of_this_process("node small");
        let mut got = |asked_pct: f64, measured: Option<f64>| {
            one.asked_pct = asked_pct;
            let reading = Reading {
                cpus: vec![one],
                paused: true,
            };
            let mut node = paused_node(&run, &reading).unwrap();
            node.speeds[0].asked = 0.7;
            node.speeds[0].got = measured;
            let paused = false;
            measure_first(&mut node, &Reading { paused, ..reading });
            node.speeds[0].got
        };
        assert_eq!(got(30.0, None), Some(0.71));
        assert_eq!(got(30.0, Some(0.7)), Some(0.7));
        // It has just begun.
        assert_eq!(got(9.0, None), None);
    }

    #[test]
    fn what_slows_a_whole_node_has_no_part_in_the_busy_time_of_its_cpus() {
        let delta = CpuDelta {
            busy_ns: 800,
            idle_ns: 200,
            steal_ns: 0,
            back_ns: 0,
        };
        let one = CpuReading {
            cpu: 1,
            asked_pct: 50.0,
            got_pct: 50.0,
            total_ns: 0,
            burns: true,
            kernel: Some(delta),
        };
        let others = |reading: &Reading| -> Vec<(u32, f64)> {
            let of = |cpu: &CpuReading| (cpu.cpu, cpu.others_pct().unwrap().round());
            reading.cpus.iter().map(of).collect()
        };
        let mut reading = Reading {
            cpus: vec![one],
            paused: false,
        };
        assert_eq!(others(&reading), [(1, 30.0)]);
        let run = RunInfo {
            cpus: "1,3".to_owned(),
            ..RunInfo::of_this_process("node small")
        };
        for_all_cpus(&mut reading, &run, |_| Some(delta));
        assert_eq!(others(&reading), [(1, 80.0), (3, 80.0)]);
    }
}
