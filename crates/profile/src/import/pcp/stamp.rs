// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Dates, times and zones as PCP's tools write them.

use super::super::stamp::{self, epoch, fraction_ns};
use super::super::zone::zone_ns;

/// A time on the wall, as if it were UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WallTime {
    pub(super) ns: i64,
    /// How far that wall is ahead of UTC, where that stands beside it.
    pub(super) ahead_ns: Option<i64>,
}

const TO_SECONDS: usize = "2026-11-21 17:58:53".len();
const DATE: usize = "2026-11-21".len();

/// A stamp of pmrep or pcp2json: `2026-11-21 17:58:53`, with a T, a fraction or a zone if a format was
/// asked for, or epoch seconds.
pub(super) fn read(text: &[u8]) -> Option<WallTime> {
    if let Some(ns) = epoch(text) {
        return Some(WallTime {
            ns,
            ahead_ns: Some(0),
        });
    }
    let (civil, rest) = text.split_at_checked(TO_SECONDS)?;
    let (date, time) = civil.split_at(DATE);
    let time = match time {
        [b' ' | b'T', time @ ..] => time,
        _ => return None,
    };
    let ns = stamp::civil(date, time, b"")?.ns;
    let digits = rest.iter().skip(1).take_while(|b| b.is_ascii_digit());
    let (fraction, zone) = match rest {
        [b'.', ..] => rest.split_at(1 + digits.count()),
        _ => rest.split_at(0),
    };
    let zone = zone.trim_ascii();
    let is_zone = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b':');
    zone.iter().all(is_zone).then_some(WallTime {
        ns: ns.checked_add(fraction_ns(fraction)?)?,
        ahead_ns: zone_ns(zone),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::NS_PER_S;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case("2016-05-19 09:24:07", Some((1_463_649_847, None)))]
    #[case("2016-05-19T09:24:07", Some((1_463_649_847, None)))]
    #[case("2016-05-19 09:24:07.25", Some((1_463_649_847, None)))]
    #[case("2016-05-19 09:24:07 UTC+10", Some((1_463_649_847, Some(36_000))))]
    #[case("2016-05-19T09:24:07.250000+0530", Some((1_463_649_847, Some(19_800))))]
    #[case("2016-05-19 09:24:07 AEST", Some((1_463_649_847, None)))]
    #[case("1463649847.5", Some((1_463_649_847, Some(0))))]
    #[case("2016-05-19 09:24:07,1,2", None)]
    #[case("09:24:07", None)]
    #[case("2016-05-19_09:24:07", None)]
    #[case("2016-05-19 25:24:07", None)]
    #[case("", None)]
    fn stamps(#[case] text: &str, #[case] expected: Option<(i64, Option<i64>)>) {
        let s = |ns: i64| ns / NS_PER_S as i64;
        let got = read(text.as_bytes());
        assert_eq!(got.map(|t| (s(t.ns), t.ahead_ns.map(s))), expected);
    }

    #[test]
    fn fractions_are_kept() {
        let got = read(b"2016-05-19 09:24:07.123456789");
        assert_eq!(got.unwrap().ns, 1_463_649_847_123_456_789);
        assert_eq!(stamp::precise_time_ns(b"00:00:01.25"), Some(1_250_000_000));
        assert_eq!(stamp::precise_time_ns(b"00:00:01,25"), None);
        let day = stamp::named_date_ns(b"19", b"May", b"2016");
        assert_eq!(day, Some(1_463_616_000_000_000_000));
        assert_eq!(stamp::named_date_ns(b"19", b"Mai", b"2016"), None);
    }

    proptest! {
        #[test]
        fn anything_may_stand_there(bytes: Vec<u8>, text in "[0-9]{4}-[01][0-9]-[0-3][0-9][ T][0-9:]{0,9}[UTC+:.0-9-]{0,12}") {
            for b in [&bytes[..], text.as_bytes()] {
                read(b);
                stamp::precise_time_ns(b);
                stamp::named_date_ns(b, b, b);
            }
        }
    }
}
