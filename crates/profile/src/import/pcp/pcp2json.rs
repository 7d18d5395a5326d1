// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pcp2json`: an element per stamp, its values in the tree of their names.
//!
//! ```text
//! { "//": "Writing 8 archived metrics to stdout..." }
//! { "//": "(Ctrl-C to stop)" }
//! {"@pcp": {"@hosts": [{"@host": "vm", "@metrics": [
//!     {"@interval": "1", "@timestamp": "2026-11-21 17:58:54", "kernel": {"percpu": {"cpu": {
//!         "idle": {"@instances": [{"@unit": "ms/s", "name": "cpu0", "value": "568.935"}]}
//!     }}}}], "@source": "archive", "@timezone": "UTC+0"}]}}
//! ```
//!
//! The lines before the document are what the tool prints if it writes to
//! standard output. The zone stands behind the samples.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{Deserializer, Visitor};

use crate::reader::{ImportReader, Lines};
use crate::{Error, Fault, Format, Result};

use super::super::counters::CpuState;
use super::super::json::{Elements, Path};
use super::super::sample::ImportSummary;
use super::super::zone::zone_ns;
use super::passes::open;
use super::reading::{PcpReading, ValueKind, cpu_instance, value};
use super::records::{Event, Records};
use super::stamp;

pub(in super::super) const READER: ImportReader = ImportReader {
    format: Format::Pcp2Json,
    looks_like: |head| head.opens_with(b'{') && head.holds(b"\"@pcp\""),
    open: |input| open(input, Pcp2Json::new),
};

/// What leads to the samples.
const PATH: &Path = &[
    Some(b"@pcp"),
    Some(b"@hosts"),
    None,
    Some(b"@metrics"),
    None,
];

#[derive(Deserialize)]
struct Element<'a> {
    #[serde(borrow, rename = "@timestamp")]
    timestamp: Cow<'a, str>,
    #[serde(borrow, default)]
    kernel: Kernel<'a>,
}

#[derive(Deserialize, Default)]
struct Kernel<'a> {
    #[serde(borrow, default)]
    percpu: PerCpu<'a>,
}

#[derive(Deserialize, Default)]
struct PerCpu<'a> {
    #[serde(borrow, default)]
    cpu: PcpCpu<'a>,
}

/// What else there is, is passed over.
#[derive(Deserialize, Default)]
#[serde(default)]
struct PcpCpu<'a> {
    #[serde(borrow)]
    user: PcpMetric<'a>,
    #[serde(borrow)]
    nice: PcpMetric<'a>,
    #[serde(borrow)]
    sys: PcpMetric<'a>,
    #[serde(borrow)]
    idle: PcpMetric<'a>,
    #[serde(borrow)]
    steal: PcpMetric<'a>,
    #[serde(borrow)]
    wait: Wait<'a>,
    #[serde(borrow)]
    irq: Irq<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Wait<'a> {
    #[serde(borrow)]
    total: PcpMetric<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Irq<'a> {
    #[serde(borrow)]
    hard: PcpMetric<'a>,
    #[serde(borrow)]
    soft: PcpMetric<'a>,
}

#[derive(Deserialize, Default)]
struct PcpMetric<'a> {
    #[serde(borrow, rename = "@instances", default)]
    instances: Vec<Instance<'a>>,
}

#[derive(Deserialize)]
struct Instance<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    value: PcpText<'a>,
    #[serde(borrow, rename = "@unit", default)]
    unit: Cow<'a, str>,
}

/// A text, or a number as `-E` writes them.
struct PcpText<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for PcpText<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct IgnoredValue;
        impl<'de> Visitor<'de> for IgnoredValue {
            type Value = PcpText<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a value as text or number")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<PcpText<'de>, E> {
                Ok(PcpText(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<PcpText<'de>, E> {
                Ok(PcpText(Cow::Owned(text.to_owned())))
            }
            fn visit_u64<E>(self, number: u64) -> Result<PcpText<'de>, E> {
                Ok(PcpText(Cow::Owned(number.to_string())))
            }
            fn visit_i64<E>(self, number: i64) -> Result<PcpText<'de>, E> {
                Ok(PcpText(Cow::Owned(number.to_string())))
            }
            fn visit_f64<E>(self, number: f64) -> Result<PcpText<'de>, E> {
                Ok(PcpText(Cow::Owned(number.to_string())))
            }
        }
        from.deserialize_any(IgnoredValue)
    }
}

