// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Noise trace of LogGOPSim: start and length in the time unit of the simulation, which
//! the file does not name.

use sandbag_input::Head;

use super::event_set::{Coverage, EventSet};
use super::input::{Input, JitterRecording};
use super::number;
use super::rows::Row;
use crate::{Fault, Result, TraceEvent};

/// Lines that are checked to recognise the format.
const CHECKED: usize = 20;

pub(super) fn looks_like(head: &Head<'_>) -> bool {
    let mut lines = head.text_lines().take(CHECKED).peekable();
    lines.peek().is_some() && lines.all(|line| number::pair(line, number::decimal).is_some())
}

pub(super) fn read(mut input: Input<'_>) -> Result<JitterRecording> {
    let (cpu, whole) = (input.only_cpu(), input.whole());
    let unit = input.options.unit;
    let unit_ns = unit.ok_or_else(|| whole.fault(Fault::NoUnit))?.in_ns();
    let time = |text: &str| number::ns(number::decimal(text)?, unit_ns);
    let mut all = EventSet::with_rounding(1);
    while let Some((place, row)) = input.lines.next_row()? {
        let expected = |line: &str| place.expected("a start and a length", line);
        let line = match row {
            Row::Data(line) => line,
            // The format has no comments.
            Row::Comment(text) => return Err(expected(&format!("#{text}"))),
        };
        let (start_ns, length_ns) = number::pair(line, time).ok_or_else(|| expected(line))?;
        all.add(cpu, TraceEvent::new(start_ns, length_ns), place)?;
    }
    let recorder = "LogGOPSim's noise trace";
    all.trace(recorder, Coverage::EachCpu, Vec::new(), whole)
}
