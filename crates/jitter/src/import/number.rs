// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers as the tools write them.

/// Nothing above the kernel's own limits is believed.
const MAX_CPU: u32 = 65_535;

/// An unsigned whole number, digits only.
pub(crate) fn whole(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// A number that is not negative.
pub(crate) fn decimal(text: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number)
}

/// A CPU number.
pub(crate) fn cpu(text: &str) -> Option<u32> {
    let number = whole(text).and_then(|n| u32::try_from(n).ok());
    number.filter(|n| *n <= MAX_CPU)
}

/// Decimal seconds, exact to the nanosecond; digits beyond the ninth are cut
/// off.
pub(crate) fn seconds(text: &str) -> Option<u64> {
    let (whole_s, part) = text.split_once('.').unwrap_or((text, ""));
    if whole_s.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let ns = format!("{:0<9.9}", part);
    whole(whole_s)?
        .checked_mul(1_000_000_000)?
        .checked_add(whole(&ns)?)
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
    fn seconds_are_exact() {
        for (text, ns) in [
            ("5789.857529929", Some(5_789_857_529_929)),
            ("1", Some(1_000_000_000)),
            ("0.5", Some(500_000_000)),
            ("1.0000000019", Some(1_000_000_001)),
            ("-1", None),
            ("", None),
            (".5", None),
            ("1.x", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(seconds(text), ns, "{text}");
        }
    }

    #[test]
    fn nothing_negative_or_infinite_is_a_number() {
        assert_eq!(decimal("1.5"), Some(1.5));
        for text in ["-1", "inf", "NaN", "1e999", ""] {
            assert_eq!(decimal(text), None, "{text}");
        }
        assert_eq!(whole("+1"), None);
        assert_eq!(cpu("65536"), None);
    }
}
