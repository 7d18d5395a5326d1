// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `jitter`: a short recording of this machine, and what is made of it.

use predicates::prelude::*;
use predicates::str::{contains, starts_with};

use crate::dir::Dir;

fn recorded() -> Dir {
    let dir = Dir::new();
    dir.run(&[
        "jitter",
        "record",
        "-d",
        "300ms",
        "--preheat",
        "0s",
        "--cpus",
        "0",
        "-o",
        "a.sbj",
    ])
    .success()
    .stdout("")
    .stderr(contains("CPU 0: ").and(contains("detectable above")));
    dir
}

#[test]
fn what_was_recorded_is_shown_and_compared() {
    let dir = recorded();
    for arguments in [&["jitter", "show", "a.sbj"][..], &["show", "a.sbj"]] {
        dir.run(arguments)
            .success()
            .stdout(contains("noise %").and(contains("How they were found")));
    }
    let shown = dir.run(&["jitter", "show", "--json", "a.sbj"]).success();
    let figures: serde_json::Value = serde_json::from_slice(&shown.get_output().stdout).unwrap();
    assert!(figures[0]["known_s"].as_f64().unwrap() > 0.1, "{figures}");
    // A recording is at no distance from itself.
    if figures[0]["events"].as_u64().unwrap() > 0 {
        dir.run(&["jitter", "compare", "a.sbj", "a.sbj"])
            .success()
            .stdout(contains("Kolmogorov-Smirnov distance  0.0000").and(contains("1.000")));
    }
    dir.run(&["jitter", "convert", "a.sbj", "-o", "-"])
        .success()
        .stdout(starts_with("cpu,start_ns,length_ns\n"));
    dir.run(&["jitter", "convert", "a.sbj", "-o", "a.json"])
        .success();
    let json: serde_json::Value = serde_json::from_str(&dir.read("a.json")).unwrap();
    assert_eq!(json["header"]["cpus"][0], 0);
    assert_eq!(
        json["cpus"][0]["events"].as_array().unwrap().len() as u64,
        figures[0]["events"].as_u64().unwrap()
    );
}

#[test]
fn what_is_no_trace_is_refused() {
    let dir = recorded()
        .with("p.csv", "time,cpu0\n0,50\n1,end\n")
        .with("none.sbj", "");
    let mut bytes = std::fs::read(dir.path().join("a.sbj")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    let dir = dir.with("damaged.sbj", bytes);
    for (file, said) in [
        ("p.csv", "p.csv: this is no jitter trace"),
        ("none.sbj", "the file is empty"),
        ("damaged.sbj", "damaged.sbj: "),
        ("missing.sbj", "missing.sbj: No such file"),
    ] {
        dir.run(&["jitter", "show", file])
            .code(2)
            .stdout("")
            .stderr(contains(said));
    }
    let names = dir.names();
    dir.run(&["jitter", "record", "--cpus", "4000", "-o", "b.sbj"])
        .code(2)
        .stderr(contains("CPU 4000 is not online"));
    dir.run(&["jitter", "record", "-d", "0s", "-o", "b.sbj"])
        .code(2);
    assert_eq!(dir.names(), names);
    dir.run(&["jitter", "record", "-d", "1s", "-o", "no/such/b.sbj"])
        .code(2)
        .stderr(contains("no/such/b.sbj"));
}
