// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The JSON of rt-tests: oslat (lengths between two readings of the clock) and
//! cyclictest (latencies of a thread that a timer woke).
//!
//! oslat counts every pass of its loop, so the shortest bucket of a thread
//! holds the passes without an event, and is left out. Its last bucket also
//! holds all that is longer, which shows by the maximum. A bucket is named by
//! its end: older versions write it with three digits and round times down, newer
//! ones write it without zeros and round up, so that theirs ends a unit earlier.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{FormatReader, Head, Input, JitterRecording, MAX_NS, number};
use crate::{Bin, CpuCounts, Distribution, Fault, Quantity, Result, TailCount};

pub(super) const READER: FormatReader = FormatReader {
    name: "JSON of oslat and cyclictest",
    looks_like,
    read,
};

fn looks_like(head: &Head<'_>) -> bool {
    head.opens_with(b'{')
        && head.text().contains("\"thread\"")
        && head.text().contains("\"num_threads\"")
}

#[derive(Deserialize)]
struct File {
    thread: BTreeMap<String, Thread>,
    /// Of cyclictest: 1 if its numbers are ns, else us.
    resolution_in_ns: Option<u64>,
}

#[derive(Deserialize)]
struct Thread {
    /// -1 if it was not bound.
    cpu: Option<i64>,
    max: Option<f64>,
    /// Of oslat, s.
    duration: Option<f64>,
    /// Of cyclictest: how many there were.
    cycles: Option<u64>,
    #[serde(default)]
    histogram: BTreeMap<String, u64>,
}

fn read(input: Input<'_>) -> Result<JitterRecording> {
    let whole = input.lines.whole();
    let file: File = serde_json::from_reader(input.lines.into_reader()).map_err(|cause| {
        whole.fault(Fault::Json {
            what: "the threads",
            cause,
        })
    })?;
    let is_cyclictest = file.resolution_in_ns.is_some();
    let mut warnings = Vec::new();
    let (mut series, mut unbound, mut passes) = (Vec::new(), 0u64, 0u64);
    for (name, thread) in &file.thread {
        let thread_number =
            number::cpu(name).ok_or_else(|| whole.expected("the number of a thread", name))?;
        let cpu = thread.cpu.and_then(|cpu| u32::try_from(cpu).ok());
        unbound += u64::from(cpu.is_none());
        let cpu = cpu.unwrap_or(thread_number);
        let one = match file.resolution_in_ns {
            Some(resolution) => cyclictest(cpu, thread, if resolution == 1 { 1 } else { 1000 }),
            None => oslat(cpu, thread, &mut passes),
        };
        series.push(one.map_err(|key| {
            whole.expected(
                format!("a time as the name of a bucket of thread {name}"),
                &key,
            )
        })?);
    }
    if series.is_empty() {
        return Err(whole.fault(Fault::NothingKnown));
    }
    // Names of threads are in the order of their letters.
    series.sort_by_key(|series| series.cpu);
    if unbound > 0 {
        warnings.push(format!(
            "{unbound} threads were not bound to a CPU: thread N is taken to have run on CPU N"
        ));
    }
    if passes > 0 {
        warnings.push(format!(
            "{passes} passes of the loop in the shortest bucket are left out: most of them are no \
             events"
        ));
    }
    let recorder = if is_cyclictest { "cyclictest" } else { "oslat" };
    Ok(JitterRecording::Distribution(Distribution {
        recorder: recorder.to_owned(),
        series,
        warnings,
    }))
}

/// Buckets are named by the begin of a unit. The error is a name that is no
/// number.
fn cyclictest(cpu: u32, thread: &Thread, unit_ns: u64) -> Result<CpuCounts, String> {
    let mut counts = BTreeMap::new();
    for (key, count) in &thread.histogram {
        let at = number::whole(key).and_then(|n| n.checked_mul(unit_ns));
        let at = at.filter(|ns| *ns < MAX_NS).ok_or_else(|| key.clone())?;
        counts.insert(at, *count);
    }
    let mut series = CpuCounts::new(cpu, Quantity::ProgramLatency);
    let counted = counts.iter().filter(|(_, count)| **count > 0);
    series.bins = counted
        .map(|(from_ns, count)| Bin {
            from_ns: *from_ns,
            until_ns: from_ns + unit_ns,
            count: *count,
        })
        .collect();
    series.longest_ns = thread.max.and_then(|max| number::ns(max, unit_ns as f64));
    // What the histogram had no room for is only in the number of all.
    let over = thread
        .cycles
        .map_or(0, |all| all.saturating_sub(series.count()));
    series.beyond = (over > 0 && !series.bins.is_empty()).then(|| TailCount {
        from_ns: series.bins.last().map_or(0, |bin| bin.until_ns),
        count: over,
    });
    Ok(series)
}

