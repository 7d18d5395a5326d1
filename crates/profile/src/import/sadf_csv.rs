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

use crate::lines::Lines;
use crate::number::{NS_PER_S, cpu_field, whole};
use crate::reader::ImportReader;
use crate::{Error, Fault, Format, ProfileCell, Result};

use super::host::Host;
use super::percent::Columns;
use super::stamp;
use super::{
    ImportSample, ImportSummary, Samples, duplicate_and_restart_warnings, import_samples, slack,
};

pub(super) const NEED_P_ALL: &str = "export with `-P ALL`, as in `sadf -d FILE -- -P ALL`";

pub(super) const READER: ImportReader = ImportReader {
    format: Format::SadfCsv,
    looks_like: |head| {
        let first = head.first();
        first.starts_with(b"# hostname;interval;timestamp;") || is_row(first)
    },
    open: |input| import_samples(Format::SadfCsv, input, SadfCsv::new),
};

#[derive(Default)]
pub(super) struct SadfCsv {
    lines: Lines,
    /// Set while the rows are those of CPU load.
    columns: Option<Columns>,
    headers: u64,
    beginning: Beginning,
    /// A row of the next sample, already read.
    held: Option<SadfRow>,
    all_rows: u64,
    cpu_rows: u64,
    duplicates: u64,
    restarts: u64,
    has_steal: bool,
    done: bool,
}

/// What stands before the CPU.
#[derive(Default)]
struct Beginning {
    host: Host,
    /// Whether the last stamp was local time.
    local: bool,
}

#[derive(Debug, Clone, Copy)]
struct SadfRow {
    end_ns: i64,
    start_ns: i64,
    cpu: u32,
    cell: Option<ProfileCell>,
}

impl SadfCsv {
    pub(super) fn new(lines: Lines) -> Self {
        Self {
            lines,
            ..Self::default()
        }
    }

    /// The next row of a single CPU.
    fn next_row(&mut self) -> Result<Option<SadfRow>> {
        loop {
            let Some(line) = self.lines.next_line()? else {
                return Ok(None);
            };
            if let Some(names) = line.strip_prefix(b"# ") {
                self.headers += 1;
                if names.ends_with(b"[...]") {
                    return Err(self.lines.here(Fault::lacks(
                        Format::SadfCsv,
                        "it was written with -h, all CPUs on one line; \
                              run `sadf -d` without -h",
                    )));
                }
                self.columns = Columns::find(names.split(|b| *b == b';'));
                self.has_steal |= self.columns.is_some_and(|c| c.steal.is_some());
                continue;
            }
            if line.is_empty() || (self.columns.is_none() && self.headers > 0) {
                continue;
            }
            let row = parse(line, self.columns, &mut self.beginning);
            match row.map_err(|fault| self.lines.here(fault))? {
                SadfLine::Row(row) => {
                    self.cpu_rows += 1;
                    return Ok(Some(row));
                }
                SadfLine::AllCpus => self.all_rows += 1,
                SadfLine::Restart => self.restarts += 1,
                SadfLine::Comment => {}
            }
        }
    }
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
    Row(SadfRow),
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
    let interval_ns = whole(interval)
        .and_then(|s| i64::try_from(s).ok())
        .and_then(|s| s.checked_mul(NS_PER_S as i64));
    if fourth == b"-1" || fourth == b"all" {
        return Ok(SadfLine::AllCpus);
    }
    let interval_ns =
        interval_ns.ok_or_else(|| Fault::syntax("an interval in seconds", interval))?;
    let cpu = cpu_field(fourth)?;
    Ok(SadfLine::Row(SadfRow {
        end_ns: stamp.ns,
        start_ns: stamp.ns.saturating_sub(interval_ns.max(NS_PER_S as i64)),
        cpu,
        cell: columns.row(all)?,
    }))
}

impl Samples for SadfCsv {
    fn next_sample(&mut self, sample: &mut ImportSample) -> Result<bool> {
        if self.done {
            return Ok(false);
        }
        sample.cells.clear();
        loop {
            let row = match self.held.take() {
                Some(row) => Some(row),
                None => self.next_row()?,
            };
            let Some(row) = row else {
                self.done = true;
                if self.cpu_rows == 0 && self.all_rows > 0 {
                    return Err(self.lines.nowhere(Fault::NoSingleCpu(NEED_P_ALL)));
                }
                return Ok(!sample.cells.is_empty());
            };
            if sample.cells.is_empty() {
                sample.end_ns = row.end_ns;
                sample.start_ns = Some(row.start_ns);
                sample.slack_ns = slack(row.end_ns - row.start_ns);
            } else if row.end_ns != sample.end_ns {
                self.held = Some(row);
                return Ok(true);
            } else if sample.has(row.cpu) {
                self.duplicates += 1;
                continue;
            }
            sample.cells.push((row.cpu, row.cell));
        }
    }

    fn about(&self) -> ImportSummary {
        ImportSummary {
            host: self.beginning.host.name(),
            local: self.beginning.local,
            undated: false,
            has_steal: self.has_steal,
            warnings: duplicate_and_restart_warnings(self.duplicates, self.restarts),
        }
    }

    fn here(&self, fault: Fault) -> Error {
        self.lines.here(fault)
    }
}
