// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `convert` and `show`: every format in, every format out.

use crate::dir::{Dir, fixture};
use predicates::prelude::*;
use predicates::str::{contains, starts_with};

const FIXTURES: [(&str, &str); 11] = [
    ("two_cpus.u.json", "sadf-json"),
    ("two_cpus.uall.json", "sadf-json"),
    ("two_cpus.uall.csv", "sadf-csv"),
    ("two_cpus.epoch.csv", "sadf-csv"),
    ("two_cpus.local.csv", "sadf-csv"),
    ("two_cpus.sar.txt", "sar"),
    ("two_cpus.iso.sar.txt", "sar"),
    ("two_cpus.procstat.txt", "procstat"),
    ("prometheus.range.json", "prometheus"),
    ("prometheus.rate.json", "prometheus"),
    ("prometheus.tsdb-dump.txt", "openmetrics"),
];

const DAY: &str = "# sandbag profile 1\ntime,cpu0,cpu1\n0,50,12\n2,80,\n5,end\n";

#[test]
fn what_was_converted_converts_to_itself() {
    for (name, format) in FIXTURES {
        let dir = Dir::new();
        dir.run(&["convert", &fixture(name), "-o", "a.csv"])
            .success()
            .stdout("")
            .stderr(contains(format!("({format}): CPUs 0,1")));
        dir.line("convert a.csv -o b.csv").success();
        assert_eq!(dir.read("a.csv"), dir.read("b.csv"), "{name}");
    }
}

#[test]
fn profiles_are_shown() {
    let mut dir = Dir::new().with("day.csv", DAY);
    for (name, _) in FIXTURES {
        dir = dir.with(name, std::fs::read(fixture(name)).unwrap());
    }
    let each = FIXTURES.map(|(name, _)| format!("show {name}"));
    assert_snapshot!("show", dir.transcript(&each));
    let more = ["show day.csv", "show day.csv --stats", "show --formats"];
    assert_snapshot!("show_more", dir.transcript(&more));
}

#[test]
fn a_profile_is_converted() {
    let dir = Dir::new()
        .with("day.csv", DAY)
        .with("odd.csv", DAY.replace("50", "50.4"));
    assert_snapshot!(dir.transcript(&[
        "convert day.csv -o -",
        "convert day.csv -o - --gaps hold",
        "convert day.csv -o - --gaps cut",
        "convert day.csv -o - --cut ..2s --scale-time 2 --scale-load 0.5",
        // A warning names what a krash file cannot hold; it is lost on the way back.
        "convert odd.csv -o day.krash",
        "convert day.krash -o -",
        "convert day.csv -o day.simgrid",
        "convert day.csv -o - --to csv-wide",
    ]));
    let made = ["day.cpu0.simgrid", "day.cpu1.simgrid", "day.csv"];
    assert_eq!(dir.names()[..3], made);
    assert!(
        dir.read("day.cpu0.simgrid")
            .contains("\n0 0.5\n2 0.2\n5 1\n")
    );
}

#[test]
fn standard_input_and_output() {
    let dir = Dir::new();
    dir.command(&["convert", "-", "-o", "-"])
        .write_stdin(DAY)
        .assert()
        .success()
        .stdout(DAY)
        .stderr(starts_with("standard input (native)"));
    dir.command(&["-q", "show", "-"])
        .write_stdin(DAY)
        .assert()
        .success()
        .stderr("")
        .stdout(contains("cpu 1 100"));
}

#[test]
fn what_was_recorded_can_be_shown() {
    let dir = Dir::new();
    dir.line("record -d 300ms -i 100ms -o now.csv")
        .success()
        .stdout("")
        .stderr(contains("now.csv: load of CPUs").and(contains("of one CPU")));
    dir.run(&["show", "now.csv"])
        .success()
        .stdout(contains("now.csv (native)").and(contains("recorded on ")));
    dir.line("record -d 200ms -i 100ms -o -")
        .success()
        .stdout(starts_with("# sandbag profile 1\n").and(contains(",end\n")));
    dir.line("-q record -d 200ms -i 100ms").success().stderr("");
    let names = dir.names();
    assert!(
        names.iter().any(|n| n.starts_with("sandbag-load-")),
        "{names:?}"
    );
}

#[test]
fn a_prometheus_is_not_asked_without_room_for_an_answer() {
    let url = "prometheus+http://127.0.0.1:1/?from=0&to=60";
    // Without room for an answer nothing is asked, so no message is about one.
    Dir::new()
        .command(&["show", url])
        .env("TMPDIR", "/no/such/place")
        .assert()
        .code(2)
        .stderr(contains("/no/such/place").and(contains("nothing in that time").not()));
}

#[test]
fn no_message_shows_a_password() {
    for url in [
        "prometheus+http://us:s/ecret@127.0.0.1:1/?from=0",
        "prometheus+http://us:1#ecret@127.0.0.1:1/",
        "prometheus+http://us:1?query=ecret@h/?from=0",
        "prometheus+HTTP://us:ecret@h/",
        "prometheus+http:/us:ecret@h/",
        "http://us:ecret@h/x?ecret@h",
    ] {
        for words in [
            &["show"][..],
            &["replay", "--dry-run"],
            &["convert", "-o", "x.csv"],
            &["convert", "x.csv", "-o"],
            &["convert", "x.csv", "-o", "y.csv"],
            &["slow", "--speed", "0.5", "--cpus", "0", "--load"],
        ] {
            let mut words = words.to_vec();
            words.push(url);
            let asked = Dir::new().command(&words).assert();
            asked.code(2).stdout("").stderr(contains("ecret").not());
        }
    }
}
