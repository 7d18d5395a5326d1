// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The noise of many hosts as a table, a page and CSV.

use std::fmt::Write as _;

use maud::html;
use sandbag_ui::chart::{self, Chart, ChartSeries, figure};
use sandbag_ui::failure::Result;
use sandbag_ui::output::width;
use sandbag_ui::page::static_page;
use sandbag_ui::quantity::time;
use sandbag_ui::report::csv_text;
use sandbag_ui::table::{fit, plain};
use sandbag_ui::text::visible;

use super::{HostNoise, NoiseCluster, SHOWN, some};

const HEADS: [&str; 9] = [
    "host",
    "CPUs",
    "lost %",
    "at least",
    "at most",
    "worst CPU",
    "events/s",
    "99 % below",
    "longest",
];

fn cells(host: &HostNoise) -> [String; 9] {
    let end = |pct: Option<f64>| pct.map_or_else(String::new, |pct| format!("{pct:.3}"));
    [
        visible(&host.host),
        host.cpus.to_string(),
        format!("{:.3}", host.noise_pct),
        end(host.interval_pct.map(|(low, _)| low)),
        end(host.interval_pct.map(|(_, high)| high)),
        format!("{}: {:.3}", host.worst_cpu, host.cpu_range_pct.1),
        format!("{:.1}", host.rate_per_s),
        time(host.p99_ns as f64),
        time(host.longest_ns as f64),
    ]
}

pub(super) fn summary(found: &NoiseCluster) -> String {
    let noisier: Vec<&str> = found
        .hosts
        .iter()
        .filter(|host| host.is_noisier)
        .map(|host| host.host.as_str())
        .collect();
    let all = found.hosts.len();
    let middle = format!(
        "the middle of {all} hosts lost {:.3} % of the time",
        found.middle_pct
    );
    match noisier.as_slice() {
        _ if !found.says_something() => {
            format!("nothing can be said: record two seconds or longer on two hosts; {middle}")
        }
        [] => format!("no host is noisier than the others beyond chance; {middle}"),
        names => format!("noisier: {}; {middle}", some(names)),
    }
}

pub(super) fn terminal(found: &NoiseCluster) -> String {
    let mut table = plain(HEADS);
    for host in found.hosts.iter().take(SHOWN) {
        table.add_row(cells(host));
    }
    let mut out = format!(
        "{}\n\n{}\n",
        visible(&summary(found)),
        fit(&table, 1, width())
    );
    match found.hosts.len().saturating_sub(SHOWN) {
        0 => {}
        more => drop(writeln!(
            out,
            "and {more} more; -o FILE.html or FILE.csv has all"
        )),
    }
    for (file, why) in &found.left_out {
        let _ = writeln!(out, "left out: {}: {}", visible(file), visible(why));
    }
    out
}

pub(super) fn page(found: &NoiseCluster) -> String {
    let bars = found.hosts.iter().zip(0..).filter_map(|(host, at)| {
        let (low, high) = host.interval_pct?;
        Some((f64::from(at), low, host.noise_pct, high))
    });
    let chart = Chart {
        about: "share of time lost on each host, with its interval".to_owned(),
        x: "host".to_owned(),
        y: "time lost, %".to_owned(),
        names: found.hosts.iter().map(|host| host.host.clone()).collect(),
        series: vec![ChartSeries {
            colour: Some(0),
            bars: bars.collect(),
            ..ChartSeries::default()
        }],
        from_zero: true,
        ..Chart::default()
    };
    let body = html! {
        header {
            p .what { "jitter of " (found.hosts.len()) " hosts" }
            h1 { (visible(&summary(found))) }
        }
        section {
            (figure("Time lost on each host", Some(chart), &[]))
            table {
                thead { tr { @for head in HEADS { th { (head) } } } }
                tbody { @for host in &found.hosts { tr { @for cell in cells(host) { td { (cell) } } } } }
            }
            @for (file, why) in &found.left_out { p { "Left out: " (visible(file)) ": " (visible(why)) } }
        }
    };
    static_page("sandbag: jitter of many hosts", chart::STYLE, &body)
}

pub(super) fn csv(found: &NoiseCluster) -> Result<String> {
    let heads = [
        "host",
        "cpus",
        "known_s",
        "noise_pct",
        "low_pct",
        "high_pct",
        "worst_cpu",
        "worst_cpu_pct",
        "rate_per_s",
        "p99_ns",
        "longest_ns",
        "noisier",
    ];
    let row = |host: &HostNoise| {
        let end = |pct: Option<f64>| pct.map_or_else(String::new, |pct| format!("{pct:.6}"));
        vec![
            host.host.clone(),
            host.cpus.to_string(),
            format!("{:.3}", host.known_s),
            format!("{:.6}", host.noise_pct),
            end(host.interval_pct.map(|(low, _)| low)),
            end(host.interval_pct.map(|(_, high)| high)),
            host.worst_cpu.to_string(),
            format!("{:.6}", host.cpu_range_pct.1),
            format!("{:.3}", host.rate_per_s),
            host.p99_ns.to_string(),
            host.longest_ns.to_string(),
            host.is_noisier.to_string(),
        ]
    };
    csv_text(heads, found.hosts.iter().map(row))
}
