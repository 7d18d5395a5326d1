// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The windows of a run over time, thinned to what a chart can show in one pass.
//!
//! Windows fall into buckets as wide as a window; when a bucket beyond the
//! last is needed, neighbours are merged and the width doubles. A bucket keeps
//! means weighted by time, the least and the greatest load, the error of
//! largest magnitude and the greatest steal, so no excursion is smoothed away.

use std::collections::BTreeMap;

use crate::report::Error;
use crate::report::achieved::AchievedRow;
use serde::Serialize;

/// Buckets over all CPUs; bounds the size of a page.
const MOST_CELLS: usize = 24_000;
/// Buckets per CPU, at most; a chart shows no more.
const MOST_BUCKETS: usize = 600;
/// Buckets per CPU, at least, however many CPUs there are.
const LEAST_BUCKETS: usize = 60;
/// Rows looked at to learn how long a window is.
const SAMPLE_ROWS: usize = 256;

/// One CPU over time: one value per bucket, `None` where nothing is known,
/// or, for got and error, where all was hole or stolen.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Track {
    pub asked: Vec<Option<f64>>,
    pub got: Vec<Option<f64>>,
    /// The least window, percent; empty where nothing was merged.
    pub got_min: Vec<Option<f64>>,
    /// The greatest window, percent; empty where nothing was merged.
    pub got_max: Vec<Option<f64>>,
    /// The error of largest magnitude, points.
    pub error: Vec<Option<f64>>,
    pub steal: Vec<Option<f64>>,
    /// Greatest steal of a window, percent of the wall time.
    pub steal_max: Vec<Option<f64>>,
    pub holes: Vec<usize>,
}

/// To two decimals: more would only make the page larger.
fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// One CPU in one bucket.
#[derive(Debug, Clone, Copy, Default)]
struct LoadCell {
    /// Time of all windows, seconds.
    length_s: f64,
    /// Delivered time of the windows that are not holes, seconds.
    whole_s: f64,
    /// Sum of asked load x time.
    asked: f64,
    /// Sum of asked load x delivered time, without holes, as that of the got load.
    asked_whole: f64,
    /// Sum of got load x delivered time, without holes.
    got: f64,
    got_min: f64,
    got_max: f64,
    error_worst: f64,
    /// Sum of steal x time.
    steal: f64,
    steal_max: f64,
    hole: bool,
}

impl LoadCell {
    fn of(row: &AchievedRow) -> Self {
        let has_error = !row.is_hole() && !row.error_points.is_nan();
        let whole_s = if has_error { row.delivered_s() } else { 0.0 };
        Self {
            length_s: row.length_s,
            whole_s,
            asked: row.asked_pct * row.length_s,
            asked_whole: row.asked_pct * whole_s,
            got: row.got_pct * whole_s,
            got_min: row.got_pct,
            got_max: row.got_pct,
            error_worst: if has_error { row.error_points } else { 0.0 },
            steal: row.steal_pct * row.length_s,
            steal_max: row.steal_pct,
            hole: row.is_hole(),
        }
    }

    /// Delivered time with the load, seconds; `None` where there is none.
    fn whole(&self) -> Option<f64> {
        Some(self.whole_s).filter(|s| *s > 0.0)
    }

    fn merge(self, other: Self) -> Self {
        let (got_min, got_max) = match (self.whole_s > 0.0, other.whole_s > 0.0) {
            (true, true) => (
                self.got_min.min(other.got_min),
                self.got_max.max(other.got_max),
            ),
            (true, false) => (self.got_min, self.got_max),
            _ => (other.got_min, other.got_max),
        };
        Self {
            length_s: self.length_s + other.length_s,
            whole_s: self.whole_s + other.whole_s,
            asked: self.asked + other.asked,
            asked_whole: self.asked_whole + other.asked_whole,
            got: self.got + other.got,
            got_min,
            got_max,
            error_worst: if other.error_worst.abs() > self.error_worst.abs() {
                other.error_worst
            } else {
                self.error_worst
            },
            steal: self.steal + other.steal,
            steal_max: self.steal_max.max(other.steal_max),
            hole: self.hole || other.hole,
        }
    }
}

