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
        return Err(Fault::Lacks {
            format: Format::SimGrid,
            why: "its times or values are drawn at random, so it is no profile; \
                  write the numbers that were drawn"
                .into(),
        });
    }
    if let Some(rest) = words.next().filter(|rest| !is_comment(rest)) {
        return Err(Fault::Syntax {
            expected: "two numbers, a time and an availability".into(),
            found: format!("{} behind them", printable(rest)),
        });
    }
    if LOOPS.contains(&first) {
        let ns = seconds(second).ok_or_else(|| Fault::Syntax {
            expected: format!("seconds after {}", String::from_utf8_lossy(first)),
            found: printable(second),
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
    use rstest::rstest;

    use crate::testing::{any_profile, assert_sound, loads, message, read, read_as};
    use crate::{Format, Gaps, InputSource, Profile, ReadOptions, Result, algebra, export};

    fn read_with(text: &str, options: &ReadOptions) -> Result<Profile> {
        let source = InputSource::spool(&mut text.as_bytes(), "in".into())?;
        let p = Profile::collect(source.open(Some(Format::SimGrid), options)?)?;
        assert_sound(&p);
        Ok(p)
    }

    fn read_until(end_ns: u64) -> ReadOptions {
        ReadOptions {
            end_ns: Some(end_ns),
            ..ReadOptions::default()
        }
    }

    /// The example of SimGrid's documentation, of which it says: reset at 10.
    #[test]
    fn one_round_of_a_loop() {
        let p = read("# a comment\n% another\n\n1 0.5\n2 0.2\n5 1\nLOOPAFTER 5\n");
        assert_eq!(p.header.format, Format::SimGrid);
        assert_eq!(p.header.cpus, [0]);
        assert_eq!(
            loads(&p),
            [
                (1, vec![Some(0.0)]),
                (2, vec![Some(50.0)]),
                (5, vec![Some(80.0)]),
                (10, vec![Some(0.0)]),
            ]
        );
        assert_eq!(p.warnings.len(), 2, "{:?}", p.warnings);
    }

    #[test]
    fn a_period_counts_from_the_beginning() {
        let p = read("PERIODICITY 1e1\n0 0.7\r\n2.5e0\t0 # all gone\n");
        assert_eq!(p.steps[0].cells[0].unwrap().load_pct, 30.0);
        assert_eq!(p.steps[0].end_ns, 2_500_000_000);
        assert_eq!(p.end_ns(), 10_000_000_000);
        assert!(p.warnings[0].contains("first round, 10 s"));
    }

    #[test]
    fn more_than_the_whole_and_events_at_one_time() {
        let p = read("0 0.5\n2 0.1\n2 1.0\n8 4\nLOOPAFTER 10");
        assert_eq!(
            loads(&p),
            [
                (2, vec![Some(50.0)]),
                (8, vec![Some(0.0)]),
                (18, vec![Some(0.0)])
            ]
        );
        assert!(p.warnings[1].contains("1 events have the time of the one before"));
        assert!(p.warnings[2].contains("1 events leave more than the whole CPU"));
    }

    #[test]
    fn an_end_from_outside() {
        let text = "0 0.5\n2 0.25\n4 1\n";
        let got = message(text, Format::SimGrid);
        assert!(got.contains("in: the profile has no end"), "{got}");
        let p = read_with(text, &read_until(3_000_000_000)).unwrap();
        assert_eq!(loads(&p), [(2, vec![Some(50.0)]), (3, vec![Some(75.0)])]);
        assert!(p.warnings[0].contains("1 events lie at or after the end"));
        // The file's own end wins.
        for own in ["LOOPAFTER 2", "# end 6"] {
            let p = read_with(&format!("{text}{own}\n"), &read_until(3_000_000_000)).unwrap();
            assert_eq!(p.end_ns(), 6_000_000_000);
        }
    }

    #[test]
    fn a_loop_goes_before_a_comment() {
        for text in [
            "0 0.5\n# end 4\nLOOPAFTER 9\n",
            "PERIODICITY 9\n0 0.5\n# end 4\n",
        ] {
            assert_eq!(loads(&read(text)), [(9, vec![Some(50.0)])]);
        }
    }

    #[test]
    fn a_host_of_several_cores() {
        let options = ReadOptions {
            spread: Some("2".parse().unwrap()),
            ..read_until(1_000_000_000)
        };
        let p = read_with("0 0.25\n", &options).unwrap();
        assert_eq!(p.header.cpus, [0, 1]);
        assert_eq!(loads(&p), [(1, vec![Some(75.0), Some(75.0)])]);
    }

    #[rstest]
    #[case("0 0.5\nLOOPAFTER 5\n", true)]
    #[case("0 0.5 # half\n10 1\n12", false)]
    #[case("# availability of one CPU, written by sandbag\n0 1\n# end 5\n", true)]
    #[case("STOCHASTIC LOOP\nNORM 1 2 UNIF 0 1\n", true)]
    #[case("0 4\nPERIODICITY 7\n1 2\n", true)]
    #[case("10 0.5\n5 1\n7 1\n", false)]
    #[case("0 50\n10 20\n20 3\n", false)]
    #[case("0.5\n0.7\n0.9\n", false)]
    #[case("0 0.5 0.7\n1 0.5 0.7\n2 0 0\n", false)]
    #[case("time value\n0 0.5\n1 1\n", false)]
    #[case("# nothing\n", false)]
    fn detection(#[case] text: &str, #[case] is_one: bool) {
        let format = Format::detect(text.as_bytes());
        assert_eq!(format == Some(Format::SimGrid), is_one, "{format:?}");
    }

    #[rstest]
    #[case("0 0.5\n2 -1\n", "in:2:3: expected the share of the CPU that is left")]
    #[case("0 0.5\n2 NaN\n", "in:2:3: expected the share of the CPU")]
    #[case("0 0.5\n2\n", "in:2: expected the share of the CPU")]
    #[case("0 0,5\n", "in:1:3: `0,5` is written with a decimal comma")]
    #[case("0 0.5 7\n", "in:1: expected two numbers, a time and an availability")]
    #[case("time 0.5\n", "in:1:1: expected a time in seconds")]
    #[case("-1 0.5\n", "in:1:1: expected a time in seconds")]
    #[case(
        "5 0.5\n4 0.5\n",
        "in:2: time 4 does not come after 5, the time before it; SimGrid"
    )]
    #[case("0 1\nLOOPAFTER x\n", "in:2:11: expected seconds after LOOPAFTER")]
    #[case(
        "0 1\nLOOPAFTER 1\nPERIODICITY 2\n",
        "in:3: `end of the trace` stands twice"
    )]
    #[case(
        "5 1\nPERIODICITY 4\n",
        "in: expected a period of at least 5 s, found 4 s"
    )]
    #[case("0 1\nLOOPAFTER 0\n", "nothing of the profile is left")]
    #[case("STOCHASTIC\n", "in:1: simgrid: its times")]
    #[case("0 NORM 1 2\n", "drawn at random")]
    #[case("# end 5\n", "it holds no line")]
    fn rejects(#[case] text: &str, #[case] expected: &str) {
        let got = message(text, Format::SimGrid);
        assert!(got.contains(expected), "{got}");
    }

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

        #[test]
        fn any_bytes_are_answered(
            bytes: Vec<u8>,
            text in "([0-9. \n\t#%e-]|LOOPAFTER|PERIODICITY|NORM|end)*",
        ) {
            for text in [&bytes[..], text.as_bytes()] {
                let _format = Format::detect(text);
                read_as(text, Some(Format::SimGrid)).ok();
                read_with(&String::from_utf8_lossy(text), &read_until(7)).ok();
            }
        }
    }
}
