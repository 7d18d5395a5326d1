// SPDX-License-Identifier: Apache-2.0 OR MIT
//! FTQ (Sottile and Minnich): how much work was done in each quantum of time.

use super::counts::ValueCounts;
use super::{FormatReader, Head, Input, JitterRecording, number};
use crate::{Distribution, Fault, Result};

pub(super) const READER: FormatReader = FormatReader {
    name: "FTQ",
    looks_like,
    read,
};

fn looks_like(head: &Head<'_>) -> bool {
    head.has_comment("Frequency ")
        && head
            .text_data()
            .next()
            .is_none_or(|line| row(line).is_some())
}

/// Begin of the sample in ns, and its work.
fn row(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split_whitespace();
    let mut one = || words.next().and_then(number::whole);
    one().zip(one()).filter(|_| words.next().is_none())
}

/// `thread 0, core 3`.
fn core(comment: &str) -> Option<u32> {
    let (_, core) = comment.strip_prefix("thread ")?.split_once("core ")?;
    number::cpu(core.trim())
}

fn read(mut input: Input<'_>) -> Result<JitterRecording> {
    let mut cpu = input.options.cpu;
    let mut quantum_ns = None;
    let mut counts = ValueCounts::default();
    while let Some((place, line)) = input.lines.next_line()? {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix('#').map(str::trim) {
            cpu = cpu.or_else(|| core(comment));
            if let Some(value) = comment.strip_prefix("Frequency ") {
                let rate = number::decimal(value.trim()).filter(|rate| *rate > 0.0);
                let ns = rate
                    .and_then(|rate| number::ns(1.0 / rate, 1e9))
                    .filter(|ns| *ns > 0);
                let ns = ns.ok_or_else(|| place.expected("a frequency in Hz", value))?;
                quantum_ns = Some(ns);
            }
            continue;
        }
        if line.is_empty() {
            continue;
        }
        let (_, work) =
            row(line).ok_or_else(|| place.expected("a time in ns and a count", line))?;
        counts.add(work);
    }
    let whole = input.lines.whole();
    let quantum_ns = quantum_ns.ok_or_else(|| whole.expected("`# Frequency N`", ""))?;
    let cpu = cpu.unwrap_or_else(|| input.only_cpu());
    let series = counts.of_fixed_time(cpu, quantum_ns);
    let series = series.ok_or_else(|| whole.fault(Fault::NothingKnown))?;
    Ok(JitterRecording::Distribution(Distribution {
        recorder: "FTQ".to_owned(),
        series: vec![series],
        warnings: Vec::new(),
    }))
}

#[cfg(test)]
mod tests {
    use crate::Quantity;
    use crate::import::tests::distribution;

    #[test]
    fn the_quantum_and_the_core_are_in_the_header() {
        let d = distribution(
            "# Frequency 10000.000000\n# Ticks per ns: 2.6\n# octave: pkg load signal\n\
             # thread 1, core 5\n0 100\n100000 90\n200003 100\n",
        );
        let s = &d.series[0];
        assert_eq!(s.cpu, 5);
        assert_eq!(
            s.quantity,
            Quantity::Noise {
                quantum_ns: 100_000
            }
        );
        assert_eq!((s.noise_ns, s.known_ns), (Some(10_000), Some(300_000)));
    }
}
