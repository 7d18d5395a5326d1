// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The data behind the charts, embedded as JSON, with no more points than can be seen.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{MOST_CHARTS, MOST_LAGS, TracePage};
use crate::spans::{extent, without};
use crate::stats::{Band, Correlation, Density, Grid, Spectrum, WINDOW_NS};
use crate::{CpuTrace, JitterTrace, Span};

/// Columns and rows (per decade) in which events over time are counted.
const COLUMNS: u64 = 500;
const ROWS_PER_DECADE: f64 = 12.0;
/// Points of a cumulative curve.
const CURVE: usize = 200;
/// A density below this is not drawn, per decade.
const LEAST_DENSITY: f64 = 1e-6;

/// Data of the charts of a trace.
pub(super) fn of_trace(page: &TracePage<'_>) -> Value {
    let cpus = &page.trace.cpus;
    let all = extent(cpus.iter().flat_map(|cpu| cpu.known.clone())).unwrap_or_default();
    let lengths = |cpu: &CpuTrace| cpu.lengths_ns().collect::<Vec<u64>>();
    let name = |cpu: &CpuTrace| format!("CPU {}", cpu.cpu);
    // With the place of their CPU, which is that of its colour: one without events has none.
    let density =
        |(at, cpu): (usize, &CpuTrace)| Some(placed(at, density(name(cpu), &lengths(cpu), None)?));
    let shares = |(at, cpu): (usize, &CpuTrace)| Some(placed(at, shares(name(cpu), lengths(cpu))?));
    let numbered = || cpus.iter().enumerate();
    // Few CPUs have charts of their own.
    let each = if cpus.len() <= MOST_CHARTS {
        1
    } else {
        cpus.len()
    };
    let spectra = page.spectra.iter().filter(|_| each == 1);
    json!({
        "begin_s": all.from_ns as f64 / 1e9,
        "length_s": all.length_ns() as f64 / 1e9,
        "cpus": cpus.len(),
        "density": numbered().filter_map(density).collect::<Vec<_>>(),
        "shares": numbered().filter_map(shares).collect::<Vec<_>>(),
        "events": cpus.chunks(each).map(|cpus| events(cpus, all)).collect::<Vec<_>>(),
        "spectra": spectra.map(|one| one.as_ref().map(lines)).collect::<Vec<_>>(),
        "matrix": matrix(cpus, page.correlations),
        "lags": lag_pairs(page.correlations).into_iter().map(lag).collect::<Vec<_>>(),
    })
}

/// Data of the charts of two traces.
pub(super) fn of_two(a: &JitterTrace, b: &JitterTrace) -> Value {
    let (a, b) = (a.lengths_ns(), b.lengths_ns());
    // Both with the bandwidth of the reference, as they are compared.
    let bandwidth = Density::of(&a, Grid::standard(), None).map(|of| of.bandwidth);
    let densities = [
        density("A".to_owned(), &a, bandwidth),
        density("B".to_owned(), &b, bandwidth),
    ];
    let shares = [shares("A".to_owned(), a), shares("B".to_owned(), b)];
    let all = |lines: [Option<Value>; 2]| -> Vec<Value> {
        let numbered = lines.into_iter().enumerate();
        numbered
            .filter_map(|(at, line)| Some(placed(at, line?)))
            .collect()
    };
    json!({"density": all(densities), "shares": all(shares)})
}

