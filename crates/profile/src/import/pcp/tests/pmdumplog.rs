// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pmdumplog`.

use proptest::prelude::*;
use rstest::rstest;

use crate::Format;
use crate::testing::{loads, message, read, read_as};

use super::{USER_SYS_IDLE, begins};

/// A record of pmdumplog.
fn record(stamp: &str, metrics: &[(&str, [u64; 2])]) -> String {
    let mut text = format!("\n{stamp} {} metrics\n", metrics.len());
    for (name, values) in metrics {
        text += &format!(
            "    60.0.0 (kernel.percpu.cpu.{name}):\n        inst [0 or \"cpu0\"] value {}\n        \
             inst [1 or \"cpu1\"] value {}\n",
            values[0], values[1]
        );
    }
    text
}

/// One pass in two records, 50 ms apart.
fn pass(stamp: [&str; 2], ms: u64) -> String {
    record(
        stamp[0],
        &[("user", [1000 + ms / 4, 2000 + ms / 2]), ("sys", [0, 0])],
    ) + &record(
        stamp[1],
        &[("idle", [90_000 + ms / 4 * 3, 80_000 + ms / 2])],
    )
}

pub(super) fn dump() -> String {
    "Note: timezone set to \"TZ=UTC\"\n\n".to_owned()
        + &pass(
            [
                "Sat Nov 21 17:58:53.964957 2026",
                "Sat Nov 21 17:58:54.014957 2026",
            ],
            0,
        )
        + &pass(
            [
                "Sat Nov 21 17:58:54.964957 2026",
                "Sat Nov 21 17:58:55.014957 2026",
            ],
            1000,
        )
}

#[test]
fn a_long_piece_of_an_archive_is_no_load() {
    let at = |time: &str, ms| {
        let stamps = ["10", "20"].map(|hundredths| format!("Sat Nov 21 {time}.{hundredths} 2026"));
        pass([&stamps[0], &stamps[1]], ms)
    };
    // 32382 s, then 60 s each.
    let text = "Note: timezone set to \"TZ=UTC\"\n\n".to_owned()
        + &at("01:00:00", 0)
        + &at("09:59:42", 32_382_000)
        + &at("10:00:42", 32_442_000)
        + &at("10:01:42", 32_502_000);
    let p = read(&text);
    let cells = [(32_382, vec![None, None])];
    let loaded = [32_442, 32_502].map(|end| (end, vec![Some(25.0), Some(50.0)]));
    assert_eq!(loads(&p), [&cells[..], &loaded].concat());
    assert!(
        p.warnings[1].contains("the longest at 0 s for 32382 s"),
        "{:?}",
        p.warnings
    );
}

#[test]
fn a_dumped_pass_in_two_records_is_one() {
    let p = read(&dump());
    assert_eq!(p.header.format, Format::Pmdumplog);
    assert_eq!(begins(&p), "2026-11-21T17:58:53.964957Z");
    assert_eq!(loads(&p), [(1, vec![Some(25.0), Some(50.0)])]);
    // In one record.
    let one = dump().replace("\n\nSat Nov 21 17:58:54.014957 2026 1 metrics", "");
    let one = one.replace("\n\nSat Nov 21 17:58:55.014957 2026 1 metrics", "");
    assert_eq!(read(&one), p);
    // Passes that are shorter than what one may last.
    let fast = dump()
        .replace("54.964957", "54.164957")
        .replace("55.014957", "54.214957");
    assert_eq!(read(&fast).end_ns(), 200_000_000);
}

#[test]
fn a_mark_begins_the_counters_anew() {
    let mark = "\nSat Nov 21 17:58:55.015957 2026  <mark>\n";
    let p = read(
        &(dump()
            + mark
            + &pass(
                [
                    "Sat Nov 21 17:59:03.964957 2026",
                    "Sat Nov 21 17:59:04.014957 2026",
                ],
                9000,
            )
            + &pass(
                [
                    "Sat Nov 21 17:59:04.964957 2026",
                    "Sat Nov 21 17:59:05.014957 2026",
                ],
                10_000,
            )),
    );
    let cpus = vec![Some(25.0), Some(50.0)];
    assert_eq!(
        loads(&p),
        [(1, cpus.clone()), (10, vec![None, None]), (11, cpus)]
    );
}

