// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pmrep -o csv`.

use rstest::rstest;

use crate::Format;
use crate::testing::{loads, message, read};

use super::{USER_SYS_IDLE, begins};

/// The header of pmrep for two CPUs.
fn header(metrics: &[&str]) -> String {
    let columns = metrics
        .iter()
        .flat_map(|m| [0, 1].map(|cpu| format!(",\"kernel.percpu.cpu.{m}-cpu{cpu}\"")));
    format!("Time{}\n", columns.collect::<String>())
}

pub(super) fn csv(rows: &str) -> String {
    header(&USER_SYS_IDLE) + rows
}

pub(super) const COUNTERS: &str = "\
2016-11-20 00:00:00,1000000,1000000,20000,20000,5000000,5000000
2016-11-20 00:00:01,1000300,1000400,20100,20100,5000600,5000500
2016-11-20 00:00:03,1000900,1001200,20300,20300,5001800,5001500
";

#[test]
fn counters_of_pmrep() {
    let p = read(&csv(COUNTERS));
    assert_eq!(p.header.format, Format::PmrepCsv);
    assert_eq!(begins(&p), "2016-11-20T00:00:00");
    let steady = vec![Some(40.0), Some(50.0)];
    assert_eq!(loads(&p), [(1, steady.clone()), (3, steady)]);
    assert_eq!(p.warnings.len(), 1);
    assert!(
        p.warnings[0].contains("lacks kernel.percpu.cpu.nice, kernel.percpu.cpu.wait.total"),
        "{:?}",
        p.warnings
    );
}

