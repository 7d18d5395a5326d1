// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `jitter synth`, and on its traces, of which everything is known, what
//! `show`, `compare` and `convert` say and select.

use predicates::prelude::*;
use predicates::str::{contains, starts_with};

use crate::dir::Dir;
use crate::page::readable;

/// A tick every 10 ms and random events, on two CPUs, 5 s.
const TICK: &str = "jitter synth --period 10ms --phase 3ms --jitter 1us --length 25us \
                    --poisson 200 --length lognormal:2us:0.5 --cpus 1,3 -d 5s --seed 7";

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

fn synthesised(line: &str, output: &str) -> Dir {
    let dir = Dir::new();
    dir.run(&[&words(line)[..], &["-o", output]].concat())
        .success()
        .stdout("")
        .stderr(contains("synthetic, xoshiro256++, seed"));
    dir
}

#[test]
fn a_trace_has_what_was_asked_and_is_the_same_again() {
    let dir = synthesised(TICK, "a.sbj");
    dir.run(&[&words(TICK)[..], &["-o", "b.sbj"]].concat())
        .success();
    let bytes = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
    assert_eq!(bytes("a.sbj"), bytes("b.sbj"));
    assert_snapshot!(dir.transcript(&["jitter show a.sbj", "jitter show a.sbj --brief"]));
    let shown = dir.line("jitter show a.sbj --json").success();
    let all: serde_json::Value = serde_json::from_slice(&shown.get_output().stdout).unwrap();
    let tick = &all[0]["periodic"]["components"][0];
    assert!((tick["period_ns"].as_f64().unwrap() / 1e7 - 1.0).abs() < 1e-5);
    assert!(
        (470..=510).contains(&tick["events"].as_u64().unwrap()),
        "{tick}"
    );
    assert_eq!(all[0]["in_common"][0]["b"], 3);
    // To standard output, and on from there; both commands know it.
    let made = dir.run(&[&words(TICK)[..], &["-q", "-o", "-"]].concat());
    let made = made.success().get_output().stdout.clone();
    for command in [&["show", "-"][..], &["jitter", "show", "-", "--brief"]] {
        dir.command(command)
            .write_stdin(made.clone())
            .assert()
            .success()
            .stdout(contains("recorded by sandbag").and(contains("synthetic")));
    }
}

#[test]
fn a_synthetic_trace_has_no_causes_to_write() {
    let dir = Dir::new();
    dir.run(&words(
        "jitter synth --poisson 50 --length 5us -d 2s --to causes -o x.csv",
    ))
    .code(2)
    .stderr(contains("has no causes"));
    assert!(!dir.path().join("x.csv").exists());
}

#[test]
fn published_traces_and_recordings_are_models() {
    let dir = Dir::new();
    dir.run(&words("jitter synth --like bgl-io-2007 -d 2s -o bgl.sbj"))
        .success()
        .stderr(contains("99.5 % of the events are shorter than 5 us").and(contains("has not:")));
    dir.run(&words(
        "jitter synth --like bgl.sbj -d 2s --seed 3 -o again.sbj",
    ))
    .success();
    dir.run(&words(
        "jitter synth --poisson 50 --length trace:bgl.sbj -d 2s -o lengths.csv",
    ))
    .success();
    assert!(
        dir.read("lengths.csv")
            .starts_with("cpu,start_ns,length_ns\n0,")
    );
}

