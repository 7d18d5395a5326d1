// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A noise trace of LogGOPSim: start and length, nothing else, in the time unit
//! of the simulation, which the file does not name.

use super::event_set::{Coverage, EventSet};
use super::{FormatReader, Head, Input, JitterRecording, number};
use crate::{Fault, Result, TraceEvent};

/// Lines that have to look like it.
const LOOKED_AT: usize = 20;

pub(super) const READER: FormatReader = FormatReader {
    name: "noise trace of LogGOPSim",
    looks_like,
    read,
};

fn looks_like(head: &Head<'_>) -> bool {
    let mut lines = head.text_lines().take(LOOKED_AT).peekable();
    lines.peek().is_some() && lines.all(|line| row(line).is_some())
}

fn row(line: &str) -> Option<(f64, f64)> {
    let mut words = line.split_whitespace();
    let mut one = || words.next().and_then(number::decimal);
    one().zip(one()).filter(|_| words.next().is_none())
}

fn read(mut input: Input<'_>) -> Result<JitterRecording> {
    let cpu = input.only_cpu();
    let whole = input.lines.whole();
    let unit = input
        .options
        .unit
        .ok_or_else(|| whole.fault(Fault::NoUnit))?;
    let mut all = EventSet::with_rounding(1);
    while let Some((place, line)) = input.lines.next_line()? {
        if line.trim().is_empty() {
            continue;
        }
        let event = row(line).and_then(|(start, length)| {
            let in_ns = unit.in_ns();
            Some(TraceEvent {
                start_ns: number::ns(start, in_ns)?,
                length_ns: number::ns(length, in_ns)?,
            })
        });
        let event = event.ok_or_else(|| place.expected("a start and a length", line))?;
        all.event(cpu, event).map_err(|fault| place.fault(fault))?;
    }
    let warnings = vec![
        "the file does not say when events were looked for: the time from the first to the last \
         is taken for it"
            .to_owned(),
    ];
    let trace = all.trace(
        "LogGOPSim's noise trace".to_owned(),
        Coverage::EachItsOwn,
        warnings,
    );
    trace
        .map(JitterRecording::Trace)
        .map_err(|fault| whole.fault(fault))
}

#[cfg(test)]
mod tests {
    use crate::import::{ImportOptions, JitterRecording, Unit, read};

    #[test]
    fn the_unit_has_to_be_named() {
        let text = "1000000 200000\n5000000 300000\n4000000 10000\n";
        let read = |unit| {
            read(
                text.as_bytes(),
                "in",
                &ImportOptions {
                    unit,
                    cpu: Some(4),
                    ..ImportOptions::default()
                },
            )
        };
        let said = read(None).unwrap_err().to_string();
        assert!(
            said.starts_with("in: ") && said.contains("--unit"),
            "{said}"
        );
        let Ok(JitterRecording::Trace(t)) = read(Some(Unit::Ns)) else {
            panic!()
        };
        assert_eq!(t.header.cpus, [4]);
        assert_eq!(t.cpus[0].known_ns(), 4_300_000);
        assert!(t.warnings[1].contains("were sorted"));
        let Ok(JitterRecording::Trace(t)) = read(Some(Unit::Ps)) else {
            panic!()
        };
        assert_eq!(t.cpus[0].events.len(), 3);
        assert_eq!(t.cpus[0].known_ns(), 4_300);
    }
}
