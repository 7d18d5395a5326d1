// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The distribution of the noise that work meets, and the greatest of many.
//!
//! The slowest of `n` independent ranks with distribution F has F^n: its mean is the integral
//! of 1 - F(x)^n, and its quantiles are those of F at `p^(1/n)`. All is computed from 1 - F,
//! which is exact where F is so close to 1 that the power needs it.

use std::borrow::Borrow;

/// Decades from 1 ns on; longer noise is in the last cell.
const DECADES: f64 = 12.0;

#[derive(Debug, Clone)]
pub struct Grid {
    per_decade: f64,
    /// Begin of each cell, and the end of the last; the first cell is that of no noise.
    edges: Vec<f64>,
}

impl Grid {
    pub fn new(per_decade: f64) -> Self {
        let cells = (per_decade * DECADES) as usize;
        let edge = |i: usize| 10f64.powf(i as f64 / per_decade);
        Self {
            per_decade,
            edges: std::iter::once(0.0).chain((0..=cells).map(edge)).collect(),
        }
    }

    /// Number of cells.
    pub fn cells(&self) -> usize {
        self.edges.len() - 1
    }

    /// The cell of a noise.
    pub fn cell(&self, noise_ns: f64) -> usize {
        if noise_ns < 1.0 {
            return 0;
        }
        let cell = 1 + (noise_ns.log10() * self.per_decade) as usize;
        cell.min(self.cells() - 1)
    }

    pub fn edges(&self) -> &[f64] {
        &self.edges
    }
}

#[derive(Debug, Clone)]
pub struct Noise {
    /// Mean noise of each cell, ns; ascending.
    values: Vec<f64>,
    /// Probability that the noise lies in a later cell.
    above: Vec<f64>,
}

impl Noise {
    /// From nanoseconds of begins in each cell, and their summed noise.
    pub(super) fn of_cells(grid: &Grid, weight: &[f64], moment: &[f64]) -> Self {
        let total: f64 = weight.iter().sum();
        let edges = grid.edges();
        let values = (0..grid.cells())
            .map(|cell| match weight[cell] {
                weight if weight > 0.0 => moment[cell] / weight,
                _ if cell == 0 => 0.0,
                _ => (edges[cell] + edges[cell + 1]) / 2.0,
            })
            .collect();
        let mut above = vec![0.0; weight.len()];
        let mut sum = 0.0;
        for cell in (0..weight.len()).rev() {
            // Rounding may make it a little more than 1.
            above[cell] = if total > 0.0 {
                (sum / total).min(1.0)
            } else {
                0.0
            };
            sum += weight[cell];
        }
        Self { values, above }
    }

    /// From the probabilities of a later cell.
    pub(crate) fn of_above(values: Vec<f64>, above: Vec<f64>) -> Self {
        Self { values, above }
    }

    /// Mean noise of each cell, ns.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Probability of a later cell, for each cell.
    pub fn tail(&self) -> &[f64] {
        &self.above
    }

    /// Mean noise and probability of each cell.
    pub fn masses(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let mut before = 1.0;
        self.values
            .iter()
            .zip(&self.above)
            .map(move |(value, above)| {
                let mass = before - above;
                before = *above;
                (*value, mass)
            })
    }

    pub fn mean(&self) -> f64 {
        self.masses().map(|(value, mass)| value * mass).sum()
    }

    /// Quantile, ns.
    pub fn quantile(&self, probability: f64) -> f64 {
        let beyond = 1.0 - probability;
        let cell = self.above.partition_point(|above| *above > beyond);
        self.values[cell.min(self.values.len() - 1)]
    }

    /// The greatest noise, ns, and the probability of its cell.
    pub fn greatest(&self) -> (f64, f64) {
        let last = self.above.partition_point(|above| *above > 0.0);
        let last = last.min(self.values.len() - 1);
        let before = if last == 0 { 1.0 } else { self.above[last - 1] };
        (self.values[last], before - self.above[last])
    }

    /// Probability of more than this.
    pub fn exceeds(&self, noise_ns: f64) -> f64 {
        let cell = self.values.partition_point(|value| *value <= noise_ns);
        match cell.checked_sub(1) {
            None => 1.0,
            Some(before) => self.above[before],
        }
    }

    /// One of several distributions, each with its share; together they are 1.
    pub fn mixed(all: &[(&Self, f64)]) -> Self {
        let cells = all.first().map_or(1, |(first, _)| first.values.len());
        let above = |cell: usize| -> f64 {
            let parts = all.iter().map(|(noise, share)| share * noise.above[cell]);
            parts.sum()
        };
        Self {
            values: (0..cells).map(|cell| mixed_value(all, cell)).collect(),
            above: (0..cells).map(above).collect(),
        }
    }

