// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How numbers are written: with as many digits as say something.

use crate::answer::Ratio;

/// Smaller numbers have an exponent.
const LEAST_PLAIN: f64 = 1e-6;
/// Decimals of a ratio, at most, for its digits and for its distance from 1.
const MOST_DECIMALS: usize = 12;
const MOST_FROM_1: usize = 9;

/// A number with `digits` significant digits, or as a whole number with more.
pub fn significant(value: f64, digits: i32) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    let places = |count: i32| usize::try_from(count).unwrap_or(0);
    if size < LEAST_PLAIN {
        return format!("{value:.*e}", places(digits - 1));
    }
    let power = size.log10().floor() as i32;
    format!("{value:.*}", places((digits - 1).saturating_sub(power)))
}

/// Five digits, without zeros at their end.
pub fn number(value: f64) -> String {
    let text = significant(value, 5);
    let (digits, exponent) = text.split_at(text.find('e').unwrap_or(text.len()));
    if digits.contains('.') {
        let digits = digits.trim_end_matches('0').trim_end_matches('.');
        format!("{digits}{exponent}")
    } else {
        text
    }
}

/// Decimals of a ratio and its interval, `least` or more: two digits of the ratio, and as many as
/// show that an interval does not contain 1.
pub fn ratio_decimals(ratio: &Ratio, least: usize) -> usize {
    let power = ratio.ratio.log10().floor() as i32;
    let for_digits = usize::try_from(1_i32.saturating_sub(power)).unwrap_or(0);
    let decimals = for_digits.clamp(least, MOST_DECIMALS);
    let nearest = match ratio.interval() {
        Some((low, _)) if low > 1.0 => low,
        Some((_, high)) if high < 1.0 => high,
        _ => return decimals,
    };
    let written = |value: f64, decimals: usize| format!("{value:.decimals$}");
    let is_seen = |decimals: &usize| written(nearest, *decimals) != written(1.0, *decimals);
    (decimals..=MOST_FROM_1).find(is_seen).unwrap_or(decimals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_they_need() {
        let shown = [0.0, 1.0, 0.012_345_67, 12.5, 123_456.7, 2.54e-8, -3e-7].map(number);
        assert_eq!(
            shown,
            ["0", "1", "0.012346", "12.5", "123457", "2.54e-8", "-3e-7"]
        );
        let shown = [20.5, 1234.4, 1.234_567e-6, 2.54e-8].map(|value| significant(value, 4));
        assert_eq!(shown, ["20.50", "1234", "0.000001235", "2.540e-8"]);
    }

    #[test]
    fn a_ratio_that_is_another_than_1_is_not_written_as_1() {
        let decimals =
            |low: f64, ratio: f64, high: f64| ratio_decimals(&Ratio::new(5, ratio, low, high), 2);
        assert_eq!(decimals(1.9, 2.0, 2.1), 2);
        assert_eq!(decimals(0.98, 1.0, 1.03), 2);
        assert_eq!(decimals(1.002, 1.004, 1.006), 3);
        assert_eq!(decimals(0.9990, 0.9993, 0.9996), 4);
        // Of rounding.
        assert_eq!(decimals(1.0 + 1e-15, 1.0 + 1e-15, 1.0 + 1e-15), 2);
        assert_eq!(decimals(0.003, 0.004, 0.005), 4);
    }
}
