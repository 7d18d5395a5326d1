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
use super::sample::{
    BY_SADF, ImportSample, ImportSummary, count_warnings, duplicate_and_restart_warnings,
};
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
    /// As [`LineFormat::remedy_for_times`].
    pub(super) for_times: &'static str,
}

const SAR: SarProgram = SarProgram {
    format: Format::SarText,
    need_p_all: "run `LC_ALL=C sar -P ALL -f FILE`",
    need_interval: "record more than one sample",
    for_times: BY_SADF,
};

const TIME: &str = "a time of day such as 13:20:19 (run the program with LC_ALL=C)";

/// The header of a table of CPU load.
pub(super) fn is_header(line: &[u8]) -> bool {
    words(line).any(|name| name == b"CPU") && words(line).any(|name| name == b"%idle")
}

/// Whether a header is that of averages, such as `Moyenne :  CPU %user ...`.
fn is_of_averages(header: &[u8]) -> bool {
    let before = words(header).take_while(|name| *name != b"CPU").last();
    before.is_some_and(|word| word.ends_with(b":") || word.ends_with("：".as_bytes()))
}

pub(super) struct Sar {
    dialect: &'static SarProgram,
    columns: Option<Columns>,
    /// Whether the header of the table was seen, whatever it is of.
    headed: bool,
    /// A zone stands between AM or PM and the columns.
    zoned: bool,
    /// The last line was blank: a table begins, with its header.
    begins: bool,
    host: Host,
    /// Midnight of the date in the head of the file, ns.
    midnight_ns: Option<i64>,
    /// That of the CPU tables.
    clock: DayClock,
    /// End of the last sample or stamp of a header after it.
    begin_ns: Option<i64>,
    /// The last two stamps of rows `all`, which every sample has, also without a CPU.
    all_ns: [Option<i64>; 2],
    all_rows: u64,
    cpu_rows: u64,
    /// Rows without a header.
    headless: u64,
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
            headed: false,
            zoned: false,
            begins: false,
            host: Host::default(),
            midnight_ns: None,
            clock: DayClock::default(),
            begin_ns: None,
            all_ns: [None; 2],
            all_rows: 0,
            cpu_rows: 0,
            headless: 0,
            restarts: 0,
            lasted: false,
            has_steal: false,
        };
        LineSamples::new(lines, format)
    }

    fn machine(&mut self, host: Option<Vec<u8>>, midnight_ns: Option<i64>) -> Result<(), Fault> {
        host.map_or(Ok(()), |name| self.host.is(&name))?;
        self.no_table();
        self.all_ns = [None; 2];
        // With a date of its own a further file starts its days anew.
        if midnight_ns.is_some() {
            self.midnight_ns = midnight_ns;
            self.clock = DayClock::default();
        }
        Ok(())
    }

    fn no_table(&mut self) {
        self.columns = None;
        self.headed = false;
    }

    /// A time of day on the file's clock.
    fn stamp(&mut self, time_s: i64) -> Result<i64, Fault> {
        let since = self.clock.at(time_s)?;
        Ok(self.midnight_ns.unwrap_or(0).saturating_add(since))
    }

    /// The same of a row `all`, after which the clock of the CPUs may go back: a file may hold
    /// `sar` before `sar -P ALL`.
    fn all_stamp(&self, time_s: i64) -> Option<i64> {
        let since = self.clock.clone().at(time_s).ok()?;
        Some(self.midnight_ns.unwrap_or(0).saturating_add(since))
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
    AllCpus(i64),
    Row(i64, u32, Option<ProfileCell>),
    /// A row of some table that is not known to be that of CPU load.
    OtherRow,
}

