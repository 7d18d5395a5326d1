// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A prediction as a file.

use std::path::Path;

use crate::predict::SATURATED_PCT;
use clap::ValueEnum;
use sandbag_input::Existing;
use sandbag_ui::failure::Result;
use serde_json::json;

use super::page;
use super::view::ScaleView;
use sandbag_ui::BadInput;
use sandbag_ui::output;

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputTarget {
    /// A page with a chart
    Html,
    /// All figures
    Json,
    /// A row for each trace, synchronisation and number of ranks
    Csv,
}

/// What is to be written where.
pub(super) fn kind(
    output: Option<&Path>,
    to: Option<OutputTarget>,
) -> Result<Option<OutputTarget>> {
    let Some(path) = output else {
        return match to {
            None => Ok(None),
            Some(_) => {
                Err(BadInput("--to says what to write: say where, with -o".to_owned()).into())
            }
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
            "what should {} be? Take an ending .html, .json or .csv, or --to",
            path.display()
        ))
        .into()),
    }
}

/// Writes it, whole or not at all.
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
    let field = |value: Option<f64>| value.map_or_else(String::new, |v| v.to_string());
    for curve in shown.curves {
        let name = curve.traces.join(" + ").replace('"', "\"\"");
        for point in &curve.prediction.points {
            let interval = point.mean.interval_pct;
            let tail = point.tail;
            let tail_interval = tail.and_then(|tail| tail.interval_pct);
            let phases = point.phases_pct.map(|v| v.to_string()).join(",");
            let row = [
                format!("\"{name}\""),
                curve.sync.to_string(),
                point.ranks.to_string(),
                point.mean.slowdown_pct.to_string(),
                field(interval.map(|i| i.0)),
                field(interval.map(|i| i.1)),
                phases,
                point.noise_ns.to_string(),
                point.barrier_ns.to_string(),
                u8::from(point.saturated).to_string(),
                field(tail.map(|tail| tail.slowdown_pct)),
                field(tail_interval.map(|i| i.0)),
                field(tail_interval.map(|i| i.1)),
            ];
            text += &row.join(",");
            text.push('\n');
        }
    }
    text
}
