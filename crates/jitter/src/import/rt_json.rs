// SPDX-License-Identifier: Apache-2.0 OR MIT
//! JSON of rt-tests: oslat (lengths between two readings of the clock) and cyclictest
//! (wake-up latencies of a thread).
//!
//! oslat counts every pass of its loop, so the shortest bucket of a thread holds the passes
//! without an event and is left out. Its last bucket also holds all longer lengths, which
//! shows by the maximum. A bucket is named by its end. rt-tests 2.5 and 2.6 round times up, so
//! that theirs ends a unit earlier; versions before and after round down.

use std::collections::BTreeMap;

use serde::Deserialize;

use sandbag_input::Head;

use super::input::{Input, JitterRecording};
use super::number;
use super::number::MAX_NS;
use crate::{CpuCounts, Quantity, Result, TailCount};

pub(super) fn looks_like(head: &Head<'_>) -> bool {
    head.opens_with(b'{')
        && head.text().contains("\"thread\"")
        && head.text().contains("\"num_threads\"")
}

#[derive(Deserialize)]
struct File {
    thread: BTreeMap<String, Thread>,
    /// Of cyclictest: 1 if its numbers are ns, else us.
    resolution_in_ns: Option<u64>,
    #[serde(rename = "rt_test_version:")]
    version: Option<String>,
}

#[derive(Deserialize)]
struct Thread {
    /// -1 if it was not bound.
    cpu: Option<i64>,
    min: Option<f64>,
    max: Option<f64>,
    /// Of oslat, s.
    duration: Option<f64>,
    /// Of cyclictest: number of latencies.
    cycles: Option<u64>,
    #[serde(default)]
    histogram: BTreeMap<String, u64>,
}

pub(super) fn read(input: Input<'_>) -> Result<JitterRecording> {
    let whole = input.whole();
    let file: File = input.json("the threads")?;
    let is_cyclictest = file.resolution_in_ns.is_some();
    // Other programs of rt-tests have the same frame.
    let is_oslat = |thread: &Thread| thread.duration.is_some() || !thread.histogram.is_empty();
    if !is_cyclictest && !file.thread.values().any(is_oslat) {
        let expected = "threads of oslat (`duration`, `histogram`) or cyclictest \
                        (`resolution_in_ns`)";
        return Err(whole.expected(expected, "another program of rt-tests"));
    }
    let is_rounded_up = matches!(file.version.as_deref(), Some("2.50" | "2.60"));
    let mut warnings = Vec::new();
    let (mut series, mut unbound, mut passes) = (Vec::new(), 0u64, 0u64);
    for (name, thread) in &file.thread {
        let number =
            number::cpu(name).ok_or_else(|| whole.expected("the number of a thread", name))?;
        let cpu = thread.cpu.and_then(|cpu| u32::try_from(cpu).ok());
        unbound += u64::from(cpu.is_none());
        let cpu = cpu.unwrap_or(number);
        let one = match file.resolution_in_ns {
            Some(resolution) => cyclictest(cpu, thread, if resolution == 1 { 1 } else { 1000 }),
            None => oslat(cpu, thread, is_rounded_up, &mut passes),
        };
        series.push(one.map_err(|key| {
            let expected = format!("a time as the name of a bucket of thread {name}");
            whole.expected(expected, &key)
        })?);
    }
    // Names of threads are in alphabetical order.
    series.sort_by_key(|series| series.cpu);
    if unbound > 0 {
        warnings.push(format!(
            "{unbound} threads were not bound to a CPU: thread N is assumed to have run on CPU N"
        ));
    }
    if passes > 0 {
        warnings.push(format!(
            "{passes} passes of the loop in the shortest bucket are left out: most of them are not \
             events"
        ));
    }
    let recorder = if is_cyclictest { "cyclictest" } else { "oslat" };
    JitterRecording::distribution(recorder, series, warnings, whole)
}

/// Buckets by name converted to ns; the error is a name that is not a time.
fn buckets(
    thread: &Thread,
    time: impl Fn(&str) -> Option<u64>,
) -> Result<BTreeMap<u64, u64>, String> {
    let bucket = |(key, count): (&String, &u64)| Ok((time(key).ok_or(key)?, *count));
    thread.histogram.iter().map(bucket).collect()
}

/// Buckets are named by the begin of a unit.
fn cyclictest(cpu: u32, thread: &Thread, unit_ns: u64) -> Result<CpuCounts, String> {
    let time = |key: &str| {
        number::whole(key)?
            .checked_mul(unit_ns)
            .filter(|ns| *ns < MAX_NS)
    };
    let mut series = CpuCounts::new(cpu, Quantity::ProgramLatency);
    for (from_ns, count) in buckets(thread, time)? {
        series.add_bin(from_ns, from_ns + unit_ns, count);
    }
    series.longest_ns = thread.max.and_then(|max| number::ns(max, unit_ns as f64));
    // Latencies beyond the histogram are only in the number of all.
    let over = thread.cycles.map(|all| all.saturating_sub(series.count()));
    let last = series.bins.last();
    series.beyond = last.and_then(|last| TailCount::above(last.until_ns, over));
    Ok(series)
}

/// Buckets are named by their end, in us; with a point if they are narrower, and then the
/// maximum is in ns.
fn oslat(
    cpu: u32,
    thread: &Thread,
    is_rounded_up: bool,
    passes: &mut u64,
) -> Result<CpuCounts, String> {
    let counts = buckets(thread, |key| {
        let is_plain = key.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let us = number::decimal(key).filter(|_| is_plain)?;
        number::ns(us, 1e3).filter(|ns| *ns > 0)
    })?;
    let is_narrow = thread.histogram.keys().any(|key| key.contains('.'));
    let unit_ns = if is_narrow { 1 } else { 1000 };
    let distances = counts.keys().zip(counts.keys().skip(1)).map(|(a, b)| b - a);
    let width_ns = distances.min().unwrap_or(unit_ns);
    // The shortest bucket, which is left out, is a unit at least; so no other ends at 0.
    // No time that is rounded up is 0: such a build has the repair of 2.7.
    let is_rounded_up = is_rounded_up && thread.min.is_none_or(|min| min > 0.0);
    let up_ns = if is_rounded_up { unit_ns } else { 0 };
    let mut series = CpuCounts::new(cpu, Quantity::Length);
    series.known_ns = thread.duration.and_then(|s| number::ns(s, 1e9));
    series.longest_ns = thread.max.and_then(|max| number::ns(max, unit_ns as f64));
    let mut counted = counts.into_iter().filter(|(_, count)| *count > 0);
    *passes = passes.saturating_add(counted.next().map_or(0, |(_, count)| count));
    for (end_ns, count) in counted {
        let until_ns = end_ns.saturating_sub(up_ns);
        series.add_bin(until_ns.saturating_sub(width_ns), until_ns, count);
    }
    let longest_ns = series.longest_ns.unwrap_or(0);
    let last = series.bins.pop_if(|last| longest_ns > last.until_ns);
    series.beyond = last.map(|last| TailCount::new(last.from_ns, last.count));
    Ok(series)
}
