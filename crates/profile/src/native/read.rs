// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading the native format.

use std::collections::HashSet;

use crate::number::{cpu_number, percent, time, unquoted, whole};
use crate::reader::Lines;
use crate::{BoxSteps, Fault, Format, ProfileCell, ProfileHeader, Result, Step, Steps};
use sandbag_ui::quantity::{Seconds, plain_seconds};

use super::{MAGIC, VERSION};

const NO_END: &str = "add a last row `<time>,end`, for example `60,end`, or give the end";

/// What a column after the time holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum NativeColumn {
    Load(usize),
    Steal(usize),
}

struct Native {
    lines: Lines,
    header: ProfileHeader,
    separator: u8,
    columns: Vec<NativeColumn>,
    /// The step whose end is not yet known.
    open: Option<Step>,
    /// Sampling period that a recorder noted.
    interval_ns: Option<u64>,
    end_ns: Option<u64>,
    steal: StealCounts,
    warnings: Vec<String>,
}

/// Where load and steal do not stand together.
#[derive(Default)]
struct StealCounts {
    loads_alone: usize,
    steal_alone: usize,
}

/// Reads the head of the file up to the column names.
pub(crate) fn read(lines: Lines, end_ns: Option<u64>) -> Result<BoxSteps> {
    let mut native = Native {
        lines,
        header: ProfileHeader::new(Vec::new(), Format::Native),
        separator: b',',
        columns: Vec::new(),
        open: None,
        interval_ns: None,
        end_ns,
        steal: StealCounts::default(),
        warnings: Vec::new(),
    };
    native.read_head()?;
    native.read_first()?;
    Ok(Box::new(native))
}

enum NativeRow {
    Step(Step),
    End(u64),
    Finished,
}

impl Native {
    fn read_head(&mut self) -> Result<()> {
        loop {
            let Some(line) = self.lines.next_line()? else {
                return Err(self.lines.nowhere(Fault::Empty));
            };
            let line = line.trim_ascii();
            if let Some(comment) = line.strip_prefix(b"#") {
                let comment = String::from_utf8_lossy(comment.trim_ascii()).into_owned();
                self.read_comment(&comment)?;
            } else if !line.is_empty() {
                let line = line.to_ascii_lowercase();
                return self.read_columns(&line);
            }
        }
    }

    /// Comments are free; these say something to us.
    fn read_comment(&mut self, comment: &str) -> Result<()> {
        if let Some(version) = comment.strip_prefix(MAGIC) {
            let version = version.trim();
            if version.parse().is_ok_and(|n: f64| n > f64::from(VERSION)) {
                return Err(self.lines.here(Fault::NewerVersion(version.to_owned())));
            }
        } else if let Some((key, value)) = comment.split_once(':') {
            let (key, value) = (key.trim(), value.trim());
            let syntax =
                |expected: &str| self.lines.here(Fault::syntax(expected, value.as_bytes()));
            let is_second = match key {
                "host" => self.header.host.replace(value.to_owned()).is_some(),
                "begins" => {
                    let begin = value.parse();
                    let begin = begin.map_err(|_| syntax("a time such as 2026-11-21T01:10:52Z"))?;
                    self.header.begins_at.replace(begin).is_some()
                }
                "interval" => {
                    let ns = time(value.as_bytes()).filter(|ns| *ns > 0);
                    let ns = ns.ok_or_else(|| syntax("a length of time above 0, such as 1s"))?;
                    self.interval_ns.replace(ns).is_some()
                }
                _ => false,
            };
            if is_second {
                return Err(self.lines.here(Fault::Duplicate(format!("{key}:"))));
            }
        }
        Ok(())
    }

