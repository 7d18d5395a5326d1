// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sysjitter --raw`, a file per core: a loop that reads the clock. The stamp of a row is
//! the reading at the end of the event, in ns since the loop began. With `--sort` rows
//! are ordered by length and lack a column.

use sandbag_input::Head;

use super::event_set::{Coverage, EventSet};
use super::input::{Input, JitterRecording};
use super::number;
use super::rows::Row;
use crate::{Result, Span, TraceEvent};

pub(super) fn looks_like(head: &Head<'_>) -> bool {
    head.has_comment("cpu_mhz:") && head.has_comment("n_interruptions:")
}

/// End and length of stamp, delta (without `--sort`), cycles and ns.
fn row(line: &str) -> Option<(u64, u64)> {
    let all: Option<Vec<u64>> = line.split_whitespace().map(number::whole).collect();
    match all?[..] {
        [end_ns, _, length_ns] | [end_ns, _, _, length_ns] => Some((end_ns, length_ns)),
        _ => None,
    }
}

pub(super) fn read(mut input: Input<'_>) -> Result<JitterRecording> {
    let cpu = input.only_cpu();
    // Stamp and length are each rounded down.
    let mut all = EventSet::with_rounding(1);
    let (mut runtime_ns, mut last_ns) = (None, 0);
    let (mut announced, mut is_sorted, mut rows) = (None, false, 0u64);
    while let Some((place, row)) = input.lines.next_row()? {
        let line = match row {
            Row::Data(line) => line,
            Row::Comment(comment) => {
                let (name, value) = comment.split_once(':').unwrap_or_default();
                let value = value.trim();
                let number = value
                    .trim_end_matches(|c: char| c.is_ascii_alphabetic())
                    .trim();
                match name {
                    "threshold" if value.ends_with("ns") => {
                        all.threshold_ns = number::decimal(number)
                    }
                    "n_interruptions" => announced = number::whole(number),
                    "total_runtime" if value.ends_with(" seconds") => {
                        runtime_ns = number::seconds(number)
                    }
                    _ => {}
                }
                continue;
            }
        };
        let (end_ns, length_ns) = self::row(line).ok_or_else(|| {
            place.expected("a stamp, cycles and ns (three or four columns)", line)
        })?;
        let start_ns = end_ns.checked_sub(length_ns);
        let start_ns = start_ns
            .ok_or_else(|| place.expected("a stamp that is not before the length", line))?;
        is_sorted |= end_ns < last_ns;
        last_ns = last_ns.max(end_ns);
        rows += 1;
        all.add(cpu, TraceEvent::new(start_ns, length_ns), place)?;
    }
    let mut warnings = Vec::new();
    if let Some(announced) = announced.filter(|announced| *announced != rows) {
        warnings.push(format!(
            "the header says {announced} interruptions, the file has {rows}: it may be cut off"
        ));
    }
    if is_sorted {
        warnings.push("its rows are ordered by length (--sort)".to_owned());
    }
    if runtime_ns.is_none() {
        let text =
            "the file does not say how long it was recorded: until the last event is assumed";
        warnings.push(text.to_owned());
    }
    all.known(cpu, Span::new(0, runtime_ns.unwrap_or(0).max(last_ns)));
    all.trace("sysjitter", Coverage::Given, warnings, input.whole())
}