    /// The greatest of `n`, which need not be whole.
    pub fn greatest_of(&self, n: f64) -> Self {
        Self::greatest_of_all(&[(self, n)])
    }

    /// The greatest of several distributions, each with its number.
    pub fn greatest_of_all<N: Borrow<Self>>(all: &[(N, f64)]) -> Self {
        let all: Vec<(&Self, f64)> = all.iter().map(|(noise, n)| (noise.borrow(), *n)).collect();
        let cells = all.first().map_or(1, |(first, _)| first.values.len());
        let above = |cell: usize| {
            let present = all.iter().filter(|(_, n)| *n > 0.0);
            let logs = present.map(|(noise, n)| n * (-noise.above[cell]).ln_1p());
            -logs.sum::<f64>().exp_m1()
        };
        Self {
            values: match &all[..] {
                [(one, _)] => one.values.clone(),
                _ => (0..cells).map(|cell| mixed_value(&all, cell)).collect(),
            },
            above: (0..cells).map(above).collect(),
        }
    }
}

/// Mean noise of a cell of several distributions, by their masses.
fn mixed_value(all: &[(&Noise, f64)], cell: usize) -> f64 {
    let (mut weight, mut moment) = (0.0, 0.0);
    for (noise, n) in all {
        let before = cell
            .checked_sub(1)
            .map_or(1.0, |before| noise.above[before]);
        let mass = n * (before - noise.above[cell]);
        weight += mass;
        moment += mass * noise.values[cell];
    }
    if weight > 0.0 {
        moment / weight
    } else {
        all.first().map_or(0.0, |(first, _)| first.values[cell])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn noise(parts: &[(f64, f64)]) -> Noise {
        let grid = Grid::new(512.0);
        let (mut weight, mut moment) = (vec![0.0; grid.cells()], vec![0.0; grid.cells()]);
        for (value, part) in parts {
            let cell = grid.cell(*value);
            weight[cell] += part;
            moment[cell] += part * value;
        }
        Noise::of_cells(&grid, &weight, &moment)
    }

    #[test]
    fn the_greatest_of_ten_coins() {
        let coin = noise(&[(0.0, 1.0), (1000.0, 1.0)]);
        assert!((coin.mean() - 500.0).abs() < 1e-9);
        let ten = coin.greatest_of(10.0);
        assert!((ten.mean() - 1000.0 * (1.0 - 0.5f64.powi(10))).abs() < 1e-9);
        assert_eq!((ten.quantile(0.0005), ten.quantile(0.5)), (0.0, 1000.0));
        assert_eq!(coin.greatest(), (1000.0, 0.5));
        assert_eq!((coin.exceeds(0.0), coin.exceeds(1000.0)), (0.5, 0.0));
    }

    #[test]
    fn of_a_million_the_rarest_counts() {
        // A part in a million: no digit of it may be lost.
        let rare = noise(&[(0.0, 1e9), (1e6, 1e3)]);
        let expected = 1e6 * -(1e6 * (-1e3f64 / (1e9 + 1e3)).ln_1p()).exp_m1();
        let mean = rare.greatest_of(1e6).mean();
        assert!((mean / expected - 1.0).abs() < 1e-9, "{mean} {expected}");
    }

    #[test]
    fn of_two_kinds_each_has_its_number() {
        let (a, b) = (
            noise(&[(0.0, 3.0), (1000.0, 1.0)]),
            noise(&[(0.0, 1.0), (5.0, 1.0)]),
        );
        let both = Noise::greatest_of_all(&[(&a, 2.0), (&b, 1.0)]);
        let a_hits = 1.0 - 0.75f64.powi(2);
        let expected = 1000.0 * a_hits + 5.0 * (1.0 - a_hits) * 0.5;
        assert!((both.mean() - expected).abs() < 1e-9, "{}", both.mean());
    }

    proptest! {
        #[test]
        fn more_ranks_never_wait_less(
            parts in prop::collection::vec((0f64..1e9, 0.001f64..1e6), 1..40),
            n in 1u32..1_000_000,
        ) {
            let one = noise(&parts);
            let total: f64 = parts.iter().map(|part| part.1).sum();
            let mean = parts.iter().map(|part| part.0 * part.1).sum::<f64>() / total;
            prop_assert!((one.mean() / mean - 1.0).abs() < 1e-6 || mean < 1e-6);
            let (few, many) = (one.greatest_of(f64::from(n)), one.greatest_of(f64::from(n) * 1.5));
            prop_assert!(few.mean() <= many.mean() * (1.0 + 1e-9));
            prop_assert!(many.mean() <= one.greatest().0 * (1.0 + 1e-9));
            for p in [0.1, 0.5, 0.99] {
                prop_assert!(few.quantile(p) <= many.quantile(p));
            }
        }
    }
}