/// Buckets are named by their end, in us; with a point if they are narrower,
/// and then the maximum is in ns. The error is a name that is no number.
fn oslat(cpu: u32, thread: &Thread, passes: &mut u64) -> Result<CpuCounts, String> {
    let mut counts = BTreeMap::new();
    let (mut narrow, mut padded) = (false, false);
    for (key, count) in &thread.histogram {
        narrow |= key.contains('.');
        padded |= key.len() > 1 && key.starts_with('0') && !key.starts_with("0.");
        let plain = key.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let us = number::decimal(key).filter(|_| plain);
        let at = us.and_then(|us| number::ns(us, 1e3));
        let at = at.filter(|ns| *ns > 0).ok_or_else(|| key.clone())?;
        counts.insert(at, *count);
    }
    let ends: Vec<u64> = counts.keys().copied().collect();
    let apart = ends.windows(2).map(|pair| pair[1] - pair[0]);
    let unit_ns = if narrow { 1 } else { 1000 };
    let width_ns = apart.min().unwrap_or(unit_ns);
    // The shortest bucket, which is left out, is a unit at least; so no other
    // ends at 0.
    let up_ns = if padded { 0 } else { unit_ns };
    let mut series = CpuCounts::new(cpu, Quantity::Length);
    series.known_ns = thread.duration.and_then(|s| number::ns(s, 1e9));
    series.longest_ns = thread.max.and_then(|max| number::ns(max, unit_ns as f64));
    let mut counted = counts.into_iter().filter(|(_, count)| *count > 0);
    *passes = passes.saturating_add(counted.next().map_or(0, |(_, count)| count));
    series.bins = counted
        .map(|(end_ns, count)| {
            let until_ns = end_ns.saturating_sub(up_ns);
            Bin {
                from_ns: until_ns.saturating_sub(width_ns),
                until_ns,
                count,
            }
        })
        .collect();
    let holds_longer = |bin: &mut Bin| {
        series
            .longest_ns
            .is_some_and(|longest| longest > bin.until_ns)
    };
    series.beyond = series.bins.pop_if(holds_longer).map(|bin| TailCount {
        from_ns: bin.from_ns,
        count: bin.count,
    });
    Ok(series)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::tests::{distribution, message};

    const OSLAT: &str = r#"{
  "file_version": 1,
  "cmdline:": "oslat --json=x -D 10",
  "rt_test_version:": "2.5",
  "return_code": 0,
  "sysinfo": {"sysname": "Linux", "realtime": 0},
  "num_threads": 2,
  "thread": {
    "0": {"cpu": 3, "freq": 2600, "min": 1, "avg": 1.0, "max": 90, "duration": 10.0,
      "histogram": {"001": 1000000, "002": 50, "005": 4, "032": 2}},
    "1": {"cpu": 1, "freq": 2600, "min": 1, "avg": 1.0, "max": 2, "duration": 10.0,
      "histogram": {"001": 1000000, "002": 50}}
  }
}"#;

    #[test]
    fn passes_are_no_events_and_the_last_bucket_holds_more() {
        let d = distribution(OSLAT);
        let [b, a] = &d.series[..] else { panic!() };
        assert_eq!((a.cpu, b.cpu), (3, 1));
        let bins: Vec<_> = a
            .bins
            .iter()
            .map(|b| (b.from_ns, b.until_ns, b.count))
            .collect();
        assert_eq!(bins, [(1_000, 2_000, 50), (4_000, 5_000, 4)]);
        assert_eq!(
            a.beyond,
            Some(TailCount {
                from_ns: 31_000,
                count: 2
            })
        );
        assert_eq!((b.beyond, b.count()), (None, 50));
        assert_eq!(a.known_ns, Some(10_000_000_000));
        assert!(d.warnings[0].starts_with("2000000 passes"));
    }

    #[test]
    fn newer_versions_round_up() {
        let newer = OSLAT.replace("\"00", "\"").replace("\"032", "\"32");
        let d = distribution(&newer);
        let s = &d.series[1];
        let bins: Vec<_> = s.bins.iter().map(|b| (b.from_ns, b.until_ns)).collect();
        assert_eq!(bins, [(0, 1_000), (3_000, 4_000)]);
        // Buckets of 0.1 us.
        let narrow = newer
            .replace("\"1\": 10", "\"0.100\": 10")
            .replace("\"2\": 5", "\"0.200\": 5");
        let s = &distribution(&narrow).series[0];
        assert_eq!((s.bins[0].from_ns, s.bins[0].until_ns), (99, 199));
        assert_eq!(s.longest_ns, Some(2));
    }

    #[test]
    fn latencies_of_cyclictest_and_what_its_histogram_had_no_room_for() {
        let text = r#"{"num_threads": 1, "resolution_in_ns": 0, "thread": {"0": {
            "histogram": {"5": 10, "6": 2}, "cycles": 13, "min": 5, "max": 99, "avg": 5.50,
            "cpu": -1, "node": 0}}}"#;
        let d = distribution(text);
        let s = &d.series[0];
        assert_eq!((s.bins[0].from_ns, s.bins[0].until_ns), (5_000, 6_000));
        assert_eq!(
            s.beyond,
            Some(TailCount {
                from_ns: 7_000,
                count: 1
            })
        );
        assert_eq!(s.longest_ns, Some(99_000));
        assert!(d.warnings[0].contains("not bound"));
        let d = distribution(&text.replace("in_ns\": 0", "in_ns\": 1"));
        assert_eq!(d.series[0].bins[0].from_ns, 5);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (from, to, said) in [
            (
                "\"002\"",
                "\"two\"",
                "a time as the name of a bucket of thread 0, found `two`",
            ),
            (
                "\"1\": {\"cpu\"",
                "\"b\": {\"cpu\"",
                "the number of a thread, found `b`",
            ),
            ("50, \"005\"", "-50, \"005\"", "line 10"),
        ] {
            let got = message(&OSLAT.replace(from, to));
            assert!(got.starts_with("in: ") && got.contains(said), "{got}");
        }
    }
}
