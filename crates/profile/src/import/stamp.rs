// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Dates and times of day, as sysstat writes them.

use jiff::civil::{Date, Time};

use crate::Fault;
use crate::number::{NS_PER_S, decimal_seconds, whole};

const DAY_S: i64 = 86_400;

/// A stamp on a clock whose zero is 1970, and whether it is local time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EpochStamp {
    pub(super) ns: i64,
    pub(super) local: bool,
}

/// `2019-04-18`.
pub(super) fn iso_date(bytes: &[u8]) -> Option<Date> {
    std::str::from_utf8(bytes)
        .ok()?
        .parse()
        .ok()
        .filter(|_| bytes.len() == 10)
}

/// `20190418`.
pub(super) fn plain_date(bytes: &[u8]) -> Option<Date> {
    let number = whole(bytes).filter(|_| bytes.len() == 8)?;
    date(number / 10_000, number / 100 % 100, number % 100)
}

fn date(year: u64, month: u64, day: u64) -> Option<Date> {
    let (month, day) = (month.try_into().ok()?, day.try_into().ok()?);
    Date::new(year.try_into().ok()?, month, day).ok()
}

/// `21`, `Nov` and `2026`: the midnight with which that day begins, ns.
pub(super) fn named_date_ns(day: &[u8], month_name: &[u8], year: &[u8]) -> Option<i64> {
    let month = u64::try_from(month(month_name)?).ok()?;
    midnight_ns(date(whole(year)?, month, whole(day)?)?)
}

/// `Nov`, `NOV`: English names of months, 1 to 12.
pub(super) fn month(name: &[u8]) -> Option<i8> {
    const NAMES: [&[u8]; 12] = [
        b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov",
        b"dec",
    ];
    let at = NAMES.iter().position(|n| n.eq_ignore_ascii_case(name))?;
    i8::try_from(at + 1).ok()
}

/// `04/18/19` or `04/18/2019`: month, day, year.
pub(super) fn us_date(bytes: &[u8]) -> Option<Date> {
    let mut parts = bytes.split(|b| *b == b'/').map(whole);
    let (month, day, year) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() {
        return None;
    }
    // Two digits: sysstat is of 1999.
    let year = match year {
        0..=98 => year + 2000,
        99 => 1999,
        _ => year,
    };
    // A year of another calendar stands in the order of another country.
    date(year, month, day).filter(|date| date.year() <= 2200)
}

/// `13:20:19` or, in some locales, `9:20:19` as seconds since midnight; a leap second is
/// the one before.
pub(super) fn time_of_day(bytes: &[u8]) -> Option<i64> {
    let ([hour @ .., b':', m1, m2, b':', s1, s2], 7..=8) = (bytes, bytes.len()) else {
        return None;
    };
    let number = |digits: &[u8]| whole(digits).and_then(|n| i64::try_from(n).ok());
    let (h, m, s) = (number(hour)?, number(&[*m1, *m2])?, number(&[*s1, *s2])?);
    (h < 24 && m < 60 && s <= 60).then(|| h * 3600 + m * 60 + s.min(59))
}

/// A time of day by the clock of twelve hours; `half` is what stands after
/// the time. `None` if that is neither AM nor PM: then it was no such clock.
pub(super) fn by_twelve_hours(time_s: i64, half: &[u8]) -> Option<i64> {
    // 12:05:00 AM is five past midnight.
    match half {
        b"AM" => Some(time_s % (DAY_S / 2)),
        b"PM" => Some(time_s % (DAY_S / 2) + DAY_S / 2),
        _ => None,
    }
}

/// Nanoseconds from 1970 of a date's midnight, as if it were UTC.
pub(super) fn midnight_ns(date: Date) -> Option<i64> {
    let zoned = date
        .to_datetime(Time::midnight())
        .to_zoned(jiff::tz::TimeZone::UTC)
        .ok()?;
    i64::try_from(zoned.timestamp().as_nanosecond()).ok()
}

/// A clock that shows the time of day only, and the days that pass on it.
#[derive(Debug, Clone, Default)]
pub(super) struct DayClock {
    /// Days passed since the first.
    day: i64,
    /// The last time, s.
    last_s: Option<i64>,
}

