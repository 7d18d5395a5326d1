// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `rtla osnoise top` and `rtla hwnoise`: totals of each CPU since the
//! beginning, printed again and again; the last row of a CPU counts.

use std::collections::BTreeMap;

use super::{FormatReader, Head, Input, JitterRecording, MAX_NS, number};
use crate::{Causes, CpuCounts, Distribution, Fault, Quantity, Result};

const NS_PER_US: u64 = 1000;

pub(super) const READER: FormatReader = FormatReader {
    name: "rtla osnoise top",
    looks_like,
    read,
};

fn looks_like(head: &Head<'_>) -> bool {
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
    let mut count = || words.next().map(number::whole);
    let causes = Causes {
        hardware: count()??,
        nmi: count()??,
        irq: count().unwrap_or(Some(0))?,
        softirq: count().unwrap_or(Some(0))?,
        thread: count().unwrap_or(Some(0))?,
    };
    let quantum_ns = runtime_ns / periods;
    words.next().is_none().then(|| CpuCounts {
        known_ns: Some(runtime_ns),
        noise_ns: Some(noise_ns),
        longest_ns: Some(longest_ns),
        causes: Some(causes),
        ..CpuCounts::new(cpu, Quantity::Noise { quantum_ns })
    })
}

fn read(mut input: Input<'_>) -> Result<JitterRecording> {
    let mut cpus = BTreeMap::new();
    let mut in_table = false;
    while let Some((place, line)) = input.lines.next_line()? {
        let line = plain(line);
        let line = line.trim();
        // Beside the table stand a title and, at the end, messages.
        if is_header(line) {
            in_table = true;
        } else if in_table && line.starts_with(|c: char| c.is_ascii_digit()) {
            let series = row(line).ok_or_else(|| place.expected("a row of rtla's table", line))?;
            cpus.insert(series.cpu, series);
        }
    }
    if cpus.is_empty() {
        return Err(input.lines.whole().fault(Fault::NothingKnown));
    }
    Ok(JitterRecording::Distribution(Distribution {
        recorder: "rtla osnoise top".to_owned(),
        series: cpus.into_values().collect(),
        warnings: Vec::new(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::tests::{distribution, message};

    const TEXT: &str = "\
\x1b[2J\x1b[2;37;40m                    Operating System Noise                    \x1b[0;0;0m
duration:   0 00:00:02 | time is in us
\x1b[2;30;47mCPU Period       Runtime        Noise  % CPU Aval   Max Noise   Max Single          HW          NMI          IRQ      Softirq       Thread\x1b[0;0;0m
  0 #1            900000          100    99.90000         100           50           5            0           53            1            1
  0 #2           1800000          300    99.98333         200           56           9            0          106            2            1
  1 #2           1800000          400    99.97777         300           60           9            0
rtla osnoise hit stop tracing
";

    #[test]
    fn the_last_row_of_a_cpu_counts() {
        let d = distribution(TEXT);
        let [a, b] = &d.series[..] else { panic!() };
        assert_eq!(
            (a.known_ns, a.noise_ns),
            (Some(1_800_000_000), Some(300_000))
        );
        let quantum_ns = 900_000_000;
        assert_eq!(a.quantity, Quantity::Noise { quantum_ns });
        assert_eq!(a.longest_ns, Some(56_000));
        assert_eq!(a.causes.unwrap().irq, 106);
        assert_eq!(b.causes.unwrap().irq, 0);
        assert!(a.bins.is_empty() && a.quantile(50.0).is_none());
    }

    #[test]
    fn a_row_of_something_else_is_named() {
        let got = message(&TEXT.replace("#1  ", "1   "));
        assert!(
            got.starts_with("in:4: expected a row of rtla's table"),
            "{got}"
        );
    }
}
