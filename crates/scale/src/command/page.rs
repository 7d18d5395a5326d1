// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of a prediction: slowdown against ranks, and what classes of events
//! cost.

use maud::{Markup, html};
use sandbag_ui::page::{CREDIT, frame_around, sentence, to_json};
use sandbag_ui::quantity::{percent, time};
use sandbag_ui::text::{command_line, visible};
use serde_json::{Value, json};

use super::table::{output_order, place_by_noise};
use super::view::{Classes, Curve, ScaleView, first_of_each};
use crate::predict::{BarrierModel, Estimate, PHASES_PCT, PredictOptions, Spread};

const SCRIPT: &str = include_str!("page.js");

/// The page.
pub(super) fn render(shown: &ScaleView<'_>, arguments: &[String]) -> String {
    let traces = first_of_each(shown.curves.iter().flat_map(|curve| &curve.traces));
    let subject = visible(&traces.join(", "));
    let warnings = shown.curves.iter().map(|curve| &curve.prediction.warnings);
    let warnings = first_of_each(warnings.flatten());
    let bounds = shown.points().any(|point| point.saturated);
    let intervals = shown
        .points()
        .any(|point| point.mean.interval_pct.is_some());
    let body = html! {
        header {
            p .what { (settings_text(shown.options).join(" · ")) }
            h1 { "Predicted slowdown: " (subject) }
        }
        @if !warnings.is_empty() {
            section .warnings {
                h2 { @if warnings.len() == 1 { "Warning" } @else { "Warnings" } }
                ul { @for w in &warnings { li { (sentence(&visible(w))) } } }
            }
        }
        section {
            h2 { "Slowdown against ranks" }
            p .legend {
                @for (number, curve) in shown.curves.iter().enumerate() {
                    span { i .key style=(key(number)) {} (visible(&curve.name)) }
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
            @for curve in shown.curves { (table(curve)) }
        }
        @for of_trace in shown.classes.iter().filter(|classes| !classes.costs.is_empty()) {
            (classes(of_trace, shown.class_ranks))
        }
        section {
            h2 { "How to reproduce" }
            pre { code { "sandbag " (command_line(arguments)) } }
            p .note { "Seed " (shown.options.seed) "." }
        }
        footer { "sandbag " (env!("CARGO_PKG_VERSION")) ". " (CREDIT) }
    };
    let title = format!("sandbag: predicted slowdown, {subject}");
    let data = |curve: &Curve| json!({"name": curve.name, "points": curve.prediction.points});
    let data: Vec<Value> = shown.curves.iter().map(data).collect();
    frame_around(&title, &body, &to_json(&data), SCRIPT).into_string()
}

fn settings_text(options: &PredictOptions) -> Vec<String> {
    let mut how = vec![format!("quantum {}", time(options.quantum_ns as f64))];
    how.push(match options.barrier {
        BarrierModel::Ideal => "ideal barrier".to_owned(),
        BarrierModel::Dissemination(_) => "dissemination barrier".to_owned(),
        BarrierModel::Binomial(_) => "binomial tree".to_owned(),
    });
    if options.group > 1 {
        how.push(format!("nodes of {} ranks", options.group));
    }
    if let Some(drift) = options.drift {
        let shape = match drift.spread {
            Spread::Uniform => "from the first to the last",
            Spread::Normal => "standard deviation",
        };
        how.push(format!(
            "drift {} at the end, {shape}",
            time(drift.end_ns as f64)
        ));
    }
    how.push(format!("{} phases", options.phases));
    how
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

fn table(curve: &Curve) -> Markup {
    let points = &curve.prediction.points;
    let tails = points.iter().any(|point| point.tail.is_some());
    let barrier = points.iter().any(|point| point.barrier_ns > 0.0);
    let estimate = |estimate: &Estimate| {
        html! {
            (percent(estimate.slowdown_pct))
            @if let Some((low, high)) = estimate.interval_pct {
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
                    @for part in PHASES_PCT { th { (part) " %" } }
                    @if barrier { th { "barrier" } }
                    @if tails { th { "with a tail" } }
                } }
                tbody {
                    @for point in points {
                        tr {
                            td { (point.ranks) }
                            td { @if point.saturated { "≥ " } (estimate(&point.mean)) }
                            @for pct in point.phases_pct { td { (percent(pct)) } }
                            @if barrier { td { (time(point.barrier_ns)) } }
                            @if tails {
                                td {
                                    @match &point.tail {
                                        Some(tail) => (estimate(tail)),
                                        None => "–",
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn classes(classes: &Classes, all_ranks: &[u64]) -> Markup {
    html! {
        section {
            h2 { "What costs most: " (visible(&classes.name)) }
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
                        @for ranks in all_ranks { th { (ranks) small { "ranks" } } }
                    } }
                    tbody {
                        @for cost in output_order(&classes.costs) {
                            tr {
                                td .text { (visible(&cost.class)) }
                                td { (percent(cost.noise_pct)) }
                                td { (place_by_noise(&classes.costs, cost)) }
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
    use crate::predict::{Cost, Prediction, RankPrediction, Sync};

    #[test]
    fn figures_stand_in_the_page_without_the_script() {
        let estimate = |slowdown_pct| Estimate {
            slowdown_pct,
            interval_pct: Some((slowdown_pct * 0.9, slowdown_pct * 1.1)),
        };
        let point = |ranks, slowdown_pct: f64| RankPrediction {
            ranks,
            mean: estimate(slowdown_pct),
            phases_pct: [1.0, 1.5, 2.0, 2.5].map(|of| slowdown_pct * of),
            noise_ns: 0.0,
            barrier_ns: 42_000.0,
            saturated: ranks > 1000,
            tail: Some(estimate(slowdown_pct * 3.0)),
            gone_through: None,
        };
        let curve = Curve {
            name: "</script>".to_owned(),
            traces: vec!["<node>.sbj".to_owned()],
            sync: Sync::None,
            prediction: Prediction {
                points: vec![point(1, 0.5), point(4096, 120.0)],
                tail: None,
                noise_pct: 1.0,
                warnings: vec!["short".to_owned()],
            },
        };
        let classes = Classes {
            name: "node.sbj".to_owned(),
            costs: vec![Cost {
                class: "events < 1 us".to_owned(),
                noise_pct: 40.0,
                saves_points: vec![0.2, 0.1],
            }],
        };
        let shown = ScaleView {
            curves: &[curve],
            classes: &[classes],
            class_ranks: &[1, 4096],
            options: &PredictOptions {
                seed: 7,
                ..PredictOptions::default()
            },
        };
        let text = render(&shown, &["scale".to_owned()]);
        for part in [
            "≥ 120",
            "0.450 to 0.550",
            "<th>99.9 %</th>",
            "<th>50 %</th>",
            "42.0 us",
            "324 to 396",
            "events &lt; 1 us",
            "&lt;node&gt;.sbj",
            "Seed 7",
        ] {
            assert!(text.contains(part), "{part}");
        }
        // A name cannot end the element of the data.
        assert!(text.contains("\\u003c/script>"));
        assert_eq!(text.matches("<script").count(), 3);
    }
}
