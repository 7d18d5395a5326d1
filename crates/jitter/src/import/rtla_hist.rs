// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `rtla osnoise hist` (lengths of the tracer's samples) and `rtla timerlat hist`
//! (latencies of a timer's interrupt, of a kernel thread, and with `-u` of a program).
//!
//! Buckets that are empty on all CPUs are left out of the table, and its header does not
//! give their width. The width divides every index, so the greatest common divisor of all
//! is used: it may be too wide but never too narrow.

use sandbag_input::Head;

use super::input::{Input, JitterRecording};
use super::number;
use super::number::MAX_NS;
use super::rows::LinePlace;
use super::rtla_top::missed_events;
use crate::{CpuCounts, Quantity, Result, TailCount};

const OSNOISE: &str = "RTLA osnoise histogram";
const TIMERLAT: &str = "RTLA timerlat histogram";

pub(super) fn looks_like(head: &Head<'_>) -> bool {
    head.has_comment(OSNOISE) || head.has_comment(TIMERLAT)
}

/// `IRQ-003`: what is counted, and where.
fn column(name: &str) -> Option<CpuCounts> {
    let (what, cpu) = name.split_once('-')?;
    let quantity = match what {
        "CPU" => Quantity::Length,
        "IRQ" => Quantity::InterruptLatency,
        "Thr" => Quantity::ThreadLatency,
        "Usr" => Quantity::ProgramLatency,
        _ => return None,
    };
    Some(CpuCounts::new(number::cpu(cpu)?, quantity))
}

/// `0 00:01:00`: days and time.
fn duration_ns(text: &str) -> Option<u64> {
    let (days, time) = text.trim().split_once(char::is_whitespace)?;
    let mut seconds = number::whole(days)?;
    let mut parts = time.trim().split(':');
    for scale in [24, 60, 60] {
        let part = number::whole(parts.next()?)?;
        seconds = seconds.checked_mul(scale)?.checked_add(part)?;
    }
    let ns = seconds.checked_mul(1_000_000_000)?;
    (parts.next().is_none() && ns < MAX_NS).then_some(ns)
}

/// The values of a row, one for each column; `-` is none.
fn values(words: &[&str], columns: usize, place: LinePlace<'_>) -> Result<Vec<u64>> {
    let value = |word: &&str| {
        if *word == "-" {
            Some(0)
        } else {
            number::whole(word)
        }
    };
    let all: Option<Vec<u64>> = words.iter().map(value).collect();
    all.filter(|all| all.len() == columns)
        .ok_or_else(|| place.expected(format!("{columns} counts"), &words.join(" ")))
}

fn greatest_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The table: columns, rows of an index in ns and counts, and the summary.
#[derive(Default)]
struct HistTable {
    columns: Option<Vec<CpuCounts>>,
    rows: Vec<(u64, Vec<u64>)>,
    over: Option<Vec<u64>>,
    count: Option<Vec<u64>>,
    most: Option<Vec<u64>>,
    /// What follows is not of the table.
    is_complete: bool,
}

impl HistTable {
    fn take(&mut self, line: &str, unit_ns: u64, place: LinePlace<'_>) -> Result<()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((name, rest)) = words.split_first() else {
            return Ok(());
        };
        let Some(columns) = &self.columns else {
            // rtla may say first where it saves a trace.
            if *name != "Index" {
                return Ok(());
            }
            if rest.is_empty() {
                return Err(place.expected("columns of CPUs (no CPU had a sample)", line));
            }
            let columns: Option<Vec<CpuCounts>> = rest.iter().map(|name| column(name)).collect();
            let expected = "columns named CPU-, IRQ-, Thr- or Usr- and a number";
            self.columns = Some(columns.ok_or_else(|| place.expected(expected, line))?);
            return Ok(());
        };
        let row = || values(rest, columns.len(), place);
        match *name {
            "over:" => self.over = row().ok(),
            "count:" => self.count = Some(row()?),
            "max:" => self.most = Some(row()?),
            "min:" | "avg:" => {}
            // Sums of all CPUs.
            "ALL:" => self.is_complete = true,
            // Messages of rtla follow the summary, which begins with `over:`.
            word if self.over.is_some() && word != "Index" && number::whole(word).is_none() => {
                self.is_complete = true;
            }
            index => {
                let last = self.rows.last().map(|(last, _)| *last);
                let index = number::whole(index).and_then(|n| n.checked_mul(unit_ns));
                let index = index.filter(|ns| *ns < MAX_NS && last.is_none_or(|last| *ns > last));
                let index = index
                    .ok_or_else(|| place.expected("the index of a bucket, ascending", name))?;
                self.rows.push((index, row()?));
            }
        }
        Ok(())
    }
}

