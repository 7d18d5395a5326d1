// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SimGrid's availability traces: the files that `speed_file` or
//! `availability_file` of a `<host>` names.
//!
//! ```text
//! # date, and the share of the power that is left from then on
//! 1 0.5
//! 2 0.2
//! 5 1
//! LOOPAFTER 5
//! ```
//!
//! `PERIODICITY p`: the trace begins anew every p seconds. `LOOPAFTER d`: it
//! does d seconds after its last event. Lines of `#` and `%` are comments.
//! Read in simgrid/simgrid: `src/kernel/resource/profile/ProfileBuilder.cpp`
//! (the parser), `docs/source/XML_reference.rst` (the attribute). Older
//! versions, with `trace_mgr.cpp` in that folder, take PERIODICITY for
//! LOOPAFTER.
//!
//! Our own writer says in a comment, `# end 13`, where the profile ends.

use crate::error::printable;
use crate::export::simgrid::FIRST_LINE;
use crate::reader::ImportReader;
use crate::{Fault, Format};
use sandbag_input::head::{Head, words};

use super::availability::{self, AvailabilityFormat, AvailabilityLine, Ending, event, seconds};

pub(super) const READER: ImportReader = ImportReader {
    format: Format::SimGrid,
    looks_like,
    open: |input| availability::read(input, &SIMGRID),
};

const SIMGRID: AvailabilityFormat = AvailabilityFormat {
    format: Format::SimGrid,
    parse,
    no_end: "a trace without PERIODICITY or LOOPAFTER has none: give it",
    unsorted: "; SimGrid refuses such a trace too: sort it by time (`sort -n`)",
};

const LOOPS: [&[u8]; 2] = [b"PERIODICITY", b"LOOPAFTER"];
/// What a trace begins a time or a value with that it draws at random.
const LAWS: [&[u8]; 10] = [
    b"STOCHASTIC",
    b"DET",
    b"NORM",
    b"NORMAL",
    b"GAUSS",
    b"GAUSSIAN",
    b"EXP",
    b"EXPONENTIAL",
    b"UNIF",
    b"UNIFORM",
];

/// What our own writer begins with, or events with a line that no other
/// format has. Two columns of numbers alone may be anything. The last line of
/// the head may be cut off.
fn looks_like(head: &Head<'_>) -> bool {
    if head.first() == FIRST_LINE.as_bytes() {
        return true;
    }
    let data = || head.lines().filter(|line| !is_comment(line));
    let first = |line| words(line).next().unwrap_or_default();
    let whole = data().count().saturating_sub(1).max(1);
    let is_mark = |line| LOOPS.contains(&first(line)) || first(line) == b"STOCHASTIC";
    let is_line = |line| {
        let first = first(line);
        LOOPS.contains(&first) || LAWS.contains(&first) || seconds(first).is_some()
    };
    data().any(is_mark) && data().take(whole).all(is_line)
}

fn is_comment(line: &[u8]) -> bool {
    line.starts_with(b"#") || line.starts_with(b"%")
}

fn parse(line: &[u8]) -> Result<AvailabilityLine, Fault> {
    let mut words = words(line);
    let Some(first) = words.next() else {
        return Ok(AvailabilityLine::Nothing);
    };
    if is_comment(first) {
        let end = (first == b"#" && words.next() == Some(b"end"))
            .then(|| words.next().and_then(seconds))
            .flatten();
        return Ok(match end {
            Some(ns) if words.next().is_none() => AvailabilityLine::End(Ending::At(ns)),
            _ => AvailabilityLine::Nothing,
        });
    }
    let second = words.next().unwrap_or_default();
    if LAWS.contains(&first) || LAWS.contains(&second) {
        return Err(Fault::lacks(
            Format::SimGrid,
            "its times or values are drawn at random, so it is no profile; \
                  write the numbers that were drawn",
        ));
    }
    if let Some(rest) = words.next().filter(|rest| !is_comment(rest)) {
        return Err(Fault::unexpected(
            "two numbers, a time and an availability",
            format!("{} behind them", printable(rest)),
        ));
    }
    if LOOPS.contains(&first) {
        let ns = seconds(second).ok_or_else(|| {
            Fault::syntax(
                format!("seconds after {}", String::from_utf8_lossy(first)),
                second,
            )
        })?;
        return Ok(AvailabilityLine::End(if first == LOOPS[0] {
            Ending::Period(ns)
        } else {
            Ending::After(ns)
        }));
    }
    event(first, second)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::testing::{any_profile, read_as};
    use crate::{Format, Gaps, Profile, algebra, export};

    proptest! {
        #[test]
        fn what_is_written_is_read_back(p in any_profile()) {
            let one = || {
                let steps = algebra::select_cpus(p.clone().into_steps(), &p.header.cpus[..1]);
                algebra::fill_gaps(algebra::steal_as_load(steps.unwrap()), Gaps::Zero)
            };
            let mut text = Vec::new();
            export(&mut one(), Format::SimGrid, &mut text).unwrap();
            let back = read_as(&text, None).unwrap();
            let sent = Profile::collect(one()).unwrap();
            prop_assert_eq!(back.header.format, Format::SimGrid);
            prop_assert_eq!(back.end_ns(), sent.end_ns());
            for step in &sent.steps {
                let got = crate::testing::at(&back, step.start_ns).unwrap()[0].unwrap();
                let wanted = step.cells[0].unwrap();
                prop_assert!((got.load_pct - wanted.load_pct).abs() < 1e-4);
            }
        }
    }
}
