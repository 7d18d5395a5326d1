// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of a prediction: slowdown against ranks, and the costs of classes of events.

use std::collections::BTreeSet;

use maud::html;
use sandbag_ui::page::{CREDIT, frame_around, sentence, to_json};
use sandbag_ui::quantity::time;
use sandbag_ui::text::{command_line, visible};
use serde_json::{Value, json};

use super::view::{Curve, ScaleView, cost_rows, prediction_rows};
use crate::predict::{BarrierModel, PredictOptions, Spread};

const SCRIPT: &str = include_str!("page.js");

/// The page.
pub(super) fn render(shown: &ScaleView<'_>, arguments: &[String]) -> String {
    let traces = distinct(shown.curves.iter().flat_map(|curve| &curve.traces));
    let subject = visible(&traces.join(", "));
    let warnings = shown.curves.iter().map(|curve| &curve.prediction.warnings);
    let warnings = distinct(warnings.flatten());
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
                    @if bounds { " Hollow: mostly too low, because the trace is too short to show the longest times." }
                }
            }
            figure { div .chart.load data-chart="scale" style="height: 420px" {} }
            noscript { p { "The chart needs JavaScript; the table is complete without it." } }
        }
        section {
            h2 { "In figures" }
            p .note {
                "Slowdown: mean of all phases with its 95 % interval. Then percentiles of the "
                "slowdown over the phases. All in percent of the time without noise."
            }
            @for curve in shown.curves {
                h3 { (visible(&curve.name)) }
                (prediction_rows(&curve.prediction.points).html())
            }
        }
        @for classes in shown.with_costs() {
            section {
                h2 { "What costs most: " (visible(&classes.name)) }
                p .note {
                    "Points of slowdown that the removal of a class of events saves, beside its "
                    "share of all noise; nothing synchronised. By cost at the most ranks. The sum "
                    "of all is not that of removing all."
                }
                div .costs { (cost_rows(&classes.costs, shown.class_ranks).html()) }
            }
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

/// Each text once, in the order of their first places.
fn distinct<'a>(all: impl Iterator<Item = &'a String>) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    all.map(String::as_str)
        .filter(|text| seen.insert(*text))
        .collect()
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

/// The colours of the script, in the same order.
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
