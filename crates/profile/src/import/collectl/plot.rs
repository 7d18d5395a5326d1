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

use crate::import::counters::CpuState;
use crate::import::cpu_table::CpuTable;
use crate::import::frame::import_samples;
use crate::import::sample::{ImportSample, ImportSummary, Samples, count_warnings, slack};
use crate::import::{percent, stamp};
use crate::number::{self, cpu_number};
use crate::reader::{ImportReader, Lines};
use crate::{Error, Fault, Format, ProfileCell, Result};

use super::block::{Block, is_collectl, is_table_header};

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
    /// CPUs in samples that have 100 % of one state and nothing else: collectl takes a counter
    /// that fell for one that passed 2^32.
    all_wait: u64,
    all_steal: u64,
}

#[derive(Default)]
struct PlotRow {
    end_ns: i64,
    cells: Vec<(u32, Option<ProfileCell>)>,
    all_wait: u64,
    all_steal: u64,
}

/// A header, and room for the values of a row.
struct PlotTable {
    separator: u8,
    /// Whether the stamp is one column of epoch seconds, not two.
    utc: bool,
    cpus: CpuTable,
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
        let stamp = if utc { 1 } else { 2 };
        let names = || fields(header, separator).skip(stamp);
        let columns: Vec<_> = names().map(column).collect();
        let name = |i| names().nth(i).map_or_else(String::new, lossy);
        Ok(Self {
            separator,
            utc,
            cpus: CpuTable::new(&columns, name, |cpu| format!("[CPU:{cpu}]Idle%"))?,
        })
    }

    /// How many fields the stamp takes.
    fn stamp_fields(&self) -> usize {
        if self.utc { 1 } else { 2 }
    }

    /// Reads the fields behind the stamp.
    fn cells<'a>(
        &mut self,
        fields: impl Iterator<Item = &'a [u8]>,
        row: &mut PlotRow,
    ) -> Result<(), Fault> {
        let mut count = 0;
        for field in fields {
            self.cpus.set(count, |cpu, state| {
                number::percent(field, || format!("{} of cpu{cpu}", state_name(state)))
            })?;
            count += 1;
        }
        if count != self.cpus.width() {
            let stamp = self.stamp_fields();
            return Err(Fault::field_count(self.cpus.width() + stamp, count + stamp));
        }
        for (cpu, values) in self.cpus.rows() {
            let of = |state: CpuState| values[state as usize];
            let (idle, wait) = (of(CpuState::Idle), of(CpuState::Iowait));
            let steal = of(CpuState::Steal);
            let sum: f64 = values.iter().sum();
            row.all_wait += u64::from(wait == 100.0 && sum == 100.0);
            if steal == 100.0 && sum == 100.0 {
                row.all_steal += 1;
                row.cells.push((cpu, None));
                continue;
            }
            // Nothing but zeros is how collectl writes a CPU that is offline.
            let others = || sum - idle - wait - steal;
            let cell = percent::cell_rounded(idle, wait, steal, ROUNDING_PCT, others)?;
            row.cells.push((cpu, cell));
        }
        Ok(())
    }
}

fn state_name(state: CpuState) -> &'static str {
    match state {
        CpuState::Idle => "Idle%",
        CpuState::Iowait => "Wait%",
        CpuState::Steal => "Steal%",
        _ => "a percentage",
    }
}

fn lossy(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// `[CPU:3]Idle%`, where it matters.
fn column(name: &[u8]) -> Option<(u32, CpuState)> {
    let rest = name.strip_prefix(b"[CPU:")?;
    let end = memchr::memchr(b']', rest)?;
    let state = match &rest[end + 1..] {
        b"Idle%" => CpuState::Idle,
        b"Wait%" => CpuState::Iowait,
        b"Steal%" => CpuState::Steal,
        b"User%" => CpuState::User,
        b"Nice%" => CpuState::Nice,
        b"Sys%" => CpuState::System,
        b"Irq%" => CpuState::Irq,
        b"Soft%" => CpuState::Softirq,
        // Totl% is a sum with steal in it, Guest% is inside User%.
        _ => return None,
    };
    Some((cpu_number(&rest[..end])?, state))
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
            let Some(line) = self.lines.next_whole_line()? else {
                return Ok(false);
            };
            if is_table_header(line) {
                let table = PlotTable::find(line).map_err(|fault| self.lines.here(fault))?;
                self.has_steal |= table.cpus.has_steal();
                self.table = Some(table);
                continue;
            }
            if line.starts_with(b"#") {
                let taken = self.block.take(Format::CollectlPlot, line);
                taken.map_err(|fault| self.lines.here(fault))?;
                self.began = true;
                continue;
            }
            // What collectl says to a terminal before its first sample reaches a pipe, too.
            if line.trim_ascii().is_empty() || line.starts_with(b"waiting for ") {
                continue;
            }
            let read = self.table.as_mut().map(|table| {
                self.utc = table.utc;
                let offset_ns = self.block.offset_ns;
                read_row(line, table, offset_ns, row)
            });
            return match read {
                Some(Ok(())) => {
                    self.all_wait += row.all_wait;
                    self.all_steal += row.all_steal;
                    Ok(true)
                }
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
    (row.all_wait, row.all_steal) = (0, 0);
    table.cells(fields, row)
}

impl Samples for CollectlPlot {
    fn next_sample(&mut self, sample: &mut ImportSample) -> Result<bool> {
        let mut row = match self.ahead.take() {
            Some(row) => row,
            None => {
                let mut row = PlotRow {
                    cells: std::mem::take(&mut sample.cells),
                    ..PlotRow::default()
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
        let mut warnings = count_warnings([
            (
                self.all_wait,
                "in {} samples a CPU has Wait% 100 and nothing else, which collectl also writes \
                 where iowait fell; its load is taken to be 0 there (the raw file has the counters)",
            ),
            (
                self.all_steal,
                "in {} samples a CPU has Steal% 100 and nothing else, which collectl also writes \
                 where steal fell; its load is unknown there",
            ),
        ]);
        warnings.extend(self.lines.cut_warning());
        ImportSummary {
            host: self.block.host.name(),
            local: !self.utc && self.block.offset_ns.is_none(),
            undated: false,
            has_steal: self.has_steal,
            warnings,
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
