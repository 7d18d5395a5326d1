// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers as the tools write them.

pub(crate) use sandbag_input::number::{cpu_number as cpu, decimal_seconds as seconds, whole};

/// A number that is not negative.
pub(crate) fn decimal(text: &str) -> Option<f64> {
    let number = sandbag_input::number::decimal(text)?;
    (number.is_finite() && number >= 0.0).then_some(number)
}

/// Nanoseconds of a number in some unit, rounded; `None` beyond what is
/// believed.
pub(crate) fn ns(value: f64, unit_ns: f64) -> Option<u64> {
    let ns = (value * unit_ns).round();
    (0.0..super::MAX_NS as f64)
        .contains(&ns)
        .then_some(ns as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_negative_or_infinite_is_a_number() {
        assert_eq!(decimal("1.5"), Some(1.5));
        for text in ["-1", "inf", "NaN", "1e999", ""] {
            assert_eq!(decimal(text), None, "{text}");
        }
    }
}
