// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Statistics of a profile: standard deviation, distribution, autocorrelation,
//! and the correlation of the CPUs.
//!
//! Everything is collected in one pass over equal steps, in memory that does
//! not depend on the length of the profile. It grows with the number of CPUs;
//! with that of their pairs only up to [`MOST_CORRELATED`] of them.

use std::collections::VecDeque;

use crate::{BoxSteps, Result, Steps, algebra};

/// Distances at which a CPU is compared with itself, steps.
pub const LAGS: [usize; 7] = [1, 2, 5, 10, 30, 60, 300];
/// Parts of the time below a load, percent.
pub const QUANTILES_PCT: [f64; 5] = [5.0, 25.0, 50.0, 75.0, 95.0];
/// Of more CPUs than this no pairs are compared: there are too many.
pub const MOST_CORRELATED: usize = 256;
/// Bins of the distribution, a tenth of a point each; 100 % has its own.
const BINS: usize = 1001;

/// Statistics of a profile in equal steps.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileStatistics {
    /// Length of a step.
    pub step_ns: u64,
    /// How many there were.
    pub steps: u64,
    /// In the order of the header.
    pub cpus: Vec<CpuStatistics>,
    /// Pearson's coefficient between two CPUs, by their places in `cpus`: row
    /// `i` has those with the CPUs up to `i`, itself included; `None` where one
    /// of them does not vary. Empty with more than [`MOST_CORRELATED`] CPUs.
    pub correlation: Vec<Vec<Option<f64>>>,
}

/// Statistics of one CPU over the steps in which its load is known.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuStatistics {
    pub cpu: u32,
    /// Steps with a known load.
    pub known: u64,
    /// Mean load, percent; `None` if it is never known, as the next ones.
    pub mean_pct: Option<f64>,
    /// Standard deviation, points.
    pub sd_points: Option<f64>,
    /// The loads below which the CPU was for [`QUANTILES_PCT`] of the time,
    /// to a tenth of a point.
    pub quantiles_pct: Option<[f64; QUANTILES_PCT.len()]>,
    /// In how many steps the load was 0, 0.1, 0.2 ... 100 %, rounded to a tenth
    /// of a point; empty if it is never known.
    pub tenths: Vec<u64>,
    /// Autocorrelation at each of [`LAGS`]; `None` beyond the length, or where
    /// the load does not vary.
    pub autocorrelation: [Option<f64>; LAGS.len()],
}

/// Collects them over pieces of `step_ns` (time-weighted means). A last one
/// that is shorter than half of that is left out, unless it is the only one.
///
/// # Errors
/// The stream's, or a step of length 0.
pub fn statistics(steps: BoxSteps, step_ns: u64) -> Result<ProfileStatistics> {
    let mut steps = algebra::resample(steps, step_ns)?;
    let cpus = steps.header().cpus.clone();
    let mut series: Vec<CpuMoments> = cpus.iter().map(|_| CpuMoments::default()).collect();
    // By rows of a triangle: each CPU with those before it.
    let compared = match cpus.len() {
        few if few <= MOST_CORRELATED => few,
        _ => 0,
    };
    let mut pairs: Vec<Vec<Products>> = (0..compared)
        .map(|i| vec![Products::default(); i])
        .collect();
    let mut count = 0;
    while let Some(step) = steps.next_step()? {
        if count > 0 && step.length_ns() < step_ns.div_ceil(2) {
            break;
        }
        count += 1;
        let loads: Vec<Option<f64>> = step.cells.iter().map(|c| c.map(|c| c.load_pct)).collect();
        for (i, load) in loads.iter().enumerate() {
            series[i].add(*load);
        }
        for (row, load) in pairs.iter_mut().zip(&loads) {
            for (products, other) in row.iter_mut().zip(&loads) {
                if let Some((x, y)) = load.zip(*other) {
                    products.add(x, y);
                }
            }
        }
    }
    let correlation = pairs.iter().zip(&series).map(|(row, series)| {
        let itself = series.all.varies().then_some(1.0);
        row.iter()
            .map(Products::correlation)
            .chain([itself])
            .collect()
    });
    let correlation = correlation.collect();
    Ok(ProfileStatistics {
        step_ns,
        steps: count,
        cpus: cpus
            .iter()
            .zip(series)
            .map(|(cpu, series)| series.figures(*cpu))
            .collect(),
        correlation,
    })
}

/// Sums over pairs of values.
#[derive(Debug, Clone, Copy, Default)]
struct Products {
    count: f64,
    x: f64,
    y: f64,
    xx: f64,
    yy: f64,
    xy: f64,
}

impl Products {
    fn add(&mut self, x: f64, y: f64) {
        // About the middle of the scale, so that sums of squares keep their
        // digits where a load hardly varies.
        let (x, y) = (x - 50.0, y - 50.0);
        self.count += 1.0;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.yy += y * y;
        self.xy += x * y;
    }

    fn variances(&self) -> (f64, f64) {
        let (mx, my) = (self.x / self.count, self.y / self.count);
        (
            (self.xx / self.count - mx * mx).max(0.0),
            (self.yy / self.count - my * my).max(0.0),
        )
    }

    fn varies(&self) -> bool {
        let (x, y) = self.variances();
        // Rounding of the sums is far below a ten-thousandth of a point.
        self.count >= 2.0 && x.min(y) > 1e-8
    }

    fn correlation(&self) -> Option<f64> {
        let (x, y) = self.variances();
        let covariance = self.xy / self.count - self.x / self.count * (self.y / self.count);
        self.varies()
            .then(|| (covariance / (x * y).sqrt()).clamp(-1.0, 1.0))
    }
}

