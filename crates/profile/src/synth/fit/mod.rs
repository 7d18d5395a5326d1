// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Models fitted to a recorded profile, all its CPUs together, and how like the
//! recording they are.

mod figures;
mod levels;
mod recording;
mod yule_walker;

pub use figures::{Distance, FitFigures, figures};
pub use levels::{Levels, Times, times, two_levels};
pub use recording::before_recording;
pub use yule_walker::{FittedAr, Pairs, fit_ar};

use crate::synth::autoregressive::is_stable;
use crate::synth::{Autoregressive, OnOff};

/// Rounds to `decimals`, as parameters are written on a command line.
fn round_to(value: f64, decimals: i32) -> f64 {
    let unit = libm::pow(10.0, f64::from(decimals));
    // -0 is 0, and is to be written so.
    libm::round(value * unit) / unit + 0.0
}

impl FittedAr {
    /// The model that makes such profiles, its parameters rounded so that they
    /// can be written down: points to a hundredth, weights to five decimals.
    ///
    /// A negative correlation cannot be had of one factor that is common to
    /// all CPUs; there it is 0.
    pub fn model(&self, seed: u32) -> Autoregressive {
        let mut weights = self.weights.clone();
        let mut damping = 1.0;
        let written = loop {
            let written: Vec<f64> = weights.iter().map(|w| round_to(*w, 5)).collect();
            if is_stable(&written) {
                break written;
            }
            // Rounding has made it run away: it forgets a little faster.
            damping *= 0.999;
            let mut factor = 1.0;
            for (weight, fitted) in weights.iter_mut().zip(&self.weights) {
                factor *= damping;
                *weight = fitted * factor;
            }
        };
        Autoregressive {
            mean_pct: round_to(self.mean_pct, 2),
            noise_points: round_to(self.noise_points, 3),
            weights: written,
            correlation: round_to(self.correlation.map_or(0.0, |c| c.mean.clamp(0.0, 1.0)), 3),
            seed,
        }
    }
}

/// The on/off model of levels and times, rounded so that it can be written
/// down: points to a hundredth, times to the millisecond.
pub fn on_off_model(levels: &Levels, times: &Times, seed: u32) -> OnOff {
    let time_s = |s: f64| round_to(s, 3).max(0.001);
    OnOff {
        on_pct: round_to(levels.on_pct, 2),
        off_pct: round_to(levels.off_pct, 2),
        on_s: time_s(times.on_s),
        off_s: time_s(times.off_s),
        seed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::{autoregressive, on_off};
    use crate::{NS_PER_S, Result};

    const S: u64 = NS_PER_S;

    /// The distance of both models from a profile: on/off, AR.
    fn distances(open: &dyn Fn() -> Result<crate::BoxSteps>) -> (Distance, Distance) {
        let levels = two_levels(open().unwrap()).unwrap().unwrap();
        let times = times(open().unwrap(), levels.threshold_pct)
            .unwrap()
            .unwrap();
        let of = |open: &dyn Fn() -> Result<crate::BoxSteps>| {
            figures(open, S, levels.threshold_pct).unwrap().unwrap()
        };
        let recording = of(open);
        let chain = on_off_model(&levels, &times, 2);
        let ar = fit_ar(open, S).unwrap().unwrap().model(2);
        let chain = of(&|| on_off(chain, &[0, 1], 20_000 * S));
        let ar = of(&|| autoregressive(ar.clone(), &[0, 1], S, 20_000 * S));
        (
            Distance::of(&chain, &recording),
            Distance::of(&ar, &recording),
        )
    }

    #[test]
    fn each_profile_is_nearest_to_its_own_model() {
        let (chain, ar) = distances(&|| {
            let model = OnOff {
                on_pct: 80.0,
                off_pct: 10.0,
                on_s: 8.0,
                off_s: 12.0,
                seed: 1,
            };
            on_off(model, &[0, 1], 20_000 * S)
        });
        assert!(
            chain.sum < 0.1 && ar.sum > 2.0 * chain.sum,
            "{chain:?} {ar:?}"
        );
        let (chain, ar) = distances(&|| {
            let model = Autoregressive {
                mean_pct: 40.0,
                noise_points: 5.0,
                weights: vec![0.8],
                correlation: 0.5,
                seed: 1,
            };
            autoregressive(model, &[0, 1], S, 20_000 * S)
        });
        assert!(ar.sum < 0.1 && chain.sum > 2.0 * ar.sum, "{chain:?} {ar:?}");
    }

    #[test]
    fn what_is_written_down_is_a_model() {
        let fit = |weights: Vec<f64>, correlation| FittedAr {
            mean_pct: 12.3456,
            noise_points: 0.123_456,
            weights,
            correlation: Some(Pairs {
                mean: correlation,
                least: -0.9,
                most: 0.9,
            }),
        };
        let model = fit(vec![0.123_456_7, -0.000_000_1], -0.3).model(1);
        assert_eq!(model.weights, [0.12346, 0.0]);
        assert!(model.weights[1].is_sign_positive());
        assert_eq!((model.mean_pct, model.noise_points), (12.35, 0.123));
        assert_eq!(model.correlation, 0.0);
        for weights in [vec![0.999_998], vec![1.999_99, -0.999_995]] {
            assert!(is_stable(&fit(weights, 0.0).model(1).weights));
        }
    }
}
