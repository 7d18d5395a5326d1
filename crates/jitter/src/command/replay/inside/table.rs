// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the processes booked, in a table: from a record, fresh or read back.

use sandbag_ui::quantity::time;
use sandbag_ui::table::{fitted, plain, right};
use sandbag_ui::text::visible;
use serde::Deserialize;
use serde_json::Value;

/// Processes and threads beyond this many share a row.
const ROWS: usize = 16;

#[derive(Deserialize)]
struct Record {
    all: Suffered,
    processes: Vec<Process>,
    processes_summed_up: SummedUp,
}

#[derive(Deserialize)]
struct SummedUp {
    count: u64,
    suffered: Suffered,
}

#[derive(Deserialize)]
struct Process {
    name: String,
    pid: u64,
    tid: u64,
    rank: Option<u64>,
    suffered: Suffered,
}

#[derive(Deserialize)]
struct Suffered {
    injected: u64,
    merged: u64,
    behind: u64,
    cut: u64,
    short: u64,
    passed: u64,
    waits: u64,
    start_error: Errors,
    length_error: Errors,
}

#[derive(Deserialize)]
struct Errors {
    p50_ns: Option<u64>,
    p90_ns: Option<u64>,
    p99_ns: Option<u64>,
}

/// A row for each process or thread that suffered most, one for the others, and
/// their sum; for a screen of so many columns.
pub fn shown(record: &Value, width: Option<usize>) -> serde_json::Result<String> {
    let mut record: Record = serde_json::from_value(record.clone())?;
    let mut table = plain([
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
    ]);
    let processes = &mut record.processes;
    processes.sort_by_key(|one| std::cmp::Reverse(one.suffered.injected));
    let (rows, others) = processes.split_at(processes.len().min(ROWS));
    for one in rows {
        let rank = one.rank.map_or("-".to_owned(), |rank| rank.to_string());
        let errors = errors(&one.suffered);
        table.add_row(row(&name(one), &rank, counts(&one.suffered), errors));
    }
    let summed_up = &record.processes_summed_up;
    let more = others.len() as u64 + summed_up.count;
    if more > 0 {
        let all = others.iter().map(|one| &one.suffered);
        let mut sum = [0; 7];
        for suffered in all.chain([&summed_up.suffered]) {
            for (sum, count) in sum.iter_mut().zip(counts(suffered)) {
                *sum += count;
            }
        }
        let none = std::array::from_fn(|_| "-".to_owned());
        table.add_row(row(&format!("{more} more"), "-", sum, none));
    }
    table.add_row(row("all", "", counts(&record.all), errors(&record.all)));
    Ok(fitted(&right(table), 2, width))
}

/// `app 4711`; a thread that is not the initial one: `app 4711/4712`.
fn name(one: &Process) -> String {
    let name = visible(&one.name);
    if one.pid == one.tid {
        format!("{name} {}", one.pid)
    } else {
        format!("{name} {}/{}", one.pid, one.tid)
    }
}

fn counts(suffered: &Suffered) -> [u64; 7] {
    [
        suffered.injected,
        suffered.merged,
        suffered.behind,
        suffered.cut,
        suffered.short,
        suffered.passed,
        suffered.waits,
    ]
}

fn errors(suffered: &Suffered) -> [String; 5] {
    let (start, length) = (&suffered.start_error, &suffered.length_error);
    [
        start.p50_ns,
        start.p90_ns,
        start.p99_ns,
        length.p50_ns,
        length.p99_ns,
    ]
    .map(|ns| ns.map_or("-".to_owned(), |ns| time(ns as f64)))
}

fn row(name: &str, rank: &str, counts: [u64; 7], errors: [String; 5]) -> Vec<String> {
    let mut row = vec![name.to_owned(), rank.to_owned()];
    row.extend(counts.map(|count| count.to_string()));
    row.extend(errors);
    row
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn processes_beyond_a_screen_share_a_row() {
        let suffered = |injected: u64| {
            json!({
                "injected": injected, "merged": 0, "behind": 0, "cut": 0, "short": 0,
                "passed": 1, "waits": 0,
                "start_error": {"p50_ns": 1500, "p90_ns": null, "p99_ns": null},
                "length_error": {"p50_ns": null, "p90_ns": null, "p99_ns": null},
            })
        };
        let process = |number: u64| {
            json!({"name": "app", "pid": number, "tid": number, "rank": number,
                   "suffered": suffered(number)})
        };
        let record = json!({
            "all": suffered(1000),
            "processes": (1..=20).map(process).collect::<Vec<_>>(),
            "processes_summed_up": {"count": 3, "suffered": suffered(5)},
        });
        let text = shown(&record, None).unwrap();
        let last: Vec<&str> = text.lines().rev().take(2).collect();
        assert!(
            last[0].contains("all") && last[0].contains("1.50 us"),
            "{text}"
        );
        // Four of twenty, and three that were summed up already.
        assert!(
            last[1].contains("7 more") && last[1].contains(" 15 "),
            "{text}"
        );
        assert!(shown(&json!({"all": {}}), None).is_err());
    }
}