    fn read_columns(&mut self, line: &[u8]) -> Result<()> {
        let bad = |fault| self.lines.here(fault);
        self.separator = *line
            .iter()
            .find(|b| matches!(b, b',' | b';' | b'\t'))
            .unwrap_or(&b',');
        let mut names = line.split(|b| *b == self.separator).map(unquoted);
        if names.next() != Some(b"time") {
            return Err(bad(Fault::syntax(
                "the column names `time,cpu0,cpu1,...`",
                line,
            )));
        }
        let mut numbers: Vec<(bool, u32)> = Vec::new();
        let mut seen = HashSet::new();
        for name in names {
            let column = if let Some(n) = name.strip_prefix(b"cpu") {
                cpu_number(n).map(|n| (false, n))
            } else if let Some(n) = name.strip_prefix(b"steal") {
                cpu_number(n).map(|n| (true, n))
            } else {
                None
            };
            let Some(column) = column else {
                let name = String::from_utf8_lossy(name).into_owned();
                return Err(bad(Fault::UnknownColumn(name)));
            };
            if !seen.insert(column) {
                let name = String::from_utf8_lossy(name).into_owned();
                return Err(bad(Fault::Duplicate(name)));
            }
            numbers.push(column);
        }
        let mut cpus: Vec<u32> = numbers.iter().filter(|c| !c.0).map(|c| c.1).collect();
        cpus.sort_unstable();
        if cpus.is_empty() {
            return Err(bad(Fault::syntax(
                "at least one column `cpu<N>` after `time`",
                line,
            )));
        }
        for (is_steal, cpu) in numbers {
            match cpus.binary_search(&cpu) {
                Ok(at) if is_steal => self.columns.push(NativeColumn::Steal(at)),
                Ok(at) => self.columns.push(NativeColumn::Load(at)),
                Err(_) => return Err(bad(Fault::UnknownColumn(format!("steal{cpu}")))),
            }
        }
        self.header.has_steal = self
            .columns
            .iter()
            .any(|c| matches!(c, NativeColumn::Steal(_)));
        self.header.cpus = cpus;
        Ok(())
    }

    fn read_first(&mut self) -> Result<()> {
        match self.read_row()? {
            NativeRow::Step(step) if step.start_ns != 0 => {
                Err(self.lines.here(Fault::LateStart(Seconds(step.start_ns))))
            }
            NativeRow::Step(step) => {
                self.open = Some(step);
                Ok(())
            }
            NativeRow::End(_) | NativeRow::Finished => Err(self
                .lines
                .here(Fault::unexpected("a row at time 0", "no load at all"))),
        }
    }

    fn read_row(&mut self) -> Result<NativeRow> {
        loop {
            // What a recorder writes says itself whether it is whole.
            let line = match self.interval_ns {
                Some(_) => self.lines.next_line_of_cut()?,
                None => self.lines.next_line()?,
            };
            let Some(line) = line else {
                return Ok(NativeRow::Finished);
            };
            if line.first() == Some(&b'#') || is_blank(line, self.separator) {
                continue;
            }
            // The borrow of the line must end before the place is asked for.
            let parsed = parse_row(
                line,
                self.separator,
                &self.columns,
                &self.header,
                &mut self.steal,
            );
            if !self.lines.is_whole() && self.interval_ns.is_some() {
                if let Ok(NativeRow::End(end)) = parsed {
                    return Ok(NativeRow::End(end));
                }
                self.warnings.push(format!(
                    "line {} was cut short in writing and is left out",
                    self.lines.number()
                ));
                return Ok(NativeRow::Finished);
            }
            return parsed.map_err(|fault| self.lines.here(fault));
        }
    }

    fn close(&self, step: Step, end_ns: u64) -> Result<Step> {
        if end_ns <= step.start_ns {
            return Err(self.lines.here(Fault::TimesGoBack {
                now: plain_seconds(end_ns),
                last: plain_seconds(step.start_ns),
                remedy: "; rows stand in the order of their times",
            }));
        }
        Ok(Step { end_ns, ..step })
    }

    fn close_without_end(&mut self, step: Step) -> Result<Step> {
        if let Some(end) = self.end_ns {
            if end <= step.start_ns {
                let end = format!("{} s", plain_seconds(end));
                return Err(self
                    .lines
                    .here(Fault::argument("--end", end, "after the last row")));
            }
            return self.close(step, end);
        }
        let Some(interval) = self.interval_ns else {
            return Err(self.lines.nowhere(Fault::NoEnd(NO_END)));
        };
        let end = step.start_ns.saturating_add(interval);
        self.warnings.push(format!(
            "the recording has no end row (it was cut off); it is taken to end one interval \
             after its last row, at {} s",
            plain_seconds(end)
        ));
        self.close(step, end)
    }
}

