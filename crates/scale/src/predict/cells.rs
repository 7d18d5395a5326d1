// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The noise of all begins, as histograms whose size does not depend on the trace.
//!
//! Noise is sorted into cells on a logarithmic scale; each keeps the nanoseconds of begins that
//! meet it, and their mean noise. So means are exact, and the greatest of many ranks is known
//! to half the width of a cell. Begins inside an event have histograms by their depth in it,
//! because not all of them occur: see [`super::waiting`].

use super::noise::{Grid, Noise};
use super::stretches::Stretches;
use super::windows::NoisePiece;

/// Cells per decade of noise: each is 0.45 % wide.
pub const FINE: f64 = 512.0;
/// Begins outside events, then bands of depth: below 100 ns, then four to a decade.
pub const BANDS: usize = 34;
const FIRST_DEPTH_NS: f64 = 100.0;
const BANDS_PER_DECADE: f64 = 4.0;

/// Depths of a band, ns: from, until.
pub fn band_ns(band: usize) -> (f64, f64) {
    let edge = |i: usize| FIRST_DEPTH_NS * 10f64.powf(i as f64 / BANDS_PER_DECADE);
    match band {
        0 => (0.0, 0.0),
        1 => (0.0, FIRST_DEPTH_NS),
        band if band + 1 == BANDS => (edge(band - 2), f64::INFINITY),
        band => (edge(band - 2), edge(band - 1)),
    }
}

fn band_of(depth_ns: f64) -> usize {
    if depth_ns < FIRST_DEPTH_NS {
        return 1;
    }
    let band = 2 + ((depth_ns / FIRST_DEPTH_NS).log10() * BANDS_PER_DECADE) as usize;
    band.min(BANDS - 1)
}

/// The histogram of a band.
#[derive(Debug, Clone)]
struct Band {
    /// Nanoseconds of begins.
    weight: Vec<f64>,
    /// Their noise, summed.
    moment: Vec<f64>,
    /// Nanoseconds of begins per nanosecond of noise in cells that are covered from end to end,
    /// as differences to the cell before.
    cover: Vec<f64>,
}

#[derive(Debug, Clone)]
pub struct Cells {
    grid: Grid,
    bands: Vec<Option<Band>>,
    /// All depths in one band.
    lumped: bool,
}

impl Cells {
    /// Empty.
    pub fn new(grid: Grid) -> Self {
        Self {
            grid,
            bands: vec![None; BANDS],
            lumped: false,
        }
    }

    /// Empty; with one band for all begins inside events.
    pub fn merge(grid: Grid) -> Self {
        Self {
            lumped: true,
            ..Self::new(grid)
        }
    }

    /// From pieces.
    pub fn gather(grid: Grid, pieces: impl Iterator<Item = NoisePiece>) -> Self {
        let mut cells = Self::new(grid);
        pieces.for_each(|piece| cells.add(&piece));
        cells
    }

    fn band(&mut self, band: usize) -> &mut Band {
        let cells = self.grid.cells();
        self.bands[band].get_or_insert_with(|| Band {
            weight: vec![0.0; cells],
            moment: vec![0.0; cells],
            cover: vec![0.0; cells + 1],
        })
    }

    pub fn add(&mut self, piece: &NoisePiece) {
        let width = piece.width_ns() as f64;
        let noise = piece.noise_ns as f64;
        let Some(depth) = piece.inside_ns else {
            let cell = self.grid.cell(noise);
            let band = self.band(0);
            band.weight[cell] += width;
            band.moment[cell] += width * noise;
            return;
        };
        if self.lumped {
            return self.spread(1, (noise - width).max(0.0), noise);
        }
        let (begin, end) = (depth as f64, depth as f64 + width);
        let mut from = begin;
        for band in band_of(begin)..BANDS {
            let until = band_ns(band).1.min(end);
            if until > from {
                let (high, low) = (noise - (from - begin), noise - (until - begin));
                self.spread(band, low.max(0.0), high);
                from = until;
            }
            if from >= end {
                break;
            }
        }
    }

    /// Adds a nanosecond of begins for each nanosecond of noise between `low` and `high`.
    fn spread(&mut self, band: usize, low: f64, high: f64) {
        let (first, last) = (self.grid.cell(low), self.grid.cell(high));
        let (first_end, last_begin) = (self.grid.edges()[first + 1], self.grid.edges()[last]);
        let band = self.band(band);
        let mut part = |cell: usize, low: f64, high: f64| {
            let width = (high - low).max(0.0);
            band.weight[cell] += width;
            band.moment[cell] += width * (low + high) / 2.0;
        };
        if first == last {
            return part(first, low, high);
        }
        part(first, low, first_end);
        part(last, last_begin, high);
        band.cover[first + 1] += 1.0;
        band.cover[last] -= 1.0;
    }

    /// Weight and moment of each cell of a band, covers included.
    fn filled<'a>(&'a self, band: &'a Band) -> impl Iterator<Item = (f64, f64)> + 'a {
        let edges = self.grid.edges().windows(2).enumerate();
        edges.scan(0.0, |cover, (cell, edge)| {
            *cover += band.cover[cell];
            let whole = *cover * (edge[1] - edge[0]);
            let moment = band.moment[cell] + whole * (edge[0] + edge[1]) / 2.0;
            Some((band.weight[cell] + whole, moment))
        })
    }

    /// Nanoseconds of begins in each band; the first is outside events.
    pub fn band_weights(&self) -> [f64; BANDS] {
        let mut all = [0.0; BANDS];
        for (sum, band) in all.iter_mut().zip(&self.bands) {
            let filled = band.iter().flat_map(|band| self.filled(band));
            *sum = filled.map(|(weight, _)| weight).sum();
        }
        all
    }

