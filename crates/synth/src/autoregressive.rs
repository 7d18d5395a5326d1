// SPDX-License-Identifier: Apache-2.0 OR MIT
//! AR(p): each value a weighted sum of the last p and of something new.

use sandbag_profile::{BoxSteps, Fault, Result};

use crate::chance::Drand48;
use crate::sampled::{Source, sampled};

/// The process, around its mean.
#[derive(Debug, Clone, PartialEq)]
pub struct Autoregressive {
    /// Mean load, percent.
    pub mean_pct: f64,
    /// Standard deviation of what is new in each step, points.
    pub noise_points: f64,
    /// Weights of the last values, the latest first.
    pub weights: Vec<f64>,
    /// Correlation between what is new on two CPUs, 0 to 1.
    pub correlation: f64,
    /// Of the generator.
    pub seed: u32,
}

/// Steps before the first, in which the process forgets where it began, unless
/// it forgets very slowly.
const FORGOTTEN: usize = 10_000;

/// Values beyond 0 to 100 are cut off, and their number is said.
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
    let refused = |what, value: String, must| Err(Fault::Argument { what, value, must }.into());
    if !(0.0..=1.0).contains(&model.correlation) {
        return refused(
            "correlation",
            model.correlation.to_string(),
            "between 0 and 1",
        );
    }
    if !(model.noise_points >= 0.0 && model.noise_points.is_finite()) {
        return refused("noise", model.noise_points.to_string(), "0 or more");
    }
    if !is_stable(&model.weights) {
        return refused(
            "weights",
            format!("{:?}", model.weights),
            "such that the process stays around its mean",
        );
    }
    let mut process = Process {
        past: vec![vec![0.0; model.weights.len()]; cpus.len()],
        chance: Drand48::new(model.seed),
        model,
    };
    let mut loads = vec![0.0; cpus.len()];
    for _ in 0..FORGOTTEN {
        process.loads(0.0, &mut loads);
    }
    sampled(process, cpus, step_ns, length_ns)
}

/// Whether the process stays around its mean: all partial autocorrelations,
/// from the last weight down (Levinson and Durbin), are below 1.
fn is_stable(weights: &[f64]) -> bool {
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

struct Process {
    model: Autoregressive,
    chance: Drand48,
    /// Per CPU the last deviations from the mean, the latest first.
    past: Vec<Vec<f64>>,
}

impl Source for Process {
    fn loads(&mut self, _middle_s: f64, loads: &mut [f64]) {
        let model = &self.model;
        let shared = libm::sqrt(model.correlation) * self.chance.normal();
        let own = libm::sqrt(1.0 - model.correlation);
        for (past, load) in self.past.iter_mut().zip(loads) {
            let new = model.noise_points * (shared + own * self.chance.normal());
            let value = new
                + model
                    .weights
                    .iter()
                    .zip(&*past)
                    .map(|(w, x)| w * x)
                    .sum::<f64>();
            remember(past, value);
            *load = model.mean_pct + value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbag_profile::{NS_PER_S, Profile};

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
