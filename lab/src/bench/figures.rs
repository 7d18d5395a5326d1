// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag-lab figures`: figures 5 and 6 of De, Kothari and Mann (2008), from
//! traces: the slowdown of a bulk-synchronous program of 16 to 2048 ranks that are never,
//! once and always synchronised, beside the published figures.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context as _, Result};
use clap::Args;
use sandbag_jitter::JitterTrace;
use sandbag_scale::predict::{
    Drift, PredictOptions, Prediction, Spread, Sync, TraceSource, predict,
};
use sandbag_ui::quantity::{self, percent, time};
use serde_json::json;

use crate::bench::scale::traces::read;
use crate::figure::{Axes, Line, Point, draw, top};
use crate::journal::facts;
use crate::table::Table;

/// Draw figures 5 and 6 of De, Kothari and Mann (2008) from traces
///
/// Each is an image (figure-5.svg, and figure 6 by synchronisation); figures.md has the tables and
/// figures.json all figures.
#[derive(Debug, Args)]
pub struct FiguresArgs {
    /// Traces, or NAME=TRACE to give one a name
    #[arg(value_name = "[NAME=]TRACE", required = true)]
    traces: Vec<NamedFigure>,
    /// Work between two barriers
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = quantity::positive_duration)]
    quantum: std::time::Duration,
    /// Distance at the end of ranks that were synchronised once
    #[arg(long, value_name = "TIME", default_value = "5300us", value_parser = quantity::positive_duration)]
    drift: std::time::Duration,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// The directory to write into; it is made
    #[arg(long, value_name = "DIR", default_value = "docs/results/scale")]
    out: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct NamedFigure {
    name: String,
    path: PathBuf,
}

impl FromStr for NamedFigure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A file may have such a sign in its name.
        match text
            .split_once('=')
            .filter(|_| !PathBuf::from(text).exists())
        {
            Some((name, path)) if !name.is_empty() && !path.is_empty() => Ok(Self {
                name: name.to_owned(),
                path: path.into(),
            }),
            Some(_) => Err("expected TRACE or NAME=TRACE".to_owned()),
            None => Ok(Self {
                name: text.to_owned(),
                path: text.into(),
            }),
        }
    }
}

/// Published figures: machine, and percent at numbers of processes.
type Published = (&'static str, &'static [(u64, f64)]);

/// A figure of the paper; two where it has two synchronisations.
#[derive(Debug)]
pub struct Figure {
    pub number: u32,
    file: &'static str,
    pub what: &'static str,
    pub sync: Sync,
    pub published: [Published; 2],
}

/// The slowdown by a trace against ranks.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    pub name: String,
    pub points: Vec<CurvePoint>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CurvePoint {
    pub ranks: u64,
    /// Slowdown, percent, with its interval where there is one.
    pub pct: f64,
    pub interval_pct: Option<(f64, f64)>,
    /// The trace is too short for this number of ranks: the slowdown is at least that.
    pub saturated: bool,
}

impl Curve {
    fn of(name: &str, prediction: &Prediction) -> Self {
        let points = prediction.points.iter().map(|point| CurvePoint {
            ranks: point.ranks,
            pct: point.mean.slowdown_pct,
            interval_pct: point.mean.interval_pct,
            saturated: point.saturated,
        });
        Self {
            name: name.to_owned(),
            points: points.collect(),
        }
    }
}

pub const LINUX: &str = "Linux 2.6";
pub const BLUE_GENE: &str = "Blue Gene/L I/O node";

pub static FIGURES: [Figure; 3] = [
    Figure {
        number: 5,
        file: "figure-5.svg",
        what: "never synchronised",
        sync: Sync::None,
        published: [(LINUX, &[(2048, 99.0)]), (BLUE_GENE, &[(2048, 20.0)])],
    },
    Figure {
        number: 6,
        file: "figure-6-once.svg",
        what: "synchronised once",
        sync: Sync::Once,
        published: [(LINUX, &[(2048, 13.0)]), (BLUE_GENE, &[(2048, 6.0)])],
    },
    Figure {
        number: 6,
        file: "figure-6-each-phase.svg",
        what: "synchronised at each phase",
        sync: Sync::Phases(1),
        published: [
            (LINUX, &[(16, 0.7), (2048, 0.7)]),
            (BLUE_GENE, &[(16, 0.9), (2048, 0.9)]),
        ],
    },
];

