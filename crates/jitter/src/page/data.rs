// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figures behind the charts, embedded as JSON: as few as can be seen.

use std::collections::BTreeMap;

use crate::spans::extent;
use crate::stats::{Correlation, Density, Grid, Spectrum};
use crate::{CpuTrace, JitterTrace, Span};
use serde::Serialize;

use super::{MOST_CHARTS, MOST_LAGS, TracePage};

/// Columns and rows (per decade) in which events over time are counted.
const COLUMNS: u64 = 500;
const ROWS_PER_DECADE: f64 = 12.0;
/// Points of a cumulative curve.
const CURVE: usize = 200;
/// A density below this is not drawn, per decade.
const LEAST_DENSITY: f64 = 1e-6;

type ChartLine = Vec<(f64, f64)>;

/// What the script draws of a trace.
#[derive(Serialize)]
pub(super) struct TraceCharts {
    begin_s: f64,
    length_s: f64,
    density: Vec<NamedLine>,
    shares: Vec<LengthShares>,
    events: Vec<Events>,
    spectra: Vec<Option<SpectrumLines>>,
    matrix: Option<Matrix>,
    lags: Vec<NamedLine>,
}

/// A line and its name.
#[derive(Serialize)]
struct NamedLine {
    name: String,
    points: ChartLine,
}

/// Shares up to a length, percent.
#[derive(Serialize)]
struct LengthShares {
    name: String,
    events: ChartLine,
    noise: ChartLine,
}

/// Events over time, counted in cells: column, row, how many.
#[derive(Serialize)]
struct Events {
    cells: Vec<(u64, i32, u64)>,
    columns: u64,
    rows_per_decade: f64,
    /// Unknown time, s.
    holes: Vec<(f64, f64)>,
}

#[derive(Serialize)]
struct SpectrumLines {
    starts: ChartLine,
    noise: ChartLine,
    needed: ChartLine,
    /// Frequency, power and period of the components.
    peaks: Vec<(f64, f64, f64)>,
}

#[derive(Serialize)]
struct Matrix {
    cpus: Vec<u32>,
    /// Row, column, coefficient.
    cells: Vec<(usize, usize, f64)>,
}

/// What the script draws of two traces.
#[derive(Serialize)]
pub(super) struct ComparedCharts {
    density: Vec<NamedLine>,
    shares: Vec<LengthShares>,
}

fn round(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        0.0
    } else {
        // Four digits are more than can be seen.
        let scale = 10f64.powi(3 - value.abs().log10().floor() as i32);
        (value * scale).round() / scale
    }
}

fn density(name: String, lengths_ns: &[u64], bandwidth: Option<f64>) -> Option<NamedLine> {
    let density = Density::of(lengths_ns, Grid::standard(), bandwidth)?;
    let points = density.grid.values().zip(&density.values);
    let seen = points.filter(|(_, value)| **value >= LEAST_DENSITY);
    // Every other: the kernel is smoother than the grid.
    let points = seen.map(|(x, value)| (round(10f64.powf(x)), round(*value)));
    Some(NamedLine {
        name,
        points: points.step_by(2).collect(),
    })
}

fn shares(name: String, mut lengths_ns: Vec<u64>) -> Option<LengthShares> {
    lengths_ns.sort_unstable();
    let (first, last) = (*lengths_ns.first()?, *lengths_ns.last()?);
    let sums: Vec<f64> = lengths_ns
        .iter()
        .scan(0.0, |sum, ns| {
            *sum += *ns as f64;
            Some(*sum)
        })
        .collect();
    let all = sums[sums.len() - 1].max(1.0);
    let (from, until) = ((first.max(1) as f64).log10(), (last.max(1) as f64).log10());
    let (mut events, mut noise) = (Vec::new(), Vec::new());
    for i in 0..=CURVE {
        let x = 10f64.powf(from + (until - from) * i as f64 / CURVE as f64);
        let below = if i == CURVE {
            lengths_ns.len()
        } else {
            lengths_ns.partition_point(|ns| *ns as f64 <= x)
        };
        let sum = below.checked_sub(1).map_or(0.0, |i| sums[i]);
        events.push((round(x), round(below as f64 / sums.len() as f64 * 100.0)));
        noise.push((round(x), round(sum / all * 100.0)));
    }
    Some(LengthShares {
        name,
        events,
        noise,
    })
}

fn name(cpu: &CpuTrace) -> String {
    format!("CPU {}", cpu.cpu)
}

impl TraceCharts {
    pub(super) fn of(page: &TracePage<'_>) -> Self {
        let cpus = &page.trace.cpus;
        let known = cpus.iter().flat_map(|cpu| cpu.known.clone());
        let Span {
            from_ns: begin,
            until_ns: end,
        } = extent(known).unwrap_or_default();
        let lengths = |cpu: &CpuTrace| cpu.lengths_ns().collect::<Vec<u64>>();
        let colours = cpus.len() <= MOST_CHARTS;
        let each = |cpus: &[CpuTrace]| events(cpus, begin, end);
        Self {
            begin_s: begin as f64 / 1e9,
            length_s: end.saturating_sub(begin) as f64 / 1e9,
            density: {
                let one = |cpu: &CpuTrace| density(name(cpu), &lengths(cpu), None);
                cpus.iter().filter_map(one).collect()
            },
            shares: {
                let one = |cpu: &CpuTrace| shares(name(cpu), lengths(cpu));
                cpus.iter().filter_map(one).collect()
            },
            events: if colours {
                cpus.chunks(1).map(each).collect()
            } else {
                vec![each(cpus)]
            },
            spectra: if colours {
                page.spectra
                    .iter()
                    .map(|one| one.as_ref().map(lines))
                    .collect()
            } else {
                Vec::new()
            },
            matrix: matrix(cpus, page.correlations),
            lags: lag_pairs(page.correlations).into_iter().map(lag).collect(),
        }
    }
}

