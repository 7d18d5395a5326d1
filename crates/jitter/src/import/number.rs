// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers as the tools write them.

pub(crate) use sandbag_input::number::{cpu_number as cpu, decimal_seconds as seconds, whole};

/// A finite number that is not negative.
pub(crate) fn decimal(text: &str) -> Option<f64> {
    let number = sandbag_input::number::decimal(text)?;
    (number.is_finite() && number >= 0.0).then_some(number)
}

/// Greater times are refused; sums of two stay within 64 bits.
pub(super) const MAX_NS: u64 = 1 << 62;

/// `value * unit_ns`, rounded; `None` above [`MAX_NS`].
pub(crate) fn ns(value: f64, unit_ns: f64) -> Option<u64> {
    let ns = (value * unit_ns).round();
    let is_possible = (0.0..MAX_NS as f64).contains(&ns);
    is_possible.then_some(ns as u64)
}

/// The two values of a row; `None` if it has more or fewer.
pub(crate) fn pair<T>(line: &str, parse: impl Fn(&str) -> Option<T>) -> Option<(T, T)> {
    let mut values = line.split_whitespace().map(parse);
    let pair = (values.next()??, values.next()??);
    values.next().is_none().then_some(pair)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_and_infinite_numbers_are_refused() {
        assert_eq!(decimal("1.5"), Some(1.5));
        for text in ["-1", "inf", "NaN", "1e999", ""] {
            assert_eq!(decimal(text), None, "{text}");
        }
    }

    #[test]
    fn a_pair_has_two_values() {
        assert_eq!(pair(" 1\t2 ", whole), Some((1, 2)));
        for text in ["", "1", "1 2 3", "1 x"] {
            assert_eq!(pair(text, whole), None, "{text}");
        }
    }
}