#[derive(Debug, Default)]
struct CpuMoments {
    /// The last values, the latest first.
    last: VecDeque<Option<f64>>,
    all: Products,
    lags: [Products; LAGS.len()],
    bins: Vec<u64>,
}

impl CpuMoments {
    fn add(&mut self, load: Option<f64>) {
        if let Some(load) = load {
            self.all.add(load, load);
            self.bins.resize(BINS, 0);
            let bin = (load * 10.0).round() as usize;
            self.bins[bin.min(BINS - 1)] += 1;
            for (lag, products) in LAGS.iter().zip(&mut self.lags) {
                if let Some(Some(before)) = self.last.get(lag - 1) {
                    products.add(load, *before);
                }
            }
        }
        self.last.push_front(load);
        self.last.truncate(LAGS[LAGS.len() - 1]);
    }

    fn figures(self, cpu: u32) -> CpuStatistics {
        let any = (self.all.count > 0.0).then_some(());
        let quantile = |part_pct: f64| {
            let wanted = (self.all.count * part_pct / 100.0).ceil().max(1.0);
            let mut below = 0.0;
            let bin = self.bins.iter().position(|n| {
                below += *n as f64;
                below >= wanted
            });
            bin.unwrap_or(0) as f64 / 10.0
        };
        CpuStatistics {
            cpu,
            known: self.all.count as u64,
            mean_pct: any.map(|()| 50.0 + self.all.x / self.all.count),
            sd_points: any.map(|()| self.all.variances().0.sqrt()),
            quantiles_pct: any.map(|()| QUANTILES_PCT.map(quantile)),
            tenths: self.bins,
            autocorrelation: self.lags.map(|products| products.correlation()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{any_profile, profile};
    use proptest::prelude::*;

    const STEP: u64 = 10;

    #[test]
    fn two_cpus_in_opposite_phase() {
        let steps: Vec<(u64, [Option<f64>; 3])> = (0..200)
            .map(|i| {
                let high = i % 2 == 0;
                let (a, b) = if high { (80.0, 20.0) } else { (20.0, 80.0) };
                ((i + 1) * STEP, [Some(a), Some(b), Some(7.0)])
            })
            .collect();
        let steps: Vec<(u64, &[Option<f64>])> = steps.iter().map(|(e, c)| (*e, &c[..])).collect();
        let p = profile(&[0, 1, 4], &steps);
        let s = statistics(p.into_steps(), STEP).unwrap();
        assert_eq!(s.steps, 200);
        let first = &s.cpus[0];
        assert_eq!(first.mean_pct, Some(50.0));
        assert!((first.sd_points.unwrap() - 30.0).abs() < 1e-9);
        assert_eq!(first.quantiles_pct, Some([20.0, 20.0, 20.0, 80.0, 80.0]));
        assert_eq!((first.tenths[200], first.tenths[800]), (100, 100));
        assert!((first.autocorrelation[0].unwrap() + 1.0).abs() < 1e-9);
        assert!((first.autocorrelation[1].unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(first.autocorrelation[6], None);
        assert!((s.correlation[1][0].unwrap() + 1.0).abs() < 1e-9);
        // Constant: no correlation with anything, itself included.
        assert_eq!(s.correlation[2], [None, None, None]);
        assert_eq!(s.cpus[2].autocorrelation[0], None);
    }

    #[test]
    fn a_sliver_at_the_end_is_no_piece() {
        let of = |ends: &[u64]| {
            let steps: Vec<(u64, &[Option<f64>])> =
                ends.iter().map(|end| (*end, &[Some(50.0)][..])).collect();
            let p = profile(&[0], &steps);
            statistics(p.into_steps(), STEP).unwrap().steps
        };
        assert_eq!(of(&[10, 20]), 2);
        assert_eq!(of(&[10, 20, 24]), 2);
        assert_eq!(of(&[10, 20, 25]), 3);
        assert_eq!(of(&[4]), 1);
    }

    #[test]
    fn of_many_cpus_no_pairs_are_compared() {
        for (count, rows) in [(MOST_CORRELATED, MOST_CORRELATED), (1 + MOST_CORRELATED, 0)] {
            let cpus: Vec<u32> = (0..count as u32).collect();
            let high = vec![Some(80.0); count];
            let low = vec![Some(20.0); count];
            let p = profile(&cpus, &[(10, &high), (20, &low), (30, &high)]);
            let s = statistics(p.into_steps(), STEP).unwrap();
            assert_eq!((s.cpus.len(), s.correlation.len()), (count, rows));
            for (i, row) in s.correlation.iter().enumerate() {
                assert_eq!(row.len(), i + 1);
                assert!(row.iter().all(|r| r.is_some_and(|r| r > 0.999)), "{row:?}");
            }
        }
    }

    #[test]
    fn what_is_never_known_has_no_figures() {
        let p = profile(&[0], &[(10, &[None])]);
        let s = statistics(p.into_steps(), STEP).unwrap();
        assert_eq!(s.cpus[0].known, 0);
        assert_eq!(s.cpus[0].mean_pct, None);
    }

    proptest! {
        #[test]
        fn figures_stay_in_their_ranges(p in any_profile()) {
            let s = statistics(p.into_steps(), 7).unwrap();
            for (cpu, row) in s.cpus.iter().zip(&s.correlation) {
                prop_assert!(cpu.mean_pct.is_none_or(|m| (0.0..=100.0).contains(&m)));
                prop_assert!(cpu.sd_points.is_none_or(|sd| (0.0..=50.001).contains(&sd)));
                let all = cpu.autocorrelation.iter().chain(row).flatten();
                for r in all {
                    prop_assert!((-1.0..=1.0).contains(r));
                }
            }
        }
    }
}
