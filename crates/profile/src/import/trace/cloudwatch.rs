// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU utilisation from Amazon CloudWatch as CSV, such as the Numenta Anomaly
//! Benchmark has it.
//!
//! ```text
//! timestamp,value
//! 2014-02-14 14:30:00,0.132
//! ```
//!
//! A stamp is the begin of its period. Without a zone it is taken for local
//! time.

use crate::reader::ImportReader;
use crate::{Fault, Format};
use sandbag_input::Head;

use super::super::stamp::{self, EpochStamp};
use super::{
    TraceEpoch, TraceFormat, TraceReading, TraceRows, TraceStamps, Usual, columns, open, percentage,
};

/// Other metrics come in the same two columns.
const MOST_PCT: f64 = 1000.0;

static TRACE: TraceFormat = TraceFormat {
    format: Format::CloudWatch,
    machine: None,
    rows: || Box::new(CloudWatch::default()),
    stamps: TraceStamps::Begin,
    usual: Usual::Median(300),
};

pub(super) const READER: ImportReader = ImportReader {
    format: Format::CloudWatch,
    looks_like,
    open: |input| open(&TRACE, input),
};

/// The header, and a date below it.
fn looks_like(head: &Head<'_>) -> bool {
    let mut lines = head.lines();
    let header = lines.next().unwrap_or_default();
    header.eq_ignore_ascii_case(b"timestamp,value")
        && lines.next().is_some_and(|row| {
            let first = row.split(|b| *b == b',').next();
            first.is_some_and(|field| utc(field).is_some())
        })
}

/// `2014-02-14 14:30:00`, with a `T` between or with a zone of UTC behind.
fn utc(field: &[u8]) -> Option<EpochStamp> {
    let date = field.get(..10)?;
    let time = field.get(11..19)?;
    if !matches!(field.get(10), Some(b' ' | b'T')) {
        return None;
    }
    let zone = match field.get(19..)?.trim_ascii() {
        b"" => b"",
        b"Z" | b"+00:00" | b"UTC" | b".000Z" => &b"UTC"[..],
        _ => return None,
    };
    stamp::civil(date, time, zone)
}

#[derive(Default)]
struct CloudWatch {
    local: bool,
}

impl TraceRows for CloudWatch {
    fn reading(&mut self, row: &[u8]) -> Result<Option<TraceReading>, Fault> {
        let [when, value] = columns(row, "timestamp, value")?;
        let stamp = utc(when).ok_or_else(|| {
            Fault::syntax(
                "a stamp such as 2014-02-14 14:30:00, in local time or UTC",
                when,
            )
        })?;
        self.local = stamp.local;
        let load_pct = percentage(value)?;
        if load_pct > MOST_PCT {
            return Err(Fault::lacks(
                Format::CloudWatch,
                format!("{load_pct} is no CPU utilisation in percent"),
            ));
        }
        Ok(Some(TraceReading {
            stamp_ns: stamp.ns,
            end_ns: stamp.ns,
            load_pct,
            cpus: 0,
        }))
    }

    fn clock(&self) -> TraceEpoch {
        if self.local {
            TraceEpoch::Local
        } else {
            TraceEpoch::Utc
        }
    }
}
