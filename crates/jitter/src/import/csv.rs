// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Our own CSV, as `jitter convert` writes it: a row per event, CPU after CPU.
//! It has no place for the stretches in which events were looked for, and none
//! for a CPU without events: `.sbj` and JSON have.

use super::event_set::{Coverage, EventSet};
use super::{FormatReader, Head, Input, JitterRecording, number};
use crate::{Result, TraceEvent};

const HEADER: &str = "cpu,start_ns,length_ns";

pub(super) const READER: FormatReader = FormatReader {
    name: "CSV of sandbag",
    looks_like,
    read,
};

fn looks_like(head: &Head<'_>) -> bool {
    head.text_lines().next() == Some(HEADER)
}

fn read(mut input: Input<'_>) -> Result<JitterRecording> {
    let mut all = EventSet::default();
    // The header was looked at.
    input.lines.next_line()?;
    while let Some((place, line)) = input.lines.next_line()? {
        let line = line.trim();
        if line.is_empty() || line == HEADER {
            continue;
        }
        let mut cells = line.split(',').map(str::trim);
        let mut cell = || cells.next();
        let row = (|| {
            let cpu = number::cpu(cell()?)?;
            let (start_ns, length_ns) = (number::whole(cell()?)?, number::whole(cell()?)?);
            let event = TraceEvent {
                start_ns,
                length_ns,
            };
            cell().is_none().then_some((cpu, event))
        })();
        let (cpu, event) = row.ok_or_else(|| {
            place.expected("a CPU, a start and a length in ns, with commas", line)
        })?;
        all.event(cpu, event).map_err(|fault| place.fault(fault))?;
    }
    let warnings = vec![
        "the file does not say when events were looked for: the time from 0 to the end of the \
         last event is taken for it, on each CPU that has one"
            .to_owned(),
    ];
    let whole = input.lines.whole();
    let trace = all.trace(
        "an unknown program (CSV)".to_owned(),
        Coverage::FromZero,
        warnings,
    );
    trace
        .map(JitterRecording::Trace)
        .map_err(|fault| whole.fault(fault))
}

#[cfg(test)]
mod tests {
    use crate::import::tests::{message, trace};

    #[test]
    fn rows_are_events_and_the_time_is_taken_for_known() {
        let t = trace("cpu,start_ns,length_ns\n0,100,50\n0,1000,7\n2,500,9\n");
        assert_eq!(t.header.cpus, [0, 2]);
        assert_eq!(t.cpus[1].known_ns(), 1007);
        assert_eq!(t.cpus[0].events.len(), 2);
        assert_eq!(t.warnings.len(), 1);
    }

    #[test]
    fn a_row_of_something_else_is_named() {
        for row in ["0,1", "0,1,2,3", "x,1,2", "0,-1,2", "0,1.5,2", "70000,1,2"] {
            let got = message(&format!("cpu,start_ns,length_ns\n{row}\n"));
            assert!(got.starts_with("in:2: expected a CPU, a start"), "{got}");
        }
        let got = message("cpu,start_ns,length_ns\n0,18446744073709551615,2\n");
        assert!(got.contains("146 years"), "{got}");
    }
}
