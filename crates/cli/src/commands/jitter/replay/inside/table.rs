// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the processes booked, in a table.

use comfy_table::Table;
use sandbag_inside::outcome::{Outcome, Slot, Suffered};
use sandbag_report::quantity::time;

use super::super::super::show::{new_table, right, words};

/// Processes and threads beyond this many share a row.
const ROWS: usize = 16;

/// A row for each process or thread that suffered most, and their sum.
pub fn shown(outcome: &Outcome) -> Table {
    let mut table = new_table(words(&[
        "process",
        "rank",
        "injected",
        "merged",
        "behind",
        "cut",
        "short",
        "passed",
        "waits",
        "late p50",
        "p90",
        "p99",
        "longer p50",
        "p99",
    ]));
    let mut slots: Vec<&Slot> = outcome.slots.iter().collect();
    slots.sort_by_key(|slot| std::cmp::Reverse(slot.suffered.injected));
    let (rows, others) = slots.split_at(slots.len().min(ROWS));
    for slot in rows {
        let rank = slot.rank.map_or("-".to_owned(), |rank| rank.to_string());
        table.add_row(row(&name(slot), &rank, &slot.suffered));
    }
    let more = others.len() + outcome.recycled as usize;
    if more > 0 {
        let mut rest = outcome.gone.clone();
        others.iter().for_each(|slot| rest.add(&slot.suffered));
        table.add_row(row(&format!("{more} more"), "-", &rest));
    }
    table.add_row(row("all", "", &outcome.total()));
    right(table)
}

/// `app 4711`; a thread that is not the initial one: `app 4711/4712`.
fn name(slot: &Slot) -> String {
    let name: String = slot.name.chars().filter(|c| !c.is_control()).collect();
    match slot.pid == slot.tid {
        true => format!("{name} {}", slot.pid),
        false => format!("{name} {}/{}", slot.pid, slot.tid),
    }
}

fn row(name: &str, rank: &str, suffered: &Suffered) -> Vec<String> {
    let mut row = vec![name.to_owned(), rank.to_owned()];
    let counts = [
        suffered.injected,
        suffered.merged,
        suffered.behind,
        suffered.cut,
        suffered.short,
        suffered.passed,
        suffered.waits,
    ];
    row.extend(counts.map(|count| count.to_string()));
    let ns = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| time(ns as f64));
    row.extend([50.0, 90.0, 99.0].map(|part| ns(suffered.start.quantile_ns(part))));
    row.extend([50.0, 99.0].map(|part| ns(suffered.length.quantile_ns(part))));
    row
}