/// What values of a unit are, and how many ms one of them has.
fn unit(name: &str) -> Option<(ValueKind, f64)> {
    match name {
        "millisec" => Some((ValueKind::Counters, 1.0)),
        "sec" => Some((ValueKind::Counters, 1000.0)),
        // The unit of rates cancels out.
        _ if name.contains('/') => Some((ValueKind::Rates, 1.0)),
        _ => None,
    }
}

struct Pcp2Json {
    elements: Elements,
    text: Vec<u8>,
    kind: Option<ValueKind>,
    /// The zone of the stamps themselves, where they have one.
    ahead_ns: Option<i64>,
}

impl Pcp2Json {
    fn new(lines: Lines) -> Self {
        Self {
            elements: Elements::new(PATH, lines.into_parts()).of_several_documents(),
            text: Vec::new(),
            kind: None,
            ahead_ns: None,
        }
    }

    /// The values of an element into `record`; its stamp.
    fn read(&mut self, text: &[u8], record: &mut PcpReading) -> Result<i64> {
        let element: Element<'_> = serde_json::from_slice(text).map_err(|e| {
            // Its line counts from the beginning of the element.
            self.elements.in_element(Fault::json(&e), e.line() as u64)
        })?;
        let here = |fault| self.elements.in_element(fault, 1);
        let stamp = stamp::read(element.timestamp.as_bytes());
        let stamp = stamp.ok_or_else(|| {
            here(Fault::syntax(
                "a @timestamp such as `2026-11-21 17:58:53` or epoch seconds",
                element.timestamp.as_bytes(),
            ))
        })?;
        self.ahead_ns = stamp.ahead_ns;
        let cpu = element.kernel.percpu.cpu;
        for (state, metric) in [
            (CpuState::User, cpu.user),
            (CpuState::Nice, cpu.nice),
            (CpuState::System, cpu.sys),
            (CpuState::Idle, cpu.idle),
            (CpuState::Iowait, cpu.wait.total),
            (CpuState::Irq, cpu.irq.hard),
            (CpuState::Softirq, cpu.irq.soft),
            (CpuState::Steal, cpu.steal),
        ] {
            for instance in metric.instances {
                let cpu = cpu_instance(instance.name.as_bytes()).map_err(here)?;
                let Some((kind, ms)) = unit(&instance.unit) else {
                    return Err(here(Fault::unexpected(
                        "the @unit millisec, sec or ms/s (export without -y and -Y)",
                        format!("{:?}", instance.unit),
                    )));
                };
                if *self.kind.get_or_insert(kind) != kind {
                    return Err(here(Fault::unexpected(
                        "either counters or rates, as in what was before",
                        format!("values in {}", instance.unit),
                    )));
                }
                if let Some(n) = value(instance.value.0.as_bytes()).map_err(here)?
                    && !record.put(cpu, state, n * ms)
                {
                    return Err(here(Fault::Duplicate(format!("an instance cpu{cpu}"))));
                }
            }
        }
        Ok(stamp.ns.saturating_sub(stamp.ahead_ns.unwrap_or(0)))
    }
}

impl Records for Pcp2Json {
    const FORMAT: Format = Format::Pcp2Json;
    const REMEDY: &'static str =
        "export all of kernel.percpu.cpu, as in `pcp2json -a ARCHIVE -r kernel.percpu.cpu`";

    fn next_record(&mut self, record: &mut PcpReading) -> Result<Event> {
        if !self.elements.next_element(&mut self.text)? {
            return Ok(Event::End);
        }
        // Lent out for the call: the values borrow from it.
        let text = std::mem::take(&mut self.text);
        let ns = self.read(&text, record);
        self.text = text;
        ns.map(Event::Values)
    }

    fn kind(&self) -> Option<ValueKind> {
        self.kind
    }

    fn about(&self) -> ImportSummary {
        ImportSummary {
            host: self.elements.host.name(),
            local: self.ahead_ns.is_none() && self.zone_ns().is_none(),
            ..ImportSummary::default()
        }
    }

    fn ahead_of_utc_ns(&self) -> i64 {
        match self.ahead_ns {
            // Taken off already.
            Some(_) => 0,
            None => self.zone_ns().unwrap_or(0),
        }
    }

    fn here(&self, fault: Fault) -> Error {
        self.elements.in_element(fault, 1)
    }

    fn nowhere(&self, fault: Fault) -> Error {
        self.elements.nowhere(fault)
    }
}

impl Pcp2Json {
    fn zone_ns(&self) -> Option<i64> {
        zone_ns(self.elements.zone.as_deref()?.as_bytes())
    }
}
