// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Times, as people read them on pages and terminals, and as they write them.

use std::fmt;
use std::time::Duration;

use sandbag_input::number::NS_PER_S;

/// The unit of time that suits a length: its nanoseconds and its name.
pub fn unit(ns: f64) -> (f64, &'static str) {
    match ns.abs() {
        size if size < 1e3 => (1.0, "ns"),
        size if size < 1e6 => (1e3, "us"),
        size if size < 1e9 => (1e6, "ms"),
        _ => (1e9, "s"),
    }
}

/// Nanoseconds with three digits and a unit.
pub fn time(ns: f64) -> String {
    let (by, unit) = unit(ns);
    let value = ns / by;
    let decimals = match value.abs() {
        value if value < 10.0 => 2,
        value if value < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// A slowdown or a share as it is read: three digits that count.
pub fn percent(value: f64) -> String {
    // No minus before a zero.
    let value = if value.abs() < 5e-4 { 0.0 } else { value };
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A period, ns: with more digits, for it is known better.
pub fn period(ns: f64) -> String {
    let (by, unit) = unit(ns.max(1e3));
    format!("{:.4} {unit}", ns / by)
}

/// A time in nanoseconds that prints as seconds without loss: `1.5 s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seconds(pub u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", plain_seconds(self.0))
    }
}

/// Seconds as a decimal number without loss and without trailing zeros.
pub fn plain_seconds(ns: u64) -> String {
    let (whole, part) = (ns / NS_PER_S, ns % NS_PER_S);
    if part == 0 {
        whole.to_string()
    } else {
        let text = format!("{whole}.{part:09}");
        text.trim_end_matches('0').to_owned()
    }
}

const TOO_LONG: &str = "times are counted up to 146 years";

/// A duration: `500ms`, `10s`, `1m`, `2h`, `1h 30m`; a bare number is seconds. At most 146
/// years.
pub fn duration(text: &str) -> Result<Duration, String> {
    match any_duration(text)? {
        time if time.as_nanos() > u128::from(LONGEST_NS) => Err(TOO_LONG.to_owned()),
        time => Ok(time),
    }
}

fn any_duration(text: &str) -> Result<Duration, String> {
    let below = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if text.trim().strip_prefix('-').is_some_and(below) {
        return Err(format!("{} is less than 0", text.trim()));
    }
    if let Ok(seconds) = text.trim().parse::<f64>() {
        let fault = if seconds > 0.0 {
            TOO_LONG
        } else {
            "not a duration"
        };
        return Duration::try_from_secs_f64(seconds).map_err(|_| fault.to_owned());
    }
    humantime::parse_duration(text.trim())
        .ok()
        .or_else(|| part_of_unit(text.trim()))
        .ok_or_else(|| "expected a duration such as 500ms, 10s, 1m or 2h".to_owned())
}

/// `0.3333333333h`: humantime has fractions only of whole nanoseconds.
fn part_of_unit(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    if !unit.chars().all(char::is_alphabetic) {
        return None;
    }
    let unit = humantime::parse_duration(&format!("1{unit}")).ok()?;
    let count: f64 = number.trim().parse().ok()?;
    Duration::try_from_secs_f64(count * unit.as_secs_f64()).ok()
}

pub fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("must be longer than 0".to_owned()),
        other => Ok(other),
    }
}

/// Longest time that is asked of anything, 146 years, ns: the sum of two such, or of one
/// and a clock, does not wrap.
const LONGEST_NS: u64 = u64::MAX / 4;

/// A time as it is counted, ns; one of more than 146 years is as good as 146.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).map_or(LONGEST_NS, |ns| ns.min(LONGEST_NS))
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

    #[test]
    fn percent_have_three_digits() {
        let shown = [0.01234, 1.234, 12.34, 123.4].map(percent);
        assert_eq!(shown, ["0.012", "1.23", "12.3", "123"]);
    }

    #[test]
    fn durations_are_written_with_a_unit_or_in_seconds() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1h 30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("2.5"), Ok(Duration::from_millis(2500)));
        let computed = Duration::from_nanos(8_571_428_571);
        assert_eq!(duration("8.571428571428571s"), Ok(computed));
        assert_eq!(duration("0.33333333333h").unwrap().as_secs(), 1199);
        assert!(duration("0.333333333333h 30m").is_err());
        assert!(duration("10 parsecs").is_err() && duration("-1").is_err());
        assert!(positive_duration("0s").is_err());
    }

    #[test]
    fn sums_of_the_longest_durations_do_not_wrap() {
        assert_eq!(nanos(Duration::from_millis(2500)), 2_500_000_000);
        let ns = nanos(duration("146y").unwrap());
        assert!(ns.checked_mul(3).is_some(), "{ns} ns");
        for text in ["500y", "1000y", "1e18", "1e300"] {
            assert!(duration(text).unwrap_err().contains("146 years"), "{text}");
        }
    }
}
