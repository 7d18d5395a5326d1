// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables of a replay: from a record, new or read back.

use crate::replay::outcome::Quantiles;
use crate::replay::process::InjectorNoise;
use sandbag_ui::output;
use sandbag_ui::quantity::time;
use sandbag_ui::table::{fit, plain, right};
use sandbag_ui::text::visible;

use super::record::{
    CpuRecord, InsideRecord, MethodRecord, ProcessRecord, ReplayRecord, SufferedRecord,
};

/// Processes and threads beyond this many share a row.
const ROWS: usize = 16;

/// Overhead and latency of an injector, one line.
pub fn noise_text(measured: InjectorNoise) -> String {
    let ns = |ns: u64| time(ns as f64);
    let from_idle = match measured.idle_wake_p90_ns {
        0 => String::new(),
        p90_ns => format!("; from idle by {} (p90)", ns(p90_ns)),
    };
    let limit = match (measured.late_ns, measured.late_idle_ns) {
        (0, _) => String::new(),
        (late_ns, 0) => format!("; events are late beyond {}", ns(late_ns)),
        (late_ns, idle_ns) => format!(
            "; events are late beyond {}, on an idle CPU beyond {}",
            ns(late_ns),
            ns(idle_ns)
        ),
    };
    format!(
        "injecting costs {} (nothing shorter can be injected), the timer's least interval is {}, \
         wake-ups are late by {} (p50), {} (p90), {} (p99), {} at most{from_idle}{limit}",
        ns(measured.overhead_ns),
        ns(measured.least_interval_ns),
        ns(measured.wake_p50_ns),
        ns(measured.wake_p90_ns),
        ns(measured.wake_p99_ns),
        ns(measured.wake_most_ns),
    )
}

/// A row per CPU, for a screen of `width` columns.
fn cpus(all: &[CpuRecord], width: Option<usize>) -> String {
    const HEAD: &str = "CPU,asked,injected,merged,short,limit,shortened,missed,not reached,behind,\
                        away,late p50,p90,p99,longer p50,p99";
    let mut table = plain(HEAD.split(','));
    for one in all {
        let c = one.counts;
        let mut row = vec![one.cpu.to_string()];
        let counts = [
            c.asked,
            c.injected,
            c.merged,
            c.below_floor,
            c.over_limit,
            c.shortened,
            c.missed,
            c.not_reached,
            c.behind,
            c.away,
        ];
        row.extend(counts.map(|count| count.to_string()));
        row.push(signed(one.start_error, |q| q.p50_ns));
        row.push(signed(one.start_error, |q| q.p90_ns));
        row.push(signed(one.start_error, |q| q.p99_ns));
        row.push(signed(one.length_error, |q| q.p50_ns));
        row.push(signed(one.length_error, |q| q.p99_ns));
        table.add_row(row);
    }
    fit(&right(table), 1, width)
}

/// The outcome, for a screen of `width` columns.
pub fn events(own: &MethodRecord, width: Option<usize>) -> String {
    match own {
        MethodRecord::Beside(one) => cpus(&one.cpus, width),
        MethodRecord::Inside(one) => processes(one, width),
    }
}

/// All of a record.
pub fn whole(record: &ReplayRecord) -> String {
    let mut text = record.about.verdict_line() + &format!("{}\n\n", record.heading());
    if let MethodRecord::Beside(one) = &record.own {
        for cpu in &one.cpus {
            text += &format!("CPU {}: {}\n", cpu.cpu, noise_text(cpu.measured));
        }
        if !one.cpus.is_empty() {
            text.push('\n');
        }
    }
    text += &events(&record.own, output::width());
    text.push('\n');
    text
}

/// A signed time; `-` without one.
pub fn signed(quantiles: Option<Quantiles>, of: fn(Quantiles) -> i64) -> String {
    quantiles.map(of).map_or_else(
        || "-".to_owned(),
        |ns| {
            let sign = if ns < 0 { "-" } else { "" };
            format!("{sign}{}", time(ns.unsigned_abs() as f64))
        },
    )
}

/// A row for each process or thread that suffered most, one for the others, and
/// their sum; for a screen of `width` columns.
fn processes(record: &InsideRecord, width: Option<usize>) -> String {
    const HEAD: &str = "process,rank,injected,merged,behind,cut,short,passed,waits,late p50,p90,\
                        p99,longer p50,p99";
    let mut table = plain(HEAD.split(','));
    let mut processes: Vec<&ProcessRecord> = record.processes.iter().collect();
    processes.sort_by_key(|one| std::cmp::Reverse(one.suffered.injected));
    let (rows, others) = processes.split_at(processes.len().min(ROWS));
    for one in rows {
        let rank = one.rank.map_or("-".to_owned(), |rank| rank.to_string());
        let errors = errors(&one.suffered);
        table.add_row(row(&name(one), &rank, counts(&one.suffered), errors));
    }
    let summed_up = &record.processes_summed_up;
    let more = others.len() as u64 + u64::from(summed_up.count);
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
    fit(&right(table), 2, width)
}

/// `app 4711`; a thread that is not the initial one: `app 4711/4712`.
fn name(one: &ProcessRecord) -> String {
    let name = visible(&one.name);
    if one.pid == one.tid {
        format!("{name} {}", one.pid)
    } else {
        format!("{name} {}/{}", one.pid, one.tid)
    }
}

fn counts(suffered: &SufferedRecord) -> [u64; 7] {
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

fn errors(suffered: &SufferedRecord) -> [String; 5] {
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
    use super::super::record::{InsideMethod, Sizes, SummedUp};
    use super::*;

    #[test]
    fn processes_beyond_a_screen_share_a_row() {
        let suffered = |injected: u64| SufferedRecord {
            injected,
            passed: 1,
            start_error: Sizes {
                p50_ns: Some(1500),
                ..Sizes::default()
            },
            ..SufferedRecord::default()
        };
        let process = |number: u32| ProcessRecord {
            name: "app".to_owned(),
            pid: number,
            tid: number,
            rank: Some(number),
            suffered: suffered(number.into()),
            ..ProcessRecord::default()
        };
        let record = InsideRecord {
            method: InsideMethod::default(),
            measured: None,
            all: suffered(1000),
            processes: (1..=20).map(process).collect(),
            processes_summed_up: SummedUp {
                count: 3,
                suffered: suffered(5),
            },
            without: Default::default(),
        };
        let text = processes(&record, None);
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
    }
}
