// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `dstat --output FILE` and what came after it: dool, and the dstat of
//! Performance Co-Pilot.
//!
//! ```text
//! "dool 1.3.1 CSV output"
//! "Author:","Scott Baker",,,,"URL:","https://github.com/scottchiefbaker/dool/"
//! "Host:","vm",,,,"User:","me"
//! "Cmdline:","dool -T -c -C 0,1 --output FILE",,,,"Date:","21 Nov 2026 17:58:53 UTC"
//! "epoch","cpu0 usage",,,,,"cpu1 usage",,,,
//! "epoch","cpu0 usage:usr","cpu0 usage:sys","cpu0 usage:idl",...
//! 1795283934.002,19.388,2.041,78.571,0,0,67.416,0,32.584,0,0
//! ```
//!
//! A row of groups, of which an empty name is the one before; a row of names,
//! which may have their group before them; then percentages of the time since
//! the row before. The first row of a run holds the time since boot.

use crate::number::{cpu_number, decimal, unquoted, whole};
use crate::reader::{ImportReader, Lines};
use crate::{Fault, Format, ProfileCell, Result};

use super::counters::{self, CpuState};
use super::cpu_table::{CpuTable, CpuValues};
use super::frame::import_samples;
use super::host::Host;
use super::line_samples::{LineEvent, LineFormat, LineSamples};
use super::percent::IMPOSSIBLE;
use super::sample::{ImportSample, ImportSummary};
use super::stamp;

const NEED_CPUS: &str = "record with `-C`, as in `dool -T -c -C all --output FILE` \
                         (dstat: `-C 0,1`, the CPUs by number)";

/// Performance Co-Pilot divides by the wall time, from which ticks stray.
const MAX_PCT: f64 = 110.0;

pub(super) const READER: ImportReader = ImportReader {
    format: Format::Dstat,
    looks_like: |head| {
        let first = head.first().to_ascii_lowercase();
        let title = [&b"\"dstat "[..], b"\"dool ", b"\"pcp-dstat "];
        title.iter().any(|name| first.starts_with(name))
            || head
                .lines()
                .take(4)
                .any(|line| line.starts_with(b"\"Cmdline:\",\""))
    },
    open: |input| import_samples(Format::Dstat, input, Dstat::new),
};

#[derive(Default)]
struct Dstat {
    host: Host,
    /// Names of the groups, until those of the columns follow.
    groups: Option<Vec<Vec<u8>>>,
    table: Option<DstatTable>,
    clock: YearClock,
    /// Whether the next row is the first of a run.
    began: bool,
    /// End of a first row, at which the second begins.
    start_ns: Option<i64>,
    left_out: u64,
    taken: u64,
    has_steal: bool,
}

/// For times that name no year.
#[derive(Default)]
struct YearClock {
    year: Option<i16>,
    month: i8,
    local: bool,
}

struct DstatTable {
    cpus: CpuTable,
    /// The columns of the time.
    epoch: Option<usize>,
    local: Option<usize>,
    /// Whether there is a group of all CPUs.
    sum: bool,
}

impl DstatTable {
    fn find(groups: &[Vec<u8>], line: &[u8]) -> Result<Self, Fault> {
        let (mut epoch, mut local, mut sum) = (None, None, false);
        let mut columns = Vec::new();
        let mut group: &[u8] = b"";
        for (i, name) in fields(line).enumerate() {
            if let Some(next) = groups.get(i).filter(|next| !next.is_empty()) {
                group = next;
            }
            let name = unquoted(name);
            let (group, name) = match name.iter().position(|b| *b == b':') {
                Some(at) => (&name[..at], &name[at + 1..]),
                None => (group, name),
            };
            match (group, name) {
                (b"epoch", _) => epoch = Some(i),
                // Others of this group count interrupts.
                (b"system" | b"time", b"date/time" | b"time" | b"") => local = Some(i),
                _ => {}
            }
            sum |= group.starts_with(b"total ") && state(name).is_some();
            columns.push(group_cpu(group).zip(state(name)));
        }
        let cpu = |i: usize| columns[i].map_or(0, |(cpu, _)| cpu);
        let name = |i| format!("cpu{} usage", cpu(i));
        Ok(Self {
            cpus: CpuTable::new(&columns, name, |cpu| format!("cpu{cpu} usage:idl"))?,
            epoch,
            local,
            sum,
        })
    }

