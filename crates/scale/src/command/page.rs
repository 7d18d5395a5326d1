// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of a prediction: slowdown against ranks, and what classes of events
//! cost.

use maud::{Markup, html};
use serde::Serialize;

use sandbag_ui::page::{CREDIT, frame_around, sentence, to_json};
use sandbag_ui::quantity::{percent, time};
use sandbag_ui::text::{command_line, visible};

const SCRIPT: &str = include_str!("scale.js");

/// What the page shows.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// What it is about, in a line.
    pub subject: String,
    /// How it was predicted, in a few words each.
    pub how: Vec<String>,
    /// One line of the chart each.
    pub curves: Vec<Curve>,
    /// What classes of events cost, one table for each trace.
    pub costs: Vec<Costs>,
    /// What the reader should know.
    pub warnings: Vec<String>,
    /// The arguments that made it.
    pub arguments: Vec<String>,
    /// Version of the program.
    pub sandbag: String,
    /// Of all chance.
    pub seed: u64,
}

/// A line of the chart.
#[derive(Debug, Clone, Serialize)]
pub struct Curve {
    /// Trace and synchronisation.
    pub name: String,
    /// Ascending.
    pub points: Vec<Point>,
    /// It was measured by others, and stands beside what is predicted: marks
    /// instead of a line, and no table.
    pub published: bool,
}

/// A slowdown.
#[derive(Debug, Clone, Serialize)]
pub struct Point {
    /// Ranks.
    pub ranks: u64,
    /// Mean of all phases, percent.
    pub slowdown_pct: f64,
    /// 95 % interval.
    pub interval_pct: Option<(f64, f64)>,
    /// So many of the phases are slowed down by no more, percent: of each of
    /// [`PHASES`].
    pub phases_pct: [f64; PHASES.len()],
    /// The barrier without noise, ns.
    pub barrier_ns: f64,
    /// It is at least this: the trace is too short for more.
    pub lower_bound: bool,
    /// With a fitted tail.
    pub tail_pct: Option<f64>,
    /// Its 95 % interval.
    pub tail_interval_pct: Option<(f64, f64)>,
}

/// Parts of the phases, as they are written.
pub const PHASES: [&str; 4] = ["50 %", "90 %", "99 %", "99.9 %"];

/// What classes of events cost.
#[derive(Debug, Clone)]
pub struct Costs {
    /// The trace.
    pub name: String,
    /// Numbers of ranks.
    pub ranks: Vec<u64>,
    /// Each class, the one that costs most at the most ranks first.
    pub rows: Vec<Cost>,
}

/// What one class costs.
#[derive(Debug, Clone)]
pub struct Cost {
    /// Its name.
    pub class: String,
    /// Its share of the noise, percent.
    pub noise_pct: f64,
    /// Which it is by that, from 1.
    pub place_by_noise: usize,
    /// Points that its removal saves at each number of ranks.
    pub saves_points: Vec<f64>,
}

/// The page.
#[must_use]
pub fn render(page: &Page) -> String {
    let title = format!("sandbag: predicted slowdown, {}", visible(&page.subject));
    let bounds = points(page).any(|point| point.lower_bound);
    let intervals = points(page).any(|point| point.interval_pct.is_some());
    let body = html! {
        header {
            p .what { (page.how.iter().map(|word| visible(word)).collect::<Vec<_>>().join(" · ")) }
            h1 { "Predicted slowdown: " (visible(&page.subject)) }
        }
        @if !page.warnings.is_empty() {
            section .warnings {
                h2 { @if page.warnings.len() == 1 { "Warning" } @else { "Warnings" } }
                ul { @for w in &page.warnings { li { (sentence(&visible(w))) } } }
            }
        }
        section {
            h2 { "Slowdown against ranks" }
            p .legend {
                @for (number, curve) in page.curves.iter().enumerate() {
                    @if curve.published {
                        span style=(mark(number)) { "◆ " span .note { (visible(&curve.name)) } }
                    } @else {
                        span { i .key style=(key(number)) {} (visible(&curve.name)) }
                    }
                }
                span .note {
                    "Mean of all phases, percent of the time without noise."
                    @if intervals { " Bands: 95 % intervals by block bootstrap." }
                    @if bounds { " Hollow: at least this, for the trace is too short for so many ranks." }
                }
            }
            figure { div .chart.load data-chart="scale" style="height: 420px" {} }
            noscript { p { "The chart needs JavaScript; the table is complete without it." } }
        }
        section {
            h2 { "In figures" }
            p .note {
                "Slowdown: mean of all phases, below it the 95 % interval. Then the distribution over "
                "phases: so many of them are slowed down by no more. All in percent of the time "
                "without noise."
            }
            @for curve in page.curves.iter().filter(|curve| !curve.published) { (table(curve)) }
        }
        @for costs in &page.costs { (classes(costs)) }
        section {
            h2 { "How to reproduce" }
            pre { code { "sandbag " (command_line(&page.arguments)) } }
            p .note { "Seed " (page.seed) "." }
        }
        footer { "sandbag " (visible(&page.sandbag)) ". " (CREDIT) }
    };
    frame_around(&title, &body, &to_json(&page.curves), SCRIPT).into_string()
}

