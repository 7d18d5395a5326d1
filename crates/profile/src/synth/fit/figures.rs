// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a profile is like, all CPUs together, and how far two profiles are
//! from each other.

use crate::statistics::{LAGS, ProfileStatistics, QUANTILES_PCT, statistics};
use crate::{BoxSteps, Result, algebra};

use super::levels::{Times, times};
use super::yule_walker::Pairs;

/// Of all CPUs together.
#[derive(Debug, Clone, PartialEq)]
pub struct FitFigures {
    /// Length of a step.
    pub step_ns: u64,
    /// Mean load, percent.
    pub mean_pct: f64,
    /// Of each CPU, percent; `None` where it is never known.
    pub means_pct: Vec<Option<f64>>,
    /// Standard deviation of a CPU around its own mean, points.
    pub sd_points: f64,
    /// Loads below which the CPUs were for [`QUANTILES_PCT`] of the time.
    pub quantiles_pct: [f64; QUANTILES_PCT.len()],
    /// Of a CPU at each of [`LAGS`], as far as the profile is four times as
    /// long: beyond that there is nothing to see but chance.
    pub autocorrelation: [Option<f64>; LAGS.len()],
    /// Of two CPUs; `None` for one, and for more than
    /// [`MOST_CORRELATED`](crate::statistics::MOST_CORRELATED).
    pub correlation: Option<Pairs>,
    /// How long it is above and below a threshold.
    pub times: Option<Times>,
    /// Share of the time with a load up to 0, 0.1, 0.2 ... 100 %.
    distribution: Vec<f64>,
}

/// Collects them in pieces of `step_ns`; the profile is opened twice. `None`
/// where no load is known.
///
/// # Errors
/// The streams', or a step of length 0.
pub fn figures(
    open: &dyn Fn() -> Result<BoxSteps>,
    step_ns: u64,
    threshold_pct: f64,
) -> Result<Option<FitFigures>> {
    let statistics = statistics(open()?, step_ns)?;
    let times = times(algebra::resample(open()?, step_ns)?, threshold_pct)?;
    Ok(pool(&statistics, times))
}

fn pool(statistics: &ProfileStatistics, times: Option<Times>) -> Option<FitFigures> {
    let cpus = &statistics.cpus;
    let known: u64 = cpus.iter().map(|cpu| cpu.known).sum();
    if known == 0 {
        return None;
    }
    let mean_of = |of: &dyn Fn(usize) -> Option<f64>| {
        let sum = (0..cpus.len()).filter_map(|i| Some(of(i)? * cpus[i].known as f64));
        sum.sum::<f64>() / known as f64
    };
    let variance = |i: usize| cpus[i].sd_points.map(|sd| sd * sd);
    let mut distribution = vec![0.0; cpus.iter().map(|cpu| cpu.tenths.len()).max()?];
    for cpu in cpus {
        for (sum, count) in distribution.iter_mut().zip(&cpu.tenths) {
            *sum += *count as f64 / known as f64;
        }
    }
    let mut below = 0.0;
    for share in &mut distribution {
        below += *share;
        *share = below;
    }
    let quantile = |part_pct: f64| {
        // Half a step short, so that sums of shares may be a little less.
        let wanted = part_pct / 100.0 - 0.5 / known as f64;
        let tenth = distribution.iter().position(|share| *share >= wanted);
        tenth.unwrap_or(0) as f64 / 10.0
    };
    let autocorrelation = std::array::from_fn(|lag| {
        // Each CPU as heavy as it varies.
        let (mut sum, mut weights) = (0.0, 0.0);
        for (i, cpu) in cpus.iter().enumerate() {
            if let Some((r, variance)) = cpu.autocorrelation[lag].zip(variance(i)) {
                sum += r * variance * cpu.known as f64;
                weights += variance * cpu.known as f64;
            }
        }
        let long_enough = LAGS[lag] as u64 * 4 <= statistics.steps;
        (long_enough && weights > 0.0).then(|| sum / weights)
    });
    let rows = statistics.correlation.iter().enumerate();
    let pairs = rows.flat_map(|(i, row)| row[..i].iter().copied().flatten());
    Some(FitFigures {
        step_ns: statistics.step_ns,
        mean_pct: mean_of(&|i| cpus[i].mean_pct),
        means_pct: cpus.iter().map(|cpu| cpu.mean_pct).collect(),
        sd_points: libm::sqrt(mean_of(&variance)),
        quantiles_pct: QUANTILES_PCT.map(quantile),
        autocorrelation,
        correlation: Pairs::of(pairs),
        times,
        distribution,
    })
}

