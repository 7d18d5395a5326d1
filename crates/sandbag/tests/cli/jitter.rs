// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `jitter`: a short recording of this machine, and what is made of it.

use std::process::Output;

use assert_cmd::assert::Assert;
use predicates::prelude::*;
use predicates::str::{contains, starts_with};

use crate::dir::Dir;
use crate::patience::repeat_until;

/// Whether a recording failed because other programs had the CPUs for all of it.
pub fn knows_nothing(ended: &Output) -> bool {
    let nothing = contains("the trace holds no time in which events were looked for");
    !ended.status.success() && nothing.eval(&String::from_utf8_lossy(&ended.stderr))
}

fn shown(dir: &Dir) -> serde_json::Value {
    let shown = dir.line("jitter show --json a.sbj").success();
    serde_json::from_slice(&shown.get_output().stdout).unwrap()
}

/// At least 100 ms of CPU 0.
fn recorded() -> Dir {
    let words = [
        "jitter",
        "record",
        "-d",
        "300ms",
        "--preheat",
        "0s",
        "--cpus",
        "0",
        // Which anybody may.
        "--attribute",
        "proc",
        "-o",
        "a.sbj",
    ];
    let run = || {
        let dir = Dir::new();
        let ended = dir.run(&words);
        (dir, ended)
    };
    // Again while other programs have the CPU.
    let is_over = |(dir, ended): &(Dir, Assert)| {
        let ended = ended.get_output();
        let is_known = || shown(dir)[0]["known_s"].as_f64().unwrap() > 0.1;
        !knows_nothing(ended) && (!ended.status.success() || is_known())
    };
    let (dir, ended) = repeat_until(run, is_over);
    ended.success().stdout("").stderr(
        contains("CPU 0: ")
            .and(contains("% of the time, the longest "))
            .and(contains("detectable above")),
    );
    dir
}

#[test]
fn what_was_recorded_is_shown_and_compared() {
    let dir = recorded();
    for arguments in [&["jitter", "show", "a.sbj"][..], &["show", "a.sbj"]] {
        dir.run(arguments).success().stdout(
            contains("noise %")
                .and(contains("How they were found"))
                .and(contains("What /proc counted").and(contains("not which event"))),
        );
    }
    let figures = shown(&dir);
    assert!(figures[0]["known_s"].as_f64().unwrap() > 0.1, "{figures}");
    assert!(figures[0]["counters"]["elapsed_ns"].as_u64().unwrap() > 300_000_000);
    assert!(figures[0]["causes"].is_null());
    dir.line("jitter convert a.sbj -o - --to causes")
        .code(2)
        .stderr(contains("nothing is known of the causes"));
    // A recording is at no distance from itself.
    if figures[0]["events"].as_u64().unwrap() > 0 {
        dir.line("jitter compare a.sbj a.sbj").success().stdout(
            contains("Kolmogorov-Smirnov distance")
                .and(contains(" 0.0000  0.0000 to "))
                .and(contains("1.000")),
        );
    }
    dir.line("jitter convert a.sbj -o -")
        .success()
        .stdout(starts_with("cpu,start_ns,length_ns\n"));
    dir.line("jitter convert a.sbj -o a.json").success();
    let json: serde_json::Value = serde_json::from_str(&dir.read("a.json")).unwrap();
    assert_eq!(json["header"]["cpus"][0], 0);
    assert_eq!(
        json["cpus"][0]["events"].as_array().unwrap().len() as u64,
        figures[0]["events"].as_u64().unwrap()
    );
}

