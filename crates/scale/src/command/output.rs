// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A prediction as a file.

use std::fmt::Write as _;
use std::path::Path;

use crate::predict::{Estimate, SATURATED_PCT};
use clap::ValueEnum;
use sandbag_input::Existing;
use sandbag_ui::failure::Result;
use serde_json::json;

use super::page;
use super::view::ScaleView;
use sandbag_ui::BadInput;
use sandbag_ui::output;

/// The format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputTarget {
    /// A page with a chart
    Html,
    /// All figures
    Json,
    /// A row for each trace, synchronisation and number of ranks
    Csv,
}

/// The format of the output by `--to` or the file name; `None` without an output.
pub(super) fn kind(
    output: Option<&Path>,
    to: Option<OutputTarget>,
) -> Result<Option<OutputTarget>> {
    let Some(path) = output else {
        return match to {
            None => Ok(None),
            Some(_) => Err(BadInput("--to needs a file: name it with -o".to_owned()).into()),
        };
    };
    let by_name = match path.extension().and_then(|ending| ending.to_str()) {
        Some("html" | "htm") => Some(OutputTarget::Html),
        Some("json") => Some(OutputTarget::Json),
        Some("csv") => Some(OutputTarget::Csv),
        _ if path.as_os_str() == "-" => Some(OutputTarget::Json),
        _ => None,
    };
    match to.or(by_name) {
        Some(to) => Ok(Some(to)),
        None => Err(BadInput(format!(
            "the format of {} is unknown: take an ending .html, .json or .csv, or --to",
            path.display()
        ))
        .into()),
    }
}

/// Writes the output, whole or not at all.
pub(super) fn write(
    shown: &ScaleView<'_>,
    to: OutputTarget,
    path: &Path,
    existing: Existing,
) -> Result<()> {
    let text = match to {
        OutputTarget::Html => page::render(shown, &sandbag_run::program::arguments()),
        OutputTarget::Json => json(shown)?,
        OutputTarget::Csv => csv(shown),
    };
    output::put(path, text, existing)
}

fn json(shown: &ScaleView<'_>) -> Result<String> {
    let options = shown.options;
    let curves: Vec<_> = shown
        .curves
        .iter()
        .map(|curve| {
            json!({
                "traces": curve.traces,
                "sync": curve.sync.to_string(),
                "points": curve.prediction.points,
                "tail": curve.prediction.tail,
                "noise_pct": curve.prediction.noise_pct,
                "saturated_by_noise": curve.prediction.noise_pct >= SATURATED_PCT,
                "warnings": curve.prediction.warnings,
            })
        })
        .collect();
    let classes: Vec<_> = shown
        .classes
        .iter()
        .map(|classes| {
            json!({"trace": classes.name, "ranks": shown.class_ranks, "classes": classes.costs})
        })
        .collect();
    let all = json!({
        "format": 1,
        "sandbag": env!("CARGO_PKG_VERSION"),
        "quantum_ns": options.quantum_ns,
        "barrier": options.barrier,
        "group": options.group,
        "starts": options.starts,
        "drift": options.drift,
        "phases": options.phases,
        "seed": options.seed,
        "curves": curves,
        "classes": classes,
    });
    Ok(serde_json::to_string_pretty(&all)? + "\n")
}

fn csv(shown: &ScaleView<'_>) -> String {
    let mut text = "trace,sync,ranks,slowdown_pct,low_pct,high_pct,p50_pct,p90_pct,p99_pct,\
                    p999_pct,noise_ns,barrier_ns,lower_bound,tail_pct,tail_low_pct,tail_high_pct\n"
        .to_owned();
    let fields = |estimate: Option<Estimate>| {
        let interval_pct = estimate.and_then(|estimate| estimate.interval_pct);
        [
            estimate.map(|estimate| estimate.slowdown_pct),
            interval_pct.map(|interval| interval.0),
            interval_pct.map(|interval| interval.1),
        ]
        .map(|value| value.map_or_else(String::new, |value| value.to_string()))
        .join(",")
    };
    for curve in shown.curves {
        let name = curve.traces.join(" + ").replace('"', "\"\"");
        for point in &curve.prediction.points {
            let _ = writeln!(
                text,
                "\"{name}\",{},{},{},{},{},{},{},{}",
                curve.sync,
                point.ranks,
                fields(Some(point.mean)),
                point.phases_pct.map(|pct| pct.to_string()).join(","),
                point.noise_ns,
                point.barrier_ns,
                u8::from(point.saturated),
                fields(point.tail),
            );
        }
    }
    text
}