/// Processes, as powers of two.
const RANKS: std::ops::RangeInclusive<u32> = 4..=11;

pub fn figures(args: &FiguresArgs) -> Result<()> {
    fs::create_dir_all(&args.out).with_context(|| format!("make {}", args.out.display()))?;
    let traces: Vec<(&NamedFigure, JitterTrace)> = args
        .traces
        .iter()
        .map(|named| Ok((named, read(&named.path)?)))
        .collect::<Result<_>>()?;
    let mut text = String::from("# Figures 5 and 6 of De, Kothari and Mann (2008)\n\n");
    for (name, value) in facts() {
        let _ = writeln!(text, "- predicted on, {name}: {value}");
    }
    let _ = writeln!(
        text,
        "\nQuantum {}, 10^5 phases; synchronised once: {} apart at the end, from the first to the \
         last. In brackets 95 % intervals. `>=`: the trace is too short for this number of ranks.",
        time(quantity::nanos(args.quantum) as f64),
        time(quantity::nanos(args.drift) as f64)
    );
    let mut all = Vec::new();
    for figure in &FIGURES {
        let mut found = Vec::new();
        let mut predictions = Vec::new();
        for (named, trace) in &traces {
            let terms = PredictionTerms {
                quantum_ns: quantity::nanos(args.quantum),
                drift_ns: quantity::nanos(args.drift),
                seed: args.seed,
            };
            let prediction = terms
                .predict(trace, figure.sync)
                .with_context(|| named.name.clone())?;
            for warning in &prediction.warnings {
                eprintln!("{}: {warning}", named.name);
            }
            found.push(Curve::of(&named.name, &prediction));
            predictions.push((*named, prediction));
        }
        let path = args.out.join(figure.file);
        fs::write(&path, svg(figure, &found)?)
            .with_context(|| format!("write {}", path.display()))?;
        let _ = write!(
            text,
            "\n## Figure {}: {}\n\n![Slowdown against ranks]({})\n\n{}",
            figure.number,
            figure.what,
            figure.file,
            table(figure, &found).markdown()
        );
        all.push(json!({
            "figure": figure.number,
            "sync": figure.sync.to_string(),
            "published": figure.published,
            "traces": predictions.iter().map(|(named, prediction)| json!({
                "name": named.name,
                "points": prediction.points,
                "warnings": prediction.warnings,
            })).collect::<Vec<_>>(),
        }));
    }
    for (name, bytes) in [
        ("figures.md", text.as_bytes().to_vec()),
        ("figures.json", serde_json::to_vec_pretty(&all)?),
    ] {
        let path = args.out.join(name);
        fs::write(&path, bytes).with_context(|| format!("write {}", path.display()))?;
    }
    print!("{text}");
    Ok(())
}

/// What a prediction assumes beside the trace.
#[derive(Debug, Clone, Copy)]
pub struct PredictionTerms {
    /// Work between two barriers.
    pub quantum_ns: u64,
    /// Distance at the end of ranks that were synchronised once.
    pub drift_ns: u64,
    pub seed: u64,
}

impl PredictionTerms {
    pub fn curve(self, name: &str, trace: &JitterTrace, sync: Sync) -> Result<Curve> {
        Ok(Curve::of(name, &self.predict(trace, sync)?))
    }

    fn predict(self, trace: &JitterTrace, sync: Sync) -> Result<Prediction> {
        let options = PredictOptions {
            quantum_ns: self.quantum_ns,
            ranks: RANKS.map(|power| 1 << power).collect(),
            sync,
            drift: Some(Drift {
                end_ns: self.drift_ns,
                spread: Spread::Uniform,
            }),
            seed: self.seed,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            ..PredictOptions::default()
        };
        Ok(predict(&[TraceSource { trace, share: 1 }], &options)?)
    }
}

