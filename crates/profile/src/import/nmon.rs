// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings of nmon, `nmon -f`.
//!
//! ```text
//! AAA,host,vm
//! CPU001,CPU 1 vm,User%,Sys%,Wait%,Idle%,Steal%
//! ZZZZ,T0001,17:58:54,21-NOV-2026
//! CPU001,T0001,1.8,0.9,4.5,92.8,0.0
//! ```
//!
//! Lines belong together by the number of their snapshot, whose time a line
//! `ZZZZ` tells. A snapshot holds the time since the one before; the first
//! holds a time of unknown length since nmon was started. Its CPU 1 is the
//! first one of `/proc/stat`.

use crate::number::{MAX_CPU, NS_PER_S, percent as percentage, whole};
use crate::reader::{ImportReader, Lines};
use crate::{Error, Fault, Format, ProfileCell, Result};

use super::frame::import_samples;
use super::host::Host;
use super::sample::{ImportSample, ImportSummary, Samples, duplicate_and_restart_warnings};
use super::{percent, stamp};

/// Three values rounded to a tenth may add up to this much over 100.
const ROUNDING_PCT: f64 = 0.2;

pub(super) const READER: ImportReader = ImportReader {
    format: Format::Nmon,
    looks_like: |head| {
        let first = head.first();
        let tags = [&b"AAA,"[..], b"ZZZZ,T", b"CPU_ALL,", b"CPU001,"];
        tags.iter().any(|tag| first.starts_with(tag))
    },
    open: |input| import_samples(Format::Nmon, input, Nmon::new),
};

#[derive(Default)]
struct Nmon {
    lines: Lines,
    host: Host,
    columns: Option<Columns>,
    /// An item of the next snapshot, already read.
    held: Option<Item>,
    /// Whether the next snapshot is the first of a run.
    began: bool,
    /// End of a first snapshot, at which the second begins.
    start_ns: Option<i64>,
    left_out: u64,
    taken: u64,
    has_steal: bool,
    sums: u64,
    duplicates: u64,
}

/// Where the values of a CPU are, counted from the first field of a line.
#[derive(Debug, Clone, Copy)]
struct Columns {
    idle: usize,
    wait: Option<usize>,
    steal: Option<usize>,
    count: usize,
}

#[derive(Debug, Clone, Copy)]
enum Item {
    /// nmon was started.
    Begin,
    /// Number of a snapshot and when it was taken.
    Time(u64, i64),
    /// Number of a snapshot, CPU and load.
    Row(u64, u32, Option<ProfileCell>),
}

impl Columns {
    fn find<'a>(names: impl Iterator<Item = &'a [u8]>) -> Result<Self, Fault> {
        let names: Vec<&[u8]> = names.map(<[u8]>::trim_ascii).collect();
        let find = |name: &[u8]| names.iter().position(|n| *n == name);
        Ok(Self {
            idle: find(b"Idle%").ok_or_else(|| Fault::unexpected("a column `Idle%`", "none"))?,
            wait: find(b"Wait%"),
            steal: find(b"Steal%"),
            count: names.len(),
        })
    }

    fn cell(&self, line: &[u8]) -> Result<Option<ProfileCell>, Fault> {
        let line = line.strip_suffix(b",").unwrap_or(line);
        let count = line.split(|b| *b == b',').count();
        // CPUs that came later have a header without steal and rows with it.
        let steal = self
            .steal
            .or((count == self.count + 1).then_some(self.count));
        if count != self.count && steal != Some(self.count) {
            return Err(Fault::field_count(self.count, count));
        }
        let (mut idle, mut wait, mut stolen, mut others) = (0.0, 0.0, 0.0, 0.0);
        for (i, field) in line.split(|b| *b == b',').enumerate().skip(2) {
            let name = || format!("field {}", i + 1);
            if i == self.idle {
                idle = percentage(field, || "Idle%".into())?;
            } else if Some(i) == self.wait {
                wait = percentage(field, || "Wait%".into())?;
            } else if Some(i) == steal {
                stolen = percentage(field, || "Steal%".into())?;
            } else if !field.is_empty() {
                others += percentage(field, name)?;
            }
        }
        // Nothing but zeros is what nmon writes where its numbers cannot be.
        percent::cell_rounded(idle, wait, stolen, ROUNDING_PCT, || others)
    }
}

/// `T0001`.
fn snapshot(text: &[u8]) -> Option<u64> {
    whole(text.strip_prefix(b"T")?)
}

/// `17:58:54` and `21-NOV-2026`.
fn local_ns(time: &[u8], date: &[u8]) -> Option<i64> {
    let mut parts = date.trim_ascii().split(|b| *b == b'-');
    let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
    let clock_s = stamp::time_of_day(time.trim_ascii())?;
    stamp::named_date_ns(day, month, year)?.checked_add(clock_s * NS_PER_S as i64)
}

impl Nmon {
    fn new(lines: Lines) -> Self {
        Self {
            lines,
            began: true,
            ..Self::default()
        }
    }