#[test]
fn a_damaged_trace_is_refused() {
    let dir = recorded();
    let mut bytes = std::fs::read(dir.path().join("a.sbj")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    dir.with("damaged.sbj", bytes)
        .line("jitter show damaged.sbj")
        .code(2)
        .stdout("")
        .stderr(contains("damaged.sbj: "));
}

const OSNOISE: &str = "\
# tracer: osnoise
       osnoise/8-961     [008] d.h.  10.000040: irq_noise: local_timer:236 start 10.000001000 duration 1845 ns
       osnoise/8-961     [008] ....  10.000042: sample_threshold: start 10.000000555 duration 8812 ns interference 1
       osnoise/8-961     [008] ....  10.100042: sample_threshold: start 10.100000555 duration 30000 ns interference 0
";
const HISTOGRAM: &str = "\
# RTLA osnoise histogram
# Time unit is microseconds (us)
# Duration:   0 00:01:00
Index   CPU-000   CPU-002
0           100        50
10            7         0
30            1         0
over:         2         0
count:      110        50
";
const CYCLICTEST: &str = "\
# Histogram
000001 000010
000002 000005
# Min Latencies: 00001
# Max Latencies: 00002
# Histogram Overflows: 00000
";

#[test]
fn events_of_another_tool_become_a_trace() {
    let dir = Dir::new().with("osnoise.txt", OSNOISE);
    assert_snapshot!(dir.transcript(&[
        "jitter show osnoise.txt",
        "jitter convert osnoise.txt -o x.sbj",
        "jitter show x.sbj",
        "jitter show --json x.sbj",
        "jitter compare x.sbj osnoise.txt -q",
        "jitter convert x.sbj -o x.csv",
        "jitter convert x.csv -o -",
        "jitter convert x.sbj -o - --to causes",
        "jitter compare x.csv x.sbj",
    ]));
    dir.line("jitter convert x.sbj -o x.json").success();
    let json: serde_json::Value = serde_json::from_str(&dir.read("x.json")).unwrap();
    let cpu = &json["attribution"]["cpus"][0];
    assert_eq!(cpu["causes"][0], serde_json::json!([445, 1845, 0]));
    assert_eq!(json["attribution"]["sources"][0]["kind"], "irq");
}

#[test]
fn a_recording_without_causes_says_nothing_of_them() {
    let dir = Dir::new();
    let record = [
        "jitter",
        "record",
        "-d",
        "100ms",
        "--preheat",
        "0s",
        "--cpus",
        "0",
    ];
    let record = [&record[..], &["--attribute", "none", "-o", "jitter.sbj"]].concat();
    let is_over = |ended: &Assert| !knows_nothing(ended.get_output());
    repeat_until(|| dir.run(&record), is_over).success();
    dir.run(&["jitter", "show", "jitter.sbj"]).success().stdout(
        contains("/proc")
            .not()
            .and(contains("Time per cause").not()),
    );
}

#[test]
fn counts_are_shown_and_compared_and_nothing_else() {
    let dir = Dir::new()
        .with("hist.txt", HISTOGRAM)
        .with("cyclic.txt", CYCLICTEST)
        .with("osnoise.txt", OSNOISE);
    assert_snapshot!(dir.transcript(&[
        "jitter show hist.txt",
        "jitter show --json hist.txt",
        "jitter show cyclic.txt",
        "jitter compare hist.txt hist.txt",
        "jitter compare --above 10us hist.txt osnoise.txt",
    ]));
}

#[test]
fn a_damaged_packed_file_is_refused() {
    Dir::new()
        .with("damaged.gz", b"\x1f\x8b\x08 and so on".as_slice())
        .run(&["jitter", "show", "damaged.gz"])
        .code(2)
        .stdout("")
        .stderr(contains(
            "damaged.gz: the file is packed (gzip) and damaged",
        ));
}

#[test]
fn what_a_file_leaves_open_may_be_named() {
    let dir = Dir::new().with("noise.3", "0 1000000\n5000000 1000000\n");
    let convert = "jitter convert noise.3 -o - --unit ps";
    dir.line(convert)
        .success()
        .stdout("cpu,start_ns,length_ns\n3,0,1000\n3,5000,1000\n");
    dir.line(&format!("{convert} --cpu 7"))
        .success()
        .stdout(contains("\n7,0,1000\n"));
}
