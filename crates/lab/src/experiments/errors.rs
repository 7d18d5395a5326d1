// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sources of error: how well a load is held, and how an ordinary competitor
//! fares beside it, against the method's period, the number of competitors and
//! the load asked; one factor at a time around 50 % beside five.

use std::collections::BTreeMap;
use std::ffi::OsString;

use anyhow::{Context as _, Result, ensure};
use sandbag_kernel::Root;

use super::{Cell, Choices, Experiment, Setup, distinct};
use crate::condition::{Condition, Place};
use crate::figure::{Axes, Line, Point, draw};
use crate::machine::StealMeter;
use crate::page::{Section, Table};
use crate::row::{End, Row};
use crate::summary::Median;
use crate::workload::Done;

/// The methods whose defaults these figures justify.
const METHODS: [&str; 3] = ["pace", "quota", "hogs"];
/// In the place of a method: an ordinary spinner on each CPU, the reference for
/// latencies. It has neither period nor level.
const SPINNERS: &str = "spinners";
/// The base case.
const BASE_PCT: f64 = 50.0;
const BASE_COMPETITORS: u32 = 5;
/// How long the competitors run, ms: as many whole windows of 1 s, at least,
/// as the error wants.
const LENGTH_MS: u64 = 10_000;
const LENGTH_QUICK_MS: u64 = 4_000;

const PERIODS_MS: [f64; 7] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];
const PERIODS_QUICK_MS: [f64; 3] = [5.0, 20.0, 100.0];
const COMPETITORS: [u32; 6] = [1, 2, 5, 20, 50, 200];
const COMPETITORS_QUICK: [u32; 3] = [1, 5, 50];
const LOADS_PCT: [f64; 8] = [1.0, 2.0, 5.0, 20.0, 50.0, 80.0, 90.0, 95.0];
const LOADS_QUICK_PCT: [f64; 3] = [5.0, 50.0, 95.0];

/// See the module's text.
#[derive(Debug)]
pub(super) struct Errors;

/// What is varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Factor {
    Period,
    Competitors,
    Load,
}

impl Factor {
    const ALL: [Self; 3] = [Self::Period, Self::Competitors, Self::Load];

    fn name(self) -> &'static str {
        match self {
            Self::Period => "period",
            Self::Competitors => "competitors",
            Self::Load => "load",
        }
    }

    fn axis(self) -> &'static str {
        match self {
            Self::Period => "period, ms",
            Self::Competitors => "spinning competitors",
            Self::Load => "load asked, %",
        }
    }

    fn values(self, quick: bool) -> Vec<f64> {
        match (self, quick) {
            (Self::Period, true) => PERIODS_QUICK_MS.into(),
            (Self::Period, false) => PERIODS_MS.into(),
            (Self::Competitors, true) => COMPETITORS_QUICK.map(f64::from).into(),
            (Self::Competitors, false) => COMPETITORS.map(f64::from).into(),
            (Self::Load, true) => LOADS_QUICK_PCT.into(),
            (Self::Load, false) => LOADS_PCT.into(),
        }
    }
}

/// A cell's parts: the factor, its value, and the method; or the reference.
fn parts(key: &str) -> Option<(Factor, f64, &str)> {
    let mut words = key.splitn(3, '/');
    let name = words.next()?;
    let factor = Factor::ALL.into_iter().find(|f| f.name() == name)?;
    Some((factor, words.next()?.parse().ok()?, words.next()?))
}

