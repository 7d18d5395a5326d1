// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The text of `sar -P ALL`.
//!
//! ```text
//! Linux 6.1.0 (vm)  11/21/26  _x86_64_  (2 CPU)
//!
//! 01:10:52   CPU   %user   %nice  %system  %iowait  %steal   %idle
//! 01:10:53     0    0.00    0.00     1.01     0.00    0.00   98.99
//! ```
//!
//! Rows carry no date and go past midnight; a stamp is the end of its
//! interval, the stamp of a table's header the begin of its first one.

use crate::number::cpu_field;
use crate::reader::{ImportReader, Lines};
use crate::{Fault, Format, ProfileCell, Result};
use sandbag_input::head::words;

use super::frame::import_samples;
use super::host::Host;
use super::line_samples::{LineEvent, LineFormat, LineSamples, SampleRow};
use super::percent::Columns;
use super::sample::{BY_SADF, ImportSample, ImportSummary, duplicate_and_restart_warnings};
use super::stamp::{self, DayClock};

pub(super) const READER: ImportReader = ImportReader {
    format: Format::SarText,
    looks_like: |head| head.first().starts_with(b"Linux ") || head.lines().take(50).any(is_header),
    open: |input| import_samples(Format::SarText, input, |lines| Sar::new(lines, &SAR)),
};

/// Whose tables they are; what is read is the same.
pub(super) struct SarProgram {
    pub(super) format: Format,
    /// How to get rows of single CPUs.
    pub(super) need_p_all: &'static str,
    /// How to get more than one stamp.
    pub(super) need_interval: &'static str,
}

const SAR: SarProgram = SarProgram {
    format: Format::SarText,
    need_p_all: "run `LC_ALL=C sar -P ALL -f FILE`",
    need_interval: "record more than one sample",
};

/// The header of a table of CPU load.
pub(super) fn is_header(line: &[u8]) -> bool {
    words(line).any(|name| name == b"CPU") && words(line).any(|name| name == b"%idle")
}

pub(super) struct Sar {
    dialect: &'static SarProgram,
    columns: Option<Columns>,
    /// The last line was blank: a table begins, with its header.
    begins: bool,
    host: Host,
    /// Midnight of the date in the head of the file, ns.
    midnight_ns: Option<i64>,
    /// That of the CPU tables.
    clock: DayClock,
    /// End of the last sample or stamp of a header after it.
    begin_ns: Option<i64>,
    all_rows: u64,
    cpu_rows: u64,
    restarts: u64,
    /// Whether any sample took time.
    lasted: bool,
    has_steal: bool,
}

impl Sar {
    pub(super) fn new(lines: Lines, dialect: &'static SarProgram) -> LineSamples<Self> {
        let format = Self {
            dialect,
            columns: None,
            begins: false,
            host: Host::default(),
            midnight_ns: None,
            clock: DayClock::default(),
            begin_ns: None,
            all_rows: 0,
            cpu_rows: 0,
            restarts: 0,
            lasted: false,
            has_steal: false,
        };
        LineSamples::new(lines, format)
    }

    fn machine(&mut self, host: Option<Vec<u8>>, midnight_ns: Option<i64>) -> Result<(), Fault> {
        host.map_or(Ok(()), |name| self.host.is(&name))?;
        self.columns = None;
        // With a date of its own a further file starts its days anew.
        if midnight_ns.is_some() {
            self.midnight_ns = midnight_ns;
            self.clock = DayClock::default();
        }
        Ok(())
    }

    /// A time of day on the file's clock.
    fn stamp(&mut self, time_s: i64) -> Result<i64, Fault> {
        let since = self.clock.at(time_s)?;
        Ok(self.midnight_ns.unwrap_or(0).saturating_add(since))
    }
}

enum SarLine {
    Nothing,
    Blank,
    Machine {
        host: Option<Vec<u8>>,
        midnight_ns: Option<i64>,
    },
    Restart,
    /// Columns if the table is that of CPU load.
    Header(Option<Columns>, i64),
    AllCpus,
    Row(i64, u32, Option<ProfileCell>),
    /// A row of some table that is not known to be that of CPU load.
    OtherRow,
}