/// Slowdown against ranks, which stand at 1, 2, 3 and so on.
pub fn svg(figure: &Figure, found: &[Curve]) -> Result<String> {
    let at = |ranks: u64| f64::from(ranks.ilog2() - RANKS.start() + 1);
    let predicted = found.iter().map(|curve| {
        let points = curve.points.iter().map(|point| {
            let (low, high) = point.interval_pct.unwrap_or((point.pct, point.pct));
            Point {
                low,
                high,
                ..Point::bare(at(point.ranks), point.pct)
            }
        });
        Line::new(curve.name.as_str(), points.collect::<Vec<_>>())
    });
    let published = figure.published.iter().map(|(machine, points)| {
        let point = |(ranks, pct): &(u64, f64)| Point::bare(at(*ranks), *pct);
        Line {
            connected: points.len() > 1,
            ..Line::reference(*machine, points.iter().map(point).collect::<Vec<_>>())
        }
    });
    let lines: Vec<Line> = predicted.chain(published).collect();
    let count = RANKS.clone().count() as f64;
    draw(
        &Axes {
            title: format!(
                "Figure {} of De, Kothari and Mann (2008), {}; grey: published",
                figure.number, figure.what
            ),
            x: "ranks".to_owned(),
            y: "slowdown, %".to_owned(),
            x_range: (0.5, count + 0.5),
            x_names: RANKS.map(|power| (1u64 << power).to_string()).collect(),
            y_range: (0.0, top(&lines, 1e-3)),
        },
        &lines,
    )
}

pub fn table(figure: &Figure, found: &[Curve]) -> Table {
    let mut heads = vec!["ranks"];
    heads.extend(found.iter().map(|curve| curve.name.as_str()));
    let published: Vec<String> = figure
        .published
        .iter()
        .map(|(machine, _)| format!("published, {machine}"))
        .collect();
    heads.extend(published.iter().map(String::as_str));
    let mut table = Table::new(heads);
    for power in RANKS {
        let ranks = 1u64 << power;
        let mut row = vec![ranks.to_string()];
        row.extend(found.iter().map(|curve| {
            let Some(point) = curve.points.iter().find(|point| point.ranks == ranks) else {
                return String::new();
            };
            let least = if point.saturated { ">= " } else { "" };
            let interval = point.interval_pct.map_or_else(String::new, |(low, high)| {
                format!(" ({}-{})", percent(low), percent(high))
            });
            format!("{least}{}{interval}", percent(point.pct))
        }));
        row.extend(figure.published.iter().map(|(_, points)| {
            let here = points.iter().find(|(of, _)| *of == ranks);
            here.map_or_else(|| "-".to_owned(), |(_, pct)| percent(*pct))
        }));
        table.push(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::scale::traces::NOISY;

    #[test]
    fn traces_may_have_names() {
        let named: NamedFigure = "quiet=a.sbj".parse().unwrap();
        assert_eq!(
            (named.name.as_str(), named.path.to_str()),
            ("quiet", Some("a.sbj"))
        );
        assert_eq!("a.sbj".parse::<NamedFigure>().unwrap().name, "a.sbj");
        assert!("=a.sbj".parse::<NamedFigure>().is_err());
    }

    #[test]
    fn each_figure_has_what_was_published() {
        let dir = tempfile::tempdir().unwrap();
        let made = crate::bench::scale::traces::TraceFile {
            seconds: 20,
            ..NOISY
        };
        let path = made.write(dir.path(), "a.sbj").unwrap();
        let args = FiguresArgs {
            traces: vec![NamedFigure {
                name: "made".to_owned(),
                path,
            }],
            quantum: std::time::Duration::from_millis(1),
            drift: std::time::Duration::from_micros(500),
            seed: 1,
            out: dir.path().join("out"),
        };
        figures(&args).unwrap();
        for figure in &FIGURES {
            let svg = fs::read_to_string(args.out.join(figure.file)).unwrap();
            assert!(svg.contains("Linux 2.6") && svg.contains("made"));
        }
        let text = fs::read_to_string(args.out.join("figures.md")).unwrap();
        assert!(
            text.contains("## Figure 6: synchronised at each phase")
                && text.contains("published, Blue Gene"),
            "{text}"
        );
        assert!(args.out.join("figures.json").is_file());
    }
}