    /// Nanoseconds of begins outside events, and inside.
    pub fn weights(&self) -> (f64, f64) {
        let bands = self.band_weights();
        (bands[0], bands[1..].iter().sum())
    }

    /// Adds another histogram, multiplied by `factor`.
    pub fn add_scaled(&mut self, other: &Self, factor: f64) {
        for (number, theirs) in other.bands.iter().enumerate() {
            let Some(theirs) = theirs else { continue };
            let ours = self.band(number);
            let cells = ours.weight.iter_mut().zip(&mut ours.moment);
            // Covers are whole numbers and end at exactly 0. Scaled they would not, and the last
            // cells are wide.
            for ((weight, moment), (more, more_moment)) in cells.zip(other.filled(theirs)) {
                *weight += more * factor;
                *moment += more_moment * factor;
            }
        }
    }

    /// With the weight of each phase among stretches of unknown time.
    pub fn weighted(&self, stretches: &Stretches) -> Self {
        let mut all = Self {
            lumped: self.lumped,
            ..Self::new(self.grid.clone())
        };
        let edges = self.grid.edges();
        for (number, theirs) in self.bands.iter().enumerate() {
            let Some(theirs) = theirs else { continue };
            // Lumped depths are unknown. They serve for intervals only.
            let depth_ns = match band_ns(number) {
                _ if self.lumped => 0.0,
                (from, until) if until.is_finite() => (from + until) / 2.0,
                (from, _) => from,
            };
            let ours = all.band(number);
            for (cell, (weight, moment)) in self.filled(theirs).enumerate() {
                let noise_ns = if weight > 0.0 {
                    moment / weight
                } else {
                    edges[cell]
                };
                let factor = stretches.weight_inside(noise_ns, depth_ns);
                ours.weight[cell] = weight * factor;
                ours.moment[cell] = moment * factor;
            }
        }
        all
    }

    /// The distribution of the noise if this share of the begins in each band occurs, 0 to 1.
    pub fn noise(&self, accepted: &[f64; BANDS]) -> Noise {
        let cells = self.grid.cells();
        let (mut weight, mut moment) = (vec![0.0; cells], vec![0.0; cells]);
        for (band, share) in self.bands.iter().zip(accepted) {
            let band = band.as_ref().filter(|_| *share > 0.0);
            let filled = band.into_iter().flat_map(|band| self.filled(band));
            for (cell, (more, more_moment)) in filled.enumerate() {
                weight[cell] += share * more;
                moment[cell] += share * more_moment;
            }
        }
        Noise::of_cells(&self.grid, &weight, &moment)
    }
}

/// Only begins outside events occur.
pub const RUNNING: [f64; BANDS] = {
    let mut bands = [0.0; BANDS];
    bands[0] = 1.0;
    bands
};

/// All begins occur.
pub const ANY: [f64; BANDS] = [1.0; BANDS];

#[cfg(test)]
mod tests {
    use super::super::windows::Windows;
    use super::*;
    use crate::fixture::cpu;

    #[test]
    fn bands_follow_each_other() {
        for band in 1..BANDS - 1 {
            assert_eq!(band_ns(band).1, band_ns(band + 1).0);
        }
        for depth in [0.0, 99.0, 101.0, 5e3, 1e6, 1e12] {
            let (from, until) = band_ns(band_of(depth));
            assert!(from <= depth && depth < until, "{depth}");
        }
    }

    #[test]
    fn the_mean_is_that_of_all_begins() {
        // 100 ns of work in 10 us, an event of 2 us: outside events, 100 begins
        // meet it; inside, each meets half of it.
        let cpu = cpu(&[(0, 10_000)], &[(5000, 2000)]);
        let cells = Cells::gather(Grid::new(FINE), Windows::new(&cpu, 100));
        assert_eq!(cells.weights().0, 7900.0);
        assert!((cells.weights().1 - 2000.0).abs() < 1e-6);
        let running = cells.noise(&RUNNING);
        assert!((running.mean() - 100.0 * 2000.0 / 7900.0).abs() < 1e-9);
        let any = cells.noise(&ANY);
        let expected = (100.0 * 2000.0 + 2000.0 * 1000.0) / 9900.0;
        assert!((any.mean() - expected).abs() < 1e-6, "{}", any.mean());
    }

    #[test]
    fn depths_are_in_their_bands() {
        let mut cells = Cells::new(Grid::new(FINE));
        cells.add(&NoisePiece {
            from_ns: 0,
            until_ns: 5_000_000,
            noise_ns: 5_000_000,
            inside_ns: Some(0),
        });
        for (band, weight) in cells.band_weights().iter().enumerate() {
            let (from, until) = band_ns(band);
            let expected = until.min(5e6) - from.min(5e6);
            assert!(
                (weight - expected).abs() < 1e-3,
                "{band}: {weight} {expected}"
            );
        }
    }

    #[test]
    fn scaled_histograms_add_up() {
        let cpu = cpu(&[(0, 10_000)], &[(5000, 2000), (8000, 3)]);
        let cells = Cells::gather(Grid::new(FINE), Windows::new(&cpu, 100));
        let mut twice = Cells::new(Grid::new(FINE));
        twice.add_scaled(&cells, 0.3);
        twice.add_scaled(&cells, 1.7);
        assert!((twice.weights().1 - 2.0 * cells.weights().1).abs() < 1e-6);
        let (a, b) = (cells.noise(&ANY), twice.noise(&ANY));
        assert!((a.mean() - b.mean()).abs() < 1e-9);
        // Nothing is left behind the greatest, where cells are wide.
        let (a, b) = (a.greatest_of(1e9).mean(), b.greatest_of(1e9).mean());
        assert!((a / b - 1.0).abs() < 1e-9, "{a} {b}");
    }
}