impl DayClock {
    /// The time since the first midnight, ns. A step back by more than half a
    /// day is midnight, a smaller one a fault.
    pub(super) fn at(&mut self, time_s: i64) -> Result<i64, Fault> {
        if let Some(last) = self.last_s {
            if time_s < last - DAY_S / 2 {
                self.day += 1;
            } else if time_s < last {
                let clock = |s: i64| format!("{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
                return Err(Fault::TimesGoBack {
                    now: clock(time_s),
                    last: clock(last),
                    remedy: "; if the clock was set back there, cut the file into the parts \
                             before and after it",
                });
            }
        }
        self.last_s = Some(time_s);
        Ok((self.day * DAY_S + time_s).saturating_mul(NS_PER_S as i64))
    }
}

/// Date and time of day; `zone` is what stands after them.
pub(super) fn civil(date: &[u8], time: &[u8], zone: &[u8]) -> Option<EpochStamp> {
    let ns = midnight_ns(iso_date(date)?)?
        .checked_add(time_of_day(time)?.checked_mul(NS_PER_S as i64)?)?;
    // An abbreviation such as CET or IST names no zone for certain.
    let local = !matches!(zone, b"UTC" | b"GMT" | b"Z");
    Some(EpochStamp { ns, local })
}

/// The stamps of `sadf -d`: epoch seconds, or date and time with or without a
/// zone.
pub(super) fn sadf(bytes: &[u8]) -> Option<EpochStamp> {
    if let Some(ns) = epoch(bytes) {
        return Some(EpochStamp { ns, local: false });
    }
    let mut parts = bytes.split(|b| *b == b' ').filter(|p| !p.is_empty());
    let (date, time) = (parts.next()?, parts.next()?);
    civil(date, time, parts.next().unwrap_or_default()).filter(|_| parts.next().is_none())
}

/// `.25`; nothing is 0.
pub(super) fn fraction_ns(text: &[u8]) -> Option<i64> {
    match text {
        [] => Some(0),
        [b'.', ..] => decimal_seconds(text)?.try_into().ok(),
        _ => None,
    }
}

/// `17:58:53` or `17:58:53.064957`, ns since midnight.
pub(super) fn precise_time_ns(text: &[u8]) -> Option<i64> {
    let (time, fraction) = text.split_at_checked("17:58:53".len())?;
    let ns = time_of_day(time)? * NS_PER_S as i64;
    ns.checked_add(fraction_ns(fraction)?)
}

/// Seconds since 1970, or since any other moment.
pub(super) fn epoch(bytes: &[u8]) -> Option<i64> {
    decimal_seconds(bytes).and_then(|ns| i64::try_from(ns).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case("2019-04-18 13:20:19 UTC", Some((1_555_593_619, false)))]
    #[case("2019-04-18 13:20:19", Some((1_555_593_619, true)))]
    #[case("2019-04-18 13:20:19 CET", Some((1_555_593_619, true)))]
    #[case("1555593619", Some((1_555_593_619, false)))]
    #[case("2019-04-18 25:20:19 UTC", None)]
    #[case("2019-13-18 13:20:19 UTC", None)]
    #[case("2019-04-18", None)]
    #[case("", None)]
    fn stamps(#[case] text: &str, #[case] expected: Option<(i64, bool)>) {
        let got = sadf(text.as_bytes());
        assert_eq!(got.map(|s| (s.ns / 1_000_000_000, s.local)), expected);
    }

    #[test]
    fn american_dates() {
        let date = |s: &str| us_date(s.as_bytes()).map(|d| d.to_string());
        assert_eq!(date("04/18/19").as_deref(), Some("2019-04-18"));
        assert_eq!(date("11/21/2026").as_deref(), Some("2026-11-21"));
        assert_eq!(date("18/04/19"), None);
        assert_eq!(date("04/18/2562"), None);
        assert_eq!(date("04/18"), None);
        assert_eq!(plain_date(b"20190418"), us_date(b"04/18/19"));
        assert_eq!(plain_date(b"20191318"), None);
        assert_eq!(plain_date(b"2019418"), None);
    }

    #[rstest]
    #[case("09:20:19", Some(33_619))]
    #[case("9:20:19", Some(33_619))]
    #[case("009:20:19", None)]
    #[case(":20:19", None)]
    #[case("9:2:19", None)]
    fn times_of_day(#[case] text: &str, #[case] expected: Option<i64>) {
        assert_eq!(time_of_day(text.as_bytes()), expected);
    }

    proptest! {
        #[test]
        fn anything_may_stand_there(bytes: Vec<u8>, text in "[0-9:/ -]{0,24}") {
            for b in [&bytes[..], text.as_bytes()] {
                sadf(b);
                us_date(b);
                iso_date(b);
                plain_date(b);
                time_of_day(b);
            }
        }
    }
}