    fn next_item(&mut self) -> Result<Option<Item>> {
        if let Some(item) = self.held.take() {
            return Ok(Some(item));
        }
        loop {
            let Some(line) = self.lines.next_whole_line()? else {
                return Ok(None);
            };
            let mut fields = line.splitn(4, |b| *b == b',');
            let (tag, second) = (
                fields.next().unwrap_or_default(),
                fields.next().unwrap_or_default(),
            );
            let item = match tag {
                b"AAA" if second == b"host" => {
                    let host = self.host.is(fields.next().unwrap_or_default());
                    host.map(|()| Some(Item::Begin))
                }
                b"ZZZZ" => time(second, fields).map(Some),
                b"CPU_ALL" => {
                    self.sums += 1;
                    Ok(None)
                }
                _ => match tag.strip_prefix(b"CPU").and_then(whole) {
                    // `CPUUTIL001` and whatever else.
                    None => Ok(None),
                    Some(number) => match snapshot(second) {
                        None => Columns::find(line.split(|b| *b == b',')).map(|columns| {
                            self.has_steal |= columns.steal.is_some();
                            self.columns = Some(columns);
                            None
                        }),
                        Some(id) => row(id, number, line, self.columns).map(Some),
                    },
                },
            };
            if let Some(item) = item.map_err(|fault| self.lines.here(fault))? {
                return Ok(Some(item));
            }
        }
    }

    /// Reads the rows of one snapshot; false at the end.
    fn read_snapshot(&mut self, sample: &mut ImportSample) -> Result<bool> {
        sample.cells.clear();
        let mut current = None;
        let mut end_ns = None;
        while let Some(item) = self.next_item()? {
            let id = match item {
                Item::Begin => None,
                Item::Time(id, _) | Item::Row(id, ..) => Some(id),
            };
            if id != current {
                if !sample.cells.is_empty() {
                    self.held = Some(item);
                    break;
                }
                (current, end_ns) = (id, None);
            }
            match item {
                Item::Begin => self.began = true,
                Item::Time(_, ns) => end_ns = Some(ns),
                Item::Row(_, cpu, _) if sample.has(cpu) => self.duplicates += 1,
                Item::Row(_, cpu, cell) => sample.cells.push((cpu, cell)),
            }
        }
        if sample.cells.is_empty() {
            return Ok(false);
        }
        sample.end_ns = end_ns.ok_or_else(|| {
            let why = format!(
                "no line `ZZZZ,T{:04},...` tells the time of the rows before; a file in the order \
                 of its tags is put into that of time by `sort -s -t, -k2,2 FILE`",
                current.unwrap_or(0)
            );
            self.lines.here(Fault::lacks(Format::Nmon, why))
        })?;
        Ok(true)
    }
}

fn time<'a>(id: &[u8], mut rest: impl Iterator<Item = &'a [u8]>) -> Result<Item, Fault> {
    let (clock, date) = (
        rest.next().unwrap_or_default(),
        rest.next().unwrap_or_default(),
    );
    let item = snapshot(id)
        .zip(local_ns(clock, date))
        .map(|(id, ns)| Item::Time(id, ns));
    item.ok_or_else(|| {
        Fault::syntax(
            "a snapshot, a time and a date such as `T0001,17:58:54,21-NOV-2026`",
            &[id, clock, date].join(&b','),
        )
    })
}

fn row(id: u64, number: u64, line: &[u8], columns: Option<Columns>) -> Result<Item, Fault> {
    let columns = columns.ok_or_else(|| {
        Fault::wrong_format(
            Format::Nmon,
            "no header `CPU001,CPU 1 HOST,User%,Sys%,Wait%,Idle%` stands before this row",
        )
    })?;
    let cpu = number
        .checked_sub(1)
        .and_then(|n| u32::try_from(n).ok())
        .filter(|n| *n <= MAX_CPU)
        .ok_or_else(|| {
            Fault::unexpected("the number of a CPU, from 1 on", format!("`{number}`"))
        })?;
    Ok(Item::Row(id, cpu, columns.cell(line)?))
}

impl Samples for Nmon {
    fn next_sample(&mut self, sample: &mut ImportSample) -> Result<bool> {
        while self.read_snapshot(sample)? {
            if std::mem::take(&mut self.began) {
                self.left_out += 1;
                self.start_ns = Some(sample.end_ns);
                continue;
            }
            sample.start_ns = self.start_ns.take();
            sample.slack_ns = 0;
            self.taken += 1;
            return Ok(true);
        }
        if self.taken > 0 {
            return Ok(false);
        }
        Err(self.lines.nowhere(if self.left_out > 0 {
            Fault::OneSnapshot
        } else if self.sums > 0 {
            Fault::NoSingleCpu("`CPU_ALL` is the mean of all; keep the lines `CPU001` and so on")
        } else {
            Fault::wrong_format(Format::Nmon, "it has no lines `CPU001,T0001,...`")
        }))
    }

    fn about(&self) -> ImportSummary {
        let mut warnings = duplicate_and_restart_warnings(self.duplicates, 0);
        if self.left_out > 0 {
            warnings.push(format!(
                "the first snapshot of each run ({} in all) was left out; nothing tells how \
                 long its interval was",
                self.left_out
            ));
        }
        warnings.extend(self.lines.cut_warning());
        ImportSummary {
            host: self.host.name(),
            local: true,
            undated: false,
            has_steal: self.has_steal,
            warnings,
        }
    }

    fn here(&self, fault: Fault) -> Error {
        self.lines.here(fault)
    }

    fn remedy_for_times(&self) -> &'static str {
        "; if clocks were changed there (summer time, a clock set back), give the parts before \
         and after it apart (`TZ=UTC nmon` records true times); a file in the order of its tags is put into that of time by \
         `sort -s -t, -k2,2 FILE`"
    }
}
