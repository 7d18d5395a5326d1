// SPDX-License-Identifier: Apache-2.0 OR MIT
//! AR(p): each value a weighted sum of the last p and of something new.

use clap::Args;
use sandbag_ui::units;

use crate::{BoxSteps, Fault, Result};

use crate::synth::chance::Drand48;
use crate::synth::sampling::{LoadSource, sample_steps};

/// The process, around its mean.
#[derive(Debug, Clone, PartialEq, Args)]
#[group(skip)]
pub struct Autoregressive {
    /// In the mean, percent
    #[arg(long = "mean", value_name = "MEAN", default_value = "50", value_parser = units::load)]
    pub mean_pct: f64,
    /// Weights of the last values, the latest first
    #[arg(
        long,
        default_value = "0.9",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub weights: Vec<f64>,
    /// Standard deviation of what is new in each step, points
    #[arg(long = "noise", value_name = "NOISE", default_value_t = 5.0)]
    pub noise_points: f64,
    /// Correlation of what is new between CPUs, 0 to 1
    #[arg(long, default_value_t = 0.0)]
    pub correlation: f64,
    /// Another number makes another profile of the same kind
    #[arg(long, default_value_t = 1)]
    pub seed: u32,
}

/// Values beyond 0 to 100 are clipped and counted.
///
/// # Errors
/// A correlation beyond 0 to 1, weights with which the process leaves its mean
/// for good, a step or length of 0.
pub fn autoregressive(
    model: Autoregressive,
    cpus: &[u32],
    step_ns: u64,
    length_ns: u64,
) -> Result<BoxSteps> {
    let process = ArProcess {
        mean_pct: model.mean_pct,
        deviations: Deviations::new(
            model.noise_points,
            model.weights,
            model.correlation,
            model.seed,
            cpus.len(),
        )?,
    };
    sample_steps(process, cpus, step_ns, length_ns)
}

struct ArProcess {
    mean_pct: f64,
    deviations: Deviations,
}

impl LoadSource for ArProcess {
    fn loads(&mut self, _: f64, _: f64, loads: &mut [f64]) {
        for (load, deviation) in loads.iter_mut().zip(self.deviations.next()) {
            *load = self.mean_pct + deviation;
        }
    }
}

/// Steps before the first, in which the process forgets where it began, unless
/// it forgets very slowly.
const FORGOTTEN: usize = 10_000;

/// The process around 0, on several CPUs.
pub(crate) struct Deviations {
    /// Standard deviation of what is new.
    noise: f64,
    weights: Vec<f64>,
    correlation: f64,
    chance: Drand48,
    /// Per CPU the last values, the latest first.
    past: Vec<Vec<f64>>,
    now: Vec<f64>,
}

impl Deviations {
    /// # Errors
    /// Noise below 0, a correlation beyond 0 to 1, weights with which the
    /// process leaves its mean for good.
    pub(crate) fn new(
        noise: f64,
        weights: Vec<f64>,
        correlation: f64,
        seed: u32,
        cpus: usize,
    ) -> Result<Self> {
        let refused = |what, value: String, must| Err(Fault::argument(what, value, must).into());
        if !(0.0..=1.0).contains(&correlation) {
            return refused("correlation", correlation.to_string(), "between 0 and 1");
        }
        if !(noise >= 0.0 && noise.is_finite()) {
            return refused("noise", noise.to_string(), "0 or more");
        }
        if !is_stable(&weights) {
            return refused(
                "weights",
                format!("{weights:?}"),
                "such that the process stays around its mean",
            );
        }
        let mut process = Self {
            past: vec![vec![0.0; weights.len()]; cpus],
            now: vec![0.0; cpus],
            chance: Drand48::new(seed),
            noise,
            weights,
            correlation,
        };
        for _ in 0..FORGOTTEN {
            process.next();
        }
        Ok(process)
    }

    /// The next value of each CPU.
    pub(crate) fn next(&mut self) -> &[f64] {
        let shared = libm::sqrt(self.correlation) * self.chance.normal();
        let own = libm::sqrt(1.0 - self.correlation);
        for (past, now) in self.past.iter_mut().zip(&mut self.now) {
            let new = self.noise * (shared + own * self.chance.normal());
            let remembered = self.weights.iter().zip(&*past).map(|(w, x)| w * x);
            *now = new + remembered.sum::<f64>();
            remember(past, *now);
        }
        &self.now
    }
}

/// Whether the process stays around its mean: all partial autocorrelations,
/// from the last weight down (Levinson and Durbin), are below 1.
pub(crate) fn is_stable(weights: &[f64]) -> bool {
    /// Closer to 1 it forgets in more than a million steps.
    const LEAST_DAMPING: f64 = 1e-6;
    let mut weights = weights.to_vec();
    while let Some(last) = weights.pop() {
        // So that NaN is none, too.
        let damped = last.abs() < 1.0 - LEAST_DAMPING;
        if !damped {
            return false;
        }
        let n = weights.len();
        weights = (0..n)
            .map(|i| (weights[i] + last * weights[n - 1 - i]) / (1.0 - last * last))
            .collect();
    }
    true
}

/// Puts the latest value first and forgets the oldest; white noise remembers
/// nothing.
fn remember(past: &mut [f64], value: f64) {
    if let Some(last) = past.len().checked_sub(1) {
        past.copy_within(..last, 1);
        past[0] = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NS_PER_S, Profile};

    fn model() -> Autoregressive {
        Autoregressive {
            mean_pct: 50.0,
            noise_points: 4.0,
            weights: vec![0.8],
            correlation: 0.6,
            seed: 1,
        }
    }

    fn correlation(a: &[f64], b: &[f64]) -> f64 {
        let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
        let (ma, mb) = (mean(a), mean(b));
        let product = |x: &[f64], mx: f64, y: &[f64], my: f64| -> f64 {
            x.iter().zip(y).map(|(x, y)| (x - mx) * (y - my)).sum()
        };
        product(a, ma, b, mb) / (product(a, ma, a, ma) * product(b, mb, b, mb)).sqrt()
    }

    #[test]
    fn correlations_are_those_asked_for() {
        let steps = autoregressive(model(), &[0, 1], NS_PER_S, 50_000 * NS_PER_S).unwrap();
        let profile = Profile::collect(steps).unwrap();
        let of = |cpu: usize| -> Vec<f64> {
            profile
                .steps
                .iter()
                .map(|s| s.cells[cpu].unwrap().load_pct)
                .collect()
        };
        let (a, b) = (of(0), of(1));
        assert!((correlation(&a[1..], &a[..a.len() - 1]) - 0.8).abs() < 0.02);
        assert!((correlation(&a, &b) - 0.6).abs() < 0.03);
        let mean = a.iter().sum::<f64>() / a.len() as f64;
        assert!((mean - 50.0).abs() < 0.6, "{mean}");
    }

    #[test]
    fn what_runs_away_is_refused() {
        for weights in [
            vec![1.0],
            vec![1.2],
            vec![0.5, 0.6],
            vec![0.25; 4],
            vec![f64::NAN],
            vec![0.1, f64::INFINITY],
        ] {
            let model = Autoregressive { weights, ..model() };
            assert!(
                autoregressive(model.clone(), &[0], 1, 1).is_err(),
                "{model:?}"
            );
        }
        for weights in [
            vec![],
            vec![0.99995],
            vec![0.5, 0.4],
            vec![-0.9],
            vec![0.24; 4],
        ] {
            let model = Autoregressive { weights, ..model() };
            assert!(
                autoregressive(model.clone(), &[0], 1, 1).is_ok(),
                "{model:?}"
            );
        }
    }
}
