// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `collectl -sC -P`: a row per sample, some columns per CPU.
//!
//! ```text
//! #Date Time [CPU:0]User% [CPU:0]Nice% [CPU:0]Sys% ... [CPU:1]User% ...
//! 20261121 17:58:55.001 19 0 2 0 0 0 0 79 21 0 0 0 67 ...
//! ```
//!
//! Columns are found by name. (collectl 4.3.1 names the last three of a CPU
//! in another order than it writes them; none of them is needed.) A stamp is
//! local time and the end of its interval.

use crate::import::slack;
use crate::import::{ImportSample, ImportSummary, Samples, import_samples, percent, stamp};
use crate::lines::Lines;
use crate::number::{self, cpu_number};
use crate::reader::ImportReader;
use crate::{Error, Fault, Format, ProfileCell, Result};

use super::{Block, is_collectl, is_table_header};

const NEED_DETAIL: &str =
    "collect with `-sC`, or make it of the raw file: `collectl -p FILE.raw.gz -sC -P`";

/// Three values rounded to whole percents may add up to this much over 100.
const ROUNDING_PCT: f64 = 1.5;

pub(in crate::import) const READER: ImportReader = ImportReader {
    format: Format::CollectlPlot,
    looks_like: |head| {
        let table = |line| is_table_header(line) && memchr::memmem::find(line, b"[CPU").is_some();
        // A table of many CPUs may be longer than what is looked at.
        is_collectl(head) && head.lines().any(is_table_header) || head.lines().any(table)
    },
    open: |input| import_samples(Format::CollectlPlot, input, CollectlPlot::new),
};

#[derive(Default)]
struct CollectlPlot {
    lines: Lines,
    block: Block,
    table: Option<PlotTable>,
    /// Whether comments or a header stood before the row last read: collectl
    /// began anew there.
    began: bool,
    /// End of the row last read.
    last_ns: Option<i64>,
    /// The second row, read ahead to learn the interval of the first.
    ahead: Option<PlotRow>,
    utc: bool,
    has_steal: bool,
}

#[derive(Default)]
struct PlotRow {
    end_ns: i64,
    cells: Vec<(u32, Option<ProfileCell>)>,
}

#[derive(Debug, Clone, Copy)]
enum PlotColumn {
    /// Nothing of a single CPU that is needed.
    Other,
    /// A part of the CPU's time; the place of the CPU in the table.
    Part(usize, StampPart),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StampPart {
    Idle,
    Wait,
    Steal,
    /// One of those in which it is busy.
    Busy,
}

/// A header, and room for the values of a row.
struct PlotTable {
    separator: u8,
    /// Whether the stamp is one column of epoch seconds, not two.
    utc: bool,
    columns: Vec<PlotColumn>,
    cpus: Vec<u32>,
    values: Vec<[f64; 4]>,
}

/// `20261121` and `17:58:55` or `17:58:55.001`.
fn local_ns(date: &[u8], time: &[u8]) -> Option<i64> {
    let midnight_ns = stamp::midnight_ns(stamp::plain_date(date)?)?;
    midnight_ns.checked_add(stamp::precise_time_ns(time)?)
}

impl PlotTable {
    fn find(header: &[u8]) -> Result<Self, Fault> {
        let (utc, rest) = match header.strip_prefix(b"#UTC") {
            Some(rest) => (true, rest),
            None => (false, header.strip_prefix(b"#Date").unwrap_or_default()),
        };
        let separator = *rest.first().ok_or_else(|| {
            Fault::syntax(
                "columns after the stamp, as in `#Date Time [CPU:0]User%`",
                header,
            )
        })?;
        let mut table = Self {
            separator,
            utc,
            columns: Vec::new(),
            cpus: Vec::new(),
            values: Vec::new(),
        };
        let mut known = std::collections::BTreeMap::new();
        let mut seen = std::collections::BTreeSet::new();
        for name in fields(header, separator).skip(if utc { 1 } else { 2 }) {
            let column = match part(name) {
                None => PlotColumn::Other,
                Some((cpu, part)) => {
                    if !seen.insert(name) {
                        return Err(Fault::Duplicate(String::from_utf8_lossy(name).into_owned()));
                    }
                    let next = known.len();
                    let (at, idle) = known.entry(cpu).or_insert((next, false));
                    *idle |= part == StampPart::Idle;
                    if *at == table.cpus.len() {
                        table.cpus.push(cpu);
                    }
                    PlotColumn::Part(*at, part)
                }
            };
            table.columns.push(column);
        }
        if let Some((cpu, _)) = known.iter().find(|(_, (_, idle))| !idle) {
            return Err(Fault::unexpected(
                format!("a column `[CPU:{cpu}]Idle%`"),
                "none",
            ));
        }
        table.values = vec![[0.0; 4]; table.cpus.len()];
        Ok(table)
    }