    /// Reads a row; its time and, into `cells`, its loads.
    fn row(
        &mut self,
        line: &[u8],
        clock: &mut YearClock,
        cells: &mut Vec<(u32, Option<ProfileCell>)>,
    ) -> Result<i64, Fault> {
        if self.cpus.is_empty() {
            return Err(if self.sum {
                Fault::NoSingleCpu(NEED_CPUS)
            } else {
                Fault::lacks(
                    Format::Dstat,
                    format!("it has no group such as `cpu0 usage`; {NEED_CPUS}"),
                )
            });
        }
        let (mut epoch, mut local) = (None, None);
        let mut count = 0;
        for field in fields(line).map(unquoted) {
            // What Performance Co-Pilot notes at the end of a row.
            if count == self.cpus.width() && field.starts_with(b"missed ") {
                continue;
            }
            if self.epoch == Some(count) {
                epoch = Some(field);
            } else if self.local == Some(count) {
                local = Some(field);
            }
            self.cpus.set(count, |cpu, state| match field {
                b"" => Ok(f64::NAN),
                _ => share(field, cpu, state),
            })?;
            count += 1;
        }
        if count != self.cpus.width() {
            return Err(Fault::field_count(self.cpus.width(), count));
        }
        let end_ns = clock.end_ns(epoch, local)?;
        for (cpu, values) in self.cpus.rows() {
            cells.push((cpu, cell(values)));
        }
        Ok(end_ns)
    }
}

/// The load of a CPU; a value that is missing is NaN.
fn cell(values: &CpuValues) -> Option<ProfileCell> {
    let mut values = *values;
    // The kernel moves ticks from iowait to idle: one may be below 0 and the other too high.
    values[CpuState::Idle as usize] += std::mem::take(&mut values[CpuState::Iowait as usize]);
    let total: f64 = values.iter().sum();
    if total.is_nan() {
        return None;
    }
    if !values.iter().all(|value| (0.0..=MAX_PCT).contains(value)) {
        return Some(IMPOSSIBLE);
    }
    let of = |state: CpuState| values[state as usize];
    // Nothing but zeros: no tick was counted, the CPU is offline.
    (total > 0.0).then(|| counters::cell(of(CpuState::Idle), of(CpuState::Steal), total))
}

fn share(field: &[u8], cpu: u32, state: CpuState) -> Result<f64, Fault> {
    match decimal(field) {
        Some(value) if !value.is_nan() => Ok(value),
        Some(_) => Err(Fault::out_of_range(
            format!("{state:?} of cpu{cpu}"),
            String::from_utf8_lossy(field),
        )),
        None => Err(Fault::syntax(format!("a percentage for cpu{cpu}"), field)),
    }
}

/// `cpu0 usage`.
fn group_cpu(group: &[u8]) -> Option<u32> {
    cpu_number(group.strip_prefix(b"cpu")?.strip_suffix(b" usage")?)
}

fn state(name: &[u8]) -> Option<CpuState> {
    Some(match name {
        // Interrupts are in it where they have no column of their own.
        b"usr" => CpuState::User,
        b"sys" => CpuState::System,
        b"idl" => CpuState::Idle,
        b"wai" => CpuState::Iowait,
        b"hiq" => CpuState::Irq,
        b"siq" => CpuState::Softirq,
        b"stl" => CpuState::Steal,
        _ => return None,
    })
}

fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|b| *b == b',')
}

impl YearClock {
    /// From `21 Nov 2026 17:58:53 UTC`.
    fn begin(&mut self, date: &[u8]) {
        let mut words = sandbag_input::head::words(date);
        let (_, month, year) = (words.next(), words.next(), words.next());
        let year = year.and_then(whole).and_then(|y| i16::try_from(y).ok());
        self.year = year.filter(|y| (1990..=2200).contains(y));
        self.month = month.and_then(stamp::month).unwrap_or(0);
    }

    fn end_ns(&mut self, epoch: Option<&[u8]>, local: Option<&[u8]>) -> Result<i64, Fault> {
        let Some(text) = epoch.or(local) else {
            return Err(Fault::lacks(
                Format::Dstat,
                "no column holds the time; record with `-T`, \
                      as in `dool -T -c -C all --output FILE`",
            ));
        };
        self.local = epoch.is_none();
        let ns = if self.local {
            self.local_ns(text)
        } else {
            stamp::epoch(text)
        };
        ns.ok_or_else(|| {
            Fault::syntax(
                if self.local {
                    "a time such as `Nov-21 17:58:55` or `21-11 17:58:55`, and its year in the \
                 `Date:` above; record with `-T`, which writes epoch seconds"
                } else {
                    "epoch seconds"
                },
                text,
            )
        })
    }

