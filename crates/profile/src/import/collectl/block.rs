// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The block of comments with which files of collectl begin.

use crate::number::{NS_PER_S, decimal_seconds, whole};
use crate::{Fault, Format};
use sandbag_input::head::{Head, words};

use super::super::counters::USER_HZ;
use super::super::host::Host;
use super::super::stamp;
use super::super::zone::zone_ns;

#[derive(Debug)]
pub(super) struct Block {
    pub(super) host: Host,
    /// Ticks per second.
    pub(super) hertz: u64,
    /// Local time less UTC, as far as it is known.
    pub(super) offset_ns: Option<i64>,
    /// Between two samples.
    pub(super) interval_ns: Option<i64>,
}

impl Default for Block {
    fn default() -> Self {
        Self {
            host: Host::default(),
            hertz: USER_HZ,
            offset_ns: None,
            interval_ns: None,
        }
    }
}

impl Block {
    /// Takes what one comment says; most say nothing of use.
    pub(super) fn take(&mut self, format: Format, comment: &[u8]) -> Result<(), Fault> {
        let mut fields = words(comment);
        if fields.next() != Some(b"#") {
            return Ok(());
        }
        match fields.next() {
            Some(b"Host:") => {
                self.host.is(fields.next().unwrap_or_default())?;
            }
            Some(b"Date:") => {
                if let Some(offset_ns) = offset_ns(comment) {
                    self.offset_ns = Some(offset_ns);
                }
            }
            Some(b"SubSys:") => {
                self.interval_ns = comment_value(comment, b"Interval:").and_then(interval_ns);
                // The word behind it is that of the interval if there are none.
                let options = comment_value(comment, b"Options:").unwrap_or_default();
                if format == Format::CollectlPlot
                    && !options.ends_with(b":")
                    && options.contains(&b'n')
                {
                    return Err(Fault::lacks(
                        format,
                        "it was written with `-on` and holds counts, not percentages; \
                              leave out the `n`, or read the raw file",
                    ));
                }
            }
            Some(b"HZ:") => {
                let hertz = fields.next().and_then(whole);
                // No kernel counts faster.
                if let Some(hertz) = hertz.filter(|hz| (1..=10_000).contains(hz)) {
                    self.hertz = hertz;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// The word that follows a key in a comment.
fn comment_value<'a>(comment: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let at = memchr::memmem::find(comment, key)?;
    words(&comment[at + key.len()..]).next()
}

/// `1`, `.5`, or `10:60:300`, of which the first is that of the CPUs.
fn interval_ns(text: &[u8]) -> Option<i64> {
    let first = text.split(|b| *b == b':').next()?;
    i64::try_from(decimal_seconds(first)?)
        .ok()
        .filter(|ns| *ns > 0)
}

/// From `20261121-175853  Secs: 1795283933 TZ: +0000`. Older versions write
/// neither of the last two; without the zone the two times tell it.
fn offset_ns(comment: &[u8]) -> Option<i64> {
    if let Some(zone) = comment_value(comment, b"TZ:").and_then(zone_ns) {
        return Some(zone);
    }
    let utc_s = i64::try_from(whole(comment_value(comment, b"Secs:")?)?).ok()?;
    let local = comment_value(comment, b"Date:")?;
    let (date, time) = (local.get(..8)?, local.get(9..15)?);
    let clock = [&time[..2], &time[2..4], &time[4..]].join(&b':');
    let local_s = stamp::midnight_ns(stamp::plain_date(date)?)? / NS_PER_S as i64
        + stamp::time_of_day(&clock)?;
    let offset_s = local_s.checked_sub(utc_s)?;
    // The zones of the world reach from -12 to +14 hours.
    (offset_s.abs() <= 14 * 3600).then(|| offset_s * NS_PER_S as i64)
}

/// Whether this is the beginning of a file of collectl's.
pub(super) fn is_collectl(head: &Head<'_>) -> bool {
    head.first().starts_with(b"####") && head.holds(b"\n# Collectl: ")
}

/// The header of a plot file's table, not of one of other things.
pub(super) fn is_table_header(line: &[u8]) -> bool {
    line.starts_with(b"#Date") || line.starts_with(b"#UTC")
}

/// `>>> 1795283934.001 <<<`, ns since 1970.
pub(super) fn marker(line: &[u8]) -> Result<i64, Fault> {
    let inside = line
        .trim_ascii()
        .strip_prefix(b">>>")
        .and_then(|rest| rest.strip_suffix(b"<<<"));
    inside
        .and_then(|text| stamp::epoch(text.trim_ascii()))
        .ok_or_else(|| Fault::syntax("a time such as `>>> 1795283934.001 <<<`", line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("# Date: 20261121-175853  Secs: 1795283933 TZ: +0000", Some(0))]
    #[case("# Date: 20130805-113854  Secs: 1375727934 TZ: -0700", Some(-25_200))]
    #[case("# Date: 20130606-084924  Secs: 1370472564 TZ: +0930", Some(34_200))]
    #[case("# Date: 20130606-084924  Secs: 1370472564", Some(36_000))]
    #[case("# Date: 20130606-084924  Secs: 1370472564 TZ: CET", Some(36_000))]
    #[case("# Date: 20130606-084924", None)]
    #[case("# Date: 20130606-084924  Secs: 5", None)]
    #[case("# Date: 2013  Secs: 1370472564", None)]
    fn zones(#[case] comment: &str, #[case] offset_s: Option<i64>) {
        let ns = offset_ns(comment.as_bytes());
        assert_eq!(ns, offset_s.map(|s| s * NS_PER_S as i64));
    }

    #[rstest]
    #[case("Interval: 1 NumCPUs: 2", Some(1000))]
    #[case("Interval: .25 NumCPUs: 2", Some(250))]
    #[case("Interval: 10:60 NumCPUs: 2", Some(10_000))]
    #[case("Interval: 10::300 NumCPUs: 2", Some(10_000))]
    #[case("Interval: 0 NumCPUs: 2", None)]
    #[case("Interval: NumCPUs: 2", None)]
    fn intervals(#[case] rest: &str, #[case] ms: Option<i64>) {
        let mut block = Block::default();
        let comment = format!("# SubSys:     C Options:  {rest}");
        block
            .take(Format::CollectlPlot, comment.as_bytes())
            .unwrap();
        assert_eq!(block.interval_ns, ms.map(|ms| ms * 1_000_000));
    }

    #[test]
    fn ticks_that_no_kernel_has_are_not_believed() {
        let mut block = Block::default();
        for (comment, hertz) in [
            ("# HZ:         1000  Arch: x", 1000),
            ("# HZ:         0  Arch: x", 1000),
            ("# HZ:         18446744073709551615", 1000),
            ("# HZ:", 1000),
        ] {
            block.take(Format::CollectlRaw, comment.as_bytes()).unwrap();
            assert_eq!(block.hertz, hertz, "{comment}");
        }
    }
}
