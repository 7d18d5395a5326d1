// SPDX-License-Identifier: Apache-2.0 OR MIT
//! netgauge's `fwq` and `ftq` patterns: how long a fixed work took, in whole
//! us, and how much work was done in a fixed time.

use super::counts::ValueCounts;
use super::{FormatReader, Head, Input, JitterRecording, number};
use crate::{Distribution, Fault, Result};

const WORK: &str = "Fixed Work Quantum Benchmark";
const TIME: &str = "Fixed Time Quantum Benchmark";
const NS_PER_US: f64 = 1e3;

pub(super) const READER: FormatReader = FormatReader {
    name: "netgauge fwq and ftq",
    looks_like,
    read,
};

fn looks_like(head: &Head<'_>) -> bool {
    head.has_comment(WORK) || head.has_comment(TIME)
}

fn read(mut input: Input<'_>) -> Result<JitterRecording> {
    let cpu = input.only_cpu();
    let mut counts = ValueCounts::default();
    let (mut is_work, mut quantum_ns) = (false, None);
    while let Some((place, line)) = input.lines.next_line()? {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix('#').map(str::trim) {
            is_work |= comment.starts_with(WORK);
            if let Some(value) = comment.strip_prefix("Compute-Cycle Duration:") {
                let us = value.split_whitespace().next().and_then(number::decimal);
                quantum_ns = us.and_then(|us| number::ns(us, NS_PER_US));
            }
            continue;
        }
        if line.is_empty() {
            continue;
        }
        let mut words = line.split_whitespace();
        let mut one = || words.next().and_then(number::whole);
        let row = one().zip(one()).filter(|_| words.next().is_none());
        let (_, value) = row.ok_or_else(|| place.expected("a number and a count", line))?;
        counts.add(value);
    }
    let whole = input.lines.whole();
    let (series, recorder) = if is_work {
        (counts.of_fixed_work(cpu, NS_PER_US), "netgauge fwq")
    } else {
        let quantum_ns = quantum_ns.filter(|ns| *ns > 0).ok_or_else(|| {
            whole.expected(
                "how long a quantum is (`# Compute-Cycle Duration: N usec`)",
                "",
            )
        })?;
        (counts.of_fixed_time(cpu, quantum_ns), "netgauge ftq")
    };
    let series = series.ok_or_else(|| whole.fault(Fault::NothingKnown))?;
    Ok(JitterRecording::Distribution(Distribution {
        recorder: recorder.to_owned(),
        series: vec![series],
        warnings: Vec::new(),
    }))
}

#[cfg(test)]
mod tests {
    use crate::import::tests::{distribution, message};

    #[test]
    fn longer_work_is_noise() {
        let d = distribution(
            "# Compute-Cycle Duration: 1000 usec\n# Fixed Work Quantum Benchmark\n\
             # cycle number    duration [us]\n0   1000\n1   1005\n2   1000\n",
        );
        let s = &d.series[0];
        assert_eq!((s.noise_ns, s.known_ns), (Some(5_000), Some(3_005_000)));
        assert_eq!(s.bins[1].from_ns, 5_000);
    }

    #[test]
    fn less_work_is_noise() {
        let text = "# Compute-Cycle Duration: 1000 usec\n# Fixed Time Quantum Benchmark\n\
             # cycle number    workload iterations\n 0   2000\n 1   1000\n";
        let s = &distribution(text).series[0];
        assert_eq!((s.noise_ns, s.known_ns), (Some(500_000), Some(2_000_000)));
        let got = message(&text.replace("# Compute", "# Other"));
        assert!(got.contains("in: expected how long a quantum is"), "{got}");
        let got = message(&text.replace("1000\n", "x\n"));
        assert!(
            got.contains("in:5: expected a number and a count, found `1   x`"),
            "{got}"
        );
    }
}
