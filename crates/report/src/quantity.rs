// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Short times, as people read them, on pages and terminals.

/// Nanoseconds with three digits and a unit.
#[must_use]
pub fn time(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        size if size < 1e3 => (ns, "ns"),
        size if size < 1e6 => (ns / 1e3, "us"),
        size if size < 1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    let decimals = match value.abs() {
        value if value < 10.0 => 2,
        value if value < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// A period, ns: with more digits, for it is known better.
#[must_use]
pub fn period(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e6 => (ns / 1e3, "us"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    format!("{value:.4} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_a_unit() {
        for (ns, text) in [
            (12.3, "12.3 ns"),
            (1_234.0, "1.23 us"),
            (-1_234.0, "-1.23 us"),
            (123_456.0, "123 us"),
            (4e6, "4.00 ms"),
            (2.5e9, "2.50 s"),
        ] {
            assert_eq!(time(ns), text);
        }
    }

    #[test]
    fn periods_have_more_digits() {
        assert_eq!(period(4e6), "4.0000 ms");
        assert_eq!(period(12_345.0), "12.3450 us");
    }
}
