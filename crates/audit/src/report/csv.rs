// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An audit as CSV: a line for each run of a test (`sample`), then one for each
//! effect, all lengths together and at each length (`effect`).
//!
//! All lines have the same columns; what a kind has not is empty. Times are ns,
//! effects percent (of noise: points).

use crate::model::{Audit, CpuVerdict, Nature, Quantity, Test};

use crate::report::words::{self, verdicts};

const COLUMNS: &str = "\
    kind, test, cpu, round, length, at_ns, elapsed_ns, user_ns, system_ns, noise_pct, \
    voluntary, involuntary, waited_ns, steal_ns, irq_ns, softirq_ns, frequency_khz, \
    throttled, quantity, pct, low_pct, high_pct, together_low_pct, together_high_pct, \
    p, p_together, runs, middle, detectable_pct, verdict, nature, because, unit";

fn columns() -> impl Iterator<Item = &'static str> {
    COLUMNS.split(", ")
}

pub fn csv(audit: &Audit) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // Nothing fails in memory, and all lines have as many fields.
    let _ = writer.write_record(columns());
    for test in &audit.tests {
        samples(test, &mut writer);
    }
    for test in &audit.tests {
        effects(test, &mut writer);
    }
    let bytes = writer.into_inner().unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A line, by the names of its columns.
#[derive(Default)]
struct CsvLine(Vec<(&'static str, String)>);

impl CsvLine {
    fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.0.push((name, value.to_string()));
        self
    }

    fn maybe(self, name: &'static str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    fn write(self, writer: &mut csv::Writer<Vec<u8>>) {
        let field = |name: &str| {
            let found = self.0.iter().find(|(n, _)| *n == name);
            found.map_or("", |(_, value)| value.as_str())
        };
        let _ = writer.write_record(columns().map(field));
    }
}

/// In the test's own units.
fn length(test: &Test, length: usize) -> String {
    let length = test.lengths.get(length);
    length.map_or_else(String::new, u64::to_string)
}

fn samples(test: &Test, writer: &mut csv::Writer<Vec<u8>>) {
    for sample in &test.samples {
        let evidence = &sample.evidence;
        CsvLine::default()
            .with("kind", "sample")
            .with("test", &test.name)
            .with("unit", &test.unit)
            .with("cpu", sample.cpu)
            .with("round", sample.round)
            .with("length", length(test, sample.length))
            .with("at_ns", sample.at_ns)
            .with("elapsed_ns", sample.elapsed_ns)
            .with("user_ns", sample.user_ns)
            .with("system_ns", sample.system_ns)
            .maybe("noise_pct", sample.noise_pct)
            .with("voluntary", evidence.voluntary)
            .with("involuntary", evidence.involuntary)
            .with("waited_ns", evidence.waited_ns)
            .with("steal_ns", evidence.steal_ns)
            .with("irq_ns", evidence.irq_ns)
            .with("softirq_ns", evidence.softirq_ns)
            .maybe("frequency_khz", evidence.frequency_khz)
            .maybe("throttled", evidence.throttled)
            .write(writer);
    }
}

fn effects(test: &Test, writer: &mut csv::Writer<Vec<u8>>) {
    let verdicts = verdicts(test);
    let start = |cpu: u32, quantity: Quantity| {
        CsvLine::default()
            .with("kind", "effect")
            .with("test", &test.name)
            .with("unit", &test.unit)
            .with("cpu", cpu)
            .with("quantity", quantity.word())
    };
    for effect in &test.effects {
        let found: Option<&&CpuVerdict> = verdicts.get(&(effect.cpu, effect.quantity));
        let nature = found.and_then(|one| one.nature).map(|nature| match nature {
            Nature::Inequality => "inequality",
            Nature::Contention => "contention",
            Nature::Designed => "designed",
        });
        start(effect.cpu, effect.quantity)
            .with("pct", effect.pct)
            .with("low_pct", effect.interval_pct.0)
            .with("high_pct", effect.interval_pct.1)
            .with("together_low_pct", effect.together_pct.0)
            .with("together_high_pct", effect.together_pct.1)
            .with("p", effect.p)
            .with("p_together", effect.p_together)
            .with("runs", effect.runs)
            .with("middle", effect.middle)
            .maybe("detectable_pct", effect.detectable_pct)
            .maybe("verdict", found.map(|one| words::verdict(one.verdict)))
            .maybe("nature", nature)
            .maybe("because", found.map(|one| &one.because))
            .write(writer);
    }
    for effect in &test.by_length {
        start(effect.cpu, effect.quantity)
            .with("length", length(test, effect.length))
            .with("pct", effect.pct)
            .with("low_pct", effect.interval_pct.0)
            .with("high_pct", effect.interval_pct.1)
            .write(writer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::eight;

    #[test]
    fn a_line_for_each_sample_and_each_effect() {
        let mut audit = eight();
        audit.tests[0].name = "a, \"b\"\nc".to_owned();
        let text = csv(&audit);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        assert_eq!(reader.headers().unwrap().len(), columns().count());
        let all: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        let count = |kind: &str| all.iter().filter(|line| &line[0] == kind).count();
        let samples: usize = audit.tests.iter().map(|test| test.samples.len()).sum();
        let effects = audit
            .tests
            .iter()
            .map(|t| t.effects.len() + t.by_length.len());
        assert_eq!((count("sample"), count("effect")), (samples, effects.sum()));
        assert_eq!(&all[0][1], "a, \"b\"\nc");
    }

    #[test]
    fn a_line_reads_like_this() {
        let text = csv(&eight());
        let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap();
        let sample = line("sample,syscall,0,0,500000,");
        assert!(sample.ends_with(",,,,,,,,,,,,,,,calls"), "{sample}");
        let effect = line("effect,syscall,0,,,,,,,,,,,,,,,,system,");
        assert!(
            effect.contains(",unequal,inequality,") && effect.ends_with(",calls"),
            "{effect}"
        );
        line("effect,syscall,0,,2000000,,,,,,,,,,,,,,system,");
    }
}