impl ComparedCharts {
    pub(super) fn of(a: &JitterTrace, b: &JitterTrace) -> Self {
        let (a, b) = (a.lengths_ns(), b.lengths_ns());
        // Both with the window of the reference, as they are compared.
        let bandwidth = Density::of(&a, Grid::standard(), None).map(|of| of.bandwidth);
        let both = [
            density("A".to_owned(), &a, bandwidth),
            density("B".to_owned(), &b, bandwidth),
        ];
        let both_shares = [shares("A".to_owned(), a), shares("B".to_owned(), b)];
        Self {
            density: both.into_iter().flatten().collect(),
            shares: both_shares.into_iter().flatten().collect(),
        }
    }
}

fn events(cpus: &[CpuTrace], begin: u64, end: u64) -> Events {
    let width = (end.saturating_sub(begin) / COLUMNS).max(1);
    let mut cells: BTreeMap<(u64, i32), u64> = BTreeMap::new();
    for event in cpus.iter().flat_map(|cpu| &cpu.events) {
        let column = (event.start_ns.saturating_sub(begin) / width).min(COLUMNS - 1);
        let row = ((event.length_ns.max(1) as f64).log10() * ROWS_PER_DECADE).floor() as i32;
        *cells.entry((column, row)).or_default() += 1;
    }
    let holes = match cpus {
        [only] => holes(&only.known, begin, end, width),
        _ => Vec::new(),
    };
    Events {
        cells: cells
            .into_iter()
            .map(|((column, row), count)| (column, row, count))
            .collect(),
        columns: COLUMNS,
        rows_per_decade: ROWS_PER_DECADE,
        holes,
    }
}

/// Stretches in which nothing is known, wide enough to be seen.
fn holes(known: &[Span], begin: u64, end: u64, least_ns: u64) -> Vec<(f64, f64)> {
    let mut holes = Vec::new();
    let mut reached = begin;
    let behind = Span::new(end, end);
    for span in known.iter().chain([&behind]) {
        if span.from_ns.saturating_sub(reached) >= least_ns {
            holes.push((reached as f64 / 1e9, span.from_ns as f64 / 1e9));
        }
        reached = reached.max(span.until_ns);
    }
    holes
}

fn lines(found: &Spectrum) -> SpectrumLines {
    let line = |of: fn(&crate::stats::Band) -> f64| -> ChartLine {
        let bands = found.bands.iter();
        bands
            .map(|band| (round(band.frequency_hz), round(of(band)).max(1e-3)))
            .collect()
    };
    let peaks = found.components.iter().map(|one| {
        let hz = 1e9 / one.period_ns;
        // The band that it is in shows its height.
        let at = found.bands.partition_point(|band| band.frequency_hz < hz);
        let around = &found.bands[at.saturating_sub(1)..(at + 1).min(found.bands.len())];
        let height = around.iter().map(|band| band.starts.max(band.noise));
        (
            round(hz),
            round(height.fold(1e-3, f64::max)),
            round(one.period_ns),
        )
    });
    SpectrumLines {
        starts: line(|band| band.starts),
        noise: line(|band| band.noise),
        needed: line(|band| band.needed),
        peaks: peaks.collect(),
    }
}

fn matrix(cpus: &[CpuTrace], pairs: &[Correlation]) -> Option<Matrix> {
    if cpus.len() <= 2 || pairs.is_empty() {
        return None;
    }
    let numbers: Vec<u32> = cpus.iter().map(|cpu| cpu.cpu).collect();
    let place = |cpu| numbers.iter().position(|other| *other == cpu);
    let mut cells = Vec::new();
    for one in pairs {
        if let (Some(a), Some(b), Some(noise)) = (place(one.a), place(one.b), one.foremost_noise())
        {
            cells.extend([(a, b, round(noise.r)), (b, a, round(noise.r))]);
        }
    }
    Some(Matrix {
        cpus: numbers,
        cells,
    })
}

/// The pairs whose events are most together.
pub(super) fn lag_pairs(pairs: &[Correlation]) -> Vec<&Correlation> {
    let mut all: Vec<&Correlation> = pairs.iter().filter(|one| !one.lags.is_empty()).collect();
    let over = |one: &Correlation| one.together_pct - one.chance_pct.most;
    all.sort_by(|a, b| over(b).total_cmp(&over(a)));
    all.truncate(MOST_LAGS);
    all
}

fn lag(one: &Correlation) -> NamedLine {
    let middle = (one.lags.len() / 2) as f64;
    let step_us = crate::stats::WINDOW_NS as f64 / 1e3;
    let points = one.lags.iter().enumerate();
    NamedLine {
        name: format!("CPU {} after CPU {}", one.b, one.a),
        points: points
            .map(|(i, times)| ((i as f64 - middle) * step_us, round(*times)))
            .collect(),
    }
}