    fn has_steal(&self) -> bool {
        let is_steal =
            |column: &PlotColumn| matches!(column, PlotColumn::Part(_, StampPart::Steal));
        self.columns.iter().any(is_steal)
    }

    /// How many fields the stamp takes.
    fn stamp_fields(&self) -> usize {
        if self.utc { 1 } else { 2 }
    }

    /// Reads the fields behind the stamp.
    fn cells<'a>(
        &mut self,
        fields: impl Iterator<Item = &'a [u8]>,
        cells: &mut Vec<(u32, Option<ProfileCell>)>,
    ) -> Result<(), Fault> {
        self.values.fill([0.0; 4]);
        let mut count = 0;
        for field in fields {
            if let Some(PlotColumn::Part(at, part)) = self.columns.get(count) {
                let cpu = self.cpus[*at];
                let value = number::percent(field, || format!("{} of cpu{cpu}", part.name()))?;
                self.values[*at][*part as usize] += value;
            }
            count += 1;
        }
        if count != self.columns.len() {
            let stamp = self.stamp_fields();
            return Err(Fault::field_count(
                self.columns.len() + stamp,
                count + stamp,
            ));
        }
        for (cpu, value) in self.cpus.iter().zip(&self.values) {
            let of = |part: StampPart| value[part as usize];
            // Nothing but zeros is how collectl writes a CPU that is offline.
            let cell = percent::cell_rounded(
                of(StampPart::Idle),
                of(StampPart::Wait),
                of(StampPart::Steal),
                ROUNDING_PCT,
                || of(StampPart::Busy),
            )?;
            cells.push((*cpu, cell));
        }
        Ok(())
    }
}

impl StampPart {
    fn name(self) -> &'static str {
        match self {
            Self::Idle => "Idle%",
            Self::Wait => "Wait%",
            Self::Steal => "Steal%",
            Self::Busy => "a percentage",
        }
    }
}

/// `[CPU:3]Idle%`, where it matters.
fn part(name: &[u8]) -> Option<(u32, StampPart)> {
    let rest = name.strip_prefix(b"[CPU:")?;
    let end = memchr::memchr(b']', rest)?;
    let part = match &rest[end + 1..] {
        b"Idle%" => StampPart::Idle,
        b"Wait%" => StampPart::Wait,
        b"Steal%" => StampPart::Steal,
        b"User%" | b"Nice%" | b"Sys%" | b"Irq%" | b"Soft%" => StampPart::Busy,
        // Totl% is a sum with steal in it, Guest% is inside User%.
        _ => return None,
    };
    Some((cpu_number(&rest[..end])?, part))
}

fn fields(line: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    // One may stand at the end.
    let line = line.strip_suffix(&[separator]).unwrap_or(line);
    line.split(move |b| *b == separator).map(<[u8]>::trim_ascii)
}

impl CollectlPlot {
    fn new(lines: Lines) -> Self {
        Self {
            lines,
            began: true,
            ..Self::default()
        }
    }

