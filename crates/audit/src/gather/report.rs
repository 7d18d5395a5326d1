// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Audits of many hosts on the terminal, as a page and as CSV.

use std::fmt::Write as _;

use maud::html;
use sandbag_ui::chart::{self, Chart, ChartSeries, figure};
use sandbag_ui::failure::Result;
use sandbag_ui::output::width;
use sandbag_ui::page::static_page;
use sandbag_ui::report::csv_text;
use sandbag_ui::table::{fit, plain};
use sandbag_ui::text::visible;

use super::{Cluster, HostDifference};
use crate::model::{AuditVerdict, Quantity};
use crate::report::words::{confidence, difference, probability, signed, verdict};

/// Rows on a terminal; the other forms have all.
const SHOWN: usize = 20;
const HEADS: [&str; 7] = [
    "host",
    "test",
    "quantity",
    "difference",
    "at least",
    "at most",
    "verdict",
];
const CPU_HEADS: [&str; 6] = ["host", "CPU", "test", "quantity", "difference", "p"];

fn cells(one: &HostDifference) -> [String; 7] {
    let unit = one.quantity.unit();
    let number = |pct: f64| format!("{} {unit}", signed(pct));
    // The estimate is known also where an end of its interval is not.
    let end = |pct: f64| {
        if one.quantity.is_open(pct) {
            String::new()
        } else {
            number(pct)
        }
    };
    [
        visible(&one.host),
        visible(&one.test),
        one.quantity.word().to_owned(),
        format!("{} {unit}", difference(one.quantity, one.pct)),
        end(one.together_pct.0),
        end(one.together_pct.1),
        verdict(one.verdict).to_owned(),
    ]
}

fn cpu_cells(cluster: &Cluster) -> Vec<[String; 6]> {
    let cells = cluster.cpus.iter().map(|one| {
        [
            visible(&one.host),
            one.cpu.to_string(),
            visible(&one.test),
            one.quantity.word().to_owned(),
            format!(
                "{} {}",
                difference(one.quantity, one.pct),
                one.quantity.unit()
            ),
            probability(one.p),
        ]
    });
    cells.collect()
}

/// What all say, in a sentence.
fn summary(cluster: &Cluster) -> String {
    let unequal = cluster
        .differences
        .iter()
        .filter(|one| one.verdict == AuditVerdict::Unequal);
    let mut hosts: Vec<&str> = Vec::new();
    for one in unequal {
        if !hosts.contains(&one.host.as_str()) {
            hosts.push(&one.host);
        }
    }
    let cpus = {
        let mut all: Vec<(&str, u32)> = cluster
            .cpus
            .iter()
            .map(|one| (one.host.as_str(), one.cpu))
            .collect();
        all.sort_unstable();
        all.dedup();
        all.len()
    };
    let count = cluster.hosts.len();
    let slower = match hosts.len() {
        0 => format!("no host of {count} is slower beyond chance"),
        n => format!(
            "{n} of {count} hosts {} slower ({}{})",
            if n == 1 { "is" } else { "are" },
            hosts.iter().take(5).copied().collect::<Vec<_>>().join(", "),
            if n > 5 { ", ..." } else { "" }
        ),
    };
    let odd = match cpus {
        0 => "no CPU differs from the others of its host beyond chance".to_owned(),
        1 => "1 CPU differs from the others of its host".to_owned(),
        n => format!("{n} CPUs differ from the others of their hosts"),
    };
    let own = match cluster.own_audits.len() {
        0 => String::new(),
        1 => "; 1 host is undecided or unequal by its own audit".to_owned(),
        n => format!("; {n} hosts are undecided or unequal by their own audits"),
    };
    format!("{slower}; {odd}{own}")
}

pub fn terminal(cluster: &Cluster) -> String {
    let mut out = format!(
        "{}: {}\n",
        verdict(cluster.verdict),
        visible(&summary(cluster))
    );
    let _ = writeln!(
        out,
        "At {} confidence over all comparisons; differences up to {} % do not count.\n",
        confidence(cluster.confidence),
        cluster.tolerance_pct
    );
    let mut table = plain(HEADS);
    for one in cluster.differences.iter().take(SHOWN) {
        table.add_row(cells(one));
    }
    let _ = writeln!(out, "{}", fit(&table, 1, width()));
    more(&mut out, cluster.differences.len());
    if !cluster.cpus.is_empty() {
        let mut table = plain(CPU_HEADS);
        for cells in cpu_cells(cluster).into_iter().take(SHOWN) {
            table.add_row(cells);
        }
        let _ = writeln!(out, "\n{}", fit(&table, 2, width()));
        more(&mut out, cluster.cpus.len());
    }
    for (file, why) in &cluster.left_out {
        let _ = writeln!(out, "left out: {}: {}", visible(file), visible(why));
    }
    for (host, why) in &cluster.incomplete {
        let _ = writeln!(out, "incomplete: {}: {}", visible(host), visible(why));
    }
    for (host, said) in cluster.own_audits.iter().take(SHOWN) {
        let _ = writeln!(out, "own audit: {}: {}", visible(host), visible(said));
    }
    more(&mut out, cluster.own_audits.len());
    out
}

