// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The text of `pmdumplog`: every record of an archive as it was written.
//!
//! ```text
//! Note: timezone set to "TZ=UTC"
//!
//! Sat Nov 21 17:58:53.064957 2026 8 metrics
//!     60.0.0 (kernel.percpu.cpu.user):
//!         inst [0 or "cpu0"] value 21221080
//!         inst [1 or "cpu1"] value 20756900
//! ```
//!
//! Without `-x` a record begins with its time of day alone, with `-xx` the
//! time since the beginning of the archive follows, with `-xxx` the epoch.
//! Old versions write the first metric behind the stamp.

use crate::number::{NS_PER_S, cpu_number, whole};
use crate::reader::{ImportReader, Lines};
use crate::{Error, Fault, Format, Result};
use sandbag_input::Head;

use super::super::counters::CpuState;
use super::super::host::Host;
use super::super::sample::ImportSummary;
use super::super::stamp::{named_date_ns, precise_time_ns};
use super::passes::open;
use super::reading::{PcpReading, ValueKind, cpu_instance, state};
use super::records::{Event, Records};

pub(in super::super) const READER: ImportReader = ImportReader {
    format: Format::Pmdumplog,
    looks_like,
    open: |input| open(input, Pmdumplog::new),
};

fn looks_like(head: &Head<'_>) -> bool {
    let first = head.first();
    first.starts_with(b"Note: timezone set to ")
        || first.starts_with(b"Log Label (Log Format ")
        || head
            .lines()
            .take(50)
            .any(|line| DumpMetric::parse(line).is_some())
}

const DAY_NS: i64 = 86_400 * NS_PER_S as i64;

struct Pmdumplog {
    lines: Lines,
    /// The beginning of the next record, already read.
    held: Option<Beginning>,
    context: Context,
}

/// What the lines outside records say.
#[derive(Default)]
struct Context {
    host: Host,
    utc: bool,
    dated: bool,
    /// The day that stamps without a date are of.
    day_ns: i64,
    /// The last time of day without a date.
    last_time_ns: Option<i64>,
}

/// The line with which a record begins.
struct Beginning {
    ns: i64,
    mark: bool,
    /// A metric behind the stamp.
    metric: Vec<u8>,
}

/// The stamp of a record, and what else stands in its line.
#[derive(Debug, PartialEq)]
struct StampLine<'a> {
    /// ns; `None` without `-x`.
    midnight_ns: Option<i64>,
    time_ns: i64,
    /// Seconds; only with `-xxx`.
    epoch_s: Option<i64>,
    mark: bool,
    metric: &'a [u8],
}

/// The first word and what follows it.
fn word(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii_start();
    text.split_at(
        text.iter()
            .position(u8::is_ascii_whitespace)
            .unwrap_or(text.len()),
    )
}

impl<'a> StampLine<'a> {
    /// `None` for every other line, those of other dumps (`-a`) included.
    fn parse(line: &'a [u8]) -> Option<Self> {
        if line.first()?.is_ascii_whitespace() {
            return None;
        }
        let (first, after) = word(line);
        let (midnight_ns, time_ns, mut rest) = if first[0].is_ascii_digit() {
            (None, precise_time_ns(first)?, after)
        } else {
            let (ns, rest) = split_date(line)?;
            (Some(ns.0), ns.1, rest)
        };
        let (next, after) = word(rest);
        if next.starts_with(b"(") && next.ends_with(b")") {
            rest = after;
        }
        let mut epoch_s = None;
        let (next, after) = word(rest);
        let (second, _) = word(after);
        if let Some(n) = whole(next)
            && (second == b"<mark>" || whole(second).is_some() || second.contains(&b'.'))
        {
            epoch_s = Some(i64::try_from(n).ok()?);
            rest = after;
        }
        let (next, after) = word(rest);
        let mark = next == b"<mark>";
        let counted = whole(next).is_some() && word(after).0.starts_with(b"metric");
        let metric = if mark || counted {
            &b""[..]
        } else {
            DumpMetric::parse(rest)?;
            rest
        };
        Some(Self {
            midnight_ns,
            time_ns,
            epoch_s,
            mark,
            metric,
        })
    }
}

/// `Sat Nov 21 17:58:53.064957 2026`: midnight and time of day; the rest.
fn split_date(line: &[u8]) -> Option<((i64, i64), &[u8])> {
    let (_weekday, rest) = word(line);
    let (month, rest) = word(rest);
    let (day, rest) = word(rest);
    let (time, rest) = word(rest);
    let (year, rest) = word(rest);
    let midnight_ns = named_date_ns(day, month, year)?;
    Some(((midnight_ns, precise_time_ns(time)?), rest))
}