/// A thinned run in buckets of `width_s` seconds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LoadSeries {
    pub width_s: f64,
    /// Whether a bucket holds more than one window.
    pub thinned: bool,
    /// One per CPU, ascending by number, all equally long.
    pub cpus: Vec<(u32, Track)>,
}

impl LoadSeries {
    /// Thins `rows`, in one pass and in memory that does not grow with their
    /// number.
    pub fn read(rows: impl Iterator<Item = Result<AchievedRow, Error>>) -> Result<Self, Error> {
        let mut rows = rows;
        let sample: Vec<AchievedRow> = rows.by_ref().take(SAMPLE_ROWS).collect::<Result<_, _>>()?;
        let mut thinner = Thinner::new(window_s(&sample));
        for row in sample {
            thinner.add(&row);
        }
        for row in rows {
            thinner.add(&row?);
        }
        Ok(thinner.finish())
    }

    pub fn buckets(&self) -> usize {
        self.cpus.first().map_or(0, |(_, t)| t.asked.len())
    }

    /// The mean over all CPUs; the error and the greatest steal are those of the worst
    /// CPU.
    pub fn mean(&self) -> Track {
        if let [(_, only)] = &self.cpus[..] {
            return only.clone();
        }
        let over = |at: &dyn Fn(&Track) -> Option<f64>| {
            let known: Vec<f64> = self.cpus.iter().filter_map(|(_, t)| at(t)).collect();
            (!known.is_empty()).then(|| hundredths(known.iter().sum::<f64>() / known.len() as f64))
        };
        let mut mean = Track::default();
        for i in 0..self.buckets() {
            mean.asked.push(over(&|t| t.asked[i]));
            mean.got.push(over(&|t| t.got[i]));
            let errors = self.cpus.iter().filter_map(|(_, t)| t.error[i]);
            mean.error
                .push(errors.max_by(|a, b| a.abs().total_cmp(&b.abs())));
            mean.steal.push(over(&|t| t.steal[i]));
            let most = self.cpus.iter().filter_map(|(_, t)| t.steal_max[i]);
            mean.steal_max.push(most.max_by(f64::total_cmp));
            if self.cpus.iter().any(|(_, t)| t.holes.contains(&i)) {
                mean.holes.push(i);
            }
        }
        mean
    }
}

/// The usual length of a window: the median of `sample` to 10 ms, because
/// each single one is off by the delay of a wake-up.
fn window_s(sample: &[AchievedRow]) -> f64 {
    let lengths: Vec<f64> = sample.iter().map(|r| r.length_s).collect();
    let median = sandbag_stats::median(&lengths).unwrap_or(1.0);
    ((median * 100.0).round() / 100.0).max(0.01)
}

struct Thinner {
    width_s: f64,
    doubled: bool,
    cpus: BTreeMap<u32, Vec<Option<LoadCell>>>,
}

impl Thinner {
    fn new(width_s: f64) -> Self {
        Self {
            width_s,
            doubled: false,
            cpus: BTreeMap::new(),
        }
    }

    fn add(&mut self, row: &AchievedRow) {
        self.cpus.entry(row.cpu).or_default();
        let most = (MOST_CELLS / self.cpus.len()).clamp(LEAST_BUCKETS, MOST_BUCKETS);
        // By its middle: the start may lie a wake-up before or after the grid.
        let middle_s = row.time_s + row.length_s / 2.0;
        while (middle_s / self.width_s) as usize >= most {
            self.double();
        }
        let index = (middle_s / self.width_s) as usize;
        let cells = self.cpus.entry(row.cpu).or_default();
        if cells.len() <= index {
            cells.resize(index + 1, None);
        }
        cells[index] = Some(match cells[index] {
            Some(cell) => cell.merge(LoadCell::of(row)),
            None => LoadCell::of(row),
        });
    }

