// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What became of a replay, in a table.

use crate::replay::outcome::{Counts, Quantiles};
use crate::replay::process::Measured;
use crate::replay::process::team::CpuOutcome;
use comfy_table::Table;
use sandbag_ui::quantity::time;
use sandbag_ui::table::{fitted, plain, right};
use serde::Deserialize;

/// What injecting costs on a CPU, one line.
pub fn measured(measured: Measured) -> String {
    let ns = |ns: u64| time(ns as f64);
    format!(
        "injecting costs {} (nothing shorter can be injected), the timer's least interval is {}, \
         wake-ups are late by {} (p50), {} (p90), {} (p99), {} at most",
        ns(measured.overhead_ns),
        ns(measured.least_interval_ns),
        ns(measured.wake_p50_ns),
        ns(measured.wake_p90_ns),
        ns(measured.wake_p99_ns),
        ns(measured.wake_most_ns),
    )
}

/// One CPU of a replay, as run.json has it, too.
#[derive(Debug, Deserialize)]
pub struct Cpu {
    cpu: u32,
    measured: Measured,
    counts: Counts,
    start_error: Option<Quantiles>,
    length_error: Option<Quantiles>,
}

impl From<&CpuOutcome> for Cpu {
    fn from(one: &CpuOutcome) -> Self {
        Self {
            cpu: one.cpu,
            measured: one.measured,
            counts: one.outcome.counts,
            start_error: one.outcome.all_start_errors(),
            length_error: one.outcome.length_errors(),
        }
    }
}

impl Cpu {
    /// What injecting cost there, one line.
    pub fn measured(&self) -> String {
        format!("CPU {}: {}", self.cpu, measured(self.measured))
    }
}

/// A row per CPU, for a screen of so many columns.
pub fn outcome(all: &[Cpu], width: Option<usize>) -> String {
    fitted(&rows(all), 1, width)
}

fn rows(all: &[Cpu]) -> Table {
    let mut table = plain([
        "CPU",
        "asked",
        "injected",
        "merged",
        "short",
        "limit",
        "shortened",
        "missed",
        "not reached",
        "behind",
        "away",
        "late p50",
        "p90",
        "p99",
        "longer p50",
        "p99",
    ]);
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
        row.push(shown(one.start_error, |q| q.p50_ns));
        row.push(shown(one.start_error, |q| q.p90_ns));
        row.push(shown(one.start_error, |q| q.p99_ns));
        row.push(shown(one.length_error, |q| q.p50_ns));
        row.push(shown(one.length_error, |q| q.p99_ns));
        table.add_row(row);
    }
    right(table)
}

/// A signed time; `-` without one.
pub fn shown(quantiles: Option<Quantiles>, of: fn(Quantiles) -> i64) -> String {
    quantiles.map(of).map_or_else(
        || "-".to_owned(),
        |ns| {
            let sign = if ns < 0 { "-" } else { "" };
            format!("{sign}{}", time(ns.unsigned_abs() as f64))
        },
    )
}