/// A metric in a record; some have a value in the same line.
struct DumpMetric<'a> {
    state: Option<CpuState>,
    rest: &'a [u8],
}

impl<'a> DumpMetric<'a> {
    /// `60.0.0 (kernel.percpu.cpu.user): ...`; several names are divided by
    /// ` or `.
    fn parse(line: &'a [u8]) -> Option<Self> {
        let (id, rest) = word(line);
        let is_id = id.iter().all(|b| b.is_ascii_digit() || *b == b'.');
        if !is_id || id.iter().filter(|b| **b == b'.').count() != 2 {
            return None;
        }
        let names = rest.trim_ascii_start().strip_prefix(b"(")?;
        let end = memchr::memmem::find(names, b"):")?;
        let (names, rest) = (&names[..end], &names[end + 2..]);
        let wanted = names.split(|b| *b == b' ').find_map(state);
        Some(Self {
            state: wanted,
            rest: rest.trim_ascii(),
        })
    }
}

/// `inst [0 or "cpu0"] value 21221080`; `None` if it is none.
fn instance(text: &[u8]) -> Option<Result<(u32, f64), Fault>> {
    let text = text.strip_prefix(b"inst [")?;
    Some(instance_value(text))
}

fn instance_value(text: &[u8]) -> Result<(u32, f64), Fault> {
    let bad = |expected: &str, found: &[u8]| Fault::syntax(expected, found);
    let whole_of = "`0 or \"cpu0\"] value` and a counter";
    let end = text.iter().position(|b| *b == b']');
    let end = end.ok_or_else(|| bad(whole_of, text))?;
    let (inside, value) = (&text[..end], text[end + 1..].trim_ascii());
    let (id, name) = word(inside);
    let name = word(name).1.trim_ascii();
    let cpu = match name {
        // The instance had no name; its number is the CPU's.
        b"???" => cpu_number(id).ok_or_else(|| bad("the number of a CPU", id))?,
        _ => cpu_instance(crate::number::unquoted(name))?,
    };
    let value = value.strip_prefix(b"value");
    let value = value.ok_or_else(|| bad(whole_of, text))?.trim_ascii();
    let counter = whole(value).ok_or_else(|| bad("a counter in ms", value))?;
    Ok((cpu, counter as f64))
}

impl Pmdumplog {
    fn new(lines: Lines) -> Self {
        Self {
            lines,
            held: None,
            context: Context::default(),
        }
    }

