// SPDX-License-Identifier: Apache-2.0 OR MIT
use rstest::rstest;

use crate::Format;
use crate::testing::{assert_damage_is_answered, loads, message, read};

fn banner(date: &str) -> String {
    format!(
        "\"dool 1.3.1 CSV output\"\n\
         \"Author:\",\"Scott Baker\",,,,\"URL:\",\"https://example.org/\"\n\
         \"Host:\",\"vm\",,,,\"User:\",\"me\"\n\
         \"Cmdline:\",\"dool -T -c -C 0,1 --output FILE\",,,,\"Date:\",\"{date}\"\n"
    )
}

const NAMES: &str = "\
\"epoch\",\"cpu0 usage\",,,,,\"cpu1 usage\",,,,,\"total cpu usage\",,,,,\"load avg\",,
\"epoch\",\"cpu0 usage:usr\",\"cpu0 usage:sys\",\"cpu0 usage:idl\",\"cpu0 usage:wai\",\
\"cpu0 usage:stl\",\"cpu1 usage:usr\",\"cpu1 usage:sys\",\"cpu1 usage:idl\",\"cpu1 usage:wai\",\
\"cpu1 usage:stl\",\"total cpu usage:usr\",\"total cpu usage:sys\",\"total cpu usage:idl\",\
\"total cpu usage:wai\",\"total cpu usage:stl\",\"1m\",\"5m\",\"15m\"
";

const ROWS: &str = "\
1795283935.002,9,9,73,9,0,9,9,73,9,0,9,9,73,9,0,0.410,0.960,1.400
1795283936.002,20,10,40,10,20,0,0,100,0,0,20,10,40,10,20,0.410,0.960,1.400
1795283938.502,66.667,0,33.333,0,0,0,0,0,0,0,20,10,40,10,20,0.410,0.960,1.400
";

fn file() -> String {
    banner("21 Nov 2026 17:58:53 UTC") + NAMES + ROWS
}

#[test]
fn groups_with_epoch_seconds() {
    let p = read(&file());
    assert_eq!(p.header.format, Format::Dstat);
    assert_eq!(p.header.host.as_deref(), Some("vm"));
    assert_eq!(
        p.header.begins_at.unwrap().to_string(),
        "2026-11-21T17:58:55.002Z"
    );
    assert_eq!(
        loads(&p),
        [
            (1, vec![Some(37.5), Some(0.0)]),
            (3, vec![Some(66.67), None]),
        ]
    );
    assert_eq!(p.steps[0].cells[0].unwrap().steal_pct, 20.0);
    assert!(p.warnings[0].contains("first row of each run (1 in all)"));
}

#[test]
fn a_file_that_was_appended_to() {
    let again = "\n\n\"Host:\",\"vm\",,,,\"User:\",\"me\"\n\
        \"Cmdline:\",\"dool -T -c -C 0 --output FILE\",,,,\"Date:\",\"21 Nov 2026 18:00:00 UTC\"\n\
        \"epoch\",\"cpu0 usage\",,,,\n\"epoch\",\"usr\",\"sys\",\"idl\",\"wai\",\"stl\"\n\
        1795283945.002,9,9,73,9,0\n1795283946.002,50,0,50,0,0\n";
    let p = read(&(file() + again));
    assert_eq!(
        loads(&p),
        [
            (1, vec![Some(37.5), Some(0.0)]),
            (3, vec![Some(66.67), None]),
            (10, vec![None, None]),
            (11, vec![Some(50.0), None]),
        ]
    );
}

/// dstat 0.7: interrupts apart, no steal, local time without a year.
#[rstest]
#[case("\"system\"", "\"date/time\"", ["31-12 23:59:58", "31-12 23:59:59", "01-01 00:00:00"])]
#[case("\"system\"", "\"time\"", ["Dec-31 23:59:58", "Dec-31 23:59:59", "Jan-01 00:00:00"])]
#[case("\"system\"", "\"time\"",
    ["2026-12-31 23:59:58.000", "2026-12-31 23:59:59.000", "2027-01-01 00:00:00.000"])]
fn local_times(#[case] group: &str, #[case] name: &str, #[case] times: [&str; 3]) {
    let head = banner("31 Dec 2026 23:59:57 CET").replace("dool 1.3.1", "Dstat 0.7.3");
    let row = |time: &str| format!("{time},20.0,10.0,40.0,20.0,5.0,5.0\n");
    let p = read(&format!(
        "{head}\n{group},\"cpu3 usage\",,,,,\n\
         {name},\"usr\",\"sys\",\"idl\",\"wai\",\"hiq\",\"siq\"\n{}{}{}",
        row(times[0]),
        row(times[1]),
        row(times[2]),
    ));
    assert_eq!(p.header.cpus, [3]);
    assert_eq!(
        p.header.begins_at.unwrap().to_string(),
        "2026-12-31T23:59:58"
    );
    assert_eq!(loads(&p), [(1, vec![Some(40.0)]), (2, vec![Some(40.0)])]);
}