pub(super) fn read(mut input: Input<'_>) -> Result<JitterRecording> {
    let mut unit_ns = 1000;
    let (mut known_ns, mut is_timerlat) = (None, false);
    let (mut table, mut missed) = (HistTable::default(), None);
    while let Some((place, line)) = input.lines.next_line()? {
        if let Some(warning) = missed_events(line) {
            missed = Some(warning);
            continue;
        }
        if table.is_complete {
            continue;
        }
        let Some(comment) = line.strip_prefix('#').map(str::trim) else {
            table.take(line, unit_ns, place)?;
            continue;
        };
        is_timerlat |= comment.starts_with(TIMERLAT);
        if comment.starts_with("Time unit is nanoseconds") {
            unit_ns = 1;
        } else if let Some(value) = comment.strip_prefix("Duration:") {
            let ns = duration_ns(value);
            known_ns = Some(ns.ok_or_else(|| place.expected("days and HH:MM:SS", value))?);
        }
    }
    let HistTable {
        columns,
        rows,
        over,
        count,
        most,
        is_complete: _,
    } = table;
    let whole = input.whole();
    let mut series = columns
        .ok_or_else(|| whole.expected("the header of the table, `Index CPU-000 ...`", ""))?;
    let mut warnings = Vec::from_iter(missed);
    let mut width = rows
        .iter()
        .fold(0, |width, (index, _)| greatest_divisor(width, *index));
    if width == 0 {
        width = unit_ns;
        if !rows.is_empty() {
            warnings.push(
                "all is in the first bucket, whose width is not in the file: rtla's default of 1 \
                 is assumed"
                    .to_owned(),
            );
        }
    }
    let end_ns = rows.last().map_or(0, |(last, _)| last + width);
    let (mut missing, mut surplus) = (0u64, 0u64);
    for (i, series) in series.iter_mut().enumerate() {
        for (from_ns, counts) in &rows {
            series.add_bin(*from_ns, from_ns + width, counts[i]);
        }
        let of = |row: &Option<Vec<u64>>| row.as_ref().and_then(|row| row.get(i).copied());
        series.known_ns = known_ns;
        series.beyond = TailCount::above(end_ns, of(&over));
        // That of osnoise is the begin of a bucket.
        if is_timerlat {
            series.longest_ns = of(&most).and_then(|most| most.checked_mul(unit_ns));
        }
        if let Some(count) = of(&count) {
            missing = missing.saturating_add(count.saturating_sub(series.count()));
            surplus = surplus.saturating_add(series.count().saturating_sub(count));
        }
    }
    if over.is_none() || count.is_none() {
        let text = "the table lacks its summary (`over:`, `count:`): it may be cut off";
        warnings.push(text.to_owned());
    } else if missing > 0 {
        warnings.push(format!(
            "`count:` is {missing} more than the buckets hold: rows are missing"
        ));
    } else if surplus > 0 {
        warnings.push(format!(
            "`count:` is {surplus} less than the buckets hold: the file was changed or damaged"
        ));
    }
    let tool = if is_timerlat { "timerlat" } else { "osnoise" };
    JitterRecording::distribution(format!("rtla {tool} hist"), series, warnings, whole)
}
