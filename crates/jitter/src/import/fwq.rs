// SPDX-License-Identifier: Apache-2.0 OR MIT
//! LLNL's FWQ (serial, threads, MPI): the ticks that a fixed work took, sample by sample,
//! process after process. The first sample of each process only warms the caches and is
//! left out.

use std::collections::BTreeMap;

use sandbag_input::Head;

use super::counts::ValueCounts;
use super::input::{Input, JitterRecording};
use super::number;
use crate::Result;

pub(super) fn looks_like(head: &Head<'_>) -> bool {
    let mut lines = head.text_lines();
    lines.any(|line| speed(line).is_some() || begins(line).is_some())
}

/// `Speed: process 3, cycles 100, seconds 0.5, GHz 2.0`: the process and its ticks per ns.
fn speed(line: &str) -> Option<(u64, f64)> {
    let (process, rest) = line.strip_prefix("Speed: ")?.split_once(',')?;
    let (_, ghz) = rest.split_once("GHz ")?;
    let ghz = number::decimal(ghz.trim()).filter(|ghz| (1e-6..1e6).contains(ghz))?;
    Some((number::whole(process.split_whitespace().nth(1)?)?, ghz))
}

/// `FwqProcess 3 running on CPUs 7-8`: the process and the first of its CPUs.
fn begins(line: &str) -> Option<(u64, u32)> {
    let kind = |name| line.strip_prefix(name);
    let rest = kind("Process ").or_else(|| kind("Thread "))?;
    let (process, cpus) = rest.split_once(" running on CPUs ")?;
    let first = cpus.trim().split(['-', ',', ' ']).next()?;
    Some((number::whole(process.trim())?, number::cpu(first)?))
}

/// `Process 3`, which the MPI program prints before it writes the samples of that process.
fn is_announced(line: &str) -> bool {
    line.strip_prefix("Process ")
        .and_then(number::whole)
        .is_some()
}

struct FwqProcess {
    number: u64,
    cpu: u32,
    ticks: ValueCounts,
    is_warm: bool,
}

pub(super) fn read(mut input: Input<'_>) -> Result<JitterRecording> {
    let mut speeds = BTreeMap::new();
    let mut processes: Vec<FwqProcess> = Vec::new();
    let mut in_process = false;
    while let Some((place, line)) = input.lines.next_line()? {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        if let Some((process, ghz)) = speed(line) {
            speeds.insert(process, ghz);
        } else if let Some((number, cpu)) = begins(line) {
            let ticks = ValueCounts::default();
            let is_warm = false;
            processes.push(FwqProcess {
                number,
                cpu,
                ticks,
                is_warm,
            });
            in_process = true;
        } else if let (Some(process), Some(ticks)) = (
            processes.last_mut().filter(|_| in_process),
            number::whole(line),
        ) {
            if std::mem::replace(&mut process.is_warm, true) {
                process.ticks.add(ticks);
            }
        } else if is_announced(line) || (processes.is_empty() && number::whole(line).is_none()) {
            // With -s, messages are in the file.
            in_process = false;
        } else {
            let expected = "`Speed: process N, ... GHz G`, `Process N running on CPUs LIST` or, \
                            after that, a number of ticks";
            return Err(place.expected(expected, line));
        }
    }
    let whole = input.whole();
    let mut series = Vec::new();
    for process in &processes {
        let ghz = speeds.get(&process.number).ok_or_else(|| {
            let expected = format!("`Speed: process {}, ... GHz G`", process.number);
            whole.expected(expected, "")
        })?;
        series.extend(process.ticks.of_fixed_work(process.cpu, 1.0 / ghz));
    }
    JitterRecording::distribution("FWQ", series, Vec::new(), whole)
}
