// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Slowdown against ranks, as figures 5 and 6 of De, Kothari and Mann (2008) have it:
//! of ranks that are never, once and always synchronised, predicted from traces, beside
//! what was published.

use std::ops::RangeInclusive;

use anyhow::Result;
use sandbag_jitter::JitterTrace;
use sandbag_scale::predict::{Drift, PredictOptions, Spread, Sync, TraceSource, predict};
use sandbag_ui::quantity::percent;

use crate::figure::{Axes, Line, Point, draw, top};
use crate::table::{Table, interval};

/// Work between two barriers.
const QUANTUM_NS: u64 = 1_000_000;
/// Processes, as powers of two.
pub const RANKS: RangeInclusive<u32> = 4..=11;

/// Published figures: machine, and percent at numbers of processes.
type Published = (&'static str, &'static [(u64, f64)]);

/// A figure of the paper; two where it has two synchronisations.
#[derive(Debug)]
pub struct Figure {
    pub number: u32,
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
    /// The trace is too short for this number of ranks: the slowdown is mostly low.
    pub saturated: bool,
}

impl CurvePoint {
    /// For a table, percent.
    pub fn text(&self) -> String {
        let least = if self.saturated { ">= " } else { "" };
        let shown = self.interval_pct.map_or_else(
            || format!("{:.2}", self.pct),
            |ends| interval(self.pct, ends, 2),
        );
        format!("{least}{shown}")
    }
}

impl Curve {
    /// Of ranks that are so far apart at the end.
    pub fn predict(name: &str, trace: &JitterTrace, sync: Sync, drift_ns: u64) -> Result<Self> {
        let options = PredictOptions {
            quantum_ns: QUANTUM_NS,
            ranks: RANKS.map(|power| 1 << power).collect(),
            sync,
            drift: Some(Drift {
                end_ns: drift_ns,
                spread: Spread::Uniform,
            }),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            ..PredictOptions::default()
        };
        let prediction = predict(&[TraceSource { trace, share: 1 }], &options)?;
        let points = prediction.points.iter().map(|point| CurvePoint {
            ranks: point.ranks,
            pct: point.mean.slowdown_pct,
            interval_pct: point.mean.interval_pct,
            saturated: point.saturated,
        });
        Ok(Self {
            name: name.to_owned(),
            points: points.collect(),
        })
    }
}

pub const LINUX: &str = "Linux 2.6";
pub const BLUE_GENE: &str = "Blue Gene/L I/O node";

pub static FIGURES: [Figure; 3] = [
    Figure {
        number: 5,
        what: "never synchronised",
        sync: Sync::None,
        published: [(LINUX, &[(2048, 99.0)]), (BLUE_GENE, &[(2048, 20.0)])],
    },
    Figure {
        number: 6,
        what: "synchronised once",
        sync: Sync::Once,
        published: [(LINUX, &[(2048, 13.0)]), (BLUE_GENE, &[(2048, 6.0)])],
    },
    Figure {
        number: 6,
        what: "synchronised at each phase",
        sync: Sync::Phases(1),
        published: [
            (LINUX, &[(16, 0.7), (2048, 0.7)]),
            (BLUE_GENE, &[(16, 0.9), (2048, 0.9)]),
        ],
    },
];

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
            point.text()
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
    use crate::bench::scale::traces::{NOISY, TraceFile};

    #[test]
    fn each_figure_has_what_was_published() {
        let made = TraceFile {
            seconds: 20,
            ..NOISY
        };
        let trace = made.trace(1).unwrap();
        for figure in &FIGURES {
            let found = [Curve::predict("made", &trace, figure.sync, 5_300_000).unwrap()];
            assert_eq!(found[0].points.len(), RANKS.count());
            let svg = svg(figure, &found).unwrap();
            assert!(svg.contains("Linux 2.6") && svg.contains("made"));
            let text = table(figure, &found).markdown();
            assert!(text.contains("published, Blue Gene"), "{text}");
        }
    }
}
