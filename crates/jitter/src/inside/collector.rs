// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process of sandbag that suffers a plan from within and records when it did
//! not run: for `jitter verify`, and for the overhead of an injection.
//!
//! sandbag is one static binary, into which nothing can be preloaded. So the process
//! does what a program does that asks by itself: it is linked with c/jitter.c and
//! calls [`api::init`]. Timer, signal handler and booking are those of the preloaded
//! library; only the wrappers of C library calls (c/preload*.c) are missing, and
//! the loop makes none of those calls.
//!
//! It is a process of its own, because a process can load one plan.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Child, Stdio};

use sandbag_linux::sched::{self, Attributes};
use sandbag_linux::{CpuList, clock};
use sandbag_run::child;
use serde::{Deserialize, Serialize};

use crate::inside::api;
use crate::inside::error::{Error, Result};
use crate::inside::library::{PLAN_VARIABLE, SELF_VARIABLE};
use crate::replay::touched;

/// First argument of the process.
pub const VERB: &str = "__inside-collector";

/// It is awake this long before the beginning, ns.
const EARLY_NS: u64 = 5_000_000;
/// Readings of the clock to measure the least difference of two.
const READINGS: u32 = 20_000;
/// A gap is longer than this many least differences.
const TIMES_LEAST: u64 = 4;
/// The library takes the number of the portion from this variable.
const RANK_VARIABLE: &str = "OMPI_COMM_WORLD_RANK";

/// Its argument.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectorSetup {
    /// Kernel number of its CPU; else any.
    pub cpu: Option<u32>,
    /// Priority of a real-time task; else an ordinary one.
    pub real_time: Option<u8>,
    /// When due times of the plan begin, CLOCK_MONOTONIC, ns; else its start.
    pub begin_ns: Option<u64>,
    pub length_ns: u64,
    /// Shorter gaps are not recorded, ns.
    pub threshold_ns: u64,
    /// Gaps that it has room for.
    pub room: usize,
}

/// A stretch in which the process did not run, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// Since the beginning.
    pub begin_ns: u64,
    pub length_ns: u64,
    /// From the end of the last event to the end of the gap.
    pub exit_ns: u64,
    /// From the begin of the gap to the due time of the last event.
    pub lead_ns: u64,
}

/// Its output.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CollectorReport {
    /// When it began to look, ns since the beginning.
    pub from_ns: u64,
    /// Until when it recorded: the end, or the first gap that it had no room for.
    pub until_ns: u64,
    pub gaps: Vec<Gap>,
}

/// Starts the process with a plan; `rank` is the number of its portion.
///
/// # Errors
/// It cannot be started.
pub fn start(setup: CollectorSetup, plan: &Path, rank: usize) -> io::Result<Child> {
    child::own(VERB, &child::to_args(&setup), &[], true)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .env(PLAN_VARIABLE, plan)
        .env(RANK_VARIABLE, rank.to_string())
        // The plan is for sandbag here.
        .env_remove(SELF_VARIABLE)
        .spawn()
}

/// Waits for the end of the process.
///
/// # Errors
/// [`Error::Collector`]: it failed.
pub fn finish(process: Child) -> Result<CollectorReport> {
    let output = process.wait_with_output();
    let output = output.map_err(|error| Error::Collector(error.to_string()))?;
    let report = serde_json::from_slice(&output.stdout).ok();
    report.filter(|_| output.status.success()).ok_or_else(|| {
        let words = String::from_utf8_lossy(&output.stderr);
        let (status, words) = (output.status, words.trim());
        Error::Collector(format!(
            "the process that suffers failed: {status}, {words}"
        ))
    })
}

/// What the process does.
///
/// # Errors
/// It may not have the CPU or the priority, there is no plan for it, or its output
/// is closed.
pub fn run(arguments: &[String]) -> io::Result<()> {
    let setup =
        child::from_args(arguments).ok_or_else(|| io::Error::other("for sandbag's own use"))?;
    let report = record(setup)?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    serde_json::to_writer(&mut out, &report)?;
    out.flush()
}

