// SPDX-License-Identifier: Apache-2.0 OR MIT
//! netgauge's `selfish` pattern: a loop as ours. Rows are the last reading
//! before a detour and how much longer than the minimal cycle it was: the time
//! lost, as the lengths of our events. Its threshold is one of differences of
//! readings, which have the minimal cycle in them.
//!
//! Each `# Time [ns]` begins a segment whose clock begins anew; how long it was
//! between two of them is not known, so they are laid a second apart. The loop
//! runs until it has so many detours: a segment ends with its last one.

use super::event_set::{Coverage, EventSet};
use super::{FormatReader, Head, Input, JitterRecording, MAX_NS, number};
use crate::{Fault, Result, Span, TraceEvent};

/// Starts and lengths are each rounded.
const ROUNDING_NS: u64 = 1;
const BETWEEN_NS: u64 = 1_000_000_000;

pub(super) const READER: FormatReader = FormatReader {
    name: "netgauge selfish",
    looks_like,
    read,
};

fn looks_like(head: &Head<'_>) -> bool {
    head.has_comment("Selfish Benchmark") || head.has_comment("Time [ns]")
}

fn read(mut input: Input<'_>) -> Result<JitterRecording> {
    let cpu = input.only_cpu();
    let mut all = EventSet::with_rounding(ROUNDING_NS);
    let (mut least_ns, mut threshold_pct) = (None, None);
    // Where the segment begins on the clock of the trace, and its first event.
    let (mut base_ns, mut begin_ns) = (0, None);
    let mut segments = 0u64;
    let after = |all: &EventSet| all.last_end_ns(cpu).map_or(0, |end| end + BETWEEN_NS);
    while let Some((place, line)) = input.lines.next_line()? {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix('#').map(str::trim) {
            if let Some(value) = comment.strip_prefix("Minimal cycle length [ns]:") {
                let value = value.trim();
                let ns = number::decimal(value).filter(|ns| *ns < MAX_NS as f64);
                least_ns = Some(ns.ok_or_else(|| place.expected("a time in ns", value))?);
            } else if let Some(value) = comment.strip_prefix("Threshold: [% minimal cycle length]:")
            {
                threshold_pct = number::decimal(value.trim());
            } else if comment.starts_with("Time [ns]") {
                if let (Some(from_ns), Some(until_ns)) = (begin_ns.take(), all.last_end_ns(cpu)) {
                    all.known(cpu, Span { from_ns, until_ns });
                }
                base_ns = after(&all);
                segments += 1;
            }
            continue;
        }
        if line.is_empty() {
            continue;
        }
        let mut words = line.split_whitespace();
        let mut time = || number::ns(number::decimal(words.next()?)?, 1.0);
        let row = time().zip(time());
        let (start, length_ns) = row
            .filter(|_| words.next().is_none())
            .ok_or_else(|| place.expected("a start and a duration in ns", line))?;
        let start_ns = base_ns.checked_add(start).filter(|ns| *ns < MAX_NS);
        let start_ns = start_ns
            .ok_or_else(|| place.fault(Fault::Impossible("segments of more than 146 years")))?;
        let event = TraceEvent {
            start_ns,
            length_ns,
        };
        if all
            .last_end_ns(cpu)
            .is_some_and(|end| end > start_ns + ROUNDING_NS)
        {
            return Err(place.expected(
                "a start after the end of the row before (a segment begins with `# Time [ns]`)",
                line,
            ));
        }
        begin_ns.get_or_insert(start_ns);
        all.event(cpu, event).map_err(|fault| place.fault(fault))?;
    }
    if let (Some(from_ns), Some(until_ns)) = (begin_ns, all.last_end_ns(cpu)) {
        all.known(cpu, Span { from_ns, until_ns });
    }
    let mut warnings = Vec::new();
    if segments > 1 {
        warnings.push(format!(
            "how long it was between the {segments} segments is not in the file: they are laid \
             1 s apart, and nothing is known in between"
        ));
    }
    let threshold = threshold_pct.zip(least_ns);
    all.threshold_ns = threshold.map(|(pct, ns)| (ns * (pct / 100.0 - 1.0)).max(0.0));
    let whole = input.lines.whole();
    let trace = all.trace("netgauge selfish".to_owned(), Coverage::Told, warnings);
    trace
        .map(JitterRecording::Trace)
        .map_err(|fault| whole.fault(fault))
}

#[cfg(test)]
mod tests {
    use crate::import::JitterRecording;
    use crate::import::tests::{message, read_named, trace};

    const TEXT: &str = "\
# Benchmark Method: selfish
# Selfish Benchmark
# Minimal cycle length [ns]: 20.000000 \n\
# Number of iterations (recorded+unrecorded): 1000 \n\
# Threshold: [% minimal cycle length]: 900 \n\
# \n\
# Time [ns]\tselfish duration [ns]
0.00\t500.25
1000.00\t300.00
# Time [ns]\tselfish duration [ns]
0.00\t100.00
5000.00\t100.00
";

    #[test]
    fn a_length_is_the_time_lost_as_netgauge_counts_it() {
        let t = trace(TEXT);
        let cpu = &t.cpus[0];
        assert_eq!(cpu.events[0].length_ns, 500);
        assert_eq!(cpu.known[0].until_ns, 1300);
        // Nine times 20 ns from reading to reading.
        assert_eq!(t.detectable_ns(), Some(160.0));
        // netgauge's `CPU overhead due to noise` is the sum of the rows.
        assert_eq!(cpu.noise_ns(), 500 + 300 + 100 + 100);
    }

    #[test]
    fn segments_stand_apart() {
        let t = trace(TEXT);
        let cpu = &t.cpus[0];
        assert_eq!(cpu.events.len(), 4);
        assert_eq!(cpu.known.len(), 2);
        assert_eq!(cpu.known[1].from_ns, 1300 + 1_000_000_000);
        assert!(t.warnings[0].contains("2 segments"));
    }

    #[test]
    fn the_cpu_is_that_of_the_name() {
        let JitterRecording::Trace(t) = read_named(TEXT, "out/ng.7").unwrap() else {
            panic!()
        };
        assert_eq!(t.header.cpus, [7]);
    }

    #[test]
    fn rows_ascend_within_a_segment() {
        let got = message(&TEXT.replace("1000.00\t", "100.00\t"));
        assert!(got.starts_with("in:9: expected a start after"), "{got}");
        let got = message(&TEXT.replace("1000.00\t", "-5\t"));
        assert!(
            got.contains("in:9: expected a start and a duration in ns"),
            "{got}"
        );
    }
}
