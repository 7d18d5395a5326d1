// SPDX-License-Identifier: Apache-2.0 OR MIT
use rstest::rstest;

use crate::Format;
use crate::testing::{assert_damage_is_answered, loads, message, read, read_as};

const HEAD: &str = "\
################################### RECORDED ###################################
# Collectl:   V4.3.1-1  HiRes: 1  Options: -sC -i10 -f /tmp  Subsys: C
################################################################################
# Collectl:   V4.3.1-1  HiRes: 1  Options: -p vm.raw.gz -sC -P
# Host:       vm  DaemonOpts:
# Date:       20261121-235945  Secs: 1795276785 TZ: +0700
# SubSys:     C Options:  Interval: 10 NumCPUs: 2  NumBud: 0 Flags: i
# HZ:         100  Arch: x86_64-linux-gnu PageSize: 4096
################################################################################
";

const TABLE: &str = "#Date Time [CPU:0]User% [CPU:0]Nice% [CPU:0]Sys% [CPU:0]Wait% \
    [CPU:0]Irq% [CPU:0]Soft% [CPU:0]Steal% [CPU:0]Idle% [CPU:0]Totl% [CPU:0]Guest% \
    [CPU:0]GuestN% [CPU:0]Intrpt [CPU:1]User% [CPU:1]Nice% [CPU:1]Sys% [CPU:1]Wait% \
    [CPU:1]Irq% [CPU:1]Soft% [CPU:1]Steal% [CPU:1]Idle% [CPU:1]Totl% [CPU:1]Guest% \
    [CPU:1]GuestN% [CPU:1]Intrpt\n";

const ROWS: &str = "\
20261121 23:59:55 10 5 5 10 0 0 20 50 40 0 7 3 0 0 0 0 0 0 0 0 0 0 0 0
20261122 00:00:05 0 0 0 0 0 0 0 100 0 0 999 0 75 0 0 0 0 0 0 25 75 0 0 0
";

/// Over midnight, in a zone east of Greenwich, with a CPU that is offline.
#[test]
fn columns_by_name_and_local_time() {
    let p = read(&format!("{HEAD}{TABLE}{ROWS}"));
    assert_eq!(p.header.format, Format::CollectlPlot);
    assert_eq!(p.header.host.as_deref(), Some("vm"));
    assert_eq!(
        p.header.begins_at.unwrap().to_string(),
        "2026-11-21T16:59:45Z"
    );
    assert_eq!(
        loads(&p),
        [
            (10, vec![Some(25.0), None]),
            (20, vec![Some(0.0), Some(75.0)]),
        ]
    );
    assert_eq!(p.steps[0].cells[0].unwrap().steal_pct, 20.0);
    // The CPU that was offline, and nothing else.
    assert_eq!(p.warnings.len(), 1, "{:?}", p.warnings);
}

#[rstest]
#[case(',')]
#[case(';')]
#[case('\t')]
#[case(':')]
#[case('|')]
fn other_separators(#[case] separator: char) {
    let text = format!("{HEAD}{TABLE}{ROWS}");
    // `[CPU:0]` and the time keep their colons, as they do with collectl; a
    // separator of that kind is not readable.
    let table = |line: &str| line.starts_with("#Date") || line.starts_with("2026");
    let other: String = text
        .lines()
        .map(|line| {
            if table(line) {
                line.replace(' ', &separator.to_string()) + "\n"
            } else {
                line.to_owned() + "\n"
            }
        })
        .collect();
    let got = read_as(other.as_bytes(), None);
    if separator == ':' {
        assert!(got.is_err());
    } else {
        assert_eq!(got.unwrap(), read(&text));
    }
}

#[test]
fn rounding_to_whole_percents_is_no_fault() {
    // 33.5 + 33.5 + 33.0, and 0.4 of each other state.
    let p = read(&format!(
        "{HEAD}{TABLE}20261121 23:59:55 0 0 0 34 0 0 34 33 34 0 0 0 0 0 0 50 0 0 1 50 1 0 0 0\n"
    ));
    assert_eq!(loads(&p), [(10, vec![Some(0.0), Some(0.0)])]);
}

