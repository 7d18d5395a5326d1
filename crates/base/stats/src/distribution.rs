// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The normal and Student's t distribution. The functions of `libm` give the same
//! bits on every machine.

use std::f64::consts::{FRAC_1_SQRT_2, PI, TAU};

/// Probability that a standard normal variable is at most `z`.
#[must_use]
pub fn normal_cdf(z: f64) -> f64 {
    0.5 * libm::erfc(-z * FRAC_1_SQRT_2)
}

/// The value that a standard normal variable does not exceed with probability `p`;
/// infinite at 0 and 1.
#[must_use]
pub fn normal_quantile(p: f64) -> f64 {
    if p > 0.5 {
        // Exact enough below 1: the differences of `f64` there are 1e-16.
        return -normal_quantile(1.0 - p);
    }
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    // Abramowitz and Stegun 26.2.23, to 4.5e-4; then Halley's method.
    let t = libm::sqrt(-2.0 * libm::log(p));
    let above = (0.010_328 * t + 0.802_853) * t + 2.515_517;
    let below = ((0.001_308 * t + 0.189_269) * t + 1.432_788) * t + 1.0;
    let mut z = above / below - t;
    for _ in 0..3 {
        let density = libm::exp(-0.5 * z * z) / libm::sqrt(TAU);
        let step = (normal_cdf(z) - p) / density;
        z -= step / (1.0 + 0.5 * z * step);
    }
    z
}

/// Half-width of the two-sided interval that holds Student's t with probability
/// `p`, 0 to 1 (excluded).
#[must_use]
pub fn student_half_width(p: f64, freedom: u32) -> f64 {
    let n = f64::from(freedom.max(1));
    let log_scale = libm::lgamma((n + 1.0) / 2.0) - libm::lgamma(n / 2.0) - 0.5 * libm::log(n * PI);
    let density = |t: f64| libm::exp(log_scale - (n + 1.0) / 2.0 * libm::log1p(t * t / n));
    // The probability is concave in t: Newton's method from below never overshoots.
    let mut t = 0.0;
    for _ in 0..200 {
        let step = (p - student_within(t, freedom)) / (2.0 * density(t));
        t += step;
        if step <= 1e-13 * t {
            break;
        }
    }
    t
}

/// Probability that |t| is at most `t` (Abramowitz and Stegun 26.7.3 and 26.7.4).
fn student_within(t: f64, freedom: u32) -> f64 {
    let angle = libm::atan(t / libm::sqrt(f64::from(freedom.max(1))));
    let (sin, cos) = (libm::sin(angle), libm::cos(angle));
    let is_odd = freedom % 2 == 1;
    let mut term = if is_odd { cos } else { 1.0 };
    let mut sum = 0.0;
    for k in (2 + u32::from(is_odd)..=freedom).step_by(2) {
        sum += term;
        term *= cos * cos * f64::from(k - 1) / f64::from(k);
    }
    if is_odd {
        2.0 / PI * (angle + sin * sum)
    } else {
        sin * sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_distribution_is_the_tabulated_one() {
        for (z, p) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746_068_542_9),
            (-3.0, 1.349_898_031_630_093_3e-3),
            (-6.0, 9.865_876_450_376_98e-10),
        ] {
            assert!((normal_cdf(z) / p - 1.0).abs() < 1e-12, "{z}");
        }
        for (p, z) in [
            (0.5, 0.0),
            (0.9, 1.281_551_565_544_600_4),
            (0.975, 1.959_963_984_540_054),
            (0.995, 2.575_829_303_548_900_4),
            (0.001, -3.090_232_306_167_813),
            (1e-10, -6.361_340_902_404_056),
            (1e-300, -37.047_096_299_361_2),
        ] {
            assert!((normal_quantile(p) - z).abs() < 1e-11, "{p}");
        }
        assert_eq!(normal_quantile(0.0), f64::NEG_INFINITY);
        assert_eq!(normal_quantile(1.0), f64::INFINITY);
    }

    #[test]
    fn students_t_is_the_tabulated_one() {
        for (freedom, t) in [
            (1, 12.706_204_736_174_7),
            (2, 4.302_652_729_749_46),
            (3, 3.182_446_305_283_71),
            (5, 2.570_581_835_636_31),
            (10, 2.228_138_851_986_27),
            (30, 2.042_272_456_301_24),
            (100, 1.983_971_518_523_55),
        ] {
            let found = student_half_width(0.95, freedom);
            assert!((found - t).abs() < 1e-10, "{freedom}: {found}");
        }
        let many = student_half_width(0.95, 1_000_000);
        assert!((many - normal_quantile(0.975)).abs() < 1e-5);
    }
}