    fn double(&mut self) {
        self.width_s *= 2.0;
        self.doubled = true;
        for cells in self.cpus.values_mut() {
            *cells = cells
                .chunks(2)
                .map(|pair| match *pair {
                    [Some(a), Some(b)] => Some(a.merge(b)),
                    [a, b] => a.or(b),
                    [a] => a,
                    _ => None,
                })
                .collect();
        }
    }

    fn finish(self) -> LoadSeries {
        let buckets = self.cpus.values().map(Vec::len).max().unwrap_or(0);
        let doubled = self.doubled;
        LoadSeries {
            width_s: self.width_s,
            thinned: doubled,
            cpus: self
                .cpus
                .into_iter()
                .map(|(cpu, mut cells)| {
                    cells.resize(buckets, None);
                    (cpu, track(&cells, doubled))
                })
                .collect(),
        }
    }
}

fn track(cells: &[Option<LoadCell>], extremes: bool) -> Track {
    let each = |value: fn(&LoadCell) -> Option<f64>| -> Vec<Option<f64>> {
        let values = cells.iter().map(|cell| value(cell.as_ref()?));
        values.map(|value| value.map(hundredths)).collect()
    };
    let when_merged = |values| if extremes { values } else { Vec::new() };
    Track {
        asked: each(|c| {
            Some(
                c.whole()
                    .map_or(c.asked / c.length_s, |s| c.asked_whole / s),
            )
        }),
        got: each(|c| c.whole().map(|s| c.got / s)),
        got_min: when_merged(each(|c| c.whole().map(|_| c.got_min))),
        got_max: when_merged(each(|c| c.whole().map(|_| c.got_max))),
        error: each(|c| c.whole().map(|_| c.error_worst)),
        steal: each(|c| Some(c.steal / c.length_s)),
        steal_max: each(|c| Some(c.steal_max)),
        holes: (0..cells.len())
            .filter(|i| cells[*i].is_some_and(|c| c.hole))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;
    use proptest::prelude::*;

    fn row(time_s: f64, cpu: u32, got_pct: f64) -> AchievedRow {
        fixture::row(cpu, time_s, 1.0, 50.0, got_pct)
    }

    fn read(rows: &[AchievedRow]) -> LoadSeries {
        LoadSeries::read(rows.iter().cloned().map(Ok)).unwrap()
    }

    #[test]
    fn a_short_run_is_shown_window_by_window() {
        let rows: Vec<AchievedRow> = (0..30).map(|t| row(f64::from(t), 3, 50.5)).collect();
        let series = read(&rows);
        assert!(!series.thinned && series.cpus[0].1.got_min.is_empty());
        assert_eq!(series.cpus[0].1.got, vec![Some(50.5); 30]);
    }

    #[test]
    fn a_window_without_delivered_time_has_no_load_and_no_error() {
        let stolen = AchievedRow {
            steal_pct: 100.0,
            error_points: f64::NAN,
            ..row(1.0, 0, 0.0)
        };
        let series = read(&[row(0.0, 0, 50.0), stolen.clone(), row(2.0, 0, 50.0)]);
        let cpu = &series.cpus[0].1;
        assert_eq!(cpu.got, [Some(50.0), None, Some(50.0)]);
        assert_eq!(cpu.error, [Some(0.0), None, Some(0.0)]);
        assert!(cpu.holes.is_empty());
        let both = LoadCell::of(&row(0.0, 0, 50.0)).merge(LoadCell::of(&stolen));
        assert_eq!(both.whole().map(|s| both.got / s), Some(50.0));
        assert_eq!((both.got_min, both.got_max), (50.0, 50.0));
        assert_eq!(both.steal / both.length_s, 50.0);
    }

    #[test]
    fn late_and_early_windows_fall_into_their_own_second() {
        let rows: Vec<AchievedRow> = (0..60)
            .map(|t| row(f64::from(t) + if t % 2 == 0 { 0.3 } else { -0.3 }, 0, 50.0))
            .collect();
        assert_eq!(read(&rows).cpus[0].1.got.iter().flatten().count(), 60);
    }

    #[test]
    fn a_day_is_thinned_and_keeps_its_one_excursion() {
        let rows = (0..86_400).map(|t| {
            let got = if t == 40_001 { 97.0 } else { 50.0 };
            Ok(row(f64::from(t), 0, got))
        });
        let series = LoadSeries::read(rows).unwrap();
        let cpu = &series.cpus[0].1;
        assert!(series.thinned && cpu.got.len() <= MOST_BUCKETS);
        assert!(cpu.got_max.contains(&Some(97.0)));
        assert_eq!(cpu.error.iter().filter(|e| **e == Some(47.0)).count(), 1);
    }

    #[test]
    fn many_cpus_stay_within_the_bound() {
        let rows = (0..600).flat_map(|t| (0..300).map(move |c| Ok(row(f64::from(t), c, 50.0))));
        let series = LoadSeries::read(rows).unwrap();
        let cells: usize = series.cpus.iter().map(|(_, t)| t.got.len()).sum();
        assert!(cells <= MOST_CELLS, "{cells}");
    }

    #[test]
    fn a_hole_has_an_asked_load_and_no_got() {
        let mut hole = row(1.0, 0, 0.0);
        hole.hole = 1;
        let series = read(&[row(0.0, 0, 50.0), hole, row(2.0, 0, 50.0)]);
        let cpu = &series.cpus[0].1;
        assert_eq!(cpu.got, [Some(50.0), None, Some(50.0)]);
        assert_eq!(cpu.asked, [Some(50.0); 3]);
        assert_eq!(cpu.holes, [1]);
    }

    #[test]
    fn the_mean_leaves_a_missing_cpu_out_and_has_the_worst_error() {
        let mut hole = row(0.0, 1, 0.0);
        hole.hole = 1;
        let mean = read(&[row(0.0, 0, 60.0), hole, row(0.0, 2, 50.0)]).mean();
        assert_eq!(mean.got, [Some(55.0)]);
        assert_eq!(mean.error, [Some(10.0)]);
        assert_eq!(mean.holes, [0]);
    }

    #[test]
    fn a_load_that_was_exact_has_one_line_where_windows_are_merged() {
        let mut stolen = row(1.0, 0, 90.0);
        (stolen.asked_pct, stolen.steal_pct) = (90.0, 50.0);
        let mut free = row(0.0, 0, 10.0);
        free.asked_pct = 10.0;
        let merged = LoadCell::of(&free).merge(LoadCell::of(&stolen));
        let track = track(&[Some(merged)], true);
        assert_eq!(track.asked, track.got);
    }

    #[test]
    fn no_windows_make_an_empty_series() {
        assert!(read(&[]).cpus.is_empty());
    }

    proptest! {
        #[test]
        fn thinning_keeps_mean_and_extremes(
            got in prop::collection::vec(0.0f64..100.0, 1..3000),
        ) {
            let rows: Vec<AchievedRow> = got.iter().enumerate().map(|(t, g)| row(t as f64, 0, *g)).collect();
            let mut thinner = Thinner::new(1.0);
            rows.iter().for_each(|r| thinner.add(r));
            let cells: Vec<LoadCell> = thinner.cpus[&0].iter().flatten().copied().collect();
            let time: f64 = cells.iter().map(|c| c.whole_s).sum();
            prop_assert!((time - got.len() as f64).abs() < 1e-6);
            let mean = cells.iter().map(|c| c.got).sum::<f64>() / time;
            prop_assert!((mean - got.iter().sum::<f64>() / got.len() as f64).abs() < 1e-6);
            let max = cells.iter().map(|c| c.got_max).fold(0.0, f64::max);
            prop_assert_eq!(max, got.iter().copied().fold(0.0, f64::max));
            let min = cells.iter().map(|c| c.got_min).fold(100.0, f64::min);
            prop_assert_eq!(min, got.iter().copied().fold(100.0, f64::min));
        }
    }
}
