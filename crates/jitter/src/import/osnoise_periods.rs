// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rows of the osnoise tracer, one per period: its noise, the longest event, and how often
//! each kind of cause occurred. They give the noise of periods, not lengths of events.

use std::collections::BTreeMap;

use sandbag_input::Head;

use super::counts::ValueCounts;
use super::input::{Input, JitterRecording};
use super::number::MAX_NS;
use super::{ftrace, number};
use crate::{Causes, CpuCounts, Quantity, Result};

const FIELDS: usize = 9;
const NS_PER_US: u64 = 1000;

pub(super) fn looks_like(head: &Head<'_>) -> bool {
    let mut lines = head.text_lines();
    lines.any(|line| ftrace::entry(line, is_period).is_some())
}

fn is_period(rest: &str) -> bool {
    let words = || rest.split_whitespace();
    words().count() == FIELDS && words().all(|word| number::decimal(word).is_some())
}

/// RUNTIME NOISE %AVAILABLE MAXSINGLE HW NMI IRQ SIRQ THREAD, times in us.
fn fields(rest: &str) -> Option<[u64; FIELDS]> {
    let field = |(i, word)| match i {
        2 => number::decimal(word).map(|pct| pct as u64),
        _ => number::whole(word).filter(|n| *n < MAX_NS / NS_PER_US),
    };
    let all: Option<Vec<u64>> = rest.split_whitespace().enumerate().map(field).collect();
    all?.try_into().ok()
}

pub(super) fn read(mut input: Input<'_>) -> Result<JitterRecording> {
    let mut cpus: BTreeMap<u32, (CpuCounts, ValueCounts)> = BTreeMap::new();
    let mut others = 0u64;
    while let Some((place, line)) = input.lines.next_line()? {
        let Some((cpu, rest)) = ftrace::entry(line, is_period) else {
            continue;
        };
        let fields = fields(rest);
        let fields = fields.ok_or_else(|| place.expected("the nine columns of a period", rest))?;
        let [
            runtime,
            noise,
            _,
            longest,
            hardware,
            nmi,
            irq,
            softirq,
            thread,
        ] = fields;
        if runtime == 0 {
            return Err(place.expected("a RUNTIME above 0", rest));
        }
        let runtime_ns = runtime * NS_PER_US;
        let (counts, noise_us) = cpus.entry(cpu).or_insert_with(|| {
            let quantum_ns = runtime_ns;
            let counts = CpuCounts::new(cpu, Quantity::Noise { quantum_ns });
            (counts, ValueCounts::default())
        });
        if let Quantity::Noise { quantum_ns } = counts.quantity {
            others += u64::from(runtime_ns.abs_diff(quantum_ns) > quantum_ns / 50);
        }
        noise_us.add(noise);
        counts.known_ns = Some(counts.known_ns.unwrap_or(0).saturating_add(runtime_ns));
        counts.longest_ns = counts.longest_ns.max(Some(longest * NS_PER_US));
        let more = Causes {
            hardware,
            nmi,
            irq,
            softirq,
            thread,
        };
        counts.causes.get_or_insert_default().add(more);
    }
    let mut warnings = Vec::new();
    if others > 0 {
        warnings.push(format!(
            "{others} periods differ in length from the first: their noise is counted as it is"
        ));
    }
    let series = cpus.into_values().map(|(counts, noise_us)| CpuCounts {
        bins: noise_us.bins(NS_PER_US),
        noise_ns: Some(noise_us.sum().saturating_mul(NS_PER_US)),
        ..counts
    });
    let recorder = "osnoise, period by period";
    JitterRecording::distribution(recorder, series, warnings, input.whole())
}
