// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `rtla osnoise top` and `rtla hwnoise`: totals of each CPU since the beginning, printed
//! repeatedly; the last row of a CPU counts.

use std::collections::BTreeMap;

use sandbag_input::Head;

use super::input::{Input, JitterRecording};
use super::number;
use super::number::MAX_NS;
use crate::{Causes, CpuCounts, Quantity, Result};

const NS_PER_US: u64 = 1000;

pub(super) fn looks_like(head: &Head<'_>) -> bool {
    head.text_lines().any(|line| is_header(&plain(line)))
}

fn is_header(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next() == Some("CPU") && words.next() == Some("Period") && line.contains("Max Single")
}

/// Without the sequences that colour a terminal and clear it.
fn plain(line: &str) -> String {
    let mut pieces = line.split('\x1b');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let rest = match piece.strip_prefix('[') {
            // Parameters, then one letter.
            Some(sequence) => {
                let end = sequence.find(|c: char| c.is_ascii_alphabetic());
                end.map_or("", |end| &sequence[end + 1..])
            }
            None => piece.get(1..).unwrap_or_default(),
        };
        text.push_str(rest);
    }
    text
}

/// CPU #PERIODS RUNTIME NOISE %AVAILABLE MAXNOISE MAXSINGLE HW, NMI and, not of
/// hwnoise, IRQ SOFTIRQ THREAD.
fn row(line: &str) -> Option<CpuCounts> {
    let mut words = line.split_whitespace();
    let cpu = number::cpu(words.next()?)?;
    let periods = number::whole(words.next()?.strip_prefix('#')?)?.max(1);
    let ns = |word: &str| {
        let ns = number::whole(word)?.checked_mul(NS_PER_US)?;
        (ns < MAX_NS).then_some(ns)
    };
    let (runtime_ns, noise_ns) = (ns(words.next()?)?, ns(words.next()?)?);
    number::decimal(words.next()?)?;
    ns(words.next()?)?;
    let longest_ns = ns(words.next()?)?;
    let counts: Option<Vec<u64>> = words.map(number::whole).collect();
    let mut counts = counts?;
    if counts.len() == 2 {
        counts.extend([0; 3]);
    }
    let [hardware, nmi, irq, softirq, thread] = counts[..] else {
        return None;
    };
    let causes = Causes {
        hardware,
        nmi,
        irq,
        softirq,
        thread,
    };
    let quantum_ns = runtime_ns / periods;
    Some(CpuCounts {
        known_ns: Some(runtime_ns),
        noise_ns: Some(noise_ns),
        longest_ns: Some(longest_ns),
        causes: Some(causes),
        ..CpuCounts::new(cpu, Quantity::Noise { quantum_ns })
    })
}

/// What rtla prints below a table if it lost events, as a warning.
pub(super) fn missed_events(line: &str) -> Option<String> {
    let is_report = line.contains("events missed, results might not be accurate");
    is_report.then(|| format!("rtla: {}", line.trim()))
}

pub(super) fn read(mut input: Input<'_>) -> Result<JitterRecording> {
    let mut cpus = BTreeMap::new();
    let (mut in_table, mut missed) = (false, None);
    while let Some((place, line)) = input.lines.next_line()? {
        let line = plain(line);
        let line = line.trim();
        // Beside the table stand a title and, at the end, messages.
        if is_header(line) {
            in_table = true;
        } else if let Some(warning) = missed_events(line) {
            // It counts from the beginning, as the rows do.
            missed = Some(warning);
        } else if in_table && line.starts_with(|c: char| c.is_ascii_digit()) {
            let series = row(line).ok_or_else(|| place.expected("a row of rtla's table", line))?;
            cpus.insert(series.cpu, series);
        }
    }
    let series = cpus.into_values();
    let warnings = Vec::from_iter(missed);
    JitterRecording::distribution("rtla osnoise top", series, warnings, input.whole())
}
