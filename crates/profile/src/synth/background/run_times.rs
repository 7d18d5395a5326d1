// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long a process runs: P(run > t) = t^k for t > 1 s (Leland and Ott 1986;
//! Harchol-Balter and Downey 1997), up to a longest time.

use crate::{Fault, Result};

use crate::synth::chance::Drand48;

/// The distribution. Without a longest time it has no mean for an exponent of
/// -1 or more; those that would run longer are drawn again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunTimes {
    /// The exponent k: -1 is usual, -1.3 to -0.8 were found.
    pub exponent: f64,
    /// The longest, s.
    pub longest_s: f64,
}

/// Nearer to -1 the exponent is -1: the sums below are a logarithm there.
const IS_ONE: f64 = 1e-12;

impl RunTimes {
    /// # Errors
    /// An exponent that is not between -10 and -0.1, a longest time that is
    /// not longer than 1 s.
    pub(super) fn check(&self) -> Result<()> {
        let refused = |what, value: f64, must| Err(Fault::argument(what, value, must).into());
        if !(-10.0..=-0.1).contains(&self.exponent) {
            return refused("exponent", self.exponent, "between -10 and -0.1");
        }
        if !(self.longest_s > 1.0 && self.longest_s <= 1e9) {
            return refused(
                "longest run time",
                self.longest_s,
                "longer than 1 s, and 1000000000 s at most",
            );
        }
        Ok(())
    }

    /// A run time, s.
    pub(super) fn draw(&self, chance: &mut Drand48) -> f64 {
        let least = libm::pow(self.longest_s, self.exponent);
        let above = least + (1.0 - least) * (1.0 - chance.uniform());
        libm::pow(above, 1.0 / self.exponent)
    }

    /// The run time of a process that is found running: the longer, the
    /// likelier it is to be met.
    pub(super) fn draw_met(&self, chance: &mut Drand48) -> f64 {
        let u = chance.uniform();
        let beta = 1.0 + self.exponent;
        if beta.abs() < IS_ONE {
            return libm::pow(self.longest_s, u);
        }
        let whole = libm::expm1(beta * libm::log(self.longest_s));
        libm::exp(libm::log1p(u * whole) / beta)
    }

    /// Mean run time, s.
    pub fn mean_s(&self) -> f64 {
        let beta = 1.0 + self.exponent;
        let ln = libm::log(self.longest_s);
        let integral = if beta.abs() < IS_ONE {
            ln
        } else {
            libm::expm1(beta * ln) / beta
        };
        -self.exponent * integral / (1.0 - libm::pow(self.longest_s, self.exponent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 100_000;

    fn all() -> impl Iterator<Item = RunTimes> {
        [-1.3, -1.0 - 1e-9, -1.0, -0.8]
            .into_iter()
            .flat_map(|exponent| {
                [20.0, 3600.0].map(|longest_s| RunTimes {
                    exponent,
                    longest_s,
                })
            })
    }

    #[test]
    fn so_many_run_longer() {
        for runs in all() {
            let mut chance = Drand48::new(3);
            let drawn: Vec<f64> = (0..DRAWS).map(|_| runs.draw(&mut chance)).collect();
            assert!(drawn.iter().all(|t| (1.0..=runs.longest_s).contains(t)));
            for t in [1.1, 1.5, 2.0, 5.0, 10.0, 19.0] {
                let end = runs.longest_s.powf(runs.exponent);
                let expected = (f64::powf(t, runs.exponent) - end) / (1.0 - end);
                let longer = drawn.iter().filter(|run| **run > t).count() as f64 / DRAWS as f64;
                // Four standard deviations of a share.
                let within = 4.0 * (expected * (1.0 - expected) / DRAWS as f64).sqrt();
                assert!(
                    (longer - expected).abs() < within,
                    "{runs:?} {t}: {longer} {expected}"
                );
            }
        }
    }

    #[test]
    fn the_mean_is_the_integral() {
        for runs in all() {
            let mut chance = Drand48::new(5);
            let drawn: Vec<f64> = (0..DRAWS).map(|_| runs.draw(&mut chance)).collect();
            let n = DRAWS as f64;
            let mean = drawn.iter().sum::<f64>() / n;
            let variance = drawn.iter().map(|t| (t - mean).powi(2)).sum::<f64>() / n;
            let within = 4.0 * (variance / n).sqrt();
            assert!(
                (mean - runs.mean_s()).abs() < within,
                "{runs:?}: {mean} {}",
                runs.mean_s()
            );
        }
    }

    #[test]
    fn who_is_met_runs_longer() {
        for runs in all() {
            // A process is met with a probability in proportion to its length:
            // the mean of 1/t over those met is 1 over the mean.
            let mut chance = Drand48::new(7);
            let sum: f64 = (0..DRAWS).map(|_| 1.0 / runs.draw_met(&mut chance)).sum();
            let inverse = DRAWS as f64 / sum;
            assert!(
                (inverse / runs.mean_s() - 1.0).abs() < 0.03,
                "{runs:?}: {inverse}"
            );
        }
    }
}