impl Experiment for Errors {
    fn name(&self) -> &'static str {
        "errors"
    }

    fn about(&self) -> &'static str {
        "error and wake-up latency against period, competitors and load: why the defaults are so"
    }

    fn source(&self) -> &'static str {
        "nothing; docs/methods.md argues with these figures"
    }

    fn rounds(&self, quick: bool) -> u32 {
        if quick { 3 } else { 30 }
    }

    fn prepare(&mut self, _setup: &Setup, _chosen: &mut Choices) -> Result<()> {
        Ok(())
    }

    fn cells(&self, setup: &Setup) -> Vec<Cell> {
        let mut cells = Vec::new();
        for count in Factor::Competitors.values(setup.quick) {
            cells.push(Cell {
                key: format!("{}/{count}/{SPINNERS}", Factor::Competitors.name()),
            });
        }
        for factor in Factor::ALL {
            for value in factor.values(setup.quick) {
                for method in METHODS
                    .iter()
                    .filter(|m| setup.loading.iter().any(|l| l == *m))
                {
                    cells.push(Cell {
                        key: format!("{}/{value}/{method}", factor.name()),
                    });
                }
            }
        }
        cells
    }

    fn left_out(&self) -> Vec<String> {
        vec![
            "errors: weight and slice of pace are no options of its; docs/methods.md has what was \
             tried. Steal cannot be made here; it is noted with each row"
                .to_owned(),
        ]
    }

    fn measure(&mut self, setup: &Setup, cell: &Cell, round: u32) -> Result<Vec<Row>> {
        let (factor, value, method) = parts(&cell.key).context("no cell of this one")?;
        let mut competitors = f64::from(BASE_COMPETITORS);
        let (mut pct, mut period_ms) = (BASE_PCT, None);
        match factor {
            Factor::Period => period_ms = Some(value),
            Factor::Competitors => competitors = value,
            Factor::Load => pct = value,
        }
        let condition = match method {
            SPINNERS => Condition::Spinners,
            method => Condition::Load {
                method: method.to_owned(),
                pct,
                period_ms,
            },
        };
        let length = if setup.quick {
            LENGTH_QUICK_MS
        } else {
            LENGTH_MS
        };
        let mut words = vec![OsString::from(&setup.sandbag)];
        let (tasks, within) = (competitors.to_string(), length.to_string());
        let rest = [
            "lab", "work", "sleepers", "--tasks", &tasks, "--within", &within,
        ];
        words.extend(rest.map(OsString::from));
        let place = Place {
            sandbag: &setup.sandbag,
            cpus: &setup.cpus,
            scratch: &setup.scratch,
            limit: setup.limit,
        };
        let mut steal = StealMeter::start(&Root::default(), &setup.cpus)?;
        let met = place.meet(&condition, &words);
        let mut row = Row {
            cell: cell.key.clone(),
            round,
            program: "sleepers".to_owned(),
            condition,
            cpus: setup.cpus.to_string(),
            unloaded_s: 0.0,
            loaded_s: 0.0,
            end: End::Done,
            steal_pct: steal.steal_pct()?,
            figures: BTreeMap::new(),
        };
        let read = || -> Result<BTreeMap<String, f64>> {
            let met = met?;
            ensure!(
                met.ended.status.is_some(),
                "the competitors did not end in time"
            );
            let done: Done = serde_json::from_str(&met.ended.out).context("what they say")?;
            let mut figures = done.figures;
            let run = met.run.as_ref();
            if let Some(error) = run.and_then(|run| run.error_1s) {
                figures.insert("mean_abs_points".to_owned(), error.mean_abs_points);
                figures.insert("worst_points".to_owned(), error.worst_points.abs());
            }
            if let Some(error) = run.and_then(|run| run.error_100ms) {
                figures.insert("mean_abs_100ms_points".to_owned(), error.mean_abs_points);
            }
            let migrations = run
                .and_then(|run| run.command.as_ref())
                .and_then(|command| command.migrations);
            if let Some(count) = migrations {
                figures.insert("migrations".to_owned(), count as f64);
            }
            Ok(figures)
        };
        match read() {
            Ok(figures) => row.figures = figures,
            Err(error) => {
                row.end = End::Failed {
                    why: format!("{error:#}"),
                };
            }
        }
        Ok(vec![row])
    }

    fn page(&self, rows: &[Row]) -> Result<Vec<Section>> {
        let mut sections = Vec::new();
        for factor in Factor::ALL {
            for (figure, what) in [
                ("mean_abs_points", "mean abs. error of 1 s windows, points"),
                ("p99_us", "wake-up latency of a 1 ms sleeper, p99, us"),
            ] {
                if let Some(section) = section(rows, factor, figure, what)? {
                    sections.push(section);
                }
            }
        }
        sections.push(Section::new("All figures").text(
            "Medians over the rounds; the spinners are the reference for latency: an ordinary task \
             on each CPU that never sleeps. They have neither period nor level, so that in the \
             figures against these one of them stands for all.",
        ).table(table(rows)));
        Ok(sections)
    }

    fn summary(&self, rows: &[Row]) -> Vec<[String; 3]> {
        let mut lines = Vec::new();
        let spinners = of(rows, &reference(f64::from(BASE_COMPETITORS)), "p99_us");
        for method in METHODS {
            let base = format!("{}/{BASE_PCT}/{method}", Factor::Load.name());
            let show = |figure: &str, digits| {
                of(rows, &base, figure).map_or_else(|| "-".to_owned(), |m| m.show(digits))
            };
            lines.push([
                format!("{method}, 50 % beside {BASE_COMPETITORS}: mean abs. error of 1 s, points"),
                "-".to_owned(),
                show("mean_abs_points", 3),
            ]);
            let reference = spinners.map_or_else(|| "-".to_owned(), |m| m.show(0));
            lines.push([
                format!("{method}, 50 % beside {BASE_COMPETITORS}: latency p99, us (beside spinners {reference})"),
                "-".to_owned(),
                show("p99_us", 0),
            ]);
        }
        lines
    }
}

