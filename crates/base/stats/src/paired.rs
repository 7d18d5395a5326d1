// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ratios of paired, interleaved runs.
//!
//! The speed of a shared machine drifts by a quarter within minutes, so two
//! programs are compared pair by pair (A B A B ...), never mean against mean.
//! The interval is that of the mean of the logarithms (Student's t), which
//! is symmetric in a ratio and its inverse.

use serde::{Deserialize, Serialize};

use crate::mean::error_of_mean;

/// Ratio A/B over pairs, with a 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PairedRatio {
    pub pairs: usize,
    /// Geometric mean of the ratios.
    pub ratio: f64,
    /// Lower end of the 95 % interval; equals `ratio` for one pair.
    pub low: f64,
    /// Upper end of the 95 % interval.
    pub high: f64,
}

/// The ratio of `a` to `b`, pair by pair. `None` without pairs, or when a
/// value is not positive (a ratio of it means nothing).
pub fn paired_ratio(a: &[f64], b: &[f64]) -> Option<PairedRatio> {
    // The quotient of two negative values is positive, but they have no logarithm.
    let logs: Vec<f64> = a.iter().zip(b).map(|(a, b)| a.ln() - b.ln()).collect();
    if logs.is_empty() || logs.iter().any(|l| !l.is_finite()) {
        return None;
    }
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let half = error_of_mean(logs.iter().copied()).unwrap_or(0.0);
    Some(PairedRatio {
        pairs: logs.len(),
        ratio: mean.exp(),
        low: (mean - half).exp(),
        high: (mean + half).exp(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drift_common_to_both_cancels() {
        let b: Vec<f64> = (1..=10).map(f64::from).collect();
        let a: Vec<f64> = b.iter().map(|x| 2.0 * x).collect();
        let r = paired_ratio(&a, &b).unwrap();
        assert!((r.ratio - 2.0).abs() < 1e-12 && (r.high - r.low) < 1e-9);
    }

    #[test]
    fn the_interval_is_students() {
        // Logarithms -1, 0, 1: mean 0, sd 1, t(0.975, 2) = 4.3027.
        let a = [(-1.0f64).exp(), 1.0, 1.0f64.exp()];
        let r = paired_ratio(&a, &[1.0; 3]).unwrap();
        assert!((r.high.ln() - 4.302_652_7 / 3.0f64.sqrt()).abs() < 1e-4);
    }

    #[test]
    fn nothing_to_compare() {
        assert!(paired_ratio(&[], &[]).is_none());
        assert!(paired_ratio(&[0.0], &[1.0]).is_none());
        assert!(paired_ratio(&[3.0, -2.0], &[1.0, -1.0]).is_none());
    }
}
