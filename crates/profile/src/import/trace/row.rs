// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a row of a trace means.

use crate::{Fault, Format, Result};

/// What one row says of its machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TraceReading {
    /// On the clock of the trace.
    pub(super) stamp_ns: i64,
    /// The end of the interval; only with [`TraceStamps::Both`].
    pub(super) end_ns: i64,
    /// Percent of the whole machine, 0 or more; NaN where it is not known.
    pub(super) load_pct: f64,
    /// How many CPUs the machine has; 0 where the trace does not say.
    pub(super) cpus: u32,
    /// What the stamps count from.
    pub(super) epoch: TraceEpoch,
}

/// What a stamp is of the interval that its value is the mean of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TraceStamps {
    Begin,
    End,
    /// Each row is of a task, and has begin and end; a machine is their sum.
    Both,
}

/// How long a value stands for where no other comes soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Usual {
    /// As the trace is documented, s.
    Documented(i64),
    /// The median distance of stamps, or if there are none this, s.
    Median(i64),
}

/// What the stamps count from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TraceEpoch {
    Unknown,
    Utc,
    Local,
}

pub(super) struct TraceFormat {
    pub(super) format: Format,
    /// The column of the machine's name, from 0; without one a file is of one
    /// machine.
    pub(super) machine: Option<usize>,
    pub(super) stamps: TraceStamps,
    pub(super) usual: Usual,
    /// The value of a row, of which this many were before; `None` for one
    /// without a value.
    pub(super) reading: fn(&[u8], i64) -> Result<Option<TraceReading>, Fault>,
}

impl TraceFormat {
    /// The machine of a row; `None` if the row ends before it.
    pub(super) fn machine_of<'a>(&self, row: &'a [u8]) -> Option<&'a [u8]> {
        match self.machine {
            Some(column) => row.split(|b| *b == b',').nth(column),
            None => Some(b""),
        }
    }
}

/// Whether this, the first line of a file, names the columns: some put such a
/// line into traces that have none.
pub(super) fn is_header(line: &[u8]) -> bool {
    let mut fields = line.split(|b| *b == b',').map(<[u8]>::trim_ascii);
    fields.all(|field| {
        let text = field.strip_prefix(b"\"").unwrap_or(field);
        text.first().is_some_and(u8::is_ascii_alphabetic)
    })
}
