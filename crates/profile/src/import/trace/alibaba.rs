// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Alibaba's clusters: `server_usage.csv` of 2017 and `machine_usage.csv` of
//! 2018.
//!
//! ```text
//! 42000,1,27.3,45.1,40.2,12.5,11.9,12.0
//! m_1932,386640,41,92,,,43.04,33.08,5
//! ```
//!
//! 2017: stamp, machine, CPU, memory and disk in percent, three load averages.
//! 2018: machine, stamp, CPU and memory in percent, and five columns more; -1
//! and 101 are no values.
//!
//! What a stamp is of its interval is said of neither. The begin: so it is of
//! the containers of 2017 in the same document, and the stamps of 2018 go from
//! 0 to 691 190 s, ten seconds short of eight days.

use crate::number::whole;
use crate::reader::ImportReader;
use crate::{Fault, Format};
use sandbag_input::Head;

use super::{
    TraceFormat, TraceReading, TraceRows, TraceStamps, Usual, columns, open, percentage, seconds,
};

static TRACE_2017: TraceFormat = TraceFormat {
    format: Format::Alibaba2017,
    machine: Some(1),
    rows: || Box::new(Of2017),
    stamps: TraceStamps::Begin,
    usual: Usual::Documented(300),
};

/// The steps are not documented, and vary.
static TRACE_2018: TraceFormat = TraceFormat {
    format: Format::Alibaba2018,
    machine: Some(0),
    rows: || Box::new(Of2018),
    stamps: TraceStamps::Begin,
    usual: Usual::Median(60),
};

pub(super) const READER_2017: ImportReader = ImportReader {
    format: Format::Alibaba2017,
    // Eight columns of numbers may be anything.
    looks_like: |_| false,
    open: |input| open(&TRACE_2017, input),
};

pub(super) const READER_2018: ImportReader = ImportReader {
    format: Format::Alibaba2018,
    looks_like: is_2018,
    open: |input| open(&TRACE_2018, input),
};

/// Nine columns that begin with a machine such as `m_1932`.
fn is_2018(head: &Head<'_>) -> bool {
    let row = head.first();
    let name = row.split(|b| *b == b',').next().unwrap_or_default();
    row.split(|b| *b == b',').count() == 9
        && name.strip_prefix(b"m_").is_some_and(|n| whole(n).is_some())
}

struct Of2017;

impl TraceRows for Of2017 {
    fn reading(&mut self, row: &[u8]) -> Result<Option<TraceReading>, Fault> {
        let names = "stamp, machine, CPU, memory, disk, load1, load5, load15";
        let [stamp, _, cpu, ..]: [&[u8]; 8] = columns(row, names)?;
        value(stamp, percentage(cpu)?)
    }
}

struct Of2018;

impl TraceRows for Of2018 {
    fn reading(&mut self, row: &[u8]) -> Result<Option<TraceReading>, Fault> {
        let names = "machine, stamp, CPU, memory, ...";
        let [_, stamp, cpu, ..]: [&[u8]; 9] = columns(row, names)?;
        let load_pct = match cpu {
            b"-1" | b"101" => f64::NAN,
            _ => percentage(cpu)?,
        };
        value(stamp, load_pct)
    }
}

fn value(stamp: &[u8], load_pct: f64) -> Result<Option<TraceReading>, Fault> {
    let stamp_ns = seconds(stamp)?;
    Ok(Some(TraceReading {
        stamp_ns,
        end_ns: stamp_ns,
        load_pct,
        cpus: 0,
    }))
}
