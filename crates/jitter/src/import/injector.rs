// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The configuration of a noise injector: `{"CPU": [[start_ns, length_ns,
//! priority], ...], ...}`, the priority left out at will. All is held in
//! memory, two numbers per event.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, SeqAccess, Visitor};

use super::event_set::{Coverage, EventSet};
use super::{FormatReader, Head, Input, JitterRecording, number};
use crate::{Fault, Result, TraceEvent};

pub(super) const READER: FormatReader = FormatReader {
    name: "JSON of a noise injector",
    looks_like,
    read,
};

fn looks_like(head: &Head<'_>) -> bool {
    let key = || {
        head.text()
            .trim_start()
            .strip_prefix('{')?
            .split('"')
            .nth(1)
    };
    let after = || {
        head.text()
            .split('"')
            .nth(2)?
            .trim_start()
            .strip_prefix(':')
    };
    key().and_then(cpu).is_some() && after().is_some_and(|rest| rest.trim_start().starts_with('['))
}

fn cpu(key: &str) -> Option<u32> {
    let key = key.trim();
    let bare = key.strip_prefix("cpu").or_else(|| key.strip_prefix("CPU"));
    let bare = bare.unwrap_or(key);
    number::cpu(bare).filter(|_| !bare.is_empty())
}

struct InjectorRow {
    start_ns: u64,
    length_ns: u64,
    has_priority: bool,
}

impl<'de> Deserialize<'de> for InjectorRow {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_seq(RowVisitor)
    }
}

struct RowVisitor;

impl<'de> Visitor<'de> for RowVisitor {
    type Value = InjectorRow;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[start_ns, length_ns] or [start_ns, length_ns, priority]")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut row: A) -> Result<InjectorRow, A::Error> {
        let few = |n| A::Error::invalid_length(n, &self);
        let start_ns = row.next_element()?.ok_or_else(|| few(0))?;
        let length_ns = row.next_element()?.ok_or_else(|| few(1))?;
        let has_priority = row.next_element::<f64>()?.is_some();
        match row.next_element::<IgnoredAny>()? {
            Some(_) => Err(few(4)),
            None => Ok(InjectorRow {
                start_ns,
                length_ns,
                has_priority,
            }),
        }
    }
}

fn read(input: Input<'_>) -> Result<JitterRecording> {
    let whole = input.lines.whole();
    let rows: BTreeMap<String, Vec<InjectorRow>> =
        serde_json::from_reader(input.lines.into_reader()).map_err(|cause| {
            whole.fault(Fault::Json {
                what: "the events",
                cause,
            })
        })?;
    let mut all = EventSet::default();
    let mut priorities = 0u64;
    for (key, rows) in rows {
        let cpu = cpu(&key).ok_or_else(|| whole.expected("the number of a CPU", &key))?;
        for row in rows {
            priorities += u64::from(row.has_priority);
            let event = TraceEvent {
                start_ns: row.start_ns,
                length_ns: row.length_ns,
            };
            all.event(cpu, event).map_err(|fault| whole.fault(fault))?;
        }
    }
    let mut warnings = vec![
        "the file does not say when events were looked for: the time from 0 to the end of the \
         last event is taken for it"
            .to_owned(),
    ];
    if priorities > 0 {
        warnings.push(format!(
            "the priorities of {priorities} events are left out: a trace has no place for them"
        ));
    }
    let trace = all.trace("a noise injector".to_owned(), Coverage::FromZero, warnings);
    trace
        .map(JitterRecording::Trace)
        .map_err(|fault| whole.fault(fault))
}

#[cfg(test)]
mod tests {
    use crate::import::tests::{message, trace};

    #[test]
    fn events_of_each_cpu_with_or_without_priority() {
        let t = trace("{\"0\": [[1000, 200, -1], [500, 20]],\n \"3\": [[100, 5, 0]]}");
        assert_eq!(t.header.cpus, [0, 3]);
        assert_eq!(t.cpus[0].events[0].start_ns, 500);
        assert_eq!(t.cpus[0].known_ns(), 1200);
        assert!(t.warnings[1].starts_with("the priorities of 2 events"));
        assert!(t.warnings[2].contains("were sorted"));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, said) in [
            ("{\"0\": [[1000]]}", "invalid length 1"),
            ("{\"0\": [[1, 2],\n[1, -2]]}", "line 2"),
            ("{\"0\": [[1, 2, 3, 4]]}", "invalid length 4"),
            (
                "{\"0\": [[1, 2]], \"x\": []}",
                "expected the number of a CPU",
            ),
            ("{\"0\": [[1, 2]", "EOF"),
            ("{\"0\": []}", "no time"),
        ] {
            let got = message(text);
            assert!(got.starts_with("in: ") && got.contains(said), "{got}");
        }
    }
}
