// SPDX-License-Identifier: Apache-2.0 OR MIT
//! netgauge's `fwq` and `ftq` patterns: the time that a fixed work took, in whole us, and
//! the work that was done in a fixed time.

use sandbag_input::Head;

use super::counts::ValueCounts;
use super::input::{Input, JitterRecording};
use super::number;
use super::rows::Row;
use crate::Result;

const WORK: &str = "Fixed Work Quantum Benchmark";
const TIME: &str = "Fixed Time Quantum Benchmark";
const NS_PER_US: f64 = 1e3;

pub(super) fn looks_like(head: &Head<'_>) -> bool {
    head.has_comment(WORK) || head.has_comment(TIME)
}

pub(super) fn read(mut input: Input<'_>) -> Result<JitterRecording> {
    let cpu = input.only_cpu();
    let mut counts = ValueCounts::default();
    let (mut is_work, mut quantum_ns) = (false, None);
    while let Some((place, row)) = input.lines.next_row()? {
        match row {
            Row::Comment(comment) => {
                is_work |= comment.starts_with(WORK);
                if let Some(value) = comment.strip_prefix("Compute-Cycle Duration:") {
                    let us = value.split_whitespace().next().and_then(number::decimal);
                    quantum_ns = us.and_then(|us| number::ns(us, NS_PER_US));
                }
            }
            Row::Data(line) => {
                let (_, value) = number::pair(line, number::whole)
                    .ok_or_else(|| place.expected("a number and a count", line))?;
                counts.add(value);
            }
        }
    }
    let whole = input.whole();
    if is_work {
        let series = counts.of_fixed_work(cpu, NS_PER_US);
        return JitterRecording::distribution("netgauge fwq", series, Vec::new(), whole);
    }
    let expected = "the length of a quantum (`# Compute-Cycle Duration: N usec`)";
    let quantum_ns = quantum_ns.filter(|ns| *ns > 0);
    let quantum_ns = quantum_ns.ok_or_else(|| whole.expected(expected, ""))?;
    let series = counts.of_fixed_time(cpu, quantum_ns);
    JitterRecording::distribution("netgauge ftq", series, Vec::new(), whole)
}
