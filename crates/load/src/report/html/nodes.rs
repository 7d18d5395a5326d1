// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of several nodes: one table of all, and a chart of each that
//! leads to its own page.

use std::path::Path;

use maud::{Markup, html};
use sandbag_linux::CpuList;
use sandbag_stats::Verdict;

use super::data::Charts;
use super::frame::{frame, warning_list};
use super::tables::empty_cell;
use crate::report::nodes::{NodeResult, NodeRows, SpeedResult};
use crate::report::run::Run;
use crate::report::series::LoadSeries;
use crate::report::view::{SPEED, View};
use sandbag_run::directory::{ACHIEVED_CSV, REPORT_HTML};
use sandbag_ui::page::{CREDIT, sentence, signed};
use sandbag_ui::text::{clock, visible};

/// The page for `nodes`, which come from `runs`; the windows of each are in
/// its directory under `dir`. Where they cannot be read, the page says why.
pub fn render(nodes: &NodeRows, runs: &[Run], dir: &Path) -> String {
    let views: Vec<View<'_>> = runs
        .iter()
        .filter(|run| run.node.is_some())
        .map(View::of)
        .collect();
    let all: Vec<Result<LoadSeries, String>> = views
        .iter()
        .zip(&nodes.nodes)
        .map(|(view, node)| {
            view.series(&dir.join(&node.directory).join(ACHIEVED_CSV))
                .map_err(|e| e.to_string())
        })
        .collect();
    // One time axis for all, so that their charts can be compared.
    let length_s = runs.iter().map(|r| r.length_s).fold(0.0, f64::max);
    let charts: Vec<Charts<'_>> = views
        .iter()
        .zip(&all)
        .map(|(view, series)| Charts::of_mean(view, series.as_ref().ok(), length_s))
        .collect();
    let holes = all
        .iter()
        .flatten()
        .flat_map(|series| &series.cpus)
        .any(|(_, track)| !track.holes.is_empty());
    let title = format!(
        "sandbag: {}, {} on {}",
        nodes.verdict,
        count(nodes),
        visible(&nodes.host)
    );
    let warnings = nodes.nodes.iter().flat_map(|node| {
        let name = &node.node.name;
        node.warnings
            .iter()
            .map(move |text| format!("node {name}: {text}"))
    });
    let body = html! {
        (headline(nodes, length_s))
        (warning_list(&warnings.collect::<Vec<_>>()))
        section {
            h2 { (SPEED.table) }
            (table(nodes))
        }
        section {
            h2 { "Over time" }
            p .legend {
                span { i .key.asked {} "asked" }
                span { i .key.got {} "got" }
                @if holes { span { i .key.hole {} (SPEED.absent) } }
                span .note {
                    (SPEED.charts) " Each chart shows the mean over the node's CPUs, and the error "
                    "of the worst; the page of the node shows each CPU."
                }
            }
            div .charts {
                @for (i, (node, series)) in nodes.nodes.iter().zip(&all).enumerate() {
                    (chart(i, node, series))
                }
            }
            noscript { p { "The charts need JavaScript; the table is complete without it." } }
        }
        footer {
            "sandbag " (visible(&nodes.sandbag)) ", format " (nodes.format)
            " of nodes.json. The record of each node is in the directory of its name. " (CREDIT)
        }
    };
    frame(&title, &body, &charts).into_string()
}

fn headline(nodes: &NodeRows, length_s: f64) -> Markup {
    let all = nodes.nodes.len();
    let with = |verdict| nodes.nodes.iter().filter(|n| n.verdict == verdict).count();
    let (class, words) = match nodes.verdict {
        _ if all == 0 => ("missed", "no node left a record".to_owned()),
        Verdict::Kept if all == 1 => ("kept", "the node had the speed that was asked".to_owned()),
        Verdict::Kept => (
            "kept",
            format!("all {all} nodes had the speed that was asked"),
        ),
        Verdict::Missed => (
            "missed",
            format!(
                "{} of {} did not have the speed that was asked",
                with(Verdict::Missed),
                count(nodes)
            ),
        ),
        Verdict::Undecided => (
            "undecided",
            format!(
                "the machine was too disturbed to tell for {} of {}",
                with(Verdict::Undecided),
                count(nodes)
            ),
        ),
    };
    let what = [
        count(nodes),
        clock(length_s),
        format!("host {}", visible(&nodes.host)),
        visible(&nodes.started_at),
    ];
    html! {
        header {
            p .what { (what.join(" · ")) }
            h1 { span .verdict.(class) { (nodes.verdict) } ": " (words) }
        }
    }
}

