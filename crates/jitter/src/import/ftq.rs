// SPDX-License-Identifier: Apache-2.0 OR MIT
//! FTQ (Sottile and Minnich): the work that was done in each quantum of time.

use sandbag_input::Head;

use super::counts::ValueCounts;
use super::input::{Input, JitterRecording};
use super::number;
use super::rows::Row;
use crate::Result;

pub(super) fn looks_like(head: &Head<'_>) -> bool {
    let first = head.text_data().next();
    head.has_comment("Frequency ") && first.is_none_or(|line| row(line).is_some())
}

/// Start of the sample in ns, and its work.
fn row(line: &str) -> Option<(u64, u64)> {
    number::pair(line, number::whole)
}

/// `thread 0, core 3`.
fn core(comment: &str) -> Option<u32> {
    let (_, core) = comment.strip_prefix("thread ")?.split_once("core ")?;
    number::cpu(core.trim())
}

/// The period of a frequency in Hz.
fn quantum(text: &str) -> Option<u64> {
    let rate = number::decimal(text.trim()).filter(|rate| *rate > 0.0)?;
    number::ns(1.0 / rate, 1e9).filter(|ns| *ns > 0)
}

pub(super) fn read(mut input: Input<'_>) -> Result<JitterRecording> {
    let mut cpu = input.options.cpu;
    let mut quantum_ns = None;
    let mut counts = ValueCounts::default();
    while let Some((place, row)) = input.lines.next_row()? {
        match row {
            Row::Comment(comment) => {
                cpu = cpu.or_else(|| core(comment));
                if let Some(value) = comment.strip_prefix("Frequency ") {
                    let ns = quantum(value);
                    quantum_ns =
                        Some(ns.ok_or_else(|| place.expected("a frequency in Hz", value))?);
                }
            }
            Row::Data(line) => {
                let (_, work) = self::row(line)
                    .ok_or_else(|| place.expected("a time in ns and a count", line))?;
                counts.add(work);
            }
        }
    }
    let whole = input.whole();
    let quantum_ns = quantum_ns.ok_or_else(|| whole.expected("`# Frequency N`", ""))?;
    let cpu = cpu.unwrap_or_else(|| input.only_cpu());
    let series = counts.of_fixed_time(cpu, quantum_ns);
    JitterRecording::distribution("FTQ", series, Vec::new(), whole)
}
