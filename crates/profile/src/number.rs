// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers and times as the formats write them.

use crate::Fault;

pub use sandbag_input::number::NS_PER_S;
pub(crate) use sandbag_input::number::{
    MAX_CPU, cpu_number, decimal, decimal_seconds, unquoted, whole,
};

/// A time as a person writes it: seconds (`90`, `0.1`) or with units
/// (`100ms`, `1.5h`, `1m 30s`).
pub(crate) fn time(bytes: &[u8]) -> Option<u64> {
    let bytes = bytes.trim_ascii();
    decimal_seconds(bytes).or_else(|| {
        let text = std::str::from_utf8(bytes).ok()?;
        // Without a unit it was either read above or is malformed; a leading
        // P would be an ISO 8601 period, which is not supported.
        if !text.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return None;
        }
        let duration: jiff::SignedDuration = text.parse().ok()?;
        u64::try_from(duration.as_nanos()).ok()
    })
}

/// The number of a CPU that must stand there.
pub(crate) fn cpu_field(field: &[u8]) -> Result<u32, Fault> {
    cpu_number(field).ok_or_else(|| Fault::syntax("the number of a CPU", field))
}

/// A percentage with or without its sign, 0 to 100.
///
/// `what` names it in the message and is only called for one.
pub(crate) fn percent(bytes: &[u8], what: impl Fn() -> String) -> Result<f64, Fault> {
    let value = any_percent(bytes, &what)?;
    if (0.0..=100.0).contains(&value) {
        return Ok(value);
    }
    let found = String::from_utf8_lossy(bytes.trim_ascii());
    Err(Fault::out_of_range(what(), found))
}

/// The same with any number, since tools print some that cannot be.
pub(crate) fn any_percent(bytes: &[u8], what: impl Fn() -> String) -> Result<f64, Fault> {
    let bytes = bytes.trim_ascii();
    let number = bytes.strip_suffix(b"%").unwrap_or(bytes).trim_ascii_end();
    match decimal(number) {
        // -0 becomes 0.
        Some(value) if !value.is_nan() => Ok(value + 0.0),
        Some(_) => Err(Fault::out_of_range(what(), String::from_utf8_lossy(bytes))),
        None if number.contains(&b',') => Err(Fault::DecimalComma {
            value: String::from_utf8_lossy(bytes).into_owned(),
            remedy: "write it with a point; a tool's output: run the tool with LC_ALL=C",
        }),
        None => Err(Fault::syntax(format!("a number for {}", what()), bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;
    use sandbag_ui::quantity::plain_seconds;

    #[rstest]
    #[case("0", Some(0))]
    #[case("90", Some(90 * NS_PER_S))]
    #[case("0.1", Some(NS_PER_S / 10))]
    #[case(".5", Some(NS_PER_S / 2))]
    #[case("1.", Some(NS_PER_S))]
    #[case("0.1234567891", Some(123_456_789))]
    #[case("100ms", Some(NS_PER_S / 10))]
    #[case("1.5h", Some(5400 * NS_PER_S))]
    #[case("1m 30s", Some(90 * NS_PER_S))]
    #[case("2min", Some(120 * NS_PER_S))]
    #[case("-1", None)]
    #[case("-1s", None)]
    #[case("", None)]
    #[case(".", None)]
    #[case("1e3", None)]
    #[case("PT1H", None)]
    #[case("NaN", None)]
    #[case("99999999999999999999", None)]
    fn times(#[case] text: &str, #[case] ns: Option<u64>) {
        assert_eq!(time(text.as_bytes()), ns);
    }

    #[rstest]
    #[case("50", 50.0)]
    #[case("50%", 50.0)]
    #[case(" 12.5 % ", 12.5)]
    #[case("0", 0.0)]
    #[case("1e1", 10.0)]
    #[case("-0", 0.0)]
    fn percentages(#[case] text: &str, #[case] value: f64) {
        let got = percent(text.as_bytes(), String::new).unwrap();
        assert_eq!((got, got.is_sign_negative()), (value, false));
    }

    #[rstest]
    #[case("-0.1")]
    #[case("100.1")]
    #[case("NaN")]
    #[case("inf")]
    fn rejects(#[case] text: &str) {
        assert!(matches!(
            percent(text.as_bytes(), String::new),
            Err(Fault::OutOfRange { .. })
        ));
    }

    proptest! {
        #[test]
        fn decimals_are_those_of_the_standard_library(text in "[0-9]{0,18}(\\.[0-9]{0,18})?") {
            prop_assert_eq!(decimal(text.as_bytes()), text.parse::<f64>().ok());
        }

        #[test]
        fn seconds_survive_printing(ns: u64) {
            prop_assert_eq!(decimal_seconds(plain_seconds(ns).as_bytes()), Some(ns));
        }

        #[test]
        fn anything_may_stand_there(bytes: Vec<u8>) {
            time(&bytes);
            percent(&bytes, String::new).ok();
        }
    }
}
