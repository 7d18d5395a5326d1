// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Configuration of a noise injector: `{"CPU": [[start_ns, length_ns, priority], ...],
//! ...}`; the priority is optional.

use std::collections::BTreeMap;

use serde::Deserialize;

use sandbag_input::Head;

use super::event_set::{Coverage, EventSet};
use super::input::{Input, JitterRecording};
use super::number;
use crate::{Result, TraceEvent};

pub(super) fn looks_like(head: &Head<'_>) -> bool {
    let mut parts = head.text().split('"');
    let begin = parts.next().map(str::trim);
    let key = parts.next().and_then(cpu);
    let after = parts.next().and_then(|text| text.trim().strip_prefix(':'));
    let is_list = after.is_some_and(|text| text.trim_start().starts_with('['));
    begin == Some("{") && key.is_some() && is_list
}

fn cpu(key: &str) -> Option<u32> {
    let key = key.trim();
    let bare = key.strip_prefix("cpu").or_else(|| key.strip_prefix("CPU"));
    number::cpu(bare.unwrap_or(key))
}

/// Start and length in ns, and the priority.
#[derive(Deserialize)]
struct InjectorRow(u64, u64, #[serde(default)] Option<f64>);

pub(super) fn read(input: Input<'_>) -> Result<JitterRecording> {
    let whole = input.whole();
    let rows: BTreeMap<String, Vec<InjectorRow>> = input.json("the events")?;
    let mut all = EventSet::default();
    let mut priorities = 0u64;
    for (key, rows) in rows {
        let cpu = cpu(&key).ok_or_else(|| whole.expected("the number of a CPU", &key))?;
        all.looked_at(cpu);
        for InjectorRow(start_ns, length_ns, priority) in rows {
            priorities += u64::from(priority.is_some());
            all.add(cpu, TraceEvent::new(start_ns, length_ns), whole)?;
        }
    }
    let dropped = format!("the priorities of {priorities} events are ignored");
    let warnings = (priorities > 0).then_some(dropped).into_iter().collect();
    all.trace("a noise injector", Coverage::FromZero, warnings, whole)
}
