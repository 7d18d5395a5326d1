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
        return Err(Fault::Syntax {
            expected: "a date and a value".into(),
            found: format!("{} behind them", printable(rest)),
        });
    }
    if matches!(value, b"up" | b"down" | b"freeze" | b"unfreeze") || value.ends_with(b"s") {
        return Err(Fault::Lacks {
            format: Format::Distem,
            why: format!("{} is no event of a CPU (`power`)", printable(value)),
        });
    }
    match event(date, value)? {
        // A core of speed 0 is refused by Distem, but may be meant.
        AvailabilityLine::Event { left, .. } if left > 1.0 => Err(Fault::Syntax {
            expected: "a share of the core's frequency, 0 to 1 (what is greater is MHz to Distem: \
                       divide it by the frequency of your cores)"
                .into(),
            found: printable(value),
        }),
        line => Ok(line),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use crate::testing::{loads, message, read_as};
    use crate::{Format, InputSource, Profile, ReadOptions, Result};

    fn read(text: &[u8], format: Option<Format>) -> Result<Profile> {
        let options = ReadOptions {
            end_ns: Some(9_000_000_000),
            ..ReadOptions::default()
        };
        let source = InputSource::spool(&mut &*text, "in".into())?;
        Profile::collect(source.open(format, &options)?)
    }

    const TRACE: &[u8] = b"1 0.75\n\n3.0 0.25\n6 1\n";

    #[test]
    fn a_trace() {
        let p = read(TRACE, Some(Format::Distem)).unwrap();
        assert_eq!(p.header.format, Format::Distem);
        assert_eq!(
            loads(&p),
            [
                (1, vec![Some(0.0)]),
                (3, vec![Some(25.0)]),
                (6, vec![Some(75.0)]),
                (9, vec![Some(0.0)]),
            ]
        );
        assert!(p.warnings[0].contains("before its first event, at 1 s"));
    }

    #[test]
    fn it_must_be_asked_for_and_means_the_same_as_simgrids() {
        assert_eq!(Format::detect(TRACE), None);
        let distem = read(TRACE, Some(Format::Distem)).unwrap();
        let simgrid = read(TRACE, Some(Format::SimGrid)).unwrap();
        assert_eq!(distem.steps, simgrid.steps);
    }

    #[rstest]
    #[case("0 1\n", "in: the profile has no end; a trace of Distem has none")]
    #[case("0 0.5\n5 2400\n", "in:2:3: expected a share of the core's frequency")]
    #[case("0 down\n", "in:1: distem: `down` is no event")]
    #[case("0 100mbps\n", "`100mbps` is no event of a CPU")]
    #[case(
        "5 1\n4 1\n",
        "in:2: time 4 does not come after 5, the time before it; Distem"
    )]
    #[case("0 1 2\n", "in:1: expected a date and a value, found `2` behind")]
    #[case("# 0 1\n", "in:1: expected a date and a value")]
    #[case("x\n", "in:1:1: expected a time in seconds")]
    fn rejects(#[case] text: &str, #[case] expected: &str) {
        let got = message(text, Format::Distem);
        assert!(got.contains(expected), "{got}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes: Vec<u8>, text in "([0-9. \n\t#e-]|down|mbps)*") {
            for text in [&bytes[..], text.as_bytes()] {
                read_as(text, Some(Format::Distem)).ok();
                read(text, Some(Format::Distem)).ok();
            }
        }
    }
}