fn parse(line: &[u8], columns: Option<Columns>, zoned: &mut bool) -> Result<SarLine, Fault> {
    let mut fields = words(line);
    let Some(first) = fields.next() else {
        return Ok(SarLine::Blank);
    };
    let Some(mut time_s) = stamp::time_of_day(first) else {
        return if first == b"Linux" {
            Ok(machine(fields))
        } else if columns.is_some() && first[0].is_ascii_digit() {
            Err(Fault::syntax(TIME, first))
        } else if is_header(line) && !is_of_averages(line) {
            Err(Fault::syntax(TIME, line))
        } else {
            // `Average:` in whatever language, or lines of no table.
            Ok(SarLine::Nothing)
        };
    };
    let half = fields.clone().next().unwrap_or_default();
    if let Some(whole_day_s) = stamp::by_twelve_hours(time_s, half) {
        fields.next();
        time_s = whole_day_s;
        *zoned |= is_header(line) && fields.clone().nth(1) == Some(b"CPU");
        if *zoned {
            fields.next();
        }
    }
    let rest = fields.clone();
    let name = fields.next().unwrap_or_default();
    match (columns, name) {
        (_, b"LINUX") => Ok(SarLine::Restart),
        (_, b"COM") => Ok(SarLine::Nothing),
        (Some(_), b"all") => Ok(SarLine::AllCpus(time_s)),
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
            // AM or PM in another language.
            Some(_) => Err(Fault::syntax(TIME, line)),
            None => Ok(SarLine::Header(None, time_s)),
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
        self.dialect.for_times
    }

    fn line(&mut self, line: &[u8], _: &mut ImportSample) -> Result<LineEvent, Fault> {
        let parsed = parse(line, self.columns, &mut self.zoned)?;
        let begins = std::mem::replace(&mut self.begins, matches!(parsed, SarLine::Blank));
        match parsed {
            SarLine::Nothing => {}
            SarLine::OtherRow => {
                // Which states its columns are is not known: left out, samples would be lost.
                if begins && self.cpu_rows > 0 {
                    let header = "the header of a table, with CPU and %idle, above its rows";
                    return Err(Fault::syntax(header, line));
                }
                self.headless += u64::from(!self.headed);
            }
            SarLine::Blank => self.no_table(),
            SarLine::Machine { host, midnight_ns } => self.machine(host, midnight_ns)?,
            SarLine::Restart => {
                self.restarts += 1;
                self.no_table();
            }
            SarLine::Header(columns, time_s) => {
                self.columns = columns;
                self.headed = true;
                // No locale with a zone there writes an American date.
                self.midnight_ns = self.midnight_ns.filter(|_| !self.zoned);
                if let Some(columns) = columns {
                    self.has_steal |= columns.steal.is_some();
                    let ns = self.stamp(time_s)?;
                    self.begin_ns = Some(self.begin_ns.map_or(ns, |b| b.max(ns)));
                }
            }
            SarLine::AllCpus(time_s) => {
                self.all_rows += 1;
                let ns = self.all_stamp(time_s);
                if ns != self.all_ns[1] {
                    self.all_ns = [self.all_ns[1], ns];
                }
            }
            SarLine::Row(time_s, cpu, cell) => {
                self.cpu_rows += 1;
                let end_ns = self.stamp(time_s)?;
                let all_ns = self.all_ns.iter().flatten();
                let before_ns = all_ns.filter(|all_ns| **all_ns < end_ns).max();
                let begin_ns = self.begin_ns.max(before_ns.copied());
                let start_ns = begin_ns.filter(|begin_ns| *begin_ns < end_ns);
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
        let mut warnings = duplicate_and_restart_warnings(duplicates, self.restarts);
        if duplicates > 0 {
            warnings[0] += self.dialect.for_times;
        }
        warnings.extend(count_warnings([(
            self.headless,
            "{} rows stand below no header, which would say of what they are, and were left out \
             (the file may be cut at its begin)",
        )]));
        ImportSummary {
            host: self.host.name(),
            local: true,
            undated: self.midnight_ns.is_none(),
            has_steal: self.has_steal,
            warnings,
        }
    }
}
