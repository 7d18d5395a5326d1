// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PlanetLab's virtual machines, as CloudSim has them: a file per machine and
//! day, a whole percentage per line, five minutes each, without stamps.

use crate::number::NS_PER_S;
use crate::reader::ImportReader;
use crate::{Fault, Format};

use super::{TraceFormat, TraceReading, TraceRows, TraceStamps, Usual, open, percentage};

const STEP_S: i64 = 300;

static TRACE: TraceFormat = TraceFormat {
    format: Format::PlanetLab,
    machine: None,
    rows: || Box::new(PlanetLab { rows: 0 }),
    stamps: TraceStamps::Begin,
    usual: Usual::Documented(STEP_S),
};

pub(super) const READER: ImportReader = ImportReader {
    format: Format::PlanetLab,
    // Numbers in lines may be anything.
    looks_like: |_| false,
    open: |input| open(&TRACE, input),
};

struct PlanetLab {
    /// Up to now.
    rows: i64,
}

impl TraceRows for PlanetLab {
    fn reading(&mut self, row: &[u8]) -> Result<Option<TraceReading>, Fault> {
        let stamp_ns = self.rows.saturating_mul(STEP_S * NS_PER_S as i64);
        self.rows += 1;
        Ok(Some(TraceReading {
            stamp_ns,
            end_ns: stamp_ns,
            load_pct: percentage(row.trim_ascii())?,
            cpus: 0,
        }))
    }
}
