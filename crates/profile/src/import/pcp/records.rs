// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a format of PCP is to the rest.

use crate::{Error, Fault, Format, Result};

use super::super::sample::ImportSummary;
use super::reading::{PcpReading, ValueKind};

#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
    /// A record with its stamp, ns. It may hold no value.
    Values(i64),
    /// What follows does not continue what was before.
    Mark,
    End,
}

/// A file as a stream of records: one row, element or dumped record each.
pub(super) trait Records: Send {
    const FORMAT: Format;
    /// What the user has to export, for a message.
    const REMEDY: &'static str;

    /// Reads the next record into `record`, which is empty before.
    fn next_record(&mut self, record: &mut PcpReading) -> Result<Event>;
    /// What the values are, as soon as there was one.
    fn kind(&self) -> Option<ValueKind>;
    /// Without warnings of the values and whether there is steal.
    fn about(&self) -> ImportSummary;
    fn ahead_of_utc_ns(&self) -> i64 {
        0
    }
    /// The fault at the place last read.
    fn here(&self, fault: Fault) -> Error;
    /// The fault of the file as a whole.
    fn nowhere(&self, fault: Fault) -> Error;
}
