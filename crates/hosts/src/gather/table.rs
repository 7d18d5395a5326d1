// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The columns of a gathered report, for the terminal, the page and CSV.

use std::fmt::Write as _;

use sandbag_ui::failure::Result;
use sandbag_ui::output::width;
use sandbag_ui::report::csv_text;
use sandbag_ui::table::{fit, plain};
use sandbag_ui::text::{signed, visible};

use super::{Gathered, GatheredHost};
use crate::clocks::Offset;

pub(super) struct Column {
    /// In CSV, with its unit.
    pub name: &'static str,
    pub head: &'static str,
    pub value: fn(&GatheredHost) -> String,
}

const fn column(
    name: &'static str,
    head: &'static str,
    value: fn(&GatheredHost) -> String,
) -> Column {
    Column { name, head, value }
}

pub(super) const COLUMNS: [Column; 11] = [
    column("host", "host", |one| one.host.clone()),
    column("rank", "rank", |one| {
        one.rank.map_or_else(String::new, |rank| rank.to_string())
    }),
    column("verdict", "verdict", |one| {
        one.verdict
            .map_or("no result".to_owned(), |verdict| verdict.to_string())
    }),
    column("asked_pct", "asked %", |one| digits(one.asked_pct, 2)),
    column("got_pct", "got %", |one| digits(one.got_pct, 2)),
    column("error_points", "error points", |one| {
        digits(one.error_points, 2)
    }),
    column("worst_points", "worst points", |one| {
        one.worst_points
            .map_or_else(String::new, |value| signed(value, 2))
    }),
    column("steal_pct", "steal %", |one| digits(one.steal_pct, 1)),
    column("start_ms", "start ms", |one| digits(one.start_ms, 2)),
    column("offset_ms", "clock ms", |one| match &one.offset {
        Some(offset) if offset.is_certain() => signed(offset.ms, 1),
        Some(offset) if offset.within_ms > 0.0 => format!("±{:.1}", offset.within_ms),
        _ => String::new(),
    }),
    column("length_s", "length s", |one| digits(one.length_s, 1)),
];

fn digits(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(String::new, |value| format!("{value:.digits$}"))
}

/// Hosts on a terminal; all are in the other forms.
const SHOWN: usize = 20;

pub(super) fn terminal(gathered: &Gathered) -> String {
    let mut table = plain(COLUMNS.map(|column| column.head));
    let shown = gathered.hosts.iter().take(SHOWN);
    for host in shown.clone() {
        table.add_row(COLUMNS.map(|column| visible(&(column.value)(host))));
    }
    let mut out = format!("{}: {}\n", gathered.verdict, visible(&gathered.reason));
    for line in sentences(gathered) {
        let _ = writeln!(out, "{line}");
    }
    let _ = writeln!(out, "\n{}", fit(&table, 1, width()));
    match gathered.hosts.len().saturating_sub(SHOWN) {
        0 => {}
        more => drop(writeln!(
            out,
            "and {more} more; -o FILE.html or FILE.csv has all"
        )),
    }
    for host in shown.filter(|host| host.verdict.is_none()) {
        let _ = writeln!(out, "{}: {}", visible(&host.host), visible(&host.reason));
    }
    out
}

/// What is to be said of all hosts, besides the verdict.
pub(super) fn sentences(gathered: &Gathered) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(skew) = gathered.start_skew_ms.filter(|_| gathered.hosts.len() > 1) {
        let within = gathered.start_skew_within_ms.filter(|within| *within > 0.0);
        let within = within.map_or_else(
            || " by the clocks of the hosts, which were not compared".to_owned(),
            |ms| format!("; by the clocks' comparison that is right to within {ms:.1} ms"),
        );
        all.push(format!(
            "The last host began {skew:.2} ms after the first{within}."
        ));
    }
    if let Some(early) = &gathered.early_end {
        let rank = early.rank;
        let (host, why) = (visible(&early.host), visible(&early.why));
        all.push(format!(
            "Ended early at {} by {host} (rank {rank}): {why}.",
            early.at
        ));
    }
    all
}

pub(super) fn csv(gathered: &Gathered) -> Result<String> {
    let names = COLUMNS.iter().map(|column| column.name);
    let names = names.chain(["offset_within_ms", "reason"]);
    let row = |host: &GatheredHost| {
        let of = |value: fn(&Offset) -> f64| digits(host.offset.as_ref().map(value), 3);
        // Numbers without the signs that readers of a table want.
        let cell = |column: &Column| match column.name {
            "worst_points" => digits(host.worst_points, 2),
            "offset_ms" => of(|offset| offset.ms),
            _ => (column.value)(host),
        };
        let cells = COLUMNS.iter().map(cell);
        let rest = [of(|offset| offset.within_ms), host.reason.clone()];
        cells.chain(rest).collect()
    };
    csv_text(names, gathered.hosts.iter().map(row))
}
