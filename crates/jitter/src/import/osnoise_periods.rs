// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the osnoise tracer writes of each period by itself: how much of it was
//! noise, the longest single one, and how often which cause was seen. That is
//! the noise of each period, not the length of any event.

use std::collections::BTreeMap;

use super::counts::ValueCounts;
use super::{FormatReader, Head, Input, JitterRecording, ftrace, number};
use crate::{Causes, CpuCounts, Distribution, Quantity, Result};

const FIELDS: usize = 9;
const NS_PER_US: u64 = 1000;

pub(super) const READER: FormatReader = FormatReader {
    name: "periods of osnoise (ftrace)",
    looks_like,
    read,
};

fn looks_like(head: &Head<'_>) -> bool {
    let mut lines = head.text_lines();
    lines.any(|line| ftrace::entry(line, is_period).is_some())
}

fn is_period(rest: &str) -> bool {
    let words = || rest.split_whitespace();
    words().count() == FIELDS && words().all(|word| number::decimal(word).is_some())
}

/// RUNTIME NOISE %AVAILABLE MAXSINGLE HW NMI IRQ SIRQ THREAD, times in us.
fn fields(rest: &str) -> Option<[u64; FIELDS]> {
    let mut all = [0; FIELDS];
    for (i, (field, word)) in all.iter_mut().zip(rest.split_whitespace()).enumerate() {
        *field = match i {
            2 => number::decimal(word)? as u64,
            _ => number::whole(word).filter(|n| *n < super::MAX_NS / NS_PER_US)?,
        };
    }
    Some(all)
}

#[derive(Default)]
struct CpuPeriods {
    noise_us: ValueCounts,
    runtime_us: u64,
    period_us: u64,
    longest_us: u64,
    causes: Causes,
}

fn read(mut input: Input<'_>) -> Result<JitterRecording> {
    let mut cpus: BTreeMap<u32, CpuPeriods> = BTreeMap::new();
    let mut others = 0u64;
    while let Some((place, line)) = input.lines.next_line()? {
        let Some((number, rest)) = ftrace::entry(line, is_period) else {
            continue;
        };
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
        ] = fields(rest).ok_or_else(|| place.expected("the nine columns of a period", rest))?;
        if runtime == 0 {
            return Err(place.expected("a RUNTIME above 0", rest));
        }
        let cpu = cpus.entry(number).or_default();
        if cpu.period_us == 0 {
            cpu.period_us = runtime;
        }
        others += u64::from(runtime.abs_diff(cpu.period_us) > cpu.period_us / 50);
        cpu.noise_us.add(noise);
        cpu.runtime_us = cpu.runtime_us.saturating_add(runtime);
        cpu.longest_us = cpu.longest_us.max(longest);
        let sums = &mut cpu.causes;
        for (sum, more) in [
            (&mut sums.hardware, hardware),
            (&mut sums.nmi, nmi),
            (&mut sums.irq, irq),
            (&mut sums.softirq, softirq),
            (&mut sums.thread, thread),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
    let mut warnings = Vec::new();
    if others > 0 {
        warnings.push(format!(
            "{others} periods are of another length than the first: their noise is counted with \
             the rest as it is"
        ));
    }
    let series = cpus.into_iter().map(|(number, cpu)| CpuCounts {
        bins: cpu.noise_us.bins(NS_PER_US),
        known_ns: Some(cpu.runtime_us.saturating_mul(NS_PER_US)),
        noise_ns: Some(cpu.noise_us.sum().saturating_mul(NS_PER_US)),
        longest_ns: Some(cpu.longest_us * NS_PER_US),
        causes: Some(cpu.causes),
        ..CpuCounts::new(
            number,
            Quantity::Noise {
                quantum_ns: cpu.period_us * NS_PER_US,
            },
        )
    });
    Ok(JitterRecording::Distribution(Distribution {
        recorder: "osnoise, period by period".to_owned(),
        series: series.collect(),
        warnings,
    }))
}

#[cfg(test)]
mod tests {
    use crate::import::tests::{distribution, message};
    use crate::{Causes, Quantity};

    const TEXT: &str = "\
# tracer: osnoise
#           TASK-PID      CPU# ||||   TIMESTAMP    IN US       IN US  AVAILABLE  IN US     HW    NMI    IRQ   SIRQ THREAD
                   <...>-859     [000] ....    81.637220: 1000000        190  99.98100       9     18      0   1007     18      1
                   <...>-860     [001] ....    81.638154: 1000000        656  99.93440      74     23      0   1006     16      3
                   <...>-859     [000] ....    82.637220: 1000000        210  99.97900      12     20      1   1003     12      0
";

    #[test]
    fn noise_is_counted_period_by_period() {
        let d = distribution(TEXT);
        assert_eq!(d.series.len(), 2);
        let s = &d.series[0];
        let quantum_ns = 1_000_000_000;
        assert_eq!(s.quantity, Quantity::Noise { quantum_ns });
        assert_eq!(
            (s.count(), s.known_ns, s.noise_ns),
            (2, Some(2_000_000_000), Some(400_000))
        );
        assert_eq!(s.bins[0].from_ns..s.bins[0].until_ns, 190_000..191_000);
        assert_eq!(s.longest_ns, Some(12_000));
        let causes = Causes {
            hardware: 38,
            nmi: 1,
            irq: 2010,
            softirq: 30,
            thread: 1,
        };
        assert_eq!(s.causes, Some(causes));
    }

    #[test]
    fn a_period_of_no_length_is_refused() {
        let got = message(&TEXT.replace("1000000        656", "0        656"));
        assert!(got.starts_with("in:4: expected a RUNTIME above 0"), "{got}");
    }
}