#[test]
fn rates_of_pmrep_with_a_hole_and_a_cpu_that_comes_late() {
    let p = read(&csv("\
2016-11-20 00:00:00,,,,,,
2016-11-20 00:00:01,300.000,,100.000,,600.000,
2016-11-20 00:00:02,,,,,,
2016-11-20 00:00:03,,,,,,
2016-11-20 00:00:04,300.000,400.000,100.000,100.000,600.000,500.000
"));
    assert_eq!(
        loads(&p),
        [
            (1, vec![Some(40.0), None]),
            (3, vec![None, None]),
            (4, vec![Some(40.0), Some(50.0)]),
        ]
    );
}

#[test]
fn rates_of_nothing_but_zeros_are_unknown() {
    let p = read(&csv("\
2016-11-20 00:00:00,,,,,,
2016-11-20 00:00:01,300.0,0.0,100.0,0.0,600.0,0.0
"));
    assert_eq!(loads(&p), [(1, vec![Some(40.0), None])]);
    let warnings = p.warnings.join("\n");
    assert!(warnings.contains("in 1 samples all rates of a CPU are 0"));
}

#[test]
fn rates_without_decimals_or_in_seconds_are_rates() {
    let whole = "\
2016-11-20 00:00:00,,,,,,
2016-11-20 00:00:01,300,400,100,100,600,500
";
    let seconds = whole.replace("00,", "00.0,").replace("00\n", "00.0\n");
    let seconds = seconds.replace("300.0", "0.300").replace("400.0", "0.400");
    let seconds = seconds.replace("100.0", "0.100").replace("600.0", "0.600");
    let seconds = seconds
        .replace("500.0", "0.500")
        .replace("00:00:00.0", "00:00:00");
    for rows in [whole, &seconds] {
        assert_eq!(
            loads(&read(&csv(rows))),
            [(1, vec![Some(40.0), Some(50.0)])],
            "{rows}"
        );
    }
}

#[rstest]
#[case("2016-11-20 00:00:0", "", "2016-11-20T00:00:00")]
#[case("2016-11-20T00:00:0", ".250000", "2016-11-20T00:00:00.25")]
#[case("2016-11-20 10:00:0", " UTC+10", "2016-11-20T00:00:00Z")]
#[case("147960000", "", "2016-11-20T00:00:00Z")]
fn stamps_of_pmrep(#[case] before: &str, #[case] after: &str, #[case] expected: &str) {
    let rows = COUNTERS.replace("2016-11-20 00:00:0", before);
    let rows: String = rows
        .lines()
        .map(|row| row.replacen(',', &format!("{after},"), 1) + "\n")
        .collect();
    let p = read(&csv(&rows));
    assert_eq!(begins(&p), expected);
    assert_eq!(p.end_ns(), 3_000_000_000);
}

#[test]
fn headers_of_pmrep() {
    // -x: comments. The zone is that of the stamps.
    let comments = "#\n#  archive: b\n#     host: tryhost\n\
                    # timezone: UTC-5 (reporting, current is UTC+0)\n#\n";
    let p = read(&(comments.to_owned() + &csv(COUNTERS)));
    assert_eq!(p.header.host.as_deref(), Some("tryhost"));
    assert_eq!(begins(&p), "2016-11-20T05:00:00Z");
    // -k: host, interval and zone in every row.
    let rows: String = COUNTERS
        .lines()
        .map(|row| format!("tryhost,1,{}\n", row.replacen(',', " UTC-5,", 1)))
        .collect();
    let wide = format!("Host,Interval,{}", csv(""));
    let p = read(&(wide.clone() + &rows));
    assert_eq!(p.header.host.as_deref(), Some("tryhost"));
    assert_eq!(begins(&p), "2016-11-20T05:00:00Z");
    let other = rows.replacen("tryhost", "vm", 1);
    let got = message(&(wide + &other), Format::PmrepCsv);
    assert!(got.contains("in:3: this line is of host tryhost"), "{got}");
    // -l ';', quoted or not.
    let p = read(&csv(COUNTERS).replace(',', ";").replace('"', ""));
    assert_eq!(p.steps.len(), 2);
}

#[test]
fn a_header_whenever_the_cpus_change() {
    let one = "Time,\"kernel.percpu.cpu.user-cpu0\",\"kernel.percpu.cpu.sys-cpu0\",\
               \"kernel.percpu.cpu.idle-cpu0\"\n";
    let p = read(&format!(
        "2016-11-20 00:00:00\n{}2016-11-20 00:00:01,300.0,400.0,100.0,100.0,600.0,500.0\n\
         {one}2016-11-20 00:00:02,300.0,100.0,600.0\n",
        csv("")
    ));
    assert_eq!(
        loads(&p),
        [
            (1, vec![Some(40.0), Some(50.0)]),
            (2, vec![Some(40.0), None])
        ]
    );
}

#[test]
fn a_pass_of_pmrep_in_two_rows_is_one() {
    let p = read(&csv("\
2016-11-20 00:00:00,1000000,1000000,20000,20000,,
2016-11-20 00:00:00,,,,,5000000,5000000
2016-11-20 00:00:01,1000300,1000400,20100,20100,,
2016-11-20 00:00:01,,,,,5000600,5000500
"));
    assert_eq!(loads(&p), [(1, vec![Some(40.0), Some(50.0)])]);
    assert_eq!(p.warnings.len(), 1, "{:?}", p.warnings);
}

#[test]
fn a_second_row_of_the_same_second_is_told() {
    let rows = COUNTERS.replace("00:00:03", "00:00:01");
    let p = read(&csv(&rows));
    assert_eq!(loads(&p), [(1, vec![Some(40.0), Some(50.0)])]);
    assert!(
        p.warnings[1].starts_with("1 records repeat"),
        "{:?}",
        p.warnings
    );
}

#[test]
fn what_pcp_makes_of_a_counter_that_fell() {
    let text = header(&["user", "sys", "idle", "wait.total", "guest", "intr"])
        + "2016-11-20 00:00:00,,,,,,,,,,,,\n\
           2016-11-20 00:00:01,400.0,400.0,0.0,0.0,600.0,600.0,,18446744073709551616.000,9.0,9.0,9.0,9.0\n\
           2016-11-20 00:00:02,400.0,400.0,0.0,0.0,,600.0,NaN,0.0,9.0,9.0,9.0,9.0\n";
    let p = read(&text);
    assert_eq!(
        loads(&p),
        [
            (1, vec![Some(40.0), Some(40.0)]),
            (2, vec![None, Some(40.0)])
        ]
    );
    let told = p.warnings.join("\n");
    assert!(
        told.contains("1 samples a CPU has values of some states only"),
        "{told}"
    );
}

#[test]
fn counters_that_began_anew() {
    let p = read(&csv("\
2016-11-20 00:00:00,1000000,1000000,20000,20000,5000000,5000000
2016-11-20 00:00:01,300,1000400,100,20100,90600,5000500
2016-11-20 00:00:02,600,1000800,200,20200,91200,5001000
"));
    let cpu1 = Some(50.0);
    assert_eq!(
        loads(&p),
        [(1, vec![None, cpu1]), (2, vec![Some(40.0), cpu1])]
    );
}

#[rstest]
#[case(header(&["user", "sys"]) + "2016-11-20 00:00:00,1,2,3,4\n", "in: pmrep-csv: it lacks kernel.percpu.cpu.idle")]
#[case("Time,\"kernel.all.cpu.user\"\n".into(), "it holds no value of kernel.percpu.cpu.*; export all of kernel.percpu.cpu, as in `pmrep")]
#[case("Time,\"kernel.percpu.cpu.user-core0\"\n".into(), "in:1:30: expected an instance such as cpu0, found `core0`")]
#[case(header(&["user", "user"]), "in:1: `a column of cpu0` stands twice")]
#[case(
    csv("2016-11-20 00:00:00,1,2,3\n"),
    "in:2: expected 7 cells as in the header, found 4; the file may be cut short"
)]
#[case(csv("noon,1,2,3,4,5,6\n"), "in:2:1: expected a stamp such as")]
#[case(
    csv("2016-11-20 00:00:00,1,2,3,4,5,many\n"),
    "in:2:31: expected a counter in ms or a rate in ms/s, found `many`"
)]
#[case(
    csv("2016-11-20 00:00:00,1,2,3,4,5,-6\n"),
    "in:2:31: expected a counter in ms or a rate in ms/s, found `-6`"
)]
#[case("2016-11-20 00:00:00,1,2\n".into(), "in:1:1: expected a header `Time,")]
#[case(csv(COUNTERS.lines().next().unwrap()), "one snapshot holds no load")]
#[case(
    csv("2016-11-20 00:00:00,1000.500,1,20.1,1,5000,5000\n"),
    "(export without -y and -Y), found values that add up to 5511 per CPU"
)]
#[case(csv(""), "it holds no value of kernel.percpu.cpu.*; export all")]
#[case(csv(&COUNTERS.replace("00:00:03", "00:00:00")), "does not come after")]
fn refused_pmrep(#[case] text: String, #[case] expected: &str) {
    let got = message(&text, Format::PmrepCsv);
    assert!(got.contains(expected), "{got}");
}
