// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The slowdown of a bulk-synchronous program by OS jitter against its ranks (De, Kothari
//! and Mann, Cluster 2008, figures 5 and 6): predicted from a recording of this machine, and
//! from traces that were fitted to the published statistics of the paper's machines.

mod curve;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use sandbag_jitter::JitterTrace;
use sandbag_ui::quantity::percent;

use super::DE;
use crate::agreement::{Agreement, Compared, Published};
use crate::bench::scale::traces::read;
use crate::experiment::{About, Choices, Experiment, Paper, Remarks};
use crate::page::Section;
use crate::program;
use crate::row::{Row, grouped};
use crate::setup::Setup;
use crate::summary::{figure as median, shown_figure};
use curve::{BLUE_GENE, Curve, CurvePoint, FIGURES, Figure, LINUX, RANKS, svg, table};

const HERE: &str = "this machine";
/// What traces are like, what they are fitted to, and their name here.
const FITTED: [(&str, &str, &str); 2] = [
    ("linux-2007", LINUX, "fitted to Linux 2.6"),
    ("bgl-io-2007", BLUE_GENE, "fitted to Blue Gene/L"),
];
/// Length of the fitted traces.
const FITTED_S: u32 = 600;
/// On top of a recording's own time.
const AROUND: Duration = Duration::from_secs(120);
/// Part of a published percentage within which ours is the same.
const WITHIN: f64 = 0.25;

pub(super) struct Scaling {
    about: &'static About,
    traces: Vec<(&'static str, JitterTrace)>,
}

macro_rules! about {
    ($number:literal, $what:literal) => {
        &About {
            name: concat!("osjitter-figure-", $number),
            paper: DE,
            what: concat!("slowdown of 16 to 2048 ranks ", $what, ", by jitter"),
            source: concat!("De, Kothari and Mann (Cluster 2008), figure ", $number),
            rounds: [3, 10],
            most_rounds: 10,
            minutes: [2, 20],
            page: |measured| sections($number, measured.rows),
            summary: |rows| summary($number, rows),
        }
    };
}

static NEVER: &About = about!("5", "that are never synchronised");
static ONCE: &About = about!("6", "that are synchronised once, and at each phase");

impl Scaling {
    /// Figures 5 and 6.
    pub fn all() -> impl Iterator<Item = Box<dyn Paper>> {
        [NEVER, ONCE].into_iter().map(|about| {
            Box::new(Self {
                about,
                traces: Vec::new(),
            }) as Box<dyn Paper>
        })
    }
}

fn figures(number: &str) -> impl Iterator<Item = &'static Figure> {
    FIGURES
        .iter()
        .filter(move |figure| figure.number.to_string() == number)
}

impl Experiment for Scaling {
    type Setup = Setup;

    fn name(&self) -> &'static str {
        self.about.name
    }

    fn cells(&self, _setup: &Setup) -> Vec<String> {
        let number = self.about.name.rsplit('-').next().unwrap_or_default();
        let names = || self.traces.iter().map(|(name, _)| name);
        figures(number)
            .flat_map(|figure| names().map(|name| format!("{}/{name}", figure.what)))
            .collect()
    }

    fn measure(&mut self, _setup: &Setup, cell: &str, round: u32) -> Result<Vec<Row>> {
        let (what, name) = cell.split_once('/').context("no cell of this one")?;
        let figure = FIGURES.iter().find(|figure| figure.what == what);
        let figure = figure.context("no such figure")?;
        let trace = self.traces.iter().find(|(own, _)| *own == name);
        let (_, trace) = trace.context("no such trace")?;
        let mut row = Row::new(cell, round);
        row.program = name.to_owned();
        for point in Curve::predict(name, trace, figure.sync, round.into())?.points {
            row.put(ranks(point.ranks), point.pct);
            row.put(
                format!("least {}", point.ranks),
                point.saturated.then_some(1.0),
            );
        }
        Ok(vec![row])
    }

    fn line(&self, row: &Row) -> String {
        let most = row.get(&ranks(2048)).map(percent);
        format!("{} at 2048 ranks", most.unwrap_or_default())
    }
}

fn ranks(count: u64) -> String {
    format!("slowdown {count}")
}