fn parse(line: &[u8], columns: Option<Columns>) -> Result<SarLine, Fault> {
    let mut fields = words(line);
    let Some(first) = fields.next() else {
        return Ok(SarLine::Blank);
    };
    let Some(mut time_s) = stamp::time_of_day(first) else {
        return if first == b"Linux" {
            Ok(machine(fields))
        } else if columns.is_some() && first[0].is_ascii_digit() {
            Err(Fault::syntax("a time of day such as 13:20:19", first))
        } else {
            // `Average:` in whatever language, or lines of no table.
            Ok(SarLine::Nothing)
        };
    };
    let half = fields.clone().next().unwrap_or_default();
    if let Some(whole_day_s) = stamp::by_twelve_hours(time_s, half) {
        fields.next();
        time_s = whole_day_s;
    }
    let rest = fields.clone();
    let name = fields.next().unwrap_or_default();
    match (columns, name) {
        (_, b"LINUX") => Ok(SarLine::Restart),
        (_, b"COM") => Ok(SarLine::Nothing),
        (Some(_), b"all") => Ok(SarLine::AllCpus),
        (Some(columns), _) if name.first().is_some_and(u8::is_ascii_digit) => {
            let cpu = cpu_field(name)?;
            Ok(SarLine::Row(time_s, cpu, columns.row(rest)?))
        }
        (None, b"all") => Ok(SarLine::OtherRow),
        (None, _) if name.first().is_some_and(u8::is_ascii_digit) => Ok(SarLine::OtherRow),
        // Rows of other tables may look like anything, headers too; only the
        // header of the CPU table matters, and it is unmistakable.
        _ => match Columns::find(rest) {
            Some(found) if found.cpu == 0 => Ok(SarLine::Header(Some(found), time_s)),
            _ => Ok(SarLine::Header(None, time_s)),
        },
    }
}

fn machine<'a>(fields: impl Iterator<Item = &'a [u8]>) -> SarLine {
    let mut host = None;
    let mut date = None;
    for field in fields {
        if let (None, Some(name)) = (
            &host,
            field.strip_prefix(b"(").and_then(|f| f.strip_suffix(b")")),
        ) {
            host = Some(name.to_vec());
        }
        date = date
            .or_else(|| stamp::iso_date(field))
            .or_else(|| stamp::us_date(field));
    }
    SarLine::Machine {
        host,
        midnight_ns: date.and_then(stamp::midnight_ns),
    }
}

impl LineFormat for Sar {
    fn remedy_for_times(&self) -> &'static str {
        BY_SADF
    }

    fn line(&mut self, line: &[u8], _: &mut ImportSample) -> Result<LineEvent, Fault> {
        let parsed = parse(line, self.columns)?;
        let begins = std::mem::replace(&mut self.begins, matches!(parsed, SarLine::Blank));
        match parsed {
            SarLine::Nothing => {}
            SarLine::OtherRow => {
                // Which states its columns are is not known: left out, samples would be lost.
                if begins && self.cpu_rows > 0 {
                    let header = "the header of a table, with CPU and %idle, above its rows";
                    return Err(Fault::syntax(header, line));
                }
            }
            SarLine::Blank => self.columns = None,
            SarLine::Machine { host, midnight_ns } => self.machine(host, midnight_ns)?,
            SarLine::Restart => {
                self.restarts += 1;
                self.columns = None;
            }
            SarLine::Header(columns, time_s) => {
                self.columns = columns;
                if let Some(columns) = columns {
                    self.has_steal |= columns.steal.is_some();
                    let ns = self.stamp(time_s)?;
                    self.begin_ns = Some(self.begin_ns.map_or(ns, |b| b.max(ns)));
                }
            }
            SarLine::AllCpus => self.all_rows += 1,
            SarLine::Row(time_s, cpu, cell) => {
                self.cpu_rows += 1;
                let end_ns = self.stamp(time_s)?;
                let start_ns = self.begin_ns.filter(|begin_ns| *begin_ns < end_ns);
                self.lasted |= start_ns.is_some();
                self.begin_ns = Some(end_ns);
                return Ok(LineEvent::Row(SampleRow {
                    start_ns: Some(start_ns.unwrap_or(end_ns)),
                    end_ns,
                    cpu,
                    cell,
                }));
            }
        }
        Ok(LineEvent::Nothing)
    }

    fn end(&self) -> Result<(), Fault> {
        let format = self.dialect.format;
        Err(match (self.cpu_rows, self.all_rows) {
            (0, 1..) => Fault::NoSingleCpu(self.dialect.need_p_all),
            (0, 0) => {
                let why = "it has no table with the columns CPU and %idle";
                Fault::wrong_format(format, why)
            }
            // A mean since the boot, for one.
            _ if !self.lasted => Fault::lacks(
                format,
                format!(
                    "all its rows have one stamp, which says not how long they took; {}",
                    self.dialect.need_interval
                ),
            ),
            _ => return Ok(()),
        })
    }

    fn about(&self, duplicates: u64) -> ImportSummary {
        ImportSummary {
            host: self.host.name(),
            local: true,
            undated: self.midnight_ns.is_none(),
            has_steal: self.has_steal,
            warnings: duplicate_and_restart_warnings(duplicates, self.restarts),
        }
    }
}