    /// Looks for the beginning of a record.
    fn beginning(&mut self) -> Result<Option<Beginning>> {
        if let Some(beginning) = self.held.take() {
            return Ok(Some(beginning));
        }
        while let Some(line) = self.lines.next_whole_line()? {
            let found = self.context.line(line);
            let found = found.map_err(|fault| self.lines.here(fault))?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

impl Context {
    /// A line outside records, which may begin one.
    fn line(&mut self, line: &[u8]) -> Result<Option<Beginning>, Fault> {
        if let Some(stamp) = StampLine::parse(line) {
            return Ok(Some(Beginning {
                mark: stamp.mark,
                metric: stamp.metric.to_vec(),
                ns: self.ns(&stamp),
            }));
        }
        match note(line) {
            Some(Note::Zone(zone)) => self.utc = is_utc(zone),
            Some(Note::Host(host)) => self.host.is(host)?,
            Some(Note::Begins(midnight_ns, time_ns)) if self.last_time_ns.is_none() => {
                self.day_ns = midnight_ns;
                self.last_time_ns = Some(time_ns);
                self.dated = true;
            }
            Some(Note::Backwards) => {
                return Err(Fault::lacks(
                    Format::Pmdumplog,
                    "it runs backwards in time; run pmdumplog without -r",
                ));
            }
            Some(Note::Begins(..)) | None => {}
        }
        Ok(None)
    }

    fn ns(&mut self, stamp: &StampLine<'_>) -> i64 {
        let time_ns = stamp.time_ns;
        if let Some(s) = stamp.epoch_s {
            (self.utc, self.dated) = (true, true);
            return s
                .saturating_mul(NS_PER_S as i64)
                .saturating_add(time_ns % NS_PER_S as i64);
        }
        if let Some(midnight_ns) = stamp.midnight_ns {
            self.dated = true;
            return midnight_ns.saturating_add(time_ns);
        }
        // Further back than half a day is past midnight.
        let last_ns = self.last_time_ns.replace(time_ns).unwrap_or(time_ns);
        if last_ns - time_ns > DAY_NS / 2 {
            self.day_ns = self.day_ns.saturating_add(DAY_NS);
        }
        self.day_ns.saturating_add(time_ns)
    }
}

/// Lines that say something of the whole.
#[derive(Debug, PartialEq)]
enum Note<'a> {
    Zone(&'a [u8]),
    Host(&'a [u8]),
    /// Midnight and time of day, ns.
    Begins(i64, i64),
    Backwards,
}

fn note(line: &[u8]) -> Option<Note<'_>> {
    if let Some(zone) = line.strip_prefix(b"Note: timezone set to \"TZ=") {
        return Some(Note::Zone(zone.strip_suffix(b"\"").unwrap_or(zone)));
    }
    let of_host = &b"Note: timezone set to local timezone of host \""[..];
    if let Some(rest) = line.strip_prefix(of_host) {
        let end = rest.iter().position(|b| *b == b'"')?;
        return Some(Note::Host(&rest[..end]));
    }
    if let Some(host) = line.strip_prefix(b"Performance metrics from host ") {
        return Some(Note::Host(host.trim_ascii()));
    }
    if let Some(begin) = line.trim_ascii().strip_prefix(b"commencing ") {
        let ((midnight_ns, time_ns), _) = split_date(begin)?;
        return Some(Note::Begins(midnight_ns, time_ns));
    }
    line.starts_with(b"Log finished at ")
        .then_some(Note::Backwards)
}

/// Of all zones that pmdumplog may be given, those that are UTC.
fn is_utc(zone: &[u8]) -> bool {
    matches!(
        zone,
        b"UTC" | b"UTC0" | b"UTC+0" | b"UTC-0" | b"GMT" | b"GMT0" | b"Etc/UTC" | b"Z"
    )
}

/// Reads what a line of a record says into it; `state` is that of the metric.
fn record_line(
    line: &[u8],
    state: &mut Option<CpuState>,
    record: &mut PcpReading,
) -> Result<(), Fault> {
    let mut text = line.trim_ascii();
    if let Some(metric) = DumpMetric::parse(text) {
        *state = metric.state;
        text = metric.rest;
    }
    let Some(state) = *state else { return Ok(()) };
    // What else may stand there: `No values returned!`, errors.
    if let Some(found) = instance(text) {
        let (cpu, counter) = found?;
        if !record.put(cpu, state, counter) {
            return Err(Fault::Duplicate(format!("cpu{cpu}")));
        }
    }
    Ok(())
}

impl Records for Pmdumplog {
    const FORMAT: Format = Format::Pmdumplog;
    const REMEDY: &'static str =
        "dump all of kernel.percpu.cpu, as in `pmdumplog -xM -Z UTC ARCHIVE kernel.percpu.cpu`";

    fn next_record(&mut self, record: &mut PcpReading) -> Result<Event> {
        while let Some(beginning) = self.beginning()? {
            if beginning.mark {
                return Ok(Event::Mark);
            }
            let mut state = None;
            let mut said = record_line(&beginning.metric, &mut state, record);
            while said.is_ok() {
                let Some(line) = self.lines.next_whole_line()? else {
                    break;
                };
                if line.first().is_none_or(u8::is_ascii_whitespace) {
                    said = record_line(line, &mut state, record);
                    continue;
                }
                let found = self.context.line(line);
                self.held = found.map_err(|fault| self.lines.here(fault))?;
                break;
            }
            said.map_err(|fault| self.lines.here(fault))?;
            if !record.cpus.is_empty() {
                return Ok(Event::Values(beginning.ns));
            }
        }
        Ok(Event::End)
    }

    fn kind(&self) -> Option<ValueKind> {
        Some(ValueKind::Counters)
    }

    fn about(&self) -> ImportSummary {
        ImportSummary {
            host: self.context.host.name(),
            local: !self.context.utc,
            undated: !self.context.dated,
            warnings: self.lines.cut_warning().into_iter().collect(),
            ..ImportSummary::default()
        }
    }

    fn here(&self, fault: Fault) -> Error {
        self.lines.here(fault)
    }

    fn nowhere(&self, fault: Fault) -> Error {
        self.lines.nowhere(fault)
    }
}
