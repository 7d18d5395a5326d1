// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Snapshots of `/proc/stat`, each after a line that says when it was taken.
//!
//! ```text
//! # epoch 1795223452.414226
//! cpu  60467 15633 11055 298472 1288 0 336 2643 0 0
//! cpu0 30761 7988 5360 148544 826 0 141 1353 0 0
//! ```
//!
//! How they are read: [`super::snapshots`].

use crate::number::{decimal_seconds, whole};
use crate::reader::ImportReader;
use crate::{Fault, Format};
use sandbag_input::head::words;

use super::frame::import_samples;
use super::snapshots::{SnapshotFormat, SnapshotStamp, Snapshots};

pub(super) const READER: ImportReader = ImportReader {
    format: Format::ProcStat,
    looks_like: |head| head.lines().any(is_cpu_line),
    open: |input| import_samples(Format::ProcStat, input, Snapshots::<ProcStat>::new),
};

/// Time lines of many kinds, and nothing else.
#[derive(Default)]
struct ProcStat;

impl SnapshotFormat for ProcStat {
    const FORMAT: Format = Format::ProcStat;
    const NO_TIME: &'static str =
        "write one, as in `(echo \"# epoch $(date +%s.%N)\"; cat /proc/stat) >> FILE`";

    fn other_line(&mut self, line: &[u8]) -> Result<Option<SnapshotStamp>, Fault> {
        time_line(line)
    }
}

/// `cpu` or `cpu0` and at least four numbers.
fn is_cpu_line(line: &[u8]) -> bool {
    let mut fields = words(line);
    fields.next().is_some_and(|name| {
        name.strip_prefix(b"cpu")
            .is_some_and(|n| n.is_empty() || whole(n).is_some())
    }) && fields.clone().count() >= 4
        && fields.all(|n| whole(n).is_some())
}

/// A line that says when: `# epoch 1795223452.4`, `1795223452.4`, an ISO 8601
/// date and time, or the two numbers of `/proc/uptime`.
fn time_line(line: &[u8]) -> Result<Option<SnapshotStamp>, Fault> {
    let mut text = line.trim_ascii();
    text = text.strip_prefix(b"#").unwrap_or(text).trim_ascii();
    for word in [&b"epoch"[..], b"timestamp", b"time", b"date", b"uptime"] {
        if let Some(rest) = text.strip_prefix(word) {
            text = rest.trim_ascii_start();
            text = text.strip_prefix(b":").unwrap_or(text).trim_ascii_start();
            break;
        }
    }
    if whole(text).is_some() && decimal_seconds(text).is_none() {
        return Err(Fault::too_great(text));
    }
    Ok(time(text))
}

fn time(text: &[u8]) -> Option<SnapshotStamp> {
    if !text.first()?.is_ascii_digit() {
        return None;
    }
    let mut numbers = text.split(|b| *b == b' ').map(decimal_seconds);
    if let Some(Some(ns)) = numbers.next() {
        let second = numbers.next();
        // An uptime counts from the boot, not from 1970.
        let dated = second.is_none() && ns > 1_000_000_000 * crate::NS_PER_S / 2;
        return (second.is_none_or(|s| s.is_some()) && numbers.next().is_none()).then_some(
            SnapshotStamp {
                ns: i64::try_from(ns).ok()?,
                dated,
                local: false,
            },
        );
    }
    let text = std::str::from_utf8(text).ok()?;
    let (time, local) = match text.parse::<crate::Begin>().ok()? {
        crate::Begin::Utc(t) => (t, false),
        crate::Begin::Local(t) => (t.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp(), true),
    };
    Some(SnapshotStamp {
        ns: i64::try_from(time.as_nanosecond()).ok()?,
        dated: true,
        local,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("# epoch 1795223452.414226", Some((1_795_223_452_414_226_000, true)))]
    #[case("1795223452", Some((1_795_223_452_000_000_000, true)))]
    #[case("time: 1795223452.5", Some((1_795_223_452_500_000_000, true)))]
    #[case("2026-11-21T01:10:52Z", Some((1_795_223_452_000_000_000, true)))]
    #[case("2026-11-21T01:10:52.5+00:00", Some((1_795_223_452_500_000_000, true)))]
    #[case("# 2026-11-21 01:10:52", Some((1_795_223_452_000_000_000, true)))]
    #[case("350.12 690.50", Some((350_120_000_000, false)))]
    #[case("ctxt 2326834", None)]
    #[case("btime 1795221508", None)]
    #[case("12 monkeys", None)]
    #[case("", None)]
    fn time_lines(#[case] text: &str, #[case] expected: Option<(i64, bool)>) {
        let got = time_line(text.as_bytes()).unwrap().map(|s| (s.ns, s.dated));
        assert_eq!(got, expected);
    }
}