    /// The next row into `row`; false at the end.
    fn next_row(&mut self, row: &mut PlotRow) -> Result<bool> {
        loop {
            let Some(line) = self.lines.next_line()? else {
                return Ok(false);
            };
            if is_table_header(line) {
                let table = PlotTable::find(line).map_err(|fault| self.lines.here(fault))?;
                self.has_steal |= table.has_steal();
                self.table = Some(table);
                continue;
            }
            if line.starts_with(b"#") {
                let taken = self.block.take(Format::CollectlPlot, line);
                taken.map_err(|fault| self.lines.here(fault))?;
                self.began = true;
                continue;
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            let read = self.table.as_mut().map(|table| {
                self.utc = table.utc;
                let offset_ns = self.block.offset_ns;
                read_row(line, table, offset_ns, row)
            });
            return match read {
                Some(Ok(())) => Ok(true),
                Some(Err(fault)) => Err(self.lines.here(fault)),
                None => Err(self.lines.here(Fault::wrong_format(
                    Format::CollectlPlot,
                    "no header `#Date Time [CPU:0]User% ...` stands before this row",
                ))),
            };
        }
    }

    /// When the interval of a row began that comments stand before.
    fn first_start_ns(&mut self, end_ns: i64) -> Result<Option<i64>> {
        if let Some(interval_ns) = self.block.interval_ns {
            return Ok(Some(end_ns.saturating_sub(interval_ns)));
        }
        if self.last_ns.is_some() {
            return Ok(None);
        }
        // Written to a terminal, without comments: as long as the next one.
        let mut next = PlotRow::default();
        let interval_ns = if self.next_row(&mut next)? {
            next.end_ns.saturating_sub(end_ns)
        } else {
            0
        };
        if interval_ns <= 0 {
            return Err(self.lines.nowhere(Fault::lacks(
                Format::CollectlPlot,
                "it has neither comments with `Interval:` nor two rows, so that nothing \
                      says how long an interval is",
            )));
        }
        self.ahead = Some(next);
        Ok(Some(end_ns.saturating_sub(interval_ns)))
    }
}

fn read_row(
    line: &[u8],
    table: &mut PlotTable,
    offset_ns: Option<i64>,
    row: &mut PlotRow,
) -> Result<(), Fault> {
    if table.cpus.is_empty() {
        return Err(Fault::NoSingleCpu(NEED_DETAIL));
    }
    let mut fields = fields(line, table.separator);
    let first = fields.next().unwrap_or_default();
    let end_ns = if table.utc {
        stamp::epoch(first).ok_or_else(|| Fault::syntax("epoch seconds", first))?
    } else {
        let time = fields.next().unwrap_or_default();
        local_ns(first, time)
            .and_then(|ns| ns.checked_sub(offset_ns.unwrap_or(0)))
            .ok_or_else(|| {
                Fault::syntax(
                    "a date and a time such as 20261121 17:58:55 \
                           (a date without its year comes from `-od`; leave it out)",
                    &[first, b" ", time].concat(),
                )
            })?
    };
    row.end_ns = end_ns;
    row.cells.clear();
    table.cells(fields, &mut row.cells)
}

impl Samples for CollectlPlot {
    fn next_sample(&mut self, sample: &mut ImportSample) -> Result<bool> {
        let mut row = match self.ahead.take() {
            Some(row) => row,
            None => {
                let mut row = PlotRow {
                    end_ns: 0,
                    cells: std::mem::take(&mut sample.cells),
                };
                if !self.next_row(&mut row)? {
                    return Ok(false);
                }
                row
            }
        };
        // Within one run a row counts from the row before, however late it
        // comes.
        sample.start_ns = None;
        sample.slack_ns = 0;
        if std::mem::take(&mut self.began) {
            sample.start_ns = self.first_start_ns(row.end_ns)?;
            let length_ns = sample.start_ns.map_or(0, |start| row.end_ns - start);
            sample.slack_ns = slack(length_ns);
        }
        sample.end_ns = row.end_ns;
        self.last_ns = Some(row.end_ns);
        std::mem::swap(&mut sample.cells, &mut row.cells);
        Ok(true)
    }

    fn about(&self) -> ImportSummary {
        ImportSummary {
            host: self.block.host.name(),
            local: !self.utc && self.block.offset_ns.is_none(),
            undated: false,
            has_steal: self.has_steal,
            warnings: Vec::new(),
        }
    }

    fn here(&self, fault: Fault) -> Error {
        self.lines.here(fault)
    }

    fn remedy_for_times(&self) -> &'static str {
        "; if clocks were changed there (summer time, a clock set back), read the raw file, \
         write epoch seconds with `--utc`, or give the parts before and after it apart"
    }
}
