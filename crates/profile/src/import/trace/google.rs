// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `task_usage` of Google's `clusterdata-2011`, versions 2.0 and 2.1.
//!
//! ```text
//! 600000000,900000000,3418309,0,4155527081,0.001562,0.06787,0.07568,...
//! ```
//!
//! Begin and end in microseconds, job, task, machine, mean CPU rate, and 13 or
//! 14 columns more. A rate of 1 is all CPUs of the largest machine of the
//! cluster; how large this one is stands in another file.

use crate::number::{decimal, whole};
use crate::reader::ImportReader;
use crate::{Fault, Format};
use sandbag_input::Head;

use super::{
    TraceEpoch, TraceFormat, TraceReading, TraceRows, TraceStamps, Usual, columns, open, percentage,
};

/// Time 600 s of the trace is 2011-05-01 19:00 in New York.
const ZERO_NS: i64 = (1_304_290_800 - 600) * 1_000_000_000;

const NAMES: &str = "start, end, job, task, machine, CPU rate, ...";
const MACHINE: usize = 4;

static TRACE: TraceFormat = TraceFormat {
    format: Format::Google2011,
    machine: Some(MACHINE),
    rows: || Box::new(Google),
    stamps: TraceStamps::Both,
    usual: Usual::Documented(300),
};

pub(super) const READER: ImportReader = ImportReader {
    format: Format::Google2011,
    looks_like,
    open: |input| open(&TRACE, input),
};

/// Numbers in 20 columns (19 in version 2.0), of which the first two are
/// microseconds from a later one on than the trace begins with.
fn looks_like(head: &Head<'_>) -> bool {
    let row = head.first();
    let mut fields = row.split(|b| *b == b',');
    let count = fields.clone().count();
    let numbers = fields.clone().all(|f| f.is_empty() || decimal(f).is_some());
    let mut stamp = || fields.next().and_then(whole);
    matches!(count, 19 | 20)
        && numbers
        && matches!((stamp(), stamp()), (Some(a), Some(b)) if (600_000_000..b).contains(&a))
}

struct Google;

impl TraceRows for Google {
    fn reading(&mut self, row: &[u8]) -> Result<Option<TraceReading>, Fault> {
        let count = row.split(|b| *b == b',').count();
        let [start, end, _, _, _, rate, ..] = match count {
            19 => {
                let columns: [&[u8]; 19] = columns(row, NAMES)?;
                let mut all = [&b""[..]; 20];
                all[..19].copy_from_slice(&columns);
                all
            }
            _ => columns::<20>(row, NAMES)?,
        };
        Ok(Some(TraceReading {
            stamp_ns: stamp(start)?,
            end_ns: stamp(end)?,
            load_pct: percentage(rate)? * 100.0,
            cpus: 0,
        }))
    }

    fn clock(&self) -> TraceEpoch {
        TraceEpoch::Utc
    }
}

/// Microseconds of the trace.
fn stamp(field: &[u8]) -> Result<i64, Fault> {
    let us = whole(field).and_then(|us| i64::try_from(us).ok());
    us.and_then(|us| us.checked_mul(1000)?.checked_add(ZERO_NS))
        .filter(|ns| *ns < i64::MAX / 2)
        .ok_or_else(|| Fault::syntax("a stamp in microseconds", field))
}