#[test]
fn hundredths_and_milliseconds_and_a_start_anew() {
    let rows = "\
20261121 23:59:55.250 50.25 0 0 0 0 0 0 49.75 50.25 0 0 0 0 0 0 0 0 0 0 100.00 0 0 0 0
20261122 00:00:25.250 50.25 0 0 0 0 0 0 49.75 50.25 0 0 0 0 0 0 0 0 0 0 100.00 0 0 0 0
";
    let later = "\
20261122 01:00:15.250 0 0 0 0 0 0 0 100.00 0.00 0 0 0 0 0 0 0 0 0 0 100.00 0 0 0 0
";
    let p = read(&format!("{HEAD}{TABLE}{rows}{HEAD}{TABLE}{later}"));
    assert_eq!(
        loads(&p),
        [
            (10, vec![Some(50.25), Some(0.0)]),
            // A sample that was missed is in the next one.
            (40, vec![Some(50.25), Some(0.0)]),
            // One that another run would have taken is not.
            (3620, vec![None, None]),
            (3630, vec![Some(0.0), Some(0.0)]),
        ]
    );
    assert_eq!(
        p.header.begins_at.unwrap().to_string(),
        "2026-11-21T16:59:45.25Z"
    );
    assert!(
        p.warnings.iter().any(|w| w.contains("1 holes")),
        "{:?}",
        p.warnings
    );
}

/// What `-P` writes to a terminal: no comments, the columns of `-sc` first.
#[test]
fn a_table_without_comments() {
    let text = "\
#Date Time [CPU]User% [CPU]Idle% [CPU:0]Idle% [CPU:1]Idle%
20261121 23:59:55 1 99 50 100
20261122 00:00:00 1 99 40 100
";
    let p = read(text);
    assert_eq!(
        p.header.begins_at.unwrap().to_string(),
        "2026-11-21T23:59:50"
    );
    assert_eq!(
        loads(&p),
        [
            (5, vec![Some(50.0), Some(0.0)]),
            (10, vec![Some(60.0), Some(0.0)]),
        ]
    );
    let utc = "#UTC [CPU:0]Idle%\n1795283935 50\n1795283936.5 25\n";
    let p = read(utc);
    assert_eq!(
        p.header.begins_at.unwrap().to_string(),
        "2026-11-21T17:58:53.5Z"
    );
    assert_eq!(p.steps[0].end_ns, 1_500_000_000);
    let one = message("#UTC [CPU:0]Idle%\n1795283935 50\n", Format::CollectlPlot);
    assert!(one.contains("how long an interval is"), "{one}");
}

#[rstest]
#[case(
    "#Date Time [CPU]User% [CPU]Idle%\n20261121 23:59:55 1 99\n",
    "in:11: there is no line for a single CPU; collect with `-sC`"
)]
#[case("#Date Time [CPU:0]User%\n", "in:10: expected a column `[CPU:0]Idle%`")]
#[case(
    "#Date Time [CPU:0]Idle% [CPU:0]Idle%\n",
    "in:10: `[CPU:0]Idle%` stands twice"
)]
#[case(
    "20261121 23:59:55 1 99\n",
    "in:10: this does not look like collectl-plot: no header"
)]
#[case(
    "#Date Time [CPU:0]Idle%\n11/21 23:59:55 99\n",
    "in:11:1: expected a date and a time"
)]
#[case(
    "#Date Time [CPU:0]Idle%\n20261121 25:59:55 99\n",
    "in:11:1: expected a date and a time"
)]
#[case(
    "#Date Time [CPU:0]Idle%\n20261121 23:59:55\n",
    "in:11: expected 3 fields as in the header, found 2"
)]
#[case(
    "#Date Time [CPU:0]Idle%\n20261121 23:59:55 101\n",
    "in:11:19: Idle% of cpu0 101 is not between"
)]
#[case(
    "#Date Time [CPU:0]Idle%\n20261121 23:59:55 9,5\n",
    "in:11:19: `9,5` is written with a decimal comma"
)]
#[case(
    "#Date Time [CPU:0]Idle% [CPU:0]Wait%\n20261121 23:59:55 60 60\n",
    "+ %steal 120 is not between"
)]
#[case(
    "#Date Time [CPU:0]Idle%\n20261121 23:59:55 50\n20261121 22:59:55 50\n",
    "write epoch seconds with `--utc`"
)]
#[case(
    "# SubSys:     C Options: mn Interval: 10 NumCPUs: 2\n",
    "in:10: collectl-plot: it was written with `-on`"
)]
#[case("# Host:       vn\n", "in:10: this line is of host vn")]
#[case("", "it holds no sample of CPU load")]
#[case("#Date", "in:10:1: expected columns after the stamp")]
fn rejects(#[case] rest: &str, #[case] expected: &str) {
    let got = message(&format!("{HEAD}{rest}"), Format::CollectlPlot);
    assert!(got.contains(expected), "{got}");
}

#[test]
fn damage_is_answered() {
    assert_damage_is_answered(format!("{HEAD}{TABLE}{ROWS}"), Format::CollectlPlot);
}
