// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `vm_cpu_readings` of Azure's traces of virtual machines, 2017 and 2019.
//!
//! ```text
//! 300,<64 characters of base 64>,19.67,42.71,26.99
//! ```
//!
//! Stamp, machine, and the least, greatest and mean utilisation in the five
//! minutes from then on, percent of the virtual machine.

use crate::number::whole;
use crate::reader::ImportReader;
use crate::{Fault, Format};
use sandbag_input::Head;

use super::{
    TraceFormat, TraceReading, TraceRows, TraceStamps, Usual, columns, open, percentage, seconds,
};

static TRACE: TraceFormat = TraceFormat {
    format: Format::Azure,
    machine: Some(1),
    rows: || Box::new(Azure),
    stamps: TraceStamps::Begin,
    usual: Usual::Documented(300),
};

pub(super) const READER: ImportReader = ImportReader {
    format: Format::Azure,
    looks_like,
    open: |input| open(&TRACE, input),
};

fn looks_like(head: &Head<'_>) -> bool {
    let is_name = |field: &[u8]| {
        let base64 = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=');
        field.len() == 64 && field.iter().all(base64)
    };
    let row: Vec<&[u8]> = head.first().split(|b| *b == b',').collect();
    matches!(row[..], [stamp, name, _, _, _] if whole(stamp).is_some() && is_name(name))
}

struct Azure;

impl TraceRows for Azure {
    fn reading(&mut self, row: &[u8]) -> Result<Option<TraceReading>, Fault> {
        let [stamp, _, _, _, mean] = columns(row, "stamp, machine, least, greatest, mean")?;
        let stamp_ns = seconds(stamp)?;
        Ok(Some(TraceReading {
            stamp_ns,
            end_ns: stamp_ns,
            load_pct: percentage(mean)?,
            cpus: 0,
        }))
    }
}
