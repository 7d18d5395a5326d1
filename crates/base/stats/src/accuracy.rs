// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Statistics of the error over many windows, in constant memory.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Width of a bin of the error distribution, in points.
pub const BIN_POINTS: f64 = 0.01;

/// Accumulates errors one by one (Welford's method) and keeps their
/// distribution in bins of [`BIN_POINTS`], so a day costs no more memory than
/// a minute.
#[derive(Debug, Clone, Default)]
pub struct Accuracy {
    count: u64,
    mean: f64,
    squares: f64,
    sum_abs: f64,
    worst: f64,
    bins: BTreeMap<i32, u64>,
}

/// The error over a set of windows; all but `windows` in points.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ErrorStats {
    pub windows: u64,
    /// Mean of got minus asked.
    pub mean_points: f64,
    /// Mean of the absolute error.
    pub mean_abs_points: f64,
    /// Standard deviation of the error (n - 1).
    pub sd_points: f64,
    /// The error of largest magnitude, with its sign.
    pub worst_points: f64,
    /// 95 % of the absolute errors are at most this (to one bin).
    pub p95_abs_points: f64,
    /// 99 % of the absolute errors are at most this (to one bin).
    pub p99_abs_points: f64,
}

impl Accuracy {
    /// Adds one error, in points. Not-a-number is ignored: a window without
    /// delivered time has no error.
    pub fn add(&mut self, error_points: f64) {
        if error_points.is_nan() {
            return;
        }
        self.count += 1;
        let delta = error_points - self.mean;
        self.mean += delta / self.count as f64;
        self.squares += delta * (error_points - self.mean);
        self.sum_abs += error_points.abs();
        if error_points.abs() > self.worst.abs() {
            self.worst = error_points;
        }
        let bin = (error_points / BIN_POINTS).round() as i32;
        *self.bins.entry(bin).or_insert(0) += 1;
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Share of the errors whose magnitude is at most `limit_points`, 0 to 1;
    /// 1 when there are none. Exact to half a bin.
    pub fn share_within(&self, limit_points: f64) -> f64 {
        if self.count == 0 {
            return 1.0;
        }
        let limit = (limit_points / BIN_POINTS).round() as i32;
        let inside: u64 = self.bins.range(-limit..=limit).map(|(_, n)| n).sum();
        inside as f64 / self.count as f64
    }

    /// Smallest magnitude that `share` (0 to 1) of the errors do not exceed.
    pub fn abs_quantile(&self, share: f64) -> f64 {
        let mut magnitudes = BTreeMap::<u32, u64>::new();
        for (bin, n) in &self.bins {
            *magnitudes.entry(bin.unsigned_abs()).or_insert(0) += n;
        }
        let wanted = (share * self.count as f64).ceil() as u64;
        let mut seen = 0;
        for (bin, n) in magnitudes {
            seen += n;
            if seen >= wanted {
                return f64::from(bin) * BIN_POINTS;
            }
        }
        0.0
    }

    /// The distribution as (error in points, windows), ascending.
    pub fn distribution(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        self.bins
            .iter()
            .map(|(b, n)| (f64::from(*b) * BIN_POINTS, *n))
    }

    /// The summary so far; `None` before the first error.
    pub fn stats(&self) -> Option<ErrorStats> {
        (self.count > 0).then(|| ErrorStats {
            windows: self.count,
            mean_points: self.mean,
            mean_abs_points: self.sum_abs / self.count as f64,
            sd_points: if self.count > 1 {
                (self.squares / (self.count - 1) as f64).sqrt()
            } else {
                0.0
            },
            worst_points: self.worst,
            p95_abs_points: self.abs_quantile(0.95),
            p99_abs_points: self.abs_quantile(0.99),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_added_says_nothing() {
        assert_eq!(Accuracy::default().stats(), None);
    }

    #[test]
    fn worst_keeps_its_sign() {
        let mut a = Accuracy::default();
        for e in [0.1, -0.7, 0.3] {
            a.add(e);
        }
        let s = a.stats().unwrap();
        assert!((s.worst_points + 0.7).abs() < 1e-12);
        assert!((s.mean_abs_points - 1.1 / 3.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn agrees_with_the_definitions(errors in prop::collection::vec(-20.0f64..20.0, 2..200)) {
            let mut a = Accuracy::default();
            errors.iter().for_each(|e| a.add(*e));
            let n = errors.len() as f64;
            let mean = errors.iter().sum::<f64>() / n;
            let sd = (errors.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
            let s = a.stats().unwrap();
            prop_assert!((s.mean_points - mean).abs() < 1e-9);
            prop_assert!((s.sd_points - sd).abs() < 1e-9);
            prop_assert!(s.p95_abs_points <= s.p99_abs_points);
            prop_assert!(s.p99_abs_points <= s.worst_points.abs() + BIN_POINTS);
            prop_assert!((a.share_within(30.0) - 1.0).abs() < 1e-12);
        }
    }
}