#[test]
fn a_pass_without_its_second_record_is_passed_over() {
    let p = read(
        &(dump()
            + &record(
                "Sat Nov 21 17:58:55.964957 2026",
                &[("user", [2000, 2000]), ("sys", [0, 0])],
            )
            + &pass(
                [
                    "Sat Nov 21 17:58:56.964957 2026",
                    "Sat Nov 21 17:58:57.014957 2026",
                ],
                3000,
            )
            + &pass(
                [
                    "Sat Nov 21 17:58:57.964957 2026",
                    "Sat Nov 21 17:58:58.014957 2026",
                ],
                4000,
            )),
    );
    let cpus = vec![Some(25.0), Some(50.0)];
    assert_eq!(loads(&p), [(1, cpus.clone()), (3, cpus.clone()), (4, cpus)]);
    let told = &p.warnings[1];
    assert!(
        told.starts_with("at 1 stamps no CPU has values of all"),
        "{told}"
    );
}

#[rstest]
// -xx, -xxx; -z.
#[case(
    "Note: timezone set to local timezone of host \"vm\" from archive\n",
    "Sat Nov 21 12:58:5#.5 2026 (0.050000)",
    "2026-11-21T12:58:53.5"
)]
#[case(
    "Note: timezone set to local timezone of host \"vm\" from archive\n",
    "Sat Nov 21 12:58:5#.5 2026 (0.050000) 179528393#",
    "2026-11-21T17:58:53.5Z"
)]
#[case(
    "Note: timezone set to \"TZ=Europe/Paris\"\nPerformance metrics from host vm\n",
    "Sat Nov  7 12:58:5#.500000000 2026",
    "2026-11-07T12:58:53.5"
)]
// Without -x the date is in the label, if that was dumped.
#[case(
    "Log Label (Log Format Version 2)\nPerformance metrics from host vm\n    commencing Sat Nov 21 12:58:53.1 2026\n    ending     UNKNOWN\n",
    "12:58:5#.500000",
    "2026-11-21T12:58:53.5"
)]
#[case(
    "Log Label (Log Format Version 2)\nPerformance metrics from host vm\n    commencing Sat Nov 21 23:58:53.1 2026\n",
    "00:00:0#.500000",
    "2026-11-22T00:00:03.5"
)]
fn stamps_of_pmdumplog(#[case] note: &str, #[case] stamp: &str, #[case] expected: &str) {
    let records = |second: &str, ms| {
        let stamp = stamp.replace('#', second);
        pass([&stamp, &stamp], ms)
    };
    let p = read(&(note.to_owned() + &records("3", 0) + &records("4", 1000)));
    assert_eq!(begins(&p), expected);
    assert_eq!(p.header.host.as_deref(), Some("vm"));
    assert_eq!(p.end_ns(), 1_000_000_000);
}

#[test]
fn times_alone_pass_midnight() {
    let p = read(
        &(pass(["23:59:59.500000", "23:59:59.550000"], 0)
            + &pass(["00:00:00.500000", "00:00:00.550000"], 1000)),
    );
    assert_eq!(p.header.begins_at, None);
    assert_eq!(loads(&p), [(1, vec![Some(25.0), Some(50.0)])]);
}

