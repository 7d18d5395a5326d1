// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bitbrains' virtual machines, GWA-T-12 of the Grid Workloads Archive: a file
//! per machine.
//!
//! ```text
//! Timestamp [ms]; CPU cores; CPU capacity provisioned [MHZ]; CPU usage [MHZ]; CPU usage [%]; ...
//! 1376314846; 4; 11703.998016; 10912.027459; 93.233; ...
//! ```
//!
//! The stamps are seconds, whatever the header says. The machines are
//! VMware's, whose samples carry the time at which they were taken, so a stamp
//! is the end of its interval. Rows without cores are of a machine that was
//! off.

use crate::number::{cpu_number, whole};
use crate::reader::ImportReader;
use crate::{Fault, Format};

use super::{
    TraceEpoch, TraceFormat, TraceReading, TraceRows, TraceStamps, Usual, open, percentage, seconds,
};

const FIELDS: usize = 11;
/// In the year 5138 if it were seconds.
const MILLISECONDS: u64 = 100_000_000_000;

static TRACE: TraceFormat = TraceFormat {
    format: Format::Bitbrains,
    machine: None,
    rows: || Box::new(Bitbrains),
    stamps: TraceStamps::End,
    usual: Usual::Documented(300),
};

pub(super) const READER: ImportReader = ImportReader {
    format: Format::Bitbrains,
    looks_like: |head| head.first().starts_with(b"Timestamp [ms];"),
    open: |input| open(&TRACE, input),
};

struct Bitbrains;

impl TraceRows for Bitbrains {
    fn reading(&mut self, row: &[u8]) -> Result<Option<TraceReading>, Fault> {
        if row.starts_with(b"Timestamp") {
            return Ok(None);
        }
        let mut fields = row.split(|b| *b == b';').map(<[u8]>::trim_ascii);
        let found = fields.clone().count();
        if found != FIELDS {
            return Err(Fault::unexpected(
                format!("{FIELDS} columns with semicolons between them"),
                format!("{found}; the file may be cut short"),
            ));
        }
        let mut next = || fields.next().unwrap_or_default();
        let (stamp, cores, _, _, usage) = (next(), next(), next(), next(), next());
        let stamp_ns = match whole(stamp) {
            Some(ms @ MILLISECONDS..) => i64::try_from(ms)
                .ok()
                .and_then(|ms| ms.checked_mul(1_000_000))
                .filter(|ns| *ns < i64::MAX / 2)
                .ok_or_else(|| Fault::syntax("a stamp in seconds or milliseconds", stamp))?,
            _ => seconds(stamp)?,
        };
        let cpus = cpu_number(cores).ok_or_else(|| Fault::syntax("a number of cores", cores))?;
        let load_pct = match cpus {
            0 => f64::NAN,
            _ => percentage(usage)?,
        };
        Ok(Some(TraceReading {
            stamp_ns,
            end_ns: stamp_ns,
            load_pct,
            cpus,
        }))
    }

    fn clock(&self) -> TraceEpoch {
        TraceEpoch::Utc
    }
}
