// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sysjitter --raw`, one file per core: a loop as ours. The stamp of a row is
//! the reading at its end, in ns since the loop began. With `--sort` rows stand
//! by length and lack a column.

use super::event_set::{Coverage, EventSet};
use super::{FormatReader, Head, Input, JitterRecording, number};
use crate::{Fault, Result, Span, TraceEvent};

pub(super) const READER: FormatReader = FormatReader {
    name: "sysjitter --raw",
    looks_like,
    read,
};

fn looks_like(head: &Head<'_>) -> bool {
    head.has_comment("cpu_mhz:") && head.has_comment("n_interruptions:")
}

/// Stamp, delta (not of `--sort`), cycles, ns: end and length.
fn row(line: &str) -> Option<(u64, u64)> {
    let mut all = [0; 4];
    let mut columns = 0;
    for word in line.split_whitespace() {
        *all.get_mut(columns)? = number::whole(word)?;
        columns += 1;
    }
    (columns >= 3).then(|| (all[0], all[columns - 1]))
}

fn read(mut input: Input<'_>) -> Result<JitterRecording> {
    let cpu = input.only_cpu();
    // Stamp and length are each rounded down.
    let mut all = EventSet::with_rounding(1);
    let (mut runtime_ns, mut last_ns) = (None, 0);
    let (mut told, mut sorted, mut rows) = (None, false, 0u64);
    while let Some((place, line)) = input.lines.next_line()? {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix('#').map(str::trim) {
            if let Some(value) = comment.strip_prefix("threshold:") {
                let ns = value.trim().strip_suffix("ns");
                all.threshold_ns = ns.and_then(|ns| number::decimal(ns.trim()));
            } else if let Some(value) = comment.strip_prefix("n_interruptions:") {
                told = number::whole(value.trim());
            } else if let Some(value) = comment.strip_prefix("total_runtime:")
                && let Some(seconds) = value.trim().strip_suffix(" seconds")
            {
                runtime_ns = number::seconds(seconds);
            }
            continue;
        }
        if line.is_empty() {
            continue;
        }
        let (end_ns, length_ns) = row(line).ok_or_else(|| {
            place.expected("a stamp, cycles and ns (three or four columns)", line)
        })?;
        let start_ns = end_ns.checked_sub(length_ns);
        let start_ns = start_ns
            .ok_or_else(|| place.expected("a stamp that is not before the length", line))?;
        sorted |= end_ns < last_ns;
        last_ns = last_ns.max(end_ns);
        rows += 1;
        let event = TraceEvent {
            start_ns,
            length_ns,
        };
        all.event(cpu, event).map_err(|fault| place.fault(fault))?;
    }
    let mut warnings = Vec::new();
    if told.is_some_and(|told| told != rows) {
        warnings.push(format!(
            "the header tells of {} interruptions, the file has {rows}: it may be cut off",
            told.unwrap_or(0)
        ));
    }
    if sorted {
        warnings.push("its rows stand by length (--sort)".to_owned());
    }
    if runtime_ns.is_none() {
        warnings.push(
            "the file does not say how long it was recorded: the time to the last event is taken"
                .to_owned(),
        );
    }
    let until_ns = runtime_ns.unwrap_or(0).max(last_ns);
    all.known(
        cpu,
        Span {
            from_ns: 0,
            until_ns,
        },
    );
    let whole = input.lines.whole();
    let trace = all.trace("sysjitter".to_owned(), Coverage::Told, warnings);
    trace
        .map(JitterRecording::Trace)
        .map_err(|fault: Fault| whole.fault(fault))
}

#[cfg(test)]
mod tests {
    use crate::import::JitterRecording;
    use crate::import::tests::{message, read_named, trace};

    const TEXT: &str = "\
# cpu_mhz: 2600
# threshold: 200ns
# n_interruptions: 2
# interruption: 0.1%
# total_runtime: 2600000000 cycles
# total_runtime: 1.000000000 seconds
#
#      Timestamp      delta   <== interruption =>
#         (nsec)     (usec)   (cycles)     (nsec)
          100000          0       5200       2000
          900000        800      26000      10000
";

    #[test]
    fn a_stamp_is_the_end() {
        let Ok(JitterRecording::Trace(t)) = read_named(TEXT, "raw.3") else {
            panic!()
        };
        assert_eq!(t.header.cpus, [3]);
        assert_eq!(t.detectable_ns(), Some(200.0));
        let cpu = &t.cpus[0];
        assert_eq!(
            (cpu.events[0].start_ns, cpu.events[0].length_ns),
            (98_000, 2_000)
        );
        assert_eq!(cpu.known_ns(), 1_000_000_000);
        assert!(t.warnings.is_empty(), "{:?}", t.warnings);
    }

    #[test]
    fn rows_by_length_are_sorted_by_time() {
        let (head, rows) = TEXT.split_at(TEXT.find("          100000").unwrap());
        let rows = rows
            .replace("          0  ", " ")
            .replace("        800  ", " ");
        let (a, b) = rows.split_once('\n').unwrap();
        let t = trace(&format!("{head}{b}{a}\n"));
        assert_eq!(t.cpus[0].events[1].start_ns, 890_000);
        assert_eq!(t.warnings.len(), 2);
    }

    #[test]
    fn a_file_that_was_cut_off_is_told() {
        let text = &TEXT[..TEXT.find("          900000").unwrap()];
        assert!(trace(text).warnings[0].contains("tells of 2"));
        let got = message(&TEXT.replace("  5200       2000", "  5200       200000"));
        assert!(got.starts_with("in:10: expected a stamp that"), "{got}");
    }
}
