// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CSV of `jitter convert`: a row per event, CPU after CPU. It holds neither the time in
//! which events were looked for nor CPUs without events; `.sbj` and JSON do.

use sandbag_input::Head;

use super::event_set::{Coverage, EventSet};
use super::input::{Input, JitterRecording};
use super::number;
use crate::{Result, TraceEvent};

const HEADER: &str = "cpu,start_ns,length_ns";

pub(super) fn looks_like(head: &Head<'_>) -> bool {
    head.text_lines().next() == Some(HEADER)
}

fn row(line: &str) -> Option<(u32, TraceEvent)> {
    let mut cells = line.split(',').map(str::trim);
    let cpu = number::cpu(cells.next()?)?;
    let start_ns = number::whole(cells.next()?)?;
    let event = TraceEvent::new(start_ns, number::whole(cells.next()?)?);
    cells.next().is_none().then_some((cpu, event))
}

pub(super) fn read(mut input: Input<'_>) -> Result<JitterRecording> {
    let mut all = EventSet::default();
    while let Some((place, line)) = input.lines.next_line()? {
        let line = line.trim();
        // The header, after a byte order mark in the first line, was checked.
        if place.line == 1 || line.is_empty() || line == HEADER {
            continue;
        }
        let (cpu, event) = row(line).ok_or_else(|| {
            place.expected("a CPU, a start and a length in ns, with commas", line)
        })?;
        all.add(cpu, event, place)?;
    }
    let recorder = "an unknown program (CSV)";
    all.trace(recorder, Coverage::FromZero, Vec::new(), input.whole())
}