/// Performance Co-Pilot: no name over the time, sums that are not 100, values
/// that are missing, a note at the end.
#[test]
fn the_dstat_of_performance_co_pilot() {
    let head =
        banner("21 Nov 2026 17:58:53 UTC").replace("dool 1.3.1 CSV o", "pcp-dstat 6.0.3 CSV O");
    let p = read(&format!(
        "{head}\"epoch\",\"cpu0 usage\",,,,\n\
         ,\"cpu0 usage:usr\",\"cpu0 usage:sys\",\"cpu0 usage:idl\",\"cpu0 usage:wai\",\"cpu0 usage:stl\"\n\
         1795283935,50,0,50,0,0\n1795283936,25.500,25.500,51.000,0,0\n\
         1795283937,,,,,,\"missed 2 ticks\"\n1795283938,0,0,101.004,0,0\n"
    ));
    assert_eq!(
        loads(&p),
        [(1, vec![Some(50.0)]), (2, vec![None]), (3, vec![Some(0.0)]),]
    );
}

#[rstest]
#[case(
    "1795283937,50,0,50,0\n",
    "in:10: expected 19 fields as in the header, found 5"
)]
#[case(
    "1795283937,20,10,140,10,20,0,0,100,0,0,20,10,40,10,20,0.410,0.960,1.400\n",
    "in:10:18: Idle of cpu0 140 is not between"
)]
#[case(
    "1795283937,20,10,x,10,20,0,0,100,0,0,20,10,40,10,20,0.410,0.960,1.400\n",
    "in:10:18: expected a percentage for cpu0, found `x`"
)]
#[case(
    "noon,20,10,40,10,20,0,0,100,0,0,20,10,40,10,20,0.410,0.960,1.400\n",
    "in:10:1: expected epoch seconds"
)]
#[case(
    "1795283930,20,10,40,10,20,0,0,100,0,0,20,10,40,10,20,0.410,0.960,1.400\n",
    "record with `-T`"
)]
#[case("\"Host:\",\"vn\"\n", "this line is of host vn")]
fn refused_rows(#[case] row: &str, #[case] expected: &str) {
    let got = message(&(file() + row), Format::Dstat);
    assert!(got.contains(expected), "{got}");
}

#[rstest]
#[case(
    "\"epoch\",\"total cpu usage\",,\n\"epoch\",\"usr\",\"sys\",\"idl\"\n1,2,3,4\n",
    "there is no line for a single CPU; record with `-C`"
)]
#[case(
    "\"epoch\",\"load avg\",,\n\"epoch\",\"1m\",\"5m\",\"15m\"\n1,2,3,4\n",
    "it has no group such as `cpu0 usage`"
)]
#[case(
    "\"cpu0 usage\",,\n\"usr\",\"sys\",\"idl\"\n2,3,4\n",
    "no column holds the time; record with `-T`"
)]
#[case(
    "\"epoch\",\"cpu0 usage\",\n\"epoch\",\"usr\",\"sys\"\n",
    "in:6: expected a column `cpu0 usage:idl`"
)]
#[case(
    "\"epoch\",\"cpu0 usage\",\"cpu0 usage\"\n\"epoch\",\"idl\",\"idl\"\n",
    "`cpu0 usage` stands twice"
)]
#[case(
    "\"epoch\",\"cpu0 usage\"\n\"epoch\",\"idl\"\n5,50\n",
    "one snapshot holds no load"
)]
#[case("5,50\n", "in:5: this does not look like dstat: no rows of names")]
#[case(
    "\"system\",\"cpu0 usage\"\n\"time\",\"idl\"\nFoo-21 17:58:55,50\n",
    "in:7:1: expected a time such as"
)]
#[case("", "it holds no sample of CPU load")]
fn rejects(#[case] rest: &str, #[case] expected: &str) {
    let text = banner("21 Nov 2026 17:58:53 UTC") + rest;
    let got = message(&text, Format::Dstat);
    assert!(got.contains(expected), "{got}");
}

#[test]
fn a_time_without_a_year_anywhere() {
    let text = banner("some day").to_owned()
        + "\"system\",\"cpu0 usage\"\n\"time\",\"idl\"\nNov-21 17:58:55,50\n";
    let got = message(&text, Format::Dstat);
    assert!(got.contains("its year in the `Date:` above"), "{got}");
}

#[test]
fn damage_is_answered() {
    assert_damage_is_answered(file(), Format::Dstat);
}