/// Nothing between separators: what a spreadsheet leaves below its rows.
fn is_blank(line: &[u8], separator: u8) -> bool {
    line.iter()
        .all(|b| *b == separator || b.is_ascii_whitespace())
}

fn parse_row(
    line: &[u8],
    separator: u8,
    columns: &[NativeColumn],
    header: &ProfileHeader,
    counts: &mut StealCounts,
) -> Result<NativeRow, Fault> {
    let cpus = &header.cpus;
    let mut cells = line.split(|b| *b == separator).map(unquoted);
    let first = cells.next().unwrap_or_default();
    let Some(start_ns) = time(first) else {
        if whole(first).is_some() {
            return Err(Fault::too_great(first));
        }
        return Err(Fault::syntax(
            "a time (seconds, or with a unit as in 100ms, 1.5h)",
            first,
        ));
    };
    let mut values = cells.clone();
    if values
        .next()
        .is_some_and(|c| c.eq_ignore_ascii_case(b"end"))
    {
        return if values.all(<[u8]>::is_empty) {
            Ok(NativeRow::End(start_ns))
        } else {
            Err(Fault::syntax("nothing after `end`", line))
        };
    }
    let mut row = vec![None; cpus.len()];
    let mut found = 1;
    for column in columns {
        let Some(cell) = cells.next() else { break };
        found += 1;
        if let (NativeColumn::Load(at), false) = (column, cell.is_empty()) {
            row[*at] = Some(ProfileCell::load(percent(cell, || {
                format!("load of cpu{}", cpus[*at])
            })?));
        }
    }
    found += cells.count();
    if found != columns.len() + 1 {
        return Err(Fault::RowLength {
            expected: columns.len() + 1,
            found,
        });
    }
    // A second pass, because a steal column may stand before its CPU's.
    let cells = line.split(|b| *b == separator).map(unquoted).skip(1);
    let mut loads_alone = row.iter().flatten().count();
    for (column, cell) in columns.iter().zip(cells) {
        if let (NativeColumn::Steal(at), false) = (column, cell.is_empty()) {
            let steal_pct = percent(cell, || format!("steal of cpu{}", cpus[*at]))?;
            if let Some(load) = &mut row[*at] {
                load.steal_pct = steal_pct;
                loads_alone -= 1;
            } else {
                counts.steal_alone += 1;
            }
        }
    }
    if header.has_steal {
        counts.loads_alone += loads_alone;
    }
    Ok(NativeRow::Step(Step {
        start_ns,
        end_ns: start_ns,
        cells: row,
    }))
}

impl Steps for Native {
    fn header(&self) -> &ProfileHeader {
        &self.header
    }

    fn next_step(&mut self) -> Result<Option<Step>> {
        // Taken, so after an error nothing is left to continue from.
        let Some(step) = self.open.take() else {
            return Ok(None);
        };
        let step = match self.read_row()? {
            NativeRow::Step(next) => {
                let closed = self.close(step, next.start_ns)?;
                self.open = Some(next);
                closed
            }
            NativeRow::End(end) => {
                let closed = self.close(step, end)?;
                match self.read_row()? {
                    NativeRow::Finished => closed,
                    NativeRow::Step(_) | NativeRow::End(_) => {
                        return Err(self.lines.here(Fault::AfterEnd));
                    }
                }
            }
            NativeRow::Finished => self.close_without_end(step)?,
        };
        Ok(Some(step))
    }

    fn warnings(&self) -> Vec<String> {
        let mut all = self.warnings.clone();
        for (count, what) in [
            (
                self.steal.loads_alone,
                "loads have no steal beside them: it is taken to be 0",
            ),
            (
                self.steal.steal_alone,
                "values of steal stand beside an unknown load and were left out",
            ),
        ] {
            if count > 0 {
                all.push(format!("{count} {what}"));
            }
        }
        all
    }
}