fn points(page: &Page) -> impl Iterator<Item = &Point> {
    page.curves.iter().flat_map(|curve| &curve.points)
}

/// Colours in the order of the script's.
const COLOURS: [&str; 6] = ["got", "asked", "kept", "missed", "plain", "undecided"];

fn key(number: usize) -> String {
    let style = if number < COLOURS.len() {
        "solid"
    } else {
        "dashed"
    };
    let colour = COLOURS[number % COLOURS.len()];
    format!("border-top: 3px {style} var(--{colour})")
}

fn mark(number: usize) -> String {
    format!("color: var(--{})", COLOURS[number % COLOURS.len()])
}

fn table(curve: &Curve) -> Markup {
    let tails = curve.points.iter().any(|point| point.tail_pct.is_some());
    let barrier = curve.points.iter().any(|point| point.barrier_ns > 0.0);
    let interval = |interval: Option<(f64, f64)>| {
        html! {
            @if let Some((low, high)) = interval {
                small { (percent(low)) " to " (percent(high)) }
            }
        }
    };
    html! {
        h3 { (visible(&curve.name)) }
        div .table {
            table {
                thead { tr {
                    th { "ranks" } th { "slowdown" }
                    @for part in PHASES { th { (part) } }
                    @if barrier { th { "barrier" } }
                    @if tails { th { "with a tail" } }
                } }
                tbody {
                    @for point in &curve.points {
                        tr {
                            td { (point.ranks) }
                            td {
                                @if point.lower_bound { "≥ " } (percent(point.slowdown_pct))
                                (interval(point.interval_pct))
                            }
                            @for pct in point.phases_pct { td { (percent(pct)) } }
                            @if barrier { td { (time(point.barrier_ns)) } }
                            @if tails {
                                td {
                                    (point.tail_pct.map_or_else(|| "–".to_owned(), percent))
                                    (interval(point.tail_interval_pct))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn classes(costs: &Costs) -> Markup {
    html! {
        section {
            h2 { "What costs most: " (visible(&costs.name)) }
            p .note {
                "Points of slowdown that are saved where the events of a class are removed, beside "
                "the class's share of all noise; nothing synchronised. Who costs most at the most ranks "
                "stands first. The sum of all is not that "
                "of removing all."
            }
            div .table.costs {
                table {
                    thead { tr {
                        th .text { "class" } th { "of the noise" small { "%" } }
                        th { "place" small { "by noise" } }
                        @for ranks in &costs.ranks { th { (ranks) small { "ranks" } } }
                    } }
                    tbody {
                        @for cost in &costs.rows {
                            tr {
                                td .text { (visible(&cost.class)) }
                                td { (percent(cost.noise_pct)) }
                                td { (cost.place_by_noise) }
                                @for points in &cost.saves_points { td { (percent(*points)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Page {
        let point = |ranks, slowdown_pct| Point {
            ranks,
            slowdown_pct,
            interval_pct: Some((slowdown_pct * 0.9, slowdown_pct * 1.1)),
            phases_pct: [1.0, 1.5, 2.0, 2.5].map(|of| slowdown_pct * of),
            barrier_ns: 42_000.0,
            lower_bound: ranks > 1000,
            tail_pct: Some(slowdown_pct * 3.0),
            tail_interval_pct: Some((slowdown_pct * 2.0, slowdown_pct * 4.0)),
        };
        Page {
            subject: "<node>.sbj".to_owned(),
            how: vec!["1 ms".to_owned()],
            curves: vec![
                Curve {
                    name: "</script>".to_owned(),
                    points: vec![point(1, 0.5), point(4096, 120.0)],
                    published: false,
                },
                Curve {
                    name: "others".to_owned(),
                    points: vec![point(2048, 99.0)],
                    published: true,
                },
            ],
            costs: vec![Costs {
                name: "node.sbj".to_owned(),
                ranks: vec![1, 4096],
                rows: vec![Cost {
                    class: "events < 1 us".to_owned(),
                    noise_pct: 40.0,
                    place_by_noise: 2,
                    saves_points: vec![0.2, 0.1],
                }],
            }],
            warnings: vec!["short".to_owned()],
            arguments: vec!["scale".to_owned(), "predict".to_owned()],
            sandbag: "0".to_owned(),
            seed: 7,
        }
    }

    #[test]
    fn figures_stand_in_the_page_without_the_script() {
        let text = render(&page());
        for part in [
            "≥ 120",
            "0.450 to 0.550",
            "99.9 %",
            "42.0 us",
            "240 to 480",
            "events &lt; 1 us",
            "&lt;node&gt;.sbj",
            "Seed 7",
        ] {
            assert!(text.contains(part), "{part}");
        }
        // What others measured is in the chart only.
        assert_eq!(text.matches("<h3>").count(), 1);
        // A name cannot end the element of the data.
        assert!(text.contains("\\u003c/script>"));
        assert_eq!(text.matches("<script").count(), 3);
    }
}