fn more(out: &mut String, rows: usize) {
    if rows > SHOWN {
        let _ = writeln!(
            out,
            "and {} more; -o FILE.html or FILE.json has all",
            rows - SHOWN
        );
    }
}

pub fn csv(cluster: &Cluster) -> Result<String> {
    let heads = [
        "host",
        "test",
        "quantity",
        "difference",
        "low",
        "high",
        "p",
        "verdict",
    ];
    let row = |one: &HostDifference| {
        vec![
            one.host.clone(),
            one.test.clone(),
            one.quantity.word().to_owned(),
            format!("{:.4}", one.pct),
            format!("{:.4}", one.together_pct.0),
            format!("{:.4}", one.together_pct.1),
            format!("{:.6}", one.p),
            verdict(one.verdict).to_owned(),
        ]
    };
    csv_text(heads, cluster.differences.iter().map(row))
}

pub fn page(cluster: &Cluster) -> String {
    let class = match cluster.verdict {
        AuditVerdict::Equal => "kept",
        AuditVerdict::Unequal => "missed",
        AuditVerdict::Undecided | AuditVerdict::NotResolvable => "undecided",
    };
    let body = html! {
        header {
            p .what { "audits of " (cluster.hosts.len()) " hosts" }
            h1 { span .verdict.(class) { (verdict(cluster.verdict)) } }
            p .reason { (visible(&summary(cluster))) "." }
            p { "At " (confidence(cluster.confidence)) " confidence over all comparisons; differences up to "
                (cluster.tolerance_pct) " % do not count." }
        }
        section {
            h2 { "Hosts against the middle host" }
            @for (test, quantity, chart) in charts(cluster) {
                (figure(&format!("{}: {}", visible(&test), quantity.word()), Some(chart), &[]))
            }
            table {
                thead { tr { @for head in HEADS { th { (head) } } } }
                tbody { @for one in &cluster.differences { tr { @for cell in cells(one) { td { (cell) } } } } }
            }
        }
        @if !cluster.cpus.is_empty() {
            section {
                h2 { "CPUs against the middle CPU of their host and build" }
                table {
                    thead { tr { @for head in CPU_HEADS { th { (head) } } } }
                    tbody { @for cells in cpu_cells(cluster) { tr { @for cell in cells { td { (cell) } } } } }
                }
            }
        }
        @for (head, all) in [
            ("Left out", &cluster.left_out),
            ("Incomplete", &cluster.incomplete),
            ("Own audits", &cluster.own_audits),
        ] {
            @if !all.is_empty() {
                section {
                    h2 { (head) }
                    table { tbody { @for (whose, why) in all {
                        tr { td { (visible(whose)) } td { (visible(why)) } }
                    } } }
                }
            }
        }
    };
    static_page("sandbag: audits of many hosts", chart::STYLE, &body)
}

/// A chart of each test and quantity: hosts with their intervals, in the order of the files.
fn charts(cluster: &Cluster) -> Vec<(String, Quantity, Chart)> {
    let mut kinds: Vec<(String, Quantity)> = Vec::new();
    for one in &cluster.differences {
        let kind = (one.test.clone(), one.quantity);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.cmp(&b.1)));
    let chart = |(test, quantity): (String, Quantity)| {
        let bars = cluster.hosts.iter().zip(0..).filter_map(|(host, at)| {
            let mut all = cluster.differences.iter();
            let one =
                all.find(|one| one.host == *host && one.test == test && one.quantity == quantity)?;
            let (low, high) = one.together_pct;
            let is_open = quantity.is_open(low) || quantity.is_open(high);
            (!is_open).then_some((f64::from(at), low, one.pct, high))
        });
        let chart = Chart {
            about: format!("{test}, {}: hosts against the middle one", quantity.word()),
            x: "host".to_owned(),
            y: format!("difference, {}", quantity.unit()),
            names: cluster.hosts.clone(),
            series: vec![ChartSeries {
                colour: Some(0),
                bars: bars.collect(),
                ..ChartSeries::default()
            }],
            band: Some((-cluster.tolerance_pct, cluster.tolerance_pct)),
            ..Chart::default()
        };
        (test, quantity, chart)
    };
    kinds.into_iter().map(chart).collect()
}