#[test]
fn parts_of_a_trace() {
    let dir = synthesised(TICK, "a.sbj");
    let json = |arguments: &[&str]| -> serde_json::Value {
        let shown = dir.run(&[&["jitter", "show", "--json", "--brief"], arguments].concat());
        serde_json::from_slice(&shown.success().get_output().stdout).unwrap()
    };
    let long = json(&["a.sbj", "--above", "20us", "--cpus", "3"]);
    assert_eq!(
        (long.as_array().unwrap().len(), &long[0]["cpu"]),
        (1, &3.into())
    );
    assert_eq!(long[0]["events"], 500);
    dir.run(&words(
        "jitter convert a.sbj --from 1s --until 2s --select 1 --above 20us -o part.sbj",
    ))
    .success();
    let part = json(&["part.sbj"]);
    assert_eq!(part[0]["events"], 100);
    assert!((part[0]["known_s"].as_f64().unwrap() - 1.0).abs() < 1e-4);
    // It begins where it was cut.
    dir.run(&words("jitter convert part.sbj -o part.csv"))
        .success();
    let line = dir.read("part.csv").lines().nth(1).unwrap().to_owned();
    let start: u64 = line.split(',').nth(1).unwrap().parse().unwrap();
    assert!(start.abs_diff(3_000_000) < 10_000, "{line}");
}

#[test]
fn two_traces_are_the_same_or_differ() {
    let dir = synthesised(TICK, "a.sbj");
    for (from, to) in [
        ("--seed 7", "--seed 8 -o b.sbj"),
        ("--poisson 200", "--poisson 400 -o c.sbj"),
        ("-d 5s", "-d 300ms -o d.sbj"),
    ] {
        dir.run(&words(&TICK.replace(from, to))).success();
    }
    assert_snapshot!(dir.transcript(&[
        "jitter compare --strict a.sbj a.sbj",
        "jitter compare --strict a.sbj c.sbj",
        "jitter compare --strict a.sbj d.sbj",
        // Of what is long there is only the tick.
        "jitter compare --strict --above 20us a.sbj c.sbj",
        "jitter compare --strict --above 1ms a.sbj c.sbj",
        "jitter compare --html c.html a.sbj c.sbj -q",
    ]));
    assert_snapshot!("page_of_two", readable(&dir.read("c.html")));
    let compared = dir
        .run(&words("jitter compare --json a.sbj b.sbj"))
        .success();
    let all: serde_json::Value = serde_json::from_slice(&compared.get_output().stdout).unwrap();
    assert!(all["js"]["difference"]["high"].is_f64(), "{all}");
}

#[test]
fn a_page_has_the_figures() {
    let dir = synthesised(TICK, "a.sbj");
    dir.run(&words("jitter show a.sbj --html a.html"))
        .success()
        .stdout(contains("noise %"));
    assert_snapshot!("page", readable(&dir.read("a.html")));
    dir.run(&words("jitter show a.sbj --html -"))
        .success()
        .stdout(dir.read("a.html"));
}

#[test]
fn packed_files_and_formats_of_others_are_known_to_show() {
    let dir = synthesised(TICK, "a.csv").with(
        "fwq.txt",
        "Speed: process 0, cycles 100, seconds 1, GHz 1\n",
    );
    let trace = std::fs::read(dir.path().join("a.csv")).unwrap();
    let mut packed = std::process::Command::new("gzip")
        .arg("-c")
        .arg(dir.path().join("a.csv"))
        .output()
        .unwrap();
    assert!(packed.status.success() && packed.stdout.len() < trace.len());
    let dir = dir.with("a.csv.gz", &packed.stdout);
    for command in [&["show"][..], &["jitter", "show", "--brief"]] {
        dir.run(&[command, &["a.csv.gz"]].concat())
            .success()
            .stdout(starts_with("a.csv.gz: recorded by"));
    }
    let mut damaged = packed.stdout.clone();
    *damaged.last_mut().unwrap() ^= 1;
    packed.stdout.truncate(1000);
    let dir = dir.with("cut.gz", &packed.stdout).with("a.gz", &damaged);
    dir.run(&["jitter", "show", "cut.gz"])
        .success()
        .stderr(contains("cut.gz").and(contains("packed (gzip) and has no end")));
    dir.run(&["jitter", "show", "a.gz"])
        .code(2)
        .stderr(contains("a.gz").and(contains("packed (gzip) and damaged")));
}