/// The cell of spinners beside so many competitors.
fn reference(competitors: f64) -> String {
    format!("{}/{competitors}/{SPINNERS}", Factor::Competitors.name())
}

/// A figure of a cell over the rounds.
fn of(rows: &[Row], key: &str, figure: &str) -> Option<Median> {
    let values: Vec<f64> = rows
        .iter()
        .filter(|row| row.cell == key && row.counts())
        .filter_map(|row| row.figures.get(figure).copied())
        .collect();
    Median::of(&values)
}

fn section(rows: &[Row], factor: Factor, figure: &str, what: &str) -> Result<Option<Section>> {
    let mut lines = Vec::new();
    for method in METHODS.into_iter().chain([SPINNERS]) {
        let mut points: Vec<Point> = distinct(rows, |row| row.cell.clone())
            .iter()
            .filter_map(|key| {
                let (_, x, _) = parts(key).filter(|(f, _, m)| *f == factor && *m == method)?;
                let median = of(rows, key, figure)?;
                Some(Point {
                    x,
                    y: median.value,
                    low: median.low,
                    high: median.high,
                })
            })
            .collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        if !points.is_empty() {
            lines.push(Line {
                name: method.to_owned(),
                points,
                connected: true,
                reference: method == SPINNERS,
            });
        }
    }
    if lines.is_empty() {
        return Ok(None);
    }
    let base = of(rows, &reference(f64::from(BASE_COMPETITORS)), figure);
    if let (Some(median), false) = (base, factor == Factor::Competitors) {
        let ends = lines.iter().flat_map(|line| &line.points).map(|p| p.x);
        let (first, last) = ends.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), x| {
            (low.min(x), high.max(x))
        });
        lines.push(Line {
            name: SPINNERS.to_owned(),
            points: [first, last]
                .map(|x| Point {
                    x,
                    y: median.value,
                    low: median.low,
                    high: median.high,
                })
                .into(),
            connected: true,
            reference: true,
        });
    }
    let most = |value: fn(&Point) -> f64| {
        let points = lines.iter().flat_map(|line| &line.points);
        points.map(value).fold(0.0, f64::max)
    };
    let axes = Axes {
        title: format!("{what}, against {}", factor.name()),
        x: factor.axis().to_owned(),
        y: what.to_owned(),
        x_range: (0.0, most(|p| p.x) * 1.05),
        x_names: Vec::new(),
        y_range: (0.0, (most(|p| p.high) * 1.05).max(f64::MIN_POSITIVE)),
    };
    let title = format!("{}: {what}", factor.name());
    Ok(Some(Section::new(&title).figure(draw(&axes, &lines)?)))
}

fn table(rows: &[Row]) -> Table {
    let figures = [
        ("mean_abs_points", 3),
        ("mean_abs_100ms_points", 3),
        ("worst_points", 2),
        ("p50_us", 0),
        ("p90_us", 0),
        ("p99_us", 0),
        ("migrations", 0),
    ];
    let mut table = Table::new(&[
        "condition",
        "error 1 s, mean abs.",
        "100 ms",
        "worst 1 s",
        "latency p50, us",
        "p90",
        "p99",
        "migrations",
        "n",
    ]);
    for key in distinct(rows, |row| row.cell.clone()) {
        let mut cells = vec![key.clone()];
        for (name, digits) in figures {
            cells.push(of(rows, &key, name).map_or_else(String::new, |m| m.show(digits)));
        }
        cells.push(of(rows, &key, "p50_us").map_or(0, |m| m.n).to_string());
        table.push(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::row;

    #[test]
    fn a_cell_is_found_again_by_its_key() {
        assert_eq!(
            parts("period/20/pace"),
            Some((Factor::Period, 20.0, "pace"))
        );
        assert_eq!(
            parts(&reference(5.0)),
            Some((Factor::Competitors, 5.0, SPINNERS))
        );
        assert_eq!(parts("load/x/pace"), None);
    }

    #[test]
    fn the_page_has_figures_for_what_was_measured() {
        let mut rows = [row(0, 0.0, 0.0), row(0, 0.0, 0.0)];
        rows[0].cell = "load/50/pace".to_owned();
        rows[1].cell = reference(5.0);
        for row in &mut rows {
            row.figures.insert("p99_us".to_owned(), 40.0);
        }
        rows[0].figures.insert("mean_abs_points".to_owned(), 0.01);
        let sections = Errors.page(&rows).unwrap();
        assert_eq!(
            sections.len(),
            4,
            "error and latency against load, latency against competitors, table"
        );
        let lines = Errors.summary(&rows);
        assert!(lines[1][0].contains("beside spinners 40"), "{lines:?}");
        assert_eq!(lines[0][2], "0.010 (0.010 .. 0.010)");
    }
}
