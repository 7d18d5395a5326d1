// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The two programs of several tasks: five processes and five threads, joined.
//! All take the same chain, so its ends must agree; how far apart in time they
//! end says how evenly they were slowed.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use sandbag_linux::clock;

use super::{TASKS, WorkReport, chain};

/// Names of a task's notes.
const CHAIN: &str = "chain";
const ENDED_NS: &str = "ended_ns";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    chain: u64,
    /// On the monotonic clock, which is the same for all processes, ns.
    ended_ns: u64,
}

impl Task {
    pub fn run(amount: u64) -> Self {
        Self {
            chain: chain::steps(amount),
            ended_ns: clock::monotonic(),
        }
    }

    /// Whether its chain ended where it should.
    pub fn is_right(self, amount: u64) -> bool {
        self.chain == chain::end(amount)
    }

    /// Writes it down for a parent.
    pub fn note(self, notes: &mut BTreeMap<String, String>) {
        notes.insert(CHAIN.to_owned(), self.chain.to_string());
        notes.insert(ENDED_NS.to_owned(), self.ended_ns.to_string());
    }

    /// What [`Task::note`] wrote.
    fn of(notes: &BTreeMap<String, String>) -> Option<Self> {
        let number = |name| notes.get(name)?.parse().ok();
        Some(Self {
            chain: number(CHAIN)?,
            ended_ns: number(ENDED_NS)?,
        })
    }
}

#[derive(Debug)]
pub struct Ends(Vec<Task>);

impl Ends {
    /// Whether there are all, and each is right.
    pub fn are_right(&self, amount: u64) -> bool {
        self.0.len() as u64 == TASKS && self.0.iter().all(|task| task.is_right(amount))
    }

    /// From the first end to the last, seconds.
    pub fn spread_s(&self) -> f64 {
        let ends = || self.0.iter().map(|task| task.ended_ns);
        let (first, last) = (ends().min().unwrap_or(0), ends().max().unwrap_or(0));
        (last - first) as f64 / 1e9
    }
}

pub fn threads(amount: u64) -> Ends {
    thread::scope(|scope| {
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| scope.spawn(move || Task::run(amount)))
            .collect();
        Ends(tasks.into_iter().filter_map(|t| t.join().ok()).collect())
    })
}

/// Five processes.
pub fn processes(amount: u64) -> Result<Ends> {
    let reports = own_processes(TASKS, &["compute", "--amount", &amount.to_string()])?;
    let ends = reports.iter().map(|report| Task::of(&report.notes));
    let ends = ends.collect::<Option<_>>();
    Ok(Ends(ends.context("a task that does not report its end")?))
}

/// The reports of some processes of one of the lab's programs, run at the same time.
pub fn own_processes(tasks: u64, words: &[&str]) -> Result<Vec<WorkReport>> {
    let start = |_| {
        Command::new("/proc/self/exe")
            .arg("work")
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("start a task")
    };
    let children: Vec<_> = (0..tasks).map(start).collect::<Result<_>>()?;
    let report = |child: Child| {
        let ended = child.wait_with_output().context("wait for a task")?;
        ensure!(ended.status.success(), "a task ended with {}", ended.status);
        serde_json::from_slice(&ended.stdout).context("the report of a task")
    };
    children.into_iter().map(report).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(chain: u64, ended_ns: u64) -> Task {
        Task { chain, ended_ns }
    }

    #[test]
    fn ends_are_compared() {
        let right = chain::end(10);
        let mut ends = Ends(vec![task(right, 5_000_000_000); TASKS as usize]);
        assert!(ends.are_right(10) && ends.spread_s() == 0.0);
        ends.0[1].ended_ns += 250_000_000;
        assert!((ends.spread_s() - 0.25).abs() < 1e-12);
        ends.0[2].chain += 1;
        assert!(!ends.are_right(10));
        ends.0.remove(2);
        assert!(!ends.are_right(10), "one is missing");
    }

    #[test]
    fn a_parent_reads_what_a_task_notes() {
        let mut notes = BTreeMap::new();
        assert_eq!(Task::of(&notes), None);
        let large = task(u64::MAX, u64::MAX - 1);
        large.note(&mut notes);
        assert_eq!(Task::of(&notes), Some(large));
    }
}