fn record(setup: CollectorSetup) -> io::Result<CollectorReport> {
    let other = |error: sandbag_linux::Error| io::Error::other(error.to_string());
    if let Some(cpu) = setup.cpu {
        sched::set_affinity(0, &CpuList::from_iter([cpu])).map_err(other)?;
    }
    let gap = Gap {
        begin_ns: u64::MAX,
        length_ns: 0,
        exit_ns: 0,
        lead_ns: 0,
    };
    let mut gaps = touched(gap, setup.room);
    let threshold_ns = setup.threshold_ns.max(least_ns() * TIMES_LEAST);
    if let Some(priority) = setup.real_time {
        let priority = u32::from(priority);
        sched::set_attributes(0, Attributes::Fifo { priority }).map_err(other)?;
    }
    // Of a run that is over before this process begins it has no jitter, and sees nothing.
    let is_over = |begin_ns: u64| clock::monotonic() >= begin_ns.saturating_add(setup.length_ns);
    if !api::init() && !setup.begin_ns.is_some_and(is_over) {
        return Err(io::Error::other("there is no plan for this process"));
    }
    let begin_ns = setup.begin_ns.unwrap_or_else(clock::monotonic);
    clock::sleep_until(begin_ns.saturating_sub(EARLY_NS));
    let (from_ns, until_ns) = look(begin_ns, setup.length_ns, threshold_ns, &mut gaps);
    Ok(CollectorReport {
        from_ns,
        until_ns,
        gaps,
    })
}

/// The least difference of two readings, ns.
fn least_ns() -> u64 {
    let mut last = clock::monotonic();
    let differences = (0..READINGS).map(|_| {
        let now = clock::monotonic();
        let difference = now - last;
        last = now;
        difference
    });
    differences.filter(|ns| *ns > 0).min().unwrap_or(0)
}

unsafe extern "C" {
    /// c/jitter.c: the last reading of the clock within an event, ns.
    safe fn sbj_last_ns() -> u64;
    /// When that event was due.
    safe fn sbj_last_due_ns() -> u64;
}

/// The loop; when it began, and until when it recorded, ns since the beginning.
fn look(begin_ns: u64, length_ns: u64, threshold_ns: u64, gaps: &mut Vec<Gap>) -> (u64, u64) {
    let end_ns = begin_ns.saturating_add(length_ns);
    let mut last = clock::monotonic();
    while last < begin_ns {
        last = clock::monotonic();
    }
    let from_ns = last - begin_ns;
    let mut full_ns = None;
    while last < end_ns {
        let now = clock::monotonic();
        if now - last > threshold_ns {
            let begin_ns = last - begin_ns;
            if gaps.len() < gaps.capacity() {
                gaps.push(Gap {
                    begin_ns,
                    length_ns: now - last,
                    exit_ns: now.saturating_sub(sbj_last_ns()),
                    lead_ns: sbj_last_due_ns().saturating_sub(last),
                });
            } else if full_ns.is_none() {
                full_ns = Some(begin_ns);
            }
        }
        last = now;
    }
    (from_ns, full_ns.unwrap_or(length_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In this process, which has no plan.
    #[test]
    fn a_run_that_is_over_when_the_process_begins_is_not_seen() {
        let length_ns = 1_000_000;
        let setup = |begin_ns: u64| CollectorSetup {
            begin_ns: Some(begin_ns),
            length_ns,
            room: 1,
            ..CollectorSetup::default()
        };
        let over = record(setup(0)).unwrap();
        assert!(over.from_ns >= length_ns && over.gaps.is_empty());
        let in_a_minute = clock::monotonic() + 60_000_000_000;
        let refused = record(setup(in_a_minute)).unwrap_err().to_string();
        assert_eq!(refused, "there is no plan for this process");
    }

    #[test]
    fn it_looks_from_the_beginning_to_the_end() {
        let (begin_ns, length_ns) = (clock::monotonic() + 2_000_000, 5_000_000);
        let mut gaps = Vec::with_capacity(1_000_000);
        let (from_ns, until_ns) = look(begin_ns, length_ns, 0, &mut gaps);
        assert!(clock::monotonic() >= begin_ns + length_ns);
        assert_eq!(until_ns, length_ns);
        // Every reading is one, and they touch; unless another task had the CPU.
        assert!(from_ns >= length_ns || !gaps.is_empty());
        let touch = |pair: &[Gap]| pair[0].begin_ns + pair[0].length_ns == pair[1].begin_ns;
        assert!(gaps.windows(2).all(touch));
        // One that begins late looks at nothing.
        gaps.clear();
        let (from_ns, _) = look(begin_ns, length_ns, 0, &mut gaps);
        assert!(from_ns >= length_ns && gaps.is_empty());
    }

    #[test]
    fn it_records_until_a_gap_finds_no_room() {
        let (begin_ns, length_ns) = (clock::monotonic() + 2_000_000, 1_000_000_000);
        let mut gaps = Vec::with_capacity(5);
        let (_, until_ns) = look(begin_ns, length_ns, 0, &mut gaps);
        assert!(clock::monotonic() >= begin_ns + length_ns);
        // Every reading is a gap.
        assert_eq!(gaps.len(), 5);
        assert_eq!(until_ns, gaps[4].begin_ns + gaps[4].length_ns);
    }
}
