// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sadf -d`: one row per CPU and stamp, fields separated by semicolons.
//!
//! ```text
//! # hostname;interval;timestamp;CPU;%user;%nice;%system;%iowait;%steal;%idle
//! vm;1;2026-11-21 01:10:53 UTC;0;0.00;0.00;1.01;0.00;0.00;98.99
//! ```
//!
//! The stamp is the end of the interval, CPU -1 is the mean of all. Other
//! activities in the same file stand in blocks of their own.

use crate::number::{cpu_field, whole};
use crate::reader::ImportReader;
use crate::{Fault, Format, Result};

use super::frame::import_samples;
use super::host::Host;
use super::line_samples::{LineEvent, LineFormat, LineSamples, SampleRow};
use super::percent::Columns;
use super::sample::{
    BY_SADF, ImportSample, ImportSummary, duplicate_and_restart_warnings, interval_ns,
};
use super::stamp;

pub(super) const NEED_P_ALL: &str = "export with `-P ALL`, as in `sadf -d FILE -- -P ALL`";

pub(super) const READER: ImportReader = ImportReader {
    format: Format::SadfCsv,
    looks_like: |head| {
        let first = head.first();
        first.starts_with(b"# hostname;interval;timestamp;") || is_row(first)
    },
    open: |input| {
        import_samples(Format::SadfCsv, input, |lines| {
            LineSamples::new(lines, SadfCsv::default())
        })
    },
};

#[derive(Default)]
struct SadfCsv {
    /// Set while the rows are those of CPU load.
    columns: Option<Columns>,
    headers: u64,
    beginning: Beginning,
    all_rows: u64,
    cpu_rows: u64,
    restarts: u64,
    has_steal: bool,
}

/// What stands before the CPU.
#[derive(Default)]
struct Beginning {
    host: Host,
    /// Whether the last stamp was local time.
    local: bool,
}

/// A row whose header was cut off, or a restart line.
fn is_row(line: &[u8]) -> bool {
    let mut cells = line.split(|b| *b == b';');
    let interval = cells.nth(1);
    interval.is_some_and(|i| i == b"-1" || whole(i).is_some())
        && cells
            .next()
            // A date, or epoch seconds.
            .is_some_and(|t| {
                t.get(..10)
                    .is_some_and(|date| stamp::iso_date(date).is_some() || whole(t).is_some())
            })
        && cells.next().is_some()
}

enum SadfLine {
    Row(SampleRow),
    AllCpus,
    Restart,
    Comment,
}

fn parse(
    line: &[u8],
    columns: Option<Columns>,
    beginning: &mut Beginning,
) -> Result<SadfLine, Fault> {
    let mut fields = line.split(|b| *b == b';');
    let all = fields.clone();
    let mut next = || fields.next().unwrap_or_default();
    let (name, interval, time, fourth) = (next(), next(), next(), next());
    if interval == b"-1" {
        return Ok(if fourth.starts_with(b"LINUX-RESTART") {
            SadfLine::Restart
        } else {
            SadfLine::Comment
        });
    }
    let Some(columns) = columns else {
        return Err(Fault::wrong_format(
            Format::SadfCsv,
            "its first line is not a header `# hostname;interval;timestamp;CPU;...`",
        ));
    };
    beginning.host.is(name)?;
    let stamp = stamp::sadf(time).ok_or_else(|| {
        Fault::syntax(
            "a stamp such as `2026-11-21 01:10:53 UTC` or epoch seconds",
            time,
        )
    })?;
    beginning.local = stamp.local;
    let interval_s = whole(interval).and_then(|s| i64::try_from(s).ok());
    if fourth == b"-1" || fourth == b"all" {
        return Ok(SadfLine::AllCpus);
    }
    let interval_s = interval_s.ok_or_else(|| Fault::syntax("an interval in seconds", interval))?;
    let cpu = cpu_field(fourth)?;
    Ok(SadfLine::Row(SampleRow {
        end_ns: stamp.ns,
        start_ns: interval_ns(interval_s).map(|ns| stamp.ns.saturating_sub(ns)),
        cpu,
        cell: columns.row(all)?,
    }))
}

impl LineFormat for SadfCsv {
    fn remedy_for_times(&self) -> &'static str {
        BY_SADF
    }

    fn line(&mut self, line: &[u8], _: &mut ImportSample) -> Result<LineEvent, Fault> {
        if let Some(names) = line.strip_prefix(b"# ") {
            self.headers += 1;
            if names.ends_with(b"[...]") {
                return Err(Fault::lacks(
                    Format::SadfCsv,
                    "it was written with -h, all CPUs on one line; run `sadf -d` without -h",
                ));
            }
            self.columns = Columns::find(names.split(|b| *b == b';'));
            self.has_steal |= self.columns.is_some_and(|c| c.steal.is_some());
        } else if !line.is_empty() && (self.columns.is_some() || self.headers == 0) {
            match parse(line, self.columns, &mut self.beginning)? {
                SadfLine::Row(row) => {
                    self.cpu_rows += 1;
                    return Ok(LineEvent::Row(row));
                }
                SadfLine::AllCpus => self.all_rows += 1,
                SadfLine::Restart => self.restarts += 1,
                SadfLine::Comment => {}
            }
        }
        Ok(LineEvent::Nothing)
    }

    fn end(&self) -> Result<(), Fault> {
        if self.cpu_rows == 0 && self.all_rows > 0 {
            return Err(Fault::NoSingleCpu(NEED_P_ALL));
        }
        Ok(())
    }

    fn about(&self, duplicates: u64) -> ImportSummary {
        ImportSummary {
            host: self.beginning.host.name(),
            local: self.beginning.local,
            undated: false,
            has_steal: self.has_steal,
            warnings: duplicate_and_restart_warnings(duplicates, self.restarts),
        }
    }
}