fn count(nodes: &NodeRows) -> String {
    match nodes.nodes.len() {
        1 => "1 node".to_owned(),
        n => format!("{n} nodes"),
    }
}

fn table(nodes: &NodeRows) -> Markup {
    let used = nodes.nodes.iter().any(|n| n.node.used_s.is_some());
    html! {
        div .table {
            table {
                thead {
                    tr {
                        th .text { "node" }
                        th .text { "CPUs" }
                        th .text { "method" }
                        th { "asked" small { (SPEED.unit) } }
                        th { "got" small { (SPEED.unit) } }
                        th { "mean abs. error" small { "points" } }
                        th { "worst 1 s" small { "points" } }
                        @if used { th { "used" small { "s of CPU time" } } }
                        th .text { "verdict" }
                    }
                }
                tbody { @for node in &nodes.nodes { (rows(node, used)) } }
            }
        }
    }
}

/// A line for each speed in the node; the first has what concerns all of it.
fn rows(node: &NodeResult, used: bool) -> Markup {
    let used_s = node
        .node
        .used_s
        .map_or_else(empty_cell, |s| format!("{s:.2}"));
    let more = node.speeds.get(1..).unwrap_or_default();
    html! {
        tr {
            th .text { (link(node)) }
            @if let Some(first) = node.speeds.first() {
                td .text { (first.cpus) }
                td .text { (visible(&node.method)) }
                (figures(first))
            } @else {
                td {}
                td .text { (visible(&node.method)) }
                td { (empty_cell()) } td { (empty_cell()) } td { (empty_cell()) } td { (empty_cell()) }
            }
            @if used { td { (used_s) } }
            td .text { span .verdict.(node.verdict) { (node.verdict) } }
        }
        @for speed in more {
            tr .more { td {} td .text { (speed.cpus) } td {} (figures(speed)) @if used { td {} } td {} }
        }
    }
}

fn figures(speed: &SpeedResult) -> Markup {
    html! {
        td { (speed.asked_speed_pct.map_or_else(empty_cell, |p| format!("{p:.2}"))) }
        td { (speed.got_speed_pct.map_or_else(empty_cell, |p| format!("{p:.2}"))) }
        td { (speed.mean_abs_points.map_or_else(empty_cell, |e| format!("{e:.2}"))) }
        td { (speed.worst_points.map_or_else(empty_cell, |e| signed(e, 2))) }
    }
}

/// To the page of the node. The point makes it a path, whatever the name.
fn link(node: &NodeResult) -> Markup {
    let path = format!("./{}/{REPORT_HTML}", node.directory);
    html! { a href=(path) { (visible(&node.node.name)) } }
}

fn chart(i: usize, node: &NodeResult, series: &Result<LoadSeries, String>) -> Markup {
    html! {
        figure {
            figcaption { (link(node)) ", " (cpu_label(&node.cpus())) ", " (visible(&node.method)) }
            p .note { (sentence(&visible(&node.reason))) }
            @match series {
                Ok(series) if series.cpus.is_empty() => p { "The node has no windows." },
                Ok(_) => div .chart.load data-chart="mean" data-of=(i) {},
                Err(why) => p { "No chart: " (visible(why)) "." },
            }
        }
    }
}

fn cpu_label(cpus: &CpuList) -> String {
    match cpus.len() {
        0 => "no CPU".to_owned(),
        1 => format!("CPU {cpus}"),
        _ => format!("CPUs {cpus}"),
    }
}