#[test]
fn dumps_of_old_versions_and_of_everything() {
    // Before version 5 the first metric stands behind the stamp; a single
    // instance stands behind its metric. -s, -i and -t write between.
    let old = |second: u64| {
        format!(
            "[300 bytes]\n17:58:5{second}.000000  60.0.0 (kernel.percpu.cpu.user): inst [0 or \"cpu0\"] value {}\n            \
             60.0.2 (kernel.percpu.cpu.sys): inst [0 or ???] value 0\n            \
             60.0.3 (kernel.percpu.cpu.idle or other.name):\n                inst [0 or \"cpu0\"] value {}\n            \
             60.0.60 (kernel.percpu.cpu.guest): inst [0 or \"cpu0\"] value 7\n            \
             60.0.5 (kernel.percpu.cpu.steal): No values returned!\n            \
             60.0.32 (hinv.ncpu): value 1\n\n",
            1000 + 250 * second,
            90_000 + 750 * second
        )
    };
    let p = read(&format!(
        "Temporal Index\n             Log Vol    end(meta)     end(log)\n17:58:53.000000       0          132          132\n\
         17:58:53.000000 InDom: 60.0 1 instances\n                 0 or \"cpu0\"\n\n{}{}",
        old(3),
        old(4)
    ));
    assert_eq!(loads(&p), [(1, vec![Some(25.0)])]);
}

#[rstest]
#[case(
    "Log finished at Sat Nov 21 17:58:53 2026 - dump in reverse order\n",
    "in:1: pmdumplog: it runs backwards"
)]
#[case(
    "    60.0.0 (kernel.percpu.cpu.user):\n",
    "it holds no value of kernel.percpu.cpu.*; dump all"
)]
#[case("hello\n", "it holds no value of kernel.percpu.cpu.*; dump all")]
#[case(
    "Performance metrics from host a\nPerformance metrics from host b\n",
    "in:2: this line is of host b"
)]
fn refused_pmdumplog(#[case] text: &str, #[case] expected: &str) {
    let got = message(text, Format::Pmdumplog);
    assert!(got.contains(expected), "{got}");
}

#[test]
fn refused_records() {
    for (from, to, expected) in [
        (
            ".idle",
            ".busy",
            "it lacks kernel.percpu.cpu.idle, without which",
        ),
        (
            "value 2000",
            "value many",
            "in:7:34: expected a counter in ms, found `many`",
        ),
        (
            "\"cpu1\"",
            "\"core1\"",
            "expected an instance such as cpu0, found `core1`",
        ),
        ("\"cpu1\"", "\"cpu0\"", "`cpu0` stands twice"),
        (
            "] value 2000",
            " value 2000",
            "in:7: expected `0 or \"cpu0\"] value` and a counter",
        ),
        ("17:58:54.964957", "17:58:52.964957", "does not come after"),
    ] {
        let got = message(&dump().replace(from, to), Format::Pmdumplog);
        assert!(got.contains(expected), "{got}");
    }
    let one = pass(["17:58:53.500000", "17:58:53.550000"], 0);
    let got = message(&one, Format::Pmdumplog);
    assert!(got.contains("one snapshot holds no load"), "{got}");
}

proptest! {
    /// However the values of a pass are spread over records, within half a
    /// second and in any order, the loads are the same.
    #[test]
    fn records_of_a_pass_may_be_split_anyhow(
        ticks in prop::collection::vec([0u64..100, 0u64..100, 0u64..100], 2..6),
        parts in prop::collection::vec([0u64..3, 0u64..3, 0u64..3], 6),
    ) {
        let (mut together, mut apart) = (String::new(), String::new());
        let mut counters = [100_000u64; 3];
        for (second, (ticks, parts)) in ticks.iter().zip(&parts).enumerate() {
            let mut all = Vec::new();
            for (i, name) in USER_SYS_IDLE.iter().enumerate() {
                counters[i] += ticks[i];
                all.push((parts[i], (*name, [counters[i], 2 * counters[i]])));
            }
            let stamp = |part: u64| format!("10:00:{second:02}.{:02}", part * 20);
            let metrics: Vec<_> = all.iter().map(|m| m.1).collect();
            together += &record(&stamp(0), &metrics);
            let first = *parts.iter().min().unwrap();
            for part in 0..3 {
                let some: Vec<_> = all.iter().filter(|m| m.0 == part).map(|m| m.1).collect();
                if !some.is_empty() {
                    apart += &record(&stamp(part - first), &some);
                }
            }
        }
        let read = |text: &str| read_as(text.as_bytes(), Some(Format::Pmdumplog)).unwrap();
        prop_assert_eq!(read(&together), read(&apart));
    }
}
