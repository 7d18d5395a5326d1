// SPDX-License-Identifier: Apache-2.0 OR MIT
use rstest::rstest;

use crate::Format;
use crate::testing::{assert_damage_is_answered, loads, message, read, read_as};

const HEAD: &str = "\
AAA,progname,nmon
AAA,host,vm
AAA,time,23:59.30
AAA,interval,10
CPU001,CPU 1 vm,User%,Sys%,Wait%,Idle%,Steal%
CPU002,CPU 2 vm,User%,Sys%,Wait%,Idle%
CPU_ALL,CPU Total vm,User%,Sys%,Wait%,Idle%,Steal%,Busy,CPUs
MEM,Memory MB vm,memtotal,hightotal
";

const ROWS: &str = "\
ZZZZ,T0001,23:59:35,31-DEC-2026
CPU001,T0001,9.0,9.0,9.0,73.0,0.0
CPU002,T0001,9.0,9.0,9.0,73.0,0.0
CPU_ALL,T0001,9.0,9.0,9.0,73.0,0.0,,2
ZZZZ,T0002,23:59:45,31-DEC-2026
CPU001,T0002,20.0,10.0,10.0,40.0,20.0
CPU002,T0002,0.0,0.0,33.4,33.4,33.4
CPU_ALL,T0002,10.0,5.0,21.7,36.7,26.7,,2
MEM,T0002,1.0,2.0
AAA,steal,1
ZZZZ,T0003,00:00:05,01-JAN-2027
CPU001,T0003,75.0,0.0,0.0,25.0,0.0
CPU002,T0003,0.0,0.0,0.0,0.0,0.0
";

fn file() -> String {
    format!("{HEAD}{ROWS}")
}

#[test]
fn snapshots_and_their_times() {
    let p = read(&file());
    assert_eq!(p.header.format, Format::Nmon);
    assert_eq!(p.header.host.as_deref(), Some("vm"));
    assert_eq!(p.header.cpus, [0, 1]);
    assert_eq!(
        p.header.begins_at.unwrap().to_string(),
        "2026-12-31T23:59:35"
    );
    assert_eq!(
        loads(&p),
        [
            (10, vec![Some(37.5), Some(0.0)]),
            (30, vec![Some(75.0), None]),
        ]
    );
    assert_eq!(p.steps[0].cells[0].unwrap().steal_pct, 20.0);
    assert!(p.warnings[0].contains("first snapshot of each run (1 in all)"));
}

/// nmon itself advises to sort its files for a spreadsheet.
#[test]
fn sorted_files() {
    let mut lines: Vec<String> = file().lines().map(String::from).collect();
    lines.sort();
    let sorted = lines.join("\n") + "\n";
    let got = message(&sorted, Format::Nmon);
    assert!(got.contains("sort -s -t, -k2,2 FILE"), "{got}");
    // What the advice makes of it.
    let field = |line: &String| line.split(',').nth(1).unwrap().to_owned();
    lines.sort_by_key(field);
    let back = read_as((lines.join("\n") + "\n").as_bytes(), Some(Format::Nmon)).unwrap();
    assert_eq!(back, read(&file()));
}

#[test]
fn two_runs_in_one_file() {
    let later = file()
        .replace("31-DEC-2026", "02-JAN-2027")
        .replace("00:00:05,01-JAN-2027", "23:59:55,02-JAN-2027");
    let p = read(&(file() + &later));
    let ends: Vec<_> = loads(&p).into_iter().map(|l| l.0).collect();
    assert_eq!(ends, [10, 30, 2 * 86_400, 2 * 86_400 + 10, 2 * 86_400 + 20]);
    assert_eq!(loads(&p)[2].1, [None, None]);
    assert!(p.warnings[0].contains("2 in all"), "{:?}", p.warnings);
}

#[rstest]
#[case(
    "CPU003,T0003,20.0,10.0,10.0,140.0,20.0\n",
    "in:22:29: Idle% 140.0 is not between"
)]
#[case(
    "CPU003,T0003,20.0,10.0,60.0,60.0,0.0\n",
    "+ %steal 120 is not between"
)]
#[case(
    "CPU003,T0003,20.0,10.0\n",
    "in:22: expected 6 fields as in the header, found 4"
)]
#[case(
    "CPU000,T0004,20.0,10.0,10.0,40.0,20.0\n",
    "expected the number of a CPU, from 1 on"
)]
#[case(
    "CPU001,T0004,20.0,10.0,10.0,40.0,20.0\n",
    "no line `ZZZZ,T0004,...` tells the time"
)]
#[case(
    "ZZZZ,T0004,00:00:05\n",
    "in:22: expected a snapshot, a time and a date"
)]
#[case(
    "ZZZZ,T0004,00:00:05,32-JAN-2027\n",
    "in:22:6: expected a snapshot, a time and a date"
)]
#[case(
    "ZZZZ,T0004,23:00:05,31-DEC-2026\nCPU001,T0004,20.0,10.0,10.0,40.0,20.0\n",
    "does not come after"
)]
#[case("AAA,host,vn\n", "this line is of host vn")]
fn refused_rows(#[case] row: &str, #[case] expected: &str) {
    let got = message(&(file() + row), Format::Nmon);
    assert!(got.contains(expected), "{got}");
}

#[rstest]
#[case(
    "CPU_ALL,T0001,9.0,9.0,9.0,73.0,0.0,,2\n",
    "`CPU_ALL` is the mean of all"
)]
#[case("", "it has no lines `CPU001,T0001,...`")]
#[case(
    "ZZZZ,T0001,23:59:35,31-DEC-2026\nCPU001,T0001,9.0,9.0,9.0,73.0\n",
    "no header"
)]
#[case("CPU001,CPU 1 vm,User%,Sys%\n", "expected a column `Idle%`")]
#[case(
    "CPU001,CPU 1 vm,Idle%\nCPU001,T0001,9.0\nZZZZ,T0001,23:59:35,31-DEC-2026\n",
    "one snapshot holds no load"
)]
fn rejects(#[case] text: &str, #[case] expected: &str) {
    let got = message(&format!("AAA,host,vm\n{text}"), Format::Nmon);
    assert!(got.contains(expected), "{got}");
}

#[test]
fn damage_is_answered() {
    assert_damage_is_answered(file(), Format::Nmon);
}
