// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pmrep -o csv`: a column per metric and CPU, a row per stamp.
//!
//! ```text
//! Time,"kernel.percpu.cpu.user-cpu0","kernel.percpu.cpu.user-cpu1",...
//! 2026-11-21 17:58:53,21221080,20756900,...
//! ```
//!
//! Cells are empty where there is no value. Before the header may stand
//! comments (`-x`) with host and zone, before the stamp host and interval
//! (`-k`), which has its zone then; with `--dynamic-header` a header comes
//! whenever the CPUs change.

use crate::number::unquoted;
use crate::reader::{ImportReader, Lines};
use crate::{Error, Fault, Format, Result};
use sandbag_input::Head;

use super::super::counters::CpuState;
use super::super::host::Host;
use super::super::sample::ImportSummary;
use super::super::zone::zone_ns;
use super::passes::open;
use super::reading::{PcpReading, StateValues, ValueKind, cpu_instance, state, value};
use super::records::{Event, Records};
use super::stamp;

pub(in super::super) const READER: ImportReader = ImportReader {
    format: Format::PmrepCsv,
    looks_like,
    open: |input| open(input, PmrepCsv::new),
};

/// A header, in the first lines. With `--dynamic-header` rows of nothing but
/// a stamp may stand before it.
fn looks_like(head: &Head<'_>) -> bool {
    let line = |line: &[u8]| {
        PmrepHeader::beginning(line).is_some() && memchr::memmem::find(line, b"kernel.").is_some()
    };
    head.data().take(20).any(line)
}

/// The states of a CPU add up to this many ms/s at most; the tick may be 1/100
/// s, and not every sum is exact. Counters since boot add up to more.
const MAX_RATE_SUM: f64 = 5000.0;

struct PmrepCsv {
    lines: Lines,
    table: PmrepTable,
}

#[derive(Default)]
struct PmrepTable {
    header: PmrepHeader,
    kind: Option<ValueKind>,
    host: Host,
    /// How far the zone of the header's comments is ahead of UTC.
    ahead_ns: Option<i64>,
    local: bool,
}

#[derive(Default)]
struct PmrepHeader {
    separator: u8,
    /// Which column is the stamp. Before it, the first is the host.
    time: usize,
    columns: Vec<Option<(CpuState, u32)>>,
}

impl PmrepHeader {
    /// The separator, and which column is `Time`; `None` if this is none.
    fn beginning(line: &[u8]) -> Option<(u8, usize)> {
        for (text, time) in [(&b"Time"[..], 0), (b"Host", 2)] {
            let Some([separator, ..]) = line.strip_prefix(text) else {
                continue;
            };
            let mut names = line.split(|b| b == separator);
            if names.nth(time) == Some(b"Time") && !separator.is_ascii_alphanumeric() {
                return Some((*separator, time));
            }
        }
        None
    }

    fn new(line: &[u8], separator: u8, time: usize) -> Result<Self, Fault> {
        let mut columns = Vec::new();
        for name in line.split(|b| *b == separator).map(unquoted) {
            let (metric, instance) = match name.iter().position(|b| *b == b'-') {
                Some(dash) => (&name[..dash], &name[dash + 1..]),
                None => (name, &b""[..]),
            };
            let column = match state(metric) {
                Some(state) if !instance.is_empty() => Some((state, cpu_instance(instance)?)),
                _ => None,
            };
            columns.push(column);
        }
        let mut sorted: Vec<_> = columns
            .iter()
            .flatten()
            .map(|(state, cpu)| (*cpu, *state as usize))
            .collect();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|w| w[0] == w[1]) {
            return Err(Fault::Duplicate(format!("a column of cpu{}", twice[0].0)));
        }
        Ok(Self {
            separator,
            time,
            columns,
        })
    }
}

impl PmrepCsv {
    fn new(lines: Lines) -> Self {
        Self {
            lines,
            table: PmrepTable::default(),
        }
    }
}

/// What a row says besides its values.
struct PmrepRow<'a> {
    host: Option<&'a [u8]>,
    stamp: &'a [u8],
    /// Whether some value has a decimal point.
    decimals: bool,
    sum: f64,
}

