// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Noise that is rarer than the trace is long: a generalised Pareto distribution of the excess
//! over a threshold (Pickands 1975), fitted by probability-weighted moments (Hosking and Wallis
//! 1987).
//!
//! It is an extrapolation: it assumes that the tail continues as it began. A trace whose longest
//! event is bounded (a tick, a daemon with a bounded job) does not.

use serde::Serialize;

use super::noise::Noise;

/// The rarest part of the noise, which is fitted.
pub const SHARE: f64 = 0.01;
/// Greatest shape: beyond it the mean is unreliable and the moments have no variance.
const MOST_SHAPE: f64 = 0.9;

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Tail {
    /// Threshold, ns.
    pub above_ns: f64,
    /// Probability of more than the threshold.
    pub share: f64,
    /// Below 0 the tail ends, above it is heavy.
    pub shape: f64,
    /// Scale, ns.
    pub scale_ns: f64,
}

impl Tail {
    /// Fits the greatest part `share` of the noise; `None` if it has fewer than three values.
    pub fn fit(noise: &Noise, share: f64) -> Option<Self> {
        let above_ns = noise.quantile(1.0 - share);
        let share = noise.exceeds(above_ns);
        let mut before = share;
        let (mut a0, mut a1, mut values) = (0.0, 0.0, 0);
        for (value, mass) in noise.masses().filter(|(value, _)| *value > above_ns) {
            if mass <= 0.0 {
                continue;
            }
            let after = (before - mass).max(0.0);
            a0 += mass * (value - above_ns);
            a1 += mass * (value - above_ns) * (before + after) / 2.0;
            before = after;
            values += 1;
        }
        if values < 3 || share <= 0.0 {
            return None;
        }
        let (a0, a1) = (a0 / share, a1 / (share * share));
        let apart = a0 - 2.0 * a1;
        if apart <= 0.0 {
            return None;
        }
        let shape = (2.0 - a0 / apart).min(MOST_SHAPE);
        // The mean of the excess is kept where the shape is bounded.
        let scale_ns = if shape < MOST_SHAPE {
            2.0 * a0 * a1 / apart
        } else {
            a0 * (1.0 - shape)
        };
        Some(Self {
            above_ns,
            share,
            shape,
            scale_ns,
        })
    }

    /// Mean of the greatest of `n`, ns; below the threshold as recorded.
    pub fn greatest_of(&self, noise: &Noise, n: f64) -> f64 {
        let greatest = noise.greatest_of(n);
        let below: f64 = greatest
            .masses()
            .filter(|(value, _)| *value <= self.above_ns)
            .map(|(value, mass)| mass * value)
            .sum();
        let reaches = greatest.exceeds(self.above_ns);
        // The integral of 1 - F^n above the threshold, over t = -ln of the
        // probability within the tail.
        const STEPS: usize = 4000;
        let end = (n * self.share).max(1.0).ln() + 40.0;
        let step = end / STEPS as f64;
        // The integral of exp(shape t) over a step from 0: a tail that ends soon lies within one.
        let width = if (self.shape * step).abs() < 1e-9 {
            step
        } else {
            (self.shape * step).exp_m1() / self.shape
        };
        let excess: f64 = (0..STEPS)
            .map(|i| {
                let from = i as f64 * step;
                let middle = from + step / 2.0;
                let exceeds = -(n * (-self.share * (-middle).exp()).ln_1p()).exp_m1();
                exceeds * self.scale_ns * (self.shape * from).exp() * width
            })
            .sum();
        below + reaches * self.above_ns + excess
    }
}

#[cfg(test)]
mod tests {
    use super::super::noise::Grid;
    use super::*;
    use crate::chance::Chance;

    fn noise(values: &[f64]) -> Noise {
        let grid = Grid::new(512.0);
        let (mut weight, mut moment) = (vec![0.0; grid.cells()], vec![0.0; grid.cells()]);
        for value in values {
            let cell = grid.cell(*value);
            weight[cell] += 1.0;
            moment[cell] += value;
        }
        Noise::of_cells(&grid, &weight, &moment)
    }

    #[test]
    fn an_exponential_tail_goes_on() {
        let mut chance = Chance::new(5, 0);
        let values: Vec<f64> = (0..200_000).map(|_| -1e5 * chance.uniform().ln()).collect();
        let noise = noise(&values);
        let tail = Tail::fit(&noise, SHARE).unwrap();
        assert!(tail.shape.abs() < 0.1, "{tail:?}");
        assert!((tail.scale_ns / 1e5 - 1.0).abs() < 0.1, "{tail:?}");
        // The greatest of n exponentials: the harmonic number of n.
        let harmonic = 1e7f64.ln() + 0.577_215_66;
        let found = tail.greatest_of(&noise, 1e7) / 1e5;
        assert!((found / harmonic - 1.0).abs() < 0.15, "{found} {harmonic}");
        // Where the trace is long enough, it is the recorded noise.
        let (a, b) = (
            tail.greatest_of(&noise, 100.0),
            noise.greatest_of(100.0).mean(),
        );
        assert!((a / b - 1.0).abs() < 0.01, "{a} {b}");
    }

    #[test]
    fn a_tail_that_ends_soon_is_reached() {
        let mut values = vec![0.0; 990];
        values.extend([1e5; 10]);
        let tail = Tail {
            above_ns: 1e4,
            share: 0.01,
            shape: -474.0,
            scale_ns: 474.0 * 9e4,
        };
        let found = tail.greatest_of(&noise(&values), 1e6);
        assert!((found / 1e5 - 1.0).abs() < 0.01, "{found}");
    }

    #[test]
    fn a_tail_of_one_value_is_none() {
        let mut values = vec![0.0; 1000];
        values.extend([5e5; 20]);
        assert_eq!(Tail::fit(&noise(&values), SHARE), None);
        assert_eq!(Tail::fit(&noise(&[0.0; 10]), SHARE), None);
    }
}
