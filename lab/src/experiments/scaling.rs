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
use crate::row::Row;
use crate::setup::Setup;
use curve::{BLUE_GENE, Curve, CurvePoint, FIGURES, Figure, LINUX, RANKS, svg, table};

const HERE: &str = "this machine";
/// What traces are like, what they are fitted to, and their name here.
const FITTED: [(&str, &str, &str); 2] = [
    ("linux-2007", LINUX, "fitted to Linux 2.6"),
    ("bgl-io-2007", BLUE_GENE, "fitted to Blue Gene/L"),
];
/// Distance of the ranks at the end of the longest run of the paper, by machine.
const LINUX_DRIFT_NS: u64 = 5_300_000;
const BLUE_GENE_DRIFT_NS: u64 = 3_820_000;
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
            rounds: [1, 1],
            most_rounds: 1,
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

    /// A prediction has its own interval; another seed is no measurement.
    fn has_round(&self, _cell: &str, round: u32) -> bool {
        round == 0
    }

    fn measure(&mut self, _setup: &Setup, cell: &str, round: u32) -> Result<Vec<Row>> {
        let (what, name) = cell.split_once('/').context("no cell of this one")?;
        let figure = FIGURES.iter().find(|figure| figure.what == what);
        let figure = figure.context("no such figure")?;
        let trace = self.traces.iter().find(|(own, _)| *own == name);
        let (_, trace) = trace.context("no such trace")?;
        let mut row = Row::new(cell, round);
        row.program = name.to_owned();
        let drift_ns = if name == FITTED[1].2 {
            BLUE_GENE_DRIFT_NS
        } else {
            LINUX_DRIFT_NS
        };
        for point in Curve::predict(name, trace, figure.sync, drift_ns)?.points {
            let CurvePoint { ranks: count, .. } = point;
            row.put(ranks(count), point.pct);
            let ends = point.interval_pct.unzip();
            row.put(low(count), ends.0);
            row.put(high(count), ends.1);
            row.put(least(count), point.saturated.then_some(1.0));
        }
        Ok(vec![row])
    }

    fn line(&self, row: &Row) -> String {
        let most = row.get(&ranks(2048)).map(percent);
        format!("{} at 2048 ranks", most.unwrap_or_default())
    }
}

/// Names of figures in a row.
fn ranks(count: u64) -> String {
    format!("slowdown {count}")
}

fn low(count: u64) -> String {
    format!("low {count}")
}

fn high(count: u64) -> String {
    format!("high {count}")
}

fn least(count: u64) -> String {
    format!("least {count}")
}

impl Paper for Scaling {
    fn about(&self) -> &'static About {
        self.about
    }

    /// Records this machine, and makes the traces that are like the paper's.
    fn prepare(&mut self, setup: &Setup, _chosen: &mut Choices) -> Result<Remarks> {
        // With the length and the CPUs: a recording of the quick form is none of the full one.
        let made = |name: &str, seconds: u32, words: String| -> Result<PathBuf> {
            let name = name.replace([' ', '/'], "-");
            let path = setup
                .dir
                .join(format!("{name}-{seconds}s-{}.sbj", setup.cpus));
            let limit = AROUND + Duration::from_secs(600);
            program::make_file(&setup.sandbag, &words, &path, limit)?;
            Ok(path)
        };
        let seconds = setup.form(60, 600);
        let here = made(
            HERE,
            seconds,
            format!(
                "-q jitter record -d {seconds}s --cpus {} --force -o",
                setup.cpus
            ),
        )?;
        self.traces = vec![(HERE, read(&here)?)];
        for (like, _, name) in FITTED {
            let words = format!("-q jitter synth --like {like} -d {FITTED_S}s --force -o");
            self.traces
                .push((name, read(&made(name, FITTED_S, words)?)?));
        }
        Ok(Remarks::default())
    }
}

/// The curve of each trace.
fn curves(what: &str, rows: &[Row]) -> Vec<Curve> {
    let own = rows
        .iter()
        .filter(|row| row.cell.split('/').next() == Some(what));
    own.map(|row| Curve {
        name: row.program.clone(),
        points: RANKS
            .filter_map(|power| point_of(row, 1 << power))
            .collect(),
    })
    .collect()
}

fn point_of(row: &Row, count: u64) -> Option<CurvePoint> {
    Some(CurvePoint {
        ranks: count,
        pct: row.get(&ranks(count))?,
        interval_pct: row.get(&low(count)).zip(row.get(&high(count))),
        saturated: row.get(&least(count)).is_some(),
    })
}

fn sections(number: &str, rows: &[Row]) -> Result<Vec<Section>> {
    let section = |figure: &Figure| {
        let found = curves(figure.what, rows);
        Ok(Section::new(&format!("Ranks that are {}", figure.what))
            .text(
                "Predicted, with 1 ms of work between two barriers, and the 95 % interval of the \
                 prediction. The traces of the paper are not to be had: \"fitted\" \
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
        for Curve { name, points } in curves(figure.what, rows) {
            let Some(found) = points.into_iter().find(|point| point.ranks == 2048) else {
                continue;
            };
            let fitted = FITTED.iter().find(|(_, _, fitted)| *fitted == name);
            let published = fitted.and_then(|(_, machine, _)| {
                let of = figure.published.iter().find(|(of, _)| of == machine)?;
                of.1.iter().find(|(ranks, _)| *ranks == 2048)
            });
            let agreement = match (published, found.interval_pct) {
                (None, _) => Agreement::Ours,
                (Some((_, pct)), Some(ends)) if !found.saturated => {
                    Published::around(*pct, WITHIN * pct).compare_ends(ends)
                }
                _ => Agreement::Undecided,
            };
            lines.push(Compared {
                what: format!("slowdown of 2048 ranks, {}, {name}, %", figure.what),
                paper: published.map_or_else(|| "-".to_owned(), |(_, pct)| pct.to_string()),
                ours: found.text(),
                agreement,
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
            let mut row = Row::new(&format!("{}/{name}", FIGURES[0].what), 0);
            row.program = name.to_owned();
            row.put(ranks(2048), pct);
            row.put(low(2048), pct - 1.0);
            row.put(high(2048), pct + 1.0);
            rows.push(row);
        }
        let lines = summary("5", &rows);
        assert_eq!(lines[0].agreement, Agreement::Ours);
        assert_eq!(lines[1].agreement, Agreement::Agrees);
        assert!(lines[1].what.contains("fitted") && lines[1].paper == "99");
        assert_eq!(lines[1].ours, "95.00 (94.00..96.00)");
        rows[1].put(least(2048), 1.0);
        let short = &summary("5", &rows)[1];
        assert_eq!(short.agreement, Agreement::Undecided);
        assert!(short.ours.starts_with(">= 95"), "{}", short.ours);
        assert_eq!(sections("6", &rows).unwrap().len(), 2);
    }
}
