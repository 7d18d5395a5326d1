// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time per cause: every nanosecond of every event is in one row.

use std::cmp::Reverse;
use std::collections::HashMap;

use serde::Serialize;

use super::explain::RowSubject;
use crate::causes::Attribution;
use crate::{CpuTrace, JitterTrace};

/// Occurrences and time of one cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SourceRow {
    pub who: RowSubject,
    /// Events in which it occurred.
    pub events: u64,
    /// Occurrences; an event may have several.
    pub times: u64,
    /// From entry to exit.
    pub gross_ns: u64,
    /// Without other causes inside; the net times of all rows are the whole noise.
    pub net_ns: u64,
    /// The longest occurrence, gross.
    pub longest_ns: u64,
    /// Net time in percent of the noise.
    pub share_pct: f64,
}

impl SourceRow {
    fn new(who: RowSubject) -> Self {
        Self {
            who,
            events: 0,
            times: 0,
            gross_ns: 0,
            net_ns: 0,
            longest_ns: 0,
            share_pct: 0.0,
        }
    }

    fn add(&mut self, more: &Self) {
        self.events = self.events.saturating_add(more.events);
        self.times = self.times.saturating_add(more.times);
        self.gross_ns = self.gross_ns.saturating_add(more.gross_ns);
        self.net_ns = self.net_ns.saturating_add(more.net_ns);
        self.longest_ns = self.longest_ns.max(more.longest_ns);
        self.share_pct += more.share_pct;
    }
}

/// The `most` causes with the most time, and the number and sum of the others. Rows without
/// a name are always among the former.
pub fn foremost(rows: &[SourceRow], most: usize) -> (Vec<SourceRow>, Option<(usize, SourceRow)>) {
    let is_named = |row: &&SourceRow| matches!(row.who, RowSubject::Known { .. });
    let (named, nameless): (Vec<&SourceRow>, Vec<&SourceRow>) = rows.iter().partition(is_named);
    let (shown, rest) = named.split_at(named.len().min(most));
    let shown = shown.iter().chain(&nameless);
    let mut shown: Vec<SourceRow> = shown.map(|row| (*row).clone()).collect();
    shown.sort_by_key(|row| Reverse(row.net_ns));
    let others = (!rest.is_empty()).then(|| {
        let mut sum = SourceRow::new(RowSubject::Unknown);
        rest.iter().for_each(|row| sum.add(row));
        (rest.len(), sum)
    });
    (shown, others)
}

/// Of all CPUs together, most net time first.
pub fn table(trace: &JitterTrace, attribution: &Attribution) -> Vec<SourceRow> {
    rows(&trace.cpus, attribution)
}

/// Of one CPU.
pub fn by_cpu(cpu: &CpuTrace, attribution: &Attribution) -> Vec<SourceRow> {
    rows(std::slice::from_ref(cpu), attribution)
}

fn rows(cpus: &[CpuTrace], attribution: &Attribution) -> Vec<SourceRow> {
    let mut rows: Vec<SourceRow> = Vec::new();
    let mut places: HashMap<RowSubject, usize> = HashMap::new();
    let mut place = |who: RowSubject| {
        *places.entry(who).or_insert_with_key(|who| {
            rows.push(SourceRow::new(who.clone()));
            rows.len() - 1
        })
    };
    // A lookup by name for each cause would be slow.
    let sources: Vec<usize> = attribution
        .sources
        .iter()
        .map(|one| place(one.into()))
        .collect();
    let [elsewhere, around, unknown] = [
        RowSubject::Elsewhere,
        RowSubject::Around,
        RowSubject::Unknown,
    ]
    .map(place);
    // Number of the event in which a row occurred last, from 1.
    let mut last = vec![0; rows.len()];
    let mut add = |number: u64, place: usize, gross_ns: u64, net_ns: u64| {
        let row = &mut rows[place];
        row.events += u64::from(std::mem::replace(&mut last[place], number) != number);
        row.times += 1;
        row.gross_ns = row.gross_ns.saturating_add(gross_ns);
        row.net_ns = row.net_ns.saturating_add(net_ns);
        row.longest_ns = row.longest_ns.max(gross_ns);
    };
    let events = cpus.iter().flat_map(|cpu| attribution.explain(cpu));
    for (number, one) in (1..).zip(events) {
        for share in &one.causes {
            let place = sources.get(share.cause.source as usize).unwrap_or(&unknown);
            add(number, *place, share.cause.length_ns, share.net_ns);
        }
        let rest = match one.rest() {
            RowSubject::Elsewhere => elsewhere,
            RowSubject::Around => around,
            _ => unknown,
        };
        add(number, rest, one.left_ns, one.left_ns);
    }
    // The sum over CPUs may exceed 64 bits.
    let noise_ns: f64 = cpus.iter().map(|cpu| cpu.noise_ns() as f64).sum();
    rows.retain(|row| row.times > 0);
    for row in &mut rows {
        row.share_pct = row.net_ns as f64 / noise_ns.max(1.0) * 100.0;
    }
    rows.sort_by(|a, b| (Reverse(a.net_ns), &a.who).cmp(&(Reverse(b.net_ns), &b.who)));
    rows
}