/// How far a model is from a recording.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Distance {
    /// By how much a quantile is off in the mean of all quantiles, points (the
    /// area between both distributions, Wasserstein's distance).
    pub distribution_points: f64,
    /// The greatest difference between both distributions, 0 to 1 (Kolmogorov
    /// and Smirnov). It tells nothing of how far apart the loads are: two
    /// levels beside noise around them differ by a half.
    pub ks: f64,
    /// Root mean square of the differences of the autocorrelation; `None`
    /// where the recording is too short for any.
    pub autocorrelation: Option<f64>,
    /// What models are judged by, the less the better: the distance of the
    /// distributions in standard deviations of the recording, and that of the
    /// autocorrelations.
    pub sum: f64,
}

impl Distance {
    /// Of a model from a recording.
    pub fn of(model: &FitFigures, recording: &FitFigures) -> Self {
        let pairs = model.distribution.iter().zip(&recording.distribution);
        let off = pairs.map(|(a, b)| (a - b).abs());
        let (mut area, mut ks) = (0.0, 0.0);
        for off in off {
            area += off / 10.0;
            ks = f64::max(ks, off);
        }
        let lags = model.autocorrelation.iter().zip(&recording.autocorrelation);
        let (mut count, mut squares) = (0.0, 0.0);
        for (a, b) in lags {
            if let Some((a, b)) = a.zip(*b) {
                count += 1.0;
                squares += (a - b) * (a - b);
            }
        }
        let autocorrelation = (count > 0.0).then(|| libm::sqrt(squares / count));
        Self {
            distribution_points: area,
            ks,
            autocorrelation,
            sum: area / recording.sd_points.max(1e-9) + autocorrelation.unwrap_or(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NS_PER_S;
    use crate::synth::{Autoregressive, autoregressive, piecewise};

    const S: u64 = NS_PER_S;

    #[test]
    fn figures_of_two_levels() {
        let pieces: Vec<(f64, u64)> = (0..200)
            .map(|i| (if i % 4 == 0 { 80.0 } else { 20.0 }, S))
            .collect();
        let open = || Ok(piecewise(&pieces, &[0, 1]));
        let f = figures(&open, S, 50.0).unwrap().unwrap();
        assert!((f.mean_pct - 35.0).abs() < 1e-9);
        assert!((f.sd_points - (60.0f64 * 60.0 * 0.25 * 0.75).sqrt()).abs() < 1e-9);
        assert_eq!(f.quantiles_pct, [20.0, 20.0, 20.0, 20.0, 80.0]);
        let times = f.times.unwrap();
        assert!((times.on_s - 1.0).abs() < 0.03 && (times.off_s - 3.0).abs() < 0.1);
        assert!((f.correlation.unwrap().mean - 1.0).abs() < 1e-9);
        // The lag of 60 is a fourth of 240 at least.
        assert!(f.autocorrelation[4].is_some() && f.autocorrelation[5].is_none());
        let same = Distance::of(&f, &f);
        assert_eq!(
            (same.distribution_points, same.ks, same.sum),
            (0.0, 0.0, 0.0)
        );
    }

    #[test]
    fn ten_points_further_is_ten_points_off() {
        let of = |mean_pct| {
            let model = Autoregressive {
                mean_pct,
                noise_points: 5.0,
                weights: vec![0.5],
                correlation: 0.0,
                seed: 1,
            };
            let open = || autoregressive(model.clone(), &[0], S, 2000 * S);
            figures(&open, S, 50.0).unwrap().unwrap()
        };
        let distance = Distance::of(&of(60.0), &of(50.0));
        assert!((distance.distribution_points - 10.0).abs() < 1e-6);
        assert!(distance.autocorrelation.unwrap() < 1e-6);
        assert!(distance.ks > 0.5);
    }
}
