// SPDX-License-Identifier: Apache-2.0 OR MIT
//! netgauge's `selfish` pattern: a loop that reads the clock. Rows are the last reading
//! before a detour and by how much it was longer than the minimal cycle, which is the
//! time lost. Its threshold is one of differences of readings, minimal cycle included.
//!
//! `# Time [ns]` begins a segment with a clock of its own. The time between two segments
//! is not in the file, so they are placed a second apart. The loop runs until it has a
//! given number of detours: a segment ends with its last one.

use sandbag_input::Head;

use super::event_set::{Coverage, EventSet};
use super::input::{Input, JitterRecording};
use super::number;
use super::number::MAX_NS;
use super::rows::Row;
use crate::{Fault, Result, Span, TraceEvent};

/// Starts and lengths are each rounded.
const ROUNDING_NS: u64 = 1;
const BETWEEN_NS: u64 = 1_000_000_000;

pub(super) fn looks_like(head: &Head<'_>) -> bool {
    head.has_comment("Selfish Benchmark") || head.has_comment("Time [ns]")
}

pub(super) fn read(mut input: Input<'_>) -> Result<JitterRecording> {
    let cpu = input.only_cpu();
    let mut all = EventSet::with_rounding(ROUNDING_NS);
    let (mut least_ns, mut threshold_pct) = (None, None);
    // Where the segment begins on the clock of the trace, and from the first of its events
    // to the end of the last. By the rounding neither need be of the row at that end.
    let (mut base_ns, mut segment) = (0, None::<Span>);
    let mut segments = 0u64;
    while let Some((place, row)) = input.lines.next_row()? {
        let line = match row {
            Row::Data(line) => line,
            Row::Comment(comment) => {
                let value = |name| comment.strip_prefix(name).map(str::trim);
                if let Some(value) = value("Minimal cycle length [ns]:") {
                    let ns = number::decimal(value).filter(|ns| *ns < MAX_NS as f64);
                    least_ns = Some(ns.ok_or_else(|| place.expected("a time in ns", value))?);
                } else if let Some(value) = value("Threshold: [% minimal cycle length]:") {
                    threshold_pct = number::decimal(value);
                } else if value("Time [ns]").is_some() {
                    if let Some(ended) = segment.take() {
                        base_ns = ended.until_ns + BETWEEN_NS;
                        all.known(cpu, ended);
                    }
                    segments += 1;
                }
                continue;
            }
        };
        let time = |text: &str| number::ns(number::decimal(text)?, 1.0);
        let (start, length_ns) = number::pair(line, time)
            .ok_or_else(|| place.expected("a start and a duration in ns", line))?;
        let start_ns = base_ns.checked_add(start).filter(|ns| *ns < MAX_NS);
        let start_ns = start_ns
            .ok_or_else(|| place.fault(Fault::Impossible("segments of more than 146 years")))?;
        if segment.is_some_and(|before| before.until_ns > start_ns + ROUNDING_NS) {
            let expected =
                "a start after the end of the row before (a segment begins with `# Time [ns]`)";
            return Err(place.expected(expected, line));
        }
        let event = TraceEvent::new(start_ns, length_ns);
        all.add(cpu, event, place)?;
        let before = segment.unwrap_or(Span::new(start_ns, start_ns));
        segment = Some(Span::new(
            before.from_ns.min(start_ns),
            before.until_ns.max(event.end_ns()),
        ));
    }
    if let Some(ended) = segment {
        all.known(cpu, ended);
    }
    let mut warnings = Vec::new();
    if segments > 1 {
        warnings.push(format!(
            "the time between the {segments} segments is not in the file: they are placed 1 s \
             apart, and nothing is known in between"
        ));
    }
    let threshold = threshold_pct.zip(least_ns);
    all.threshold_ns = threshold.map(|(pct, ns)| (ns * (pct / 100.0 - 1.0)).max(0.0));
    all.trace("netgauge selfish", Coverage::Given, warnings, input.whole())
}
