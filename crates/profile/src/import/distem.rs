// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Distem's event traces of the power of a virtual CPU.
//!
//! ```text
//! 0 0.75
//! 10 0.5
//! 60 1
//! ```
//!
//! A line is a date, in seconds since the event manager was started, and a
//! value; a value up to 1 is a share of the physical core's frequency, a
//! greater one a frequency in MHz. Read in madynes/distem:
//! `lib/distem/netapi/client.rb` (`event_trace_file_add`),
//! `lib/distem/daemon/distemcoordinator.rb` (`event_trace_string_add`, the
//! parser) and `lib/distem/events/event.rb` (`power`, the units).
//!
//! Two columns of numbers may be anything, so such a file must be asked for.

use crate::error::printable;
use crate::reader::ImportReader;
use crate::{Fault, Format};
use sandbag_input::head::words;

use super::availability::{self, AvailabilityFormat, AvailabilityLine, event};

pub(super) const READER: ImportReader = ImportReader {
    format: Format::Distem,
    looks_like: |_| false,
    open: |input| availability::read(input, &DISTEM),
};

const DISTEM: AvailabilityFormat = AvailabilityFormat {
    format: Format::Distem,
    parse,
    no_end: "a trace of Distem has none: give it",
    unsorted: "; Distem sorts its events: do that first (`sort -n`)",
};

fn parse(line: &[u8]) -> Result<AvailabilityLine, Fault> {
    let mut words = words(line);
    let Some(date) = words.next() else {
        return Ok(AvailabilityLine::Nothing);
    };
    let value = words.next().unwrap_or_default();
    if let Some(rest) = words.next() {
        return Err(Fault::unexpected(
            "a date and a value",
            format!("{} behind them", printable(rest)),
        ));
    }
    if matches!(value, b"up" | b"down" | b"freeze" | b"unfreeze") || value.ends_with(b"s") {
        return Err(Fault::lacks(
            Format::Distem,
            format!("{} is no event of a CPU (`power`)", printable(value)),
        ));
    }
    match event(date, value)? {
        // A core of speed 0 is refused by Distem, but may be meant.
        AvailabilityLine::Event { left, .. } if left > 1.0 => Err(Fault::syntax(
            "a share of the core's frequency, 0 to 1 (what is greater is MHz to Distem: \
                       divide it by the frequency of your cores)",
            value,
        )),
        line => Ok(line),
    }
}