    /// `Nov-21 17:58:55` (dool), `21-11 17:58:55` (dstat) or with a year, as
    /// `DSTAT_TIMEFMT` may ask for.
    fn local_ns(&mut self, text: &[u8]) -> Option<i64> {
        let mut words = sandbag_input::head::words(text);
        let (date, time) = (words.next()?, words.next()?);
        let date = match stamp::iso_date(date) {
            Some(date) => date,
            None => {
                let mut parts = date.split(|b| *b == b'-');
                let (first, second) = (parts.next()?, parts.next()?);
                let (day, month) = match stamp::month(first) {
                    Some(month) => (second, month),
                    None => (first, i8::try_from(whole(second)?).ok()?),
                };
                // A new year has begun; half a year lies between no two rows.
                let new_year = month.checked_add(6)? < self.month;
                self.year = Some(self.year? + i16::from(new_year));
                self.month = month;
                let day = i8::try_from(whole(day)?).ok()?;
                jiff::civil::Date::new(self.year?, month, day).ok()?
            }
        };
        stamp::midnight_ns(date)?.checked_add(stamp::precise_time_ns(time)?)
    }
}

impl Dstat {
    fn new(lines: Lines) -> LineSamples<Self> {
        let format = Self {
            began: true,
            ..Self::default()
        };
        LineSamples::new(lines, format)
    }

    /// A line of texts: of the head, or names of groups.
    fn title(&mut self, line: &[u8]) -> Result<(), Fault> {
        let mut fields = fields(line).map(unquoted);
        match fields.next().unwrap_or_default() {
            b"Author:" => {}
            b"Host:" => self.host.is(fields.next().unwrap_or_default())?,
            b"Cmdline:" => {
                let key = b"\"Date:\",";
                if let Some(at) = memchr::memmem::find(line, key) {
                    self.clock.begin(unquoted(&line[at + key.len()..]));
                }
                (self.groups, self.table) = (None, None);
                self.began = true;
            }
            title if title.to_ascii_lowercase().ends_with(b" csv output") => {}
            _ => {
                self.groups = Some(groups(line));
                self.table = None;
            }
        }
        Ok(())
    }
}

fn groups(line: &[u8]) -> Vec<Vec<u8>> {
    fields(line).map(|name| unquoted(name).to_vec()).collect()
}

impl LineFormat for Dstat {
    fn line(&mut self, line: &[u8], sample: &mut ImportSample) -> Result<LineEvent, Fault> {
        if line.trim_ascii().is_empty() {
            return Ok(LineEvent::Nothing);
        }
        match (line.starts_with(b"\""), &self.groups, &mut self.table) {
            (_, Some(groups), None) => {
                let table = DstatTable::find(groups, line)?;
                self.has_steal |= table.cpus.has_steal();
                self.table = Some(table);
            }
            (true, ..) => self.title(line)?,
            (false, _, Some(table)) => {
                sample.end_ns = table.row(line, &mut self.clock, &mut sample.cells)?;
                if std::mem::take(&mut self.began) {
                    self.left_out += 1;
                    self.start_ns = Some(sample.end_ns);
                    sample.cells.clear();
                } else {
                    sample.start_ns = self.start_ns.take();
                    sample.slack_ns = 0;
                    self.taken += 1;
                    return Ok(LineEvent::Sample);
                }
            }
            (false, None, None) => {
                return Err(Fault::wrong_format(
                    Format::Dstat,
                    "no rows of names such as `\"cpu0 usage\",,,,` and `\"usr\",\"sys\",...` \
                     stand before this one",
                ));
            }
        }
        Ok(LineEvent::Nothing)
    }

    fn end(&self) -> Result<(), Fault> {
        if self.taken == 0 && self.left_out > 0 {
            return Err(Fault::OneSnapshot);
        }
        Ok(())
    }

    fn about(&self, _: u64) -> ImportSummary {
        let mut warnings = Vec::new();
        if self.left_out > 0 {
            warnings.push(format!(
                "the first row of each run ({} in all) was left out; it holds the time since \
                 boot, or an interval of unknown length",
                self.left_out
            ));
        }
        ImportSummary {
            host: self.host.name(),
            local: self.clock.local,
            undated: false,
            has_steal: self.has_steal,
            warnings,
        }
    }

    fn remedy_for_times(&self) -> &'static str {
        "; if clocks were changed there (summer time, a clock set back), give the parts before \
         and after it apart, or record with `-T`, which writes epoch seconds"
    }
}