impl Paper for Scaling {
    fn about(&self) -> &'static About {
        self.about
    }

    /// Records this machine, and makes the traces that are like the paper's.
    fn prepare(&mut self, setup: &Setup, _chosen: &mut Choices) -> Result<Remarks> {
        let made = |name: &str, words: String| -> Result<PathBuf> {
            let path = setup
                .dir
                .join(format!("{}.sbj", name.replace([' ', '/'], "-")));
            let limit = AROUND + Duration::from_secs(600);
            program::make_file(&setup.sandbag, &words, &path, limit)?;
            Ok(path)
        };
        let seconds = setup.form(60, 600);
        let here = made(
            HERE,
            format!(
                "-q jitter record -d {seconds}s --cpus {} --force -o",
                setup.cpus
            ),
        )?;
        self.traces = vec![(HERE, read(&here)?)];
        for (like, _, name) in FITTED {
            let words = format!("-q jitter synth --like {like} -d {FITTED_S}s --force -o");
            self.traces.push((name, read(&made(name, words)?)?));
        }
        Ok(Remarks::default())
    }
}

/// The curve of each trace: medians over the rounds.
fn curves(what: &str, rows: &[Row]) -> Vec<Curve> {
    let own = rows
        .iter()
        .filter(|row| row.cell.split('/').next() == Some(what));
    let curve = |(name, own): (String, Vec<&Row>)| Curve {
        name,
        points: RANKS
            .map(|power| 1u64 << power)
            .filter_map(|count| {
                let found = median(&own, &ranks(count))?;
                Some(CurvePoint {
                    ranks: count,
                    pct: found.value,
                    interval_pct: (found.n > 1).then_some((found.low, found.high)),
                    saturated: own
                        .iter()
                        .any(|row| row.get(&format!("least {count}")).is_some()),
                })
            })
            .collect(),
    };
    grouped(own, |row| row.program.clone())
        .into_iter()
        .map(curve)
        .collect()
}

fn sections(number: &str, rows: &[Row]) -> Result<Vec<Section>> {
    let section = |figure: &Figure| {
        let found = curves(figure.what, rows);
        Ok(Section::new(&format!("Ranks that are {}", figure.what))
            .text(
                "Predicted, with 1 ms of work between two barriers; medians over the rounds, each \
                 with a seed of its own. The traces of the paper are not to be had: \"fitted\" \
                 are synthetic ones, made to have its published statistics, so that agreement \
                 shows that the prediction is right, not that a machine is like theirs. \">=\": the \
                 trace is too short for so many ranks.",
            )
            .figure(svg(figure, &found)?)
            .table(table(figure, &found)))
    };
    figures(number).map(section).collect()
}

fn summary(number: &str, rows: &[Row]) -> Vec<Compared> {
    let mut lines = Vec::new();
    for figure in figures(number) {
        let own = rows
            .iter()
            .filter(|row| row.cell.split('/').next() == Some(figure.what));
        for (name, own) in grouped(own, |row| row.program.clone()) {
            let fitted = FITTED.iter().find(|(_, _, fitted)| *fitted == name);
            let published = fitted.and_then(|(_, machine, _)| {
                let of = figure.published.iter().find(|(of, _)| of == machine)?;
                of.1.iter().find(|(ranks, _)| *ranks == 2048)
            });
            let found = median(&own, &ranks(2048));
            lines.push(Compared {
                what: format!("slowdown of 2048 ranks, {}, {name}, %", figure.what),
                paper: published.map_or_else(|| "-".to_owned(), |(_, pct)| pct.to_string()),
                ours: format!(
                    "{}, n = {}",
                    shown_figure(&own, &ranks(2048), 2),
                    found.map_or(0, |m| m.n)
                ),
                agreement: published.map_or(Agreement::Ours, |(_, pct)| {
                    Published::around(*pct, WITHIN * pct).compare(found)
                }),
            });
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fitted_trace_stands_beside_its_machine_and_ours_beside_nothing() {
        let mut rows = Vec::new();
        for (name, pct) in [(HERE, 5.0), (FITTED[0].2, 95.0)] {
            for round in 0..3 {
                let mut row = Row::new(&format!("{}/{name}", FIGURES[0].what), round);
                row.program = name.to_owned();
                row.put(ranks(2048), pct);
                rows.push(row);
            }
        }
        let lines = summary("5", &rows);
        assert_eq!(lines[0].agreement, Agreement::Ours);
        assert_eq!(lines[1].agreement, Agreement::Agrees);
        assert!(lines[1].what.contains("fitted") && lines[1].paper == "99");
        assert_eq!(sections("6", &rows).unwrap().len(), 2);
    }
}
