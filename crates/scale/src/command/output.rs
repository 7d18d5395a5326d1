// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A prediction as a file.

use std::path::Path;

use crate::page;
use crate::predict::{Barrier, Options, Point, SATURATED_PCT, Spread};
use clap::ValueEnum;
use sandbag_input::Existing;
use sandbag_ui::failure::Result;
use sandbag_ui::quantity::time;
use serde_json::json;

use super::predict::{Classes, Curve};
use super::table::{output_order, place_by_noise};
use sandbag_ui::exit::BadInput;
use sandbag_ui::output;

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum To {
    /// A page with a chart
    Html,
    /// All figures
    Json,
    /// A row for each trace, synchronisation and number of ranks
    Csv,
}

/// All that there is to show.
pub(super) struct Shown<'a> {
    pub curves: &'a [Curve],
    pub classes: &'a [Classes],
    /// Numbers of ranks for which classes are compared.
    pub class_ranks: &'a [u64],
    pub options: &'a Options,
}

impl Shown<'_> {
    /// All points of all curves.
    pub(super) fn points(&self) -> impl Iterator<Item = &Point> {
        self.curves
            .iter()
            .flat_map(|curve| &curve.prediction.points)
    }
}

/// What is to be written where.
pub(super) fn kind(output: Option<&Path>, to: Option<To>) -> Result<Option<To>> {
    let Some(path) = output else {
        return match to {
            None => Ok(None),
            Some(_) => {
                Err(BadInput("--to says what to write: say where, with -o".to_owned()).into())
            }
        };
    };
    let by_name = match path.extension().and_then(|ending| ending.to_str()) {
        Some("html" | "htm") => Some(To::Html),
        Some("json") => Some(To::Json),
        Some("csv") => Some(To::Csv),
        _ if path.as_os_str() == "-" => Some(To::Json),
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
pub(super) fn write(shown: &Shown<'_>, to: To, path: &Path, existing: Existing) -> Result<()> {
    let text = match to {
        To::Html => html(shown),
        To::Json => json(shown)?,
        To::Csv => csv(shown),
    };
    output::put(path, text, existing)
}

fn json(shown: &Shown<'_>) -> Result<String> {
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

fn csv(shown: &Shown<'_>) -> String {
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

fn how(options: &Options) -> Vec<String> {
    let mut how = vec![format!("quantum {}", time(options.quantum_ns as f64))];
    how.push(match options.barrier {
        Barrier::Ideal => "ideal barrier".to_owned(),
        Barrier::Dissemination(_) => "dissemination barrier".to_owned(),
        Barrier::Binomial(_) => "binomial tree".to_owned(),
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

fn html(shown: &Shown<'_>) -> String {
    let mut traces: Vec<&str> = Vec::new();
    for name in shown.curves.iter().flat_map(|curve| &curve.traces) {
        if !traces.contains(&name.as_str()) {
            traces.push(name);
        }
    }
    let curves = shown.curves.iter().map(|curve| page::Curve {
        name: curve.name.clone(),
        points: curve.prediction.points.iter().map(point).collect(),
        published: false,
    });
    let costs = shown
        .classes
        .iter()
        .filter(|classes| !classes.costs.is_empty());
    let costs = costs.map(|classes| page::Costs {
        name: classes.name.clone(),
        ranks: shown.class_ranks.to_vec(),
        rows: output_order(&classes.costs)
            .into_iter()
            .map(|cost| page::Cost {
                class: cost.class.clone(),
                noise_pct: cost.noise_pct,
                place_by_noise: place_by_noise(&classes.costs, cost),
                saves_points: cost.saves_points.clone(),
            })
            .collect(),
    });
    let mut warnings: Vec<String> = Vec::new();
    for warning in shown
        .curves
        .iter()
        .flat_map(|curve| &curve.prediction.warnings)
    {
        if !warnings.contains(warning) {
            warnings.push(warning.clone());
        }
    }
    page::render(&page::Page {
        subject: traces.join(", "),
        how: how(shown.options),
        curves: curves.collect(),
        costs: costs.collect(),
        warnings,
        arguments: std::env::args_os()
            .skip(1)
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect(),
        sandbag: env!("CARGO_PKG_VERSION").to_owned(),
        seed: shown.options.seed,
    })
}

fn point(point: &Point) -> page::Point {
    page::Point {
        ranks: point.ranks,
        slowdown_pct: point.mean.slowdown_pct,
        interval_pct: point.mean.interval_pct,
        phases_pct: point.phases_pct,
        barrier_ns: point.barrier_ns,
        lower_bound: point.saturated,
        tail_pct: point.tail.map(|tail| tail.slowdown_pct),
        tail_interval_pct: point.tail.and_then(|tail| tail.interval_pct),
    }
}