/// Four digits, more than can be seen.
fn round(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10f64.powi(3 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

/// A line with the place of its colour.
fn placed(at: usize, mut line: Value) -> Value {
    line["at"] = at.into();
    line
}

fn density(name: String, lengths_ns: &[u64], bandwidth: Option<f64>) -> Option<Value> {
    let density = Density::of(lengths_ns, Grid::standard(), bandwidth)?;
    let points = density.grid.values().zip(&density.values);
    let seen = points.filter(|(_, value)| **value >= LEAST_DENSITY);
    // Every other point: the kernel is smoother than the grid.
    let points = seen
        .map(|(x, value)| (round(10f64.powf(x)), round(*value)))
        .step_by(2);
    Some(json!({"name": name, "points": points.collect::<Vec<_>>()}))
}

/// Shares of the events and of the noise up to a length, percent.
fn shares(name: String, mut lengths_ns: Vec<u64>) -> Option<Value> {
    lengths_ns.sort_unstable();
    let (first, last) = (*lengths_ns.first()?, *lengths_ns.last()?);
    let sums = lengths_ns.iter().scan(0.0, |sum, ns| {
        *sum += *ns as f64;
        Some(*sum)
    });
    let sums: Vec<f64> = sums.collect();
    let all = sums[sums.len() - 1].max(1.0);
    let (from, until) = ((first.max(1) as f64).log10(), (last.max(1) as f64).log10());
    let (mut events, mut noise) = (Vec::new(), Vec::new());
    for i in 0..=CURVE {
        let x = 10f64.powf(from + (until - from) * i as f64 / CURVE as f64);
        let below = match i {
            CURVE => lengths_ns.len(),
            _ => lengths_ns.partition_point(|ns| *ns as f64 <= x),
        };
        let sum = below.checked_sub(1).map_or(0.0, |i| sums[i]);
        events.push((round(x), round(below as f64 / sums.len() as f64 * 100.0)));
        noise.push((round(x), round(sum / all * 100.0)));
    }
    Some(json!({"name": name, "events": events, "noise": noise}))
}

/// Events over time, counted in cells: column, row, count. For one CPU also its unknown
/// time, s, where it is wide enough to be seen.
fn events(cpus: &[CpuTrace], all: Span) -> Value {
    let width = (all.length_ns() / COLUMNS).max(1);
    let mut cells: BTreeMap<(u64, i32), u64> = BTreeMap::new();
    for event in cpus.iter().flat_map(|cpu| &cpu.events) {
        let column = (event.start_ns.saturating_sub(all.from_ns) / width).min(COLUMNS - 1);
        let row = ((event.length_ns.max(1) as f64).log10() * ROWS_PER_DECADE).floor() as i32;
        *cells.entry((column, row)).or_default() += 1;
    }
    let cells = cells
        .into_iter()
        .map(|((column, row), count)| (column, row, count));
    let holes = match cpus {
        [only] => without(all, only.known.clone()),
        _ => Vec::new(),
    };
    let holes = holes.iter().filter(|hole| hole.length_ns() >= width);
    let holes = holes.map(|hole| (hole.from_ns as f64 / 1e9, hole.until_ns as f64 / 1e9));
    json!({
        "cells": cells.collect::<Vec<_>>(),
        "columns": COLUMNS,
        "rows_per_decade": ROWS_PER_DECADE,
        "holes": holes.collect::<Vec<_>>(),
    })
}

/// Lines of a spectrum, and frequency, power and period of its components.
fn lines(found: &Spectrum) -> Value {
    let line = |of: fn(&Band) -> f64| -> Vec<(f64, f64)> {
        let point = |band: &Band| (round(band.frequency_hz), round(of(band)).max(1e-3));
        found.bands.iter().map(point).collect()
    };
    let peaks = found.components.iter().map(|one| {
        let hz = 1e9 / one.period_ns;
        // The band of the frequency shows the height of the peak.
        let at = found.bands.partition_point(|band| band.frequency_hz < hz);
        let around = &found.bands[at.saturating_sub(1)..(at + 1).min(found.bands.len())];
        let height = around.iter().map(|band| band.starts.max(band.noise));
        (
            round(hz),
            round(height.fold(1e-3, f64::max)),
            round(one.period_ns),
        )
    });
    json!({
        "starts": line(|band| band.starts),
        "noise": line(|band| band.noise),
        "needed": line(|band| band.needed),
        "peaks": peaks.collect::<Vec<_>>(),
    })
}

/// Coefficients of pairs of CPUs: row, column, coefficient.
fn matrix(cpus: &[CpuTrace], pairs: &[Correlation]) -> Option<Value> {
    if cpus.len() <= 2 || pairs.is_empty() {
        return None;
    }
    let numbers: Vec<u32> = cpus.iter().map(|cpu| cpu.cpu).collect();
    let place = |cpu| numbers.iter().position(|other| *other == cpu);
    let cells = pairs.iter().filter_map(|one| {
        let (a, b, noise) = (place(one.a)?, place(one.b)?, one.foremost_noise()?);
        Some([(a, b, round(noise.r)), (b, a, round(noise.r))])
    });
    Some(json!({"cpus": numbers, "cells": cells.flatten().collect::<Vec<_>>()}))
}

/// The pairs with the most simultaneous events.
pub(super) fn lag_pairs(pairs: &[Correlation]) -> Vec<&Correlation> {
    let mut all: Vec<&Correlation> = pairs.iter().filter(|one| !one.lags.is_empty()).collect();
    let over = |one: &Correlation| one.together_pct - one.chance_pct.most;
    all.sort_by(|a, b| over(b).total_cmp(&over(a)));
    all.truncate(MOST_LAGS);
    all
}

fn lag(one: &Correlation) -> Value {
    let middle = (one.lags.len() / 2) as f64;
    let step_us = WINDOW_NS as f64 / 1e3;
    let point = |(i, times): (usize, &f64)| ((i as f64 - middle) * step_us, round(*times));
    let points: Vec<_> = one.lags.iter().enumerate().map(point).collect();
    json!({"name": format!("CPU {} after CPU {}", one.b, one.a), "points": points})
}
