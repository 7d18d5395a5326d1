// SPDX-License-Identifier: Apache-2.0 OR MIT
use rstest::rstest;

use crate::Format;
use crate::testing::{assert_damage_is_answered, loads, message, read};

/// A line of CPUs with ticks of user and idle.
fn line(end_s: u64, elapsed_s: u64, cpus: &[(u64, u64)]) -> String {
    let cpus: Vec<_> = cpus
        .iter()
        .enumerate()
        .map(|(n, (user, idle))| {
            format!(
                "{{\"cpuid\": {n}, \"stime\": 0, \"utime\": {user}, \"ntime\": 0, \
                 \"itime\": {idle}, \"wtime\": 100, \"Itime\": 0, \"Stime\": 0, \
                 \"steal\": 200, \"guest\": 5, \"freq\": 2596}}"
            )
        })
        .collect();
    format!(
        "{{\"host\": \"vm\", \"timestamp\": {end_s}, \"elapsed\": {elapsed_s}, \
         \"CPU\": {{\"hertz\": 100}}, \"cpu\": [{}]}}\n",
        cpus.join(", ")
    )
}

fn file() -> String {
    [
        line(1000, 900, &[(9, 9), (9, 9)]),
        line(1010, 10, &[(300, 400), (700, 0)]),
        line(1020, 10, &[(0, 700)]),
        // atop was started anew.
        line(1025, 925, &[(9, 9), (9, 9)]),
        line(1035, 10, &[(700, 0), (700, 0)]),
    ]
    .concat()
}

#[test]
fn samples_since_boot_are_left_out_and_told() {
    let p = read(&file());
    assert_eq!(p.header.format, Format::AtopJson);
    assert_eq!(p.header.host.as_deref(), Some("vm"));
    assert_eq!(
        p.header.begins_at.unwrap().to_string(),
        "1970-01-01T00:16:40Z"
    );
    assert_eq!(
        loads(&p),
        [
            (10, vec![Some(37.5), Some(87.5)]),
            (20, vec![Some(0.0), None]),
            (25, vec![None, None]),
            (35, vec![Some(87.5), Some(87.5)]),
        ]
    );
    assert_eq!(p.steps[0].cells[0].unwrap().steal_pct, 20.0);
    let expected = "the first sample holds all the time since boot, as atop writes it, and was \
                    left out, and so were 1 more";
    assert!(p.warnings[0].starts_with(expected), "{:?}", p.warnings);
}

#[test]
fn a_stamp_that_stands_twice_is_left_to_the_timeline() {
    let p = read(
        &[
            line(1000, 900, &[(9, 9)]),
            line(1600, 600, &[(300, 400)]),
            line(1600, 600, &[(0, 700)]),
        ]
        .concat(),
    );
    assert_eq!(loads(&p), [(600, vec![Some(37.5)])]);
    assert!(
        p.warnings
            .iter()
            .any(|w| w.contains("the stamp of the one before")),
        "{:?}",
        p.warnings
    );
}

#[rstest]
#[case(
    "{\"host\": \"vm\", \"timestamp\": 5, \"elapsed\": 5, \"CPU\": {\"hertz\": 100}}\n",
    "the key `CPU` is their sum; export with `atop -r FILE -J cpu`"
)]
#[case(
    "{\"host\": \"vm\", \"timestamp\": 5, \"elapsed\": 5}\n",
    "no line has the key `cpu`"
)]
#[case(
    &line(5, 5, &[(1, 1)]),
    "one snapshot holds no load"
)]
#[case(
    "{\"host\": \"vm\", \"timestamp\": 5, \"elapsed\": 5, \"cpu\": [{\"cpuid\"",
    "in:1: JSON: EOF while parsing an object (at byte 61 of the line); the file was cut short"
)]
#[case(
    "{\"host\": \"vm\", \"timestamp\": -5, \"elapsed\": 5}\n",
    "in:1: JSON: invalid value"
)]
#[case("{\"host\": \"vm\"}\n", "in:1: JSON: missing field `timestamp`")]
#[case("[]\n", "in:1: JSON: ")]
fn rejects(#[case] text: &str, #[case] expected: &str) {
    let got = message(text, Format::AtopJson);
    assert!(got.contains(expected), "{got}");
}

#[rstest]
#[case(
    "\"cpuid\": 0",
    "\"cpuid\": 70000",
    "in:2:91: expected the number of a CPU, found `70000`"
)]
#[case("\"utime\": 300", "\"user\": 300", "in:2: JSON: missing field `utime`")]
#[case(
    "\"timestamp\": 1035",
    "\"timestamp\": 1015",
    "in:5: time 1970-01-01 00:16:55 does not"
)]
#[case(
    "\"vm\", \"timestamp\": 1035",
    "\"vn\", \"timestamp\": 1035",
    "in:5: this line is of host vn"
)]
fn refused_in_the_middle(#[case] from: &str, #[case] to: &str, #[case] expected: &str) {
    let got = message(&file().replace(from, to), Format::AtopJson);
    assert!(got.contains(expected), "{got}");
}

#[test]
fn damage_is_answered() {
    assert_damage_is_answered(file(), Format::AtopJson);
}
