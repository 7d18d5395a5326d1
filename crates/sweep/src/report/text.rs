// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables and sentences of a sweep, for a terminal and for the comment of a merge request.

use std::fmt::Write as _;

use sandbag_ui::table;
use sandbag_ui::text::{signed, visible};

use super::{by_metric, cells, heads, same_load, title};
use crate::answer::sentences;
use crate::record::Sweep;

/// What a user reads when the sweep is over.
pub fn terminal(sweep: &Sweep) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    for (metric, answers) in by_metric(sweep) {
        let _ = writeln!(out, "{}", visible(&title(sweep, metric)));
        let mut rows = table::plain(heads(sweep).iter().map(|head| visible(head)));
        for one in answers {
            rows.add_row(cells(sweep, one).iter().map(|cell| visible(cell)));
        }
        let rows = table::name_columns(rows).to_string();
        for line in rows.lines() {
            let _ = writeln!(out, "{}", line.trim_end());
        }
        for sentence in sentences(sweep, metric) {
            let _ = writeln!(out, "{}", visible(&sentence));
        }
        out.push('\n');
    }
    for one in &sweep.thresholds {
        let _ = writeln!(
            out,
            "{}: fails if {}: {}",
            one.outcome.name(),
            visible(&one.fail_if),
            one.reason
        );
    }
    if let Some(same) = &sweep.same_load {
        let _ = writeln!(out, "{}", same_load(same));
        for cpu in &same.cpus {
            let _ = writeln!(
                out,
                "  load of CPU {:<4} A {:.3} %, B {:.3} %: {} points apart",
                cpu.cpu,
                cpu.a_got_pct,
                cpu.b_got_pct,
                signed(cpu.difference_points, 3)
            );
        }
    }
    if !sweep.complete && sweep.same_load.is_some() {
        let _ = writeln!(out, "Not all runs were made.");
    } else if !sweep.complete {
        let _ = writeln!(out, "Not all runs were made: sweep --resume goes on.");
    }
    out
}

/// The same as Markdown.
pub fn markdown(sweep: &Sweep) -> String {
    let cell = |text: &str| visible(text).replace('\\', "\\\\").replace('|', "\\|");
    let row = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut out = String::new();
    for one in &sweep.thresholds {
        let _ = writeln!(
            out,
            "- **{}**: fails if `{}`: {}",
            one.outcome.name(),
            visible(&one.fail_if).replace('`', "'"),
            one.reason
        );
    }
    if let Some(same) = &sweep.same_load {
        let _ = writeln!(out, "- {}", same_load(same));
    }
    if !out.is_empty() {
        out.push('\n');
    }
    for (metric, answers) in by_metric(sweep) {
        let _ = writeln!(out, "**{}**\n", cell(&title(sweep, metric)));
        let heads = heads(sweep);
        out += &row(&heads);
        let _ = writeln!(out, "|---|{}", "---:|".repeat(heads.len() - 1));
        for one in answers {
            out += &row(&cells(sweep, one));
        }
        out.push('\n');
        for sentence in sentences(sweep, metric) {
            let _ = writeln!(out, "- {}", cell(&sentence));
        }
        out.push('\n');
    }
    out
}
