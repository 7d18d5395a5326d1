// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figures behind the charts, embedded as JSON.

use sandbag_stats::ErrorStats;
use sandbag_stats::accuracy::BIN_POINTS;
use serde::Serialize;

use crate::report::series::{LoadSeries, Track};
use crate::report::view::View;

/// Up to this many CPUs each has a chart of its own; above, heat maps.
pub(super) const MOST_CHARTS: usize = 8;
/// Bars on each side of zero.
const BARS: i32 = 20;

/// What the script draws of one run.
#[derive(Serialize)]
pub(super) struct Charts<'a> {
    /// Length of the run, seconds: the time axis common to all charts.
    length_s: f64,
    width_s: f64,
    buckets: usize,
    quantity: &'static str,
    /// One chart each; of a node among others, all in one chart.
    lines: Vec<&'a Track>,
    /// One row of the heat maps each.
    rows: Vec<HeatRow<'a>>,
    mean: Track,
    pub(super) histogram: Option<Histogram>,
}

/// What the heat maps need of a CPU; the rest would only make the page large.
#[derive(Serialize)]
struct HeatRow<'a> {
    cpu: u32,
    got: &'a [Option<f64>],
    error: &'a [Option<f64>],
}

impl<'a> Charts<'a> {
    pub(super) fn of_run(view: &View<'_>, series: Option<&'a LoadSeries>) -> Self {
        let run = &view.run;
        let cpus = series.map_or(&[][..], |s| &s.cpus);
        let (lines, rows) = cpus.split_at(if cpus.len() <= MOST_CHARTS {
            cpus.len()
        } else {
            0
        });
        let histogram = |e: ErrorStats| Histogram::new(&run.error_distribution, e.p99_abs_points);
        let row = |(cpu, track): &'a (u32, Track)| HeatRow {
            cpu: *cpu,
            got: &track.got,
            error: &track.error,
        };
        Self {
            lines: lines.iter().map(|(_, track)| track).collect(),
            rows: rows.iter().map(row).collect(),
            histogram: run.error_1s.map(histogram),
            ..Self::of_mean(view, series, run.length_s)
        }
    }

    /// The mean over the CPUs alone, on an axis of `length_s` seconds.
    pub(super) fn of_mean(view: &View<'_>, series: Option<&LoadSeries>, length_s: f64) -> Self {
        Self {
            length_s,
            width_s: series.map_or(1.0, |s| s.width_s),
            buckets: series.map_or(0, LoadSeries::buckets),
            quantity: view.words.quantity,
            lines: Vec::new(),
            rows: Vec::new(),
            mean: series.map(LoadSeries::mean).unwrap_or_default(),
            histogram: None,
        }
    }

    pub(super) fn steal_seen(&self) -> bool {
        self.mean.steal_max.iter().flatten().any(|v| *v > 0.0)
    }
}

/// The error distribution in bars around zero. The axis reaches a little
/// beyond 99 % of the windows, so that one outlier does not press the rest
/// into one bar.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Histogram {
    /// Width of a bar, points; bar `i` is centred on `(i - 20) * bar`.
    bar_points: f64,
    share_pct: Vec<f64>,
    pub(super) beyond: u64,
}

impl Histogram {
    fn new(distribution: &[(f64, u64)], p99_abs_points: f64) -> Self {
        let wanted = 1.25 * p99_abs_points / (f64::from(BARS) * BIN_POINTS);
        let bins_per_bar = [1, 2, 5, 10, 20, 50, 100, 200]
            .into_iter()
            .find(|n| f64::from(*n) >= wanted)
            .unwrap_or(500);
        let total: u64 = distribution.iter().map(|(_, n)| n).sum();
        let mut bars = vec![0.0; 2 * BARS as usize + 1];
        let mut beyond = 0;
        for &(points, windows) in distribution {
            let bin = (points / BIN_POINTS).round() as i32;
            // A bin on the border of two bars belongs to both by halves;
            // giving it to one would shift the whole picture.
            let low = (2 * bin + bins_per_bar - 1).div_euclid(2 * bins_per_bar);
            let high = (2 * bin + bins_per_bar).div_euclid(2 * bins_per_bar);
            if low < -BARS || high > BARS {
                beyond += windows;
                continue;
            }
            let half = windows as f64 / 2.0;
            bars[(low + BARS) as usize] += half;
            bars[(high + BARS) as usize] += half;
        }
        Self {
            bar_points: f64::from(bins_per_bar) * BIN_POINTS,
            share_pct: bars
                .iter()
                .map(|n| (n / total.max(1) as f64 * 1e5).round() / 1e3)
                .collect(),
            beyond,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_symmetric_distribution_stays_symmetric() {
        for width in [3, 30, 90, 700] {
            let bins: Vec<(f64, u64)> = (-width..=width)
                .map(|b| (f64::from(b) * BIN_POINTS, 10))
                .collect();
            let h = Histogram::new(&bins, f64::from(width) * BIN_POINTS);
            let mut mirrored = h.share_pct.clone();
            mirrored.reverse();
            assert_eq!(h.share_pct, mirrored, "{width}");
        }
    }

    #[test]
    fn an_outlier_is_counted_and_does_not_stretch_the_axis() {
        let h = Histogram::new(&[(0.0, 999), (40.0, 1)], 0.0);
        assert!((h.bar_points - BIN_POINTS).abs() < 1e-12);
        assert_eq!(h.beyond, 1);
        assert!((h.share_pct[BARS as usize] - 99.9).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn no_window_is_lost(
            bins in prop::collection::btree_map(-3000i32..3000, 1u64..50, 1..50),
            p99 in 0.0f64..30.0,
        ) {
            let list: Vec<(f64, u64)> =
                bins.iter().map(|(b, n)| (f64::from(*b) * BIN_POINTS, *n)).collect();
            let total: u64 = bins.values().sum();
            let h = Histogram::new(&list, p99);
            let shown: f64 = h.share_pct.iter().sum();
            let beyond = h.beyond as f64 / total as f64 * 100.0;
            prop_assert!((shown + beyond - 100.0).abs() < 0.1);
        }
    }
}