/// The values of a row into `record`.
fn row<'a>(
    line: &'a [u8],
    header: &PmrepHeader,
    record: &mut PcpReading,
) -> Result<PmrepRow<'a>, Fault> {
    let mut row = PmrepRow {
        host: None,
        stamp: b"",
        decimals: false,
        sum: 0.0,
    };
    let mut cells = 0;
    let mut written = 0;
    for (i, cell) in line.split(|b| *b == header.separator).enumerate() {
        cells = i + 1;
        if i == header.time {
            row.stamp = unquoted(cell);
        } else if i == 0 && header.time > 0 {
            row.host = Some(unquoted(cell));
        } else if i > header.time && !cell.is_empty() {
            written += 1;
        }
        let Some(Some((state, cpu))) = header.columns.get(i) else {
            continue;
        };
        if let Some(n) = value(cell)? {
            row.decimals |= cell.contains(&b'.');
            row.sum += n;
            record.put(*cpu, *state, n);
        }
    }
    // A row without values may be short: the CPUs were not known yet.
    if cells != header.columns.len() && written > 0 {
        return Err(Fault::field_count(header.columns.len(), cells));
    }
    Ok(row)
}

impl PmrepRow<'_> {
    /// What the values of a row are, by what is known from those before;
    /// `None` if they are all 0.
    ///
    /// pmrep does not say it. Rates have decimals, unless told otherwise
    /// (`-P 0`), but so have counters in seconds (`-y s`).
    fn kind(&self, before: Option<ValueKind>, cpus: usize) -> Result<Option<ValueKind>, Fault> {
        let mean = self.sum / cpus as f64;
        match before {
            Some(ValueKind::Counters) => Ok(before),
            _ if self.sum == 0.0 => Ok(before),
            _ if mean <= MAX_RATE_SUM => Ok(Some(ValueKind::Rates)),
            None if !self.decimals => Ok(Some(ValueKind::Counters)),
            _ => Err(Fault::unexpected(
                "counters in ms, whole numbers, or rates in ms/s, which add up to \
                           about 1000 per CPU (export without -y and -Y)",
                format!("values that add up to {mean:.0} per CPU"),
            )),
        }
    }
}

impl PmrepTable {
    /// The values of a line into `record`; its stamp, if it is a row.
    fn line(&mut self, line: &[u8], record: &mut PcpReading) -> Result<Option<i64>, Fault> {
        if let Some(comment) = line.strip_prefix(b"#") {
            let comment = comment.trim_ascii();
            if let Some(host) = comment.strip_prefix(b"host: ") {
                self.host.is(host)?;
            } else if let Some(zone) = comment.strip_prefix(b"timezone: ") {
                self.ahead_ns = zone.split(|b| *b == b' ').next().and_then(zone_ns);
            }
            return Ok(None);
        }
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        if let Some((separator, time)) = PmrepHeader::beginning(line) {
            self.header = PmrepHeader::new(line, separator, time)?;
            return Ok(None);
        }
        let row = row(line, &self.header, record)?;
        let stamp = stamp::read(row.stamp).ok_or_else(|| {
            Fault::syntax(
                if self.header.columns.is_empty() {
                    "a header `Time,\"kernel.percpu.cpu...`"
                } else {
                    "a stamp such as `2026-11-21 17:58:53` or epoch seconds"
                },
                row.stamp,
            )
        })?;
        if let Some(host) = row.host {
            self.host.is(host)?;
        }
        // Of a pass in several rows the one with idle tells most.
        let idle = |(_, values): &(u32, StateValues)| values[CpuState::Idle as usize].is_some();
        if record.cpus.iter().any(idle) {
            self.kind = row.kind(self.kind, record.cpus.len())?;
        }
        let ahead_ns = stamp.ahead_ns.or(self.ahead_ns);
        self.local = ahead_ns.is_none();
        Ok(Some(stamp.ns.saturating_sub(ahead_ns.unwrap_or(0))))
    }
}

impl Records for PmrepCsv {
    const FORMAT: Format = Format::PmrepCsv;
    const REMEDY: &'static str = "export all of kernel.percpu.cpu, as in \
                                  `pmrep -a ARCHIVE -u -r -o csv kernel.percpu.cpu`";

    fn next_record(&mut self, record: &mut PcpReading) -> Result<Event> {
        while let Some(line) = self.lines.next_whole_line()? {
            match self.table.line(line, record) {
                Ok(None) => {}
                Ok(Some(ns)) => return Ok(Event::Values(ns)),
                Err(fault) => return Err(self.lines.here(fault)),
            }
        }
        Ok(Event::End)
    }

    fn kind(&self) -> Option<ValueKind> {
        self.table.kind
    }

    fn about(&self) -> ImportSummary {
        ImportSummary {
            host: self.table.host.name(),
            local: self.table.local,
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
