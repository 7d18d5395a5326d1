// SPDX-License-Identifier: Apache-2.0 OR MIT
use rstest::rstest;

use crate::Format;
use crate::testing::{assert_damage_is_answered, loads, message, read};

/// A row: end, interval, CPU, and the ticks of system, user, nice, idle, wait,
/// irq, softirq, steal.
fn row(end_s: u64, interval_s: u64, cpu: u32, ticks: &str) -> String {
    format!("cpu vm {end_s} 2026/11/21 17:58:53 {interval_s} 100 {cpu} {ticks} 7 2596 100 0 0\n")
}

fn file() -> String {
    [
        "RESET\n",
        &row(1000, 900, 0, "9 9 9 9 9 9 9 9"),
        &row(1000, 900, 1, "9 9 9 9 9 9 9 9"),
        "SEP\n",
        "PRC vm 1010 2026/11/21 17:59:03 10 1 (cpu 1 2) S\n",
        "CPU vm 1010 2026/11/21 17:59:03 10 100 2 50 150 50 1000 200 50 100 400 7 1 1 1 1\n",
        &row(1010, 10, 0, "50 150 50 400 100 25 25 200"),
        &row(1010, 10, 1, "0 1000 0 0 0 0 0 0"),
        "SEP\n",
        &row(1020, 10, 0, "0 0 0 1000 0 0 0 0"),
        "SEP\n",
        // Killed, the machine started anew, and atop with it.
        "RESET\n",
        &row(1050, 20, 0, "9 9 9 9 9 9 9 9"),
        "SEP\n",
        &row(1060, 10, 0, "0 250 0 750 0 0 0 0"),
        &row(1060, 10, 0, "0 1000 0 0 0 0 0 0"),
        &row(1060, 10, 1, "0 0 0 0 0 0 0 0"),
        "SEP\n",
    ]
    .concat()
}

#[test]
fn samples_since_boot_are_left_out() {
    let p = read(&file());
    assert_eq!(p.header.format, Format::Atop);
    assert_eq!(p.header.host.as_deref(), Some("vm"));
    assert_eq!(
        p.header.begins_at.unwrap().to_string(),
        "1970-01-01T00:16:40Z"
    );
    assert_eq!(
        loads(&p),
        [
            (10, vec![Some(37.5), Some(100.0)]),
            (20, vec![Some(0.0), None]),
            (50, vec![None, None]),
            (60, vec![Some(25.0), None]),
        ]
    );
    assert_eq!(p.steps[0].cells[0].unwrap().steal_pct, 20.0);
    let warnings = p.warnings.join("\n");
    for expected in [
        "1 values stand there",
        "started anew 1 times",
        "1 holes, 30 s",
    ] {
        assert!(warnings.contains(expected), "{expected}: {warnings}");
    }
}

/// `grep ^cpu` takes away what marks the samples.
#[test]
fn rows_alone_lose_their_first_sample() {
    let rows: String = file()
        .lines()
        .filter(|line| line.starts_with("cpu "))
        .map(|line| format!("{line}\n"))
        .collect();
    let p = read(&rows);
    let ends: Vec<_> = loads(&p).into_iter().map(|l| l.0).collect();
    assert_eq!(ends, [10, 20, 30, 50, 60]);
    assert!(
        p.warnings.iter().any(|w| w.contains("the first sample")),
        "{:?}",
        p.warnings
    );
    // With `-b` the first sample of a file is as good as any.
    let begun = [&row(1010, 10, 0, "0 50 0 50 0 0 0 0"), "SEP\n"].concat();
    assert_eq!(loads(&read(&begun)), [(10, vec![Some(50.0)])]);
}

/// Before version 1.26 there is no steal.
#[test]
fn fewer_counters() {
    let text = "SEP\ncpu vm 1010 2026/11/21 17:59:03 10 100 0 0 500 0 250 250 0 0\nSEP\n";
    assert_eq!(loads(&read(text)), [(10, vec![Some(50.0)])]);
}

#[rstest]
#[case(
    "CPU vm 1010 2026/11/21 17:59:03 10 100 2 50 150 50 1000 200 50 100 400\nSEP\n",
    "there is no line for a single CPU; the label `CPU` is their sum; export with `atop -r FILE -P cpu`"
)]
#[case(
    "MEM vm 1010 2026/11/21 17:59:03 10 4096\nSEP\n",
    "it has no lines with the label `cpu`"
)]
#[case(
    "RESET\ncpu vm 1 2026/11/21 17:59:03 10 100 0 0 500 0 250 250 0 0 0\nSEP\n",
    "one snapshot holds no load"
)]
#[case(
    "SEP\ncpu vm 1 2026/11/21 17:59:03 10 100 0 0 500 0 250 250 0 0 0\n",
    "in:2: expected `SEP` after the last sample, found the end of the file; it was cut short"
)]
#[case(
    "SEP\ncpu vm 1 2026/11/21 17:59:03 10 100 0 0 500 0",
    "in:2: expected at least seven counters"
)]
#[case(
    "SEP\ncpu vm 1 2026/11/21",
    "in:2: expected a time, found the end of the line"
)]
#[case(
    "SEP\ncpu vm now 2026/11/21 17:59:03 10 100 0 0\n",
    "in:2:8: expected epoch seconds"
)]
#[case(
    "SEP\ncpu vm 1 2026/11/21 17:59:03 -1 100 0 0\n",
    "in:2:30: expected an interval"
)]
#[case(
    "SEP\ncpu vm 1 2026/11/21 17:59:03 10 100 x 0\n",
    "in:2:37: expected the number of a CPU"
)]
#[case(
    "SEP\ncpu vm 1 2026/11/21 17:59:03 10 100 0 0 -5 0 0 0 0 0\nSEP\n",
    "in:2:41: expected a number of ticks"
)]
#[case(
    "SEP\ncpu vm 18446744073709551615 2026/11/21 17:59:03 10 100 0 0\n",
    "expected epoch seconds"
)]
fn rejects(#[case] text: &str, #[case] expected: &str) {
    let got = message(text, Format::Atop);
    assert!(got.contains(expected), "{got}");
}

#[test]
fn refused_in_the_middle() {
    let other = file().replace("cpu vm 1060", "cpu vn 1060");
    let got = message(&other, Format::Atop);
    assert!(got.contains("this line is of host vn"), "{got}");
    let back = file().replace("cpu vm 1060", "cpu vm 1005");
    let got = message(&back, Format::Atop);
    assert!(got.contains("does not come after"), "{got}");
}

#[test]
fn damage_is_answered() {
    assert_damage_is_answered(file(), Format::Atop);
}
