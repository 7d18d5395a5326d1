// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How high a mean of powers comes by chance. The power of events at random
//! times is exponentially distributed with mean 1; the mean of `k` of them is
//! a gamma variate of shape `k`, divided by `k`.

/// Natural logarithm of the probability that the sum of `k` powers is above
/// `x`: `exp(-x) sum_{i<k} x^i / i!`.
pub(super) fn ln_beyond(k: u32, x: f64) -> f64 {
    let (mut ln_term, mut largest) = (0.0f64, 0.0f64);
    let mut terms = vec![0.0];
    for i in 1..k {
        ln_term += (x / f64::from(i)).ln();
        largest = largest.max(ln_term);
        terms.push(ln_term);
    }
    let sum: f64 = terms.iter().map(|term| (term - largest).exp()).sum();
    largest + sum.ln() - x
}

/// The mean of `k` powers is above this with probability `p`.
pub(super) fn threshold(k: u32, p: f64) -> f64 {
    let k = k.max(1);
    let (mut low, mut high) = (f64::from(k), f64::from(k) + 1000.0 + 50.0 * f64::from(k));
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if ln_beyond(k, middle) > p.ln() {
            low = middle
        } else {
            high = middle
        }
    }
    high / f64::from(k)
}

/// The median of the mean of `k` powers (Wilson and Hilferty 1931).
pub(super) fn median(k: u32) -> f64 {
    match k {
        0 | 1 => std::f64::consts::LN_2,
        k => (1.0 - 1.0 / (9.0 * f64::from(k))).powi(3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_power_is_exponential() {
        assert!((threshold(1, 1e-9) - 1e9f64.ln()).abs() < 1e-6);
        assert!((ln_beyond(1, 3.0) + 3.0).abs() < 1e-12);
    }

    #[test]
    fn means_of_many_come_close_to_1() {
        // Gamma of shape 10: 18.78 / 10 and 15.71 / 10 are its quantiles of
        // 99 and 95 % (tables of chi squared with 20 degrees of freedom).
        assert!((threshold(10, 0.01) - 1.878).abs() < 1e-3);
        assert!((threshold(10, 0.05) - 1.571).abs() < 1e-3);
        assert!(threshold(1000, 1e-9) < 1.25);
        assert!((median(10) - 0.9669).abs() < 1e-3);
    }
}
