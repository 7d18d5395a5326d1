// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The text of a benchmark's report.

use std::fmt::Write as _;

use crate::bench::cells::Cell;
use crate::bench::tables::{
    factor_table, failures, formula_table, groups, step_table, target_table, undecided,
    verdict_table,
};
use crate::row::Row;

const NOTES: &str = "\
Errors are points of one CPU. Windows with more than 3 % steal are left out and counted. A cell \
without a finished run meets no target.

Verification in two ways, per CPU, as points of the delivered time, median over the rounds:
`closing` is burner + competitors + idle + others minus 100, each from a clock of its own, of the \
worst CPU; `all` the same over all CPUs together, where it does not matter to which CPU the time \
of a task that moves (sandbag's supervisor, a service) was booked; `unseen` is what the kernel's \
own sum of all tasks has beyond the parts, and `nobody's` what it and idle lack (both cgroup v1 \
only); `strangers` are processes that others started between the two readings, over all rounds; \
`claim` is sandbag's own figure minus the burner's clock read from outside.

What cannot close: processes that live only between the two readings are in none of the parts, so \
the target counts the runs without strangers; the kernel reports steal in steps of 10 ms, so that \
one step more or less shows in a run of some seconds; and kernels without IRQ_TIME_ACCOUNTING \
account an interrupt of an idle CPU to nothing.
";

/// The tables of the cells that were planned, with the number of CPUs.
pub fn tables(cells: &[Cell], cpus: usize, rows: &[Row]) -> String {
    let mut out = String::new();
    if let Some(line) = undecided(rows) {
        let _ = writeln!(out, "{line}\n");
    }
    out += NOTES;
    let groups = groups(cells, rows);
    let mut section = |title: &str, body: Option<String>| {
        if let Some(body) = body {
            let _ = write!(out, "\n## {title}\n\n{body}");
        }
    };
    if !groups.is_empty() {
        section("Targets", Some(target_table(&groups)));
        section("Verdicts", Some(verdict_table(rows)));
    }
    for (factor, title) in [
        ("asked", "Asked load"),
        ("competitors", "Competitors"),
        ("place", "Place of the competitors"),
        ("disturbance", "Disturbances"),
    ] {
        section(title, factor_table(&groups, factor));
    }
    section(
        "Step response: seconds that begin 100 ms after a change",
        step_table(&groups),
    );
    section("The published formula", formula_table(&groups, cpus));
    let failed = failures(rows);
    section(
        "Runs without figures",
        (!failed.is_empty()).then(|| failed.iter().map(|l| format!("- {l}\n")).collect()),
    );
    out
}
