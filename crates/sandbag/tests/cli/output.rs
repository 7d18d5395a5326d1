// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where results go: readers that leave, names that are taken, endings.

use std::process::{Command, Stdio};

use predicates::prelude::*;
use predicates::str::contains;
use sandbag_audit::fixture::eight;

use crate::dir::Dir;

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let dir = Dir::new();
    for arguments in [
        &["generate", "completions", "bash"][..],
        &["status"],
        &["status", "--json"],
        &["jitter", "synth", "--like", "bgl-io-2007", "-o", "-"],
        &[
            "jitter",
            "record",
            "-d",
            "100ms",
            "--preheat",
            "0s",
            "-o",
            "-",
        ],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = Command::new(assert_cmd::cargo::cargo_bin("sandbag"))
            .args(arguments)
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(writer)
            .output()
            .unwrap();
        let text = String::from_utf8(ended.stderr).unwrap();
        assert!(!text.contains("roken pipe"), "{arguments:?}: {text}");
        assert_eq!(ended.status.code(), Some(0), "{arguments:?}: {text}");
    }
}

const PROFILE: &str = "# sandbag profile 1\ntime,cpu0\n0,50\n1,end\n";

/// A profile, a trace, an audit and a C file, each of which stands for work of
/// its user when another command names it.
fn taken() -> Dir {
    let dir = Dir::new()
        .with("p.csv", PROFILE)
        .with("a.json", serde_json::to_string(&eight()).unwrap())
        .with("jitter.c", "mine");
    dir.line("jitter synth --like bgl-io-2007 -o t.sbj")
        .success();
    for name in ["old", "old.csv", "old.sbj", "old.html", "old.json"] {
        std::fs::write(dir.path().join(name), "mine").unwrap();
    }
    dir
}

/// Every command that writes a file, with what it would write to last.
const WRITING: [&[&str]; 14] = [
    &["convert", "p.csv", "-o", "old.csv"],
    &["synth", "constant", "50", "-o", "old.csv"],
    &["synth", "fit", "p.csv", "-o", "old.csv"],
    &["jitter", "convert", "t.sbj", "-o", "old.csv"],
    &["jitter", "synth", "--like", "bgl-io-2007", "-o", "old.sbj"],
    &["jitter", "record", "-d", "50ms", "-o", "old.sbj"],
    &["jitter", "show", "t.sbj", "--html", "old.html"],
    &["jitter", "compare", "t.sbj", "t.sbj", "--html", "old.html"],
    &["record", "-d", "200ms", "-o", "old.csv"],
    &["audit", "show", "a.json", "--html", "old.html"],
    &["audit", "compare", "a.json", "a.json", "--html", "old.html"],
    &["audit", "run", "-o", "old.json"],
    &["scale", "predict", "t.sbj", "--ranks", "2", "-o", "old.csv"],
    &["scale", "bench", "-d", "100ms", "--json", "old.json"],
];

#[test]
fn a_file_that_exists_is_refused_by_every_command_that_writes_one() {
    let dir = taken();
    let before = dir.names();
    for arguments in WRITING {
        let name = arguments.last().unwrap();
        dir.run(arguments).code(2).stderr(
            contains(format!("{name}: it exists already"))
                .and(contains("--force").and(contains("option").not())),
        );
        assert_eq!(dir.read(name), "mine", "{arguments:?}");
    }
    dir.run(&["jitter", "api", "."])
        .code(2)
        .stderr(contains("jitter.c: it exists already"));
    assert_eq!(dir.read("jitter.c"), "mine");
    let names: Vec<String> = dir.names();
    assert!(before.iter().all(|name| names.contains(name)));
}

#[test]
fn force_replaces_and_pipes_and_devices_are_no_results() {
    let dir = taken();
    dir.line("convert p.csv -o old.csv --force").success();
    assert!(dir.read("old.csv").starts_with("# sandbag profile"));
    for to in ["-", "/dev/stdout", "/dev/null", "/dev/fd/1"] {
        dir.run(&["convert", "p.csv", "-o", to]).success();
    }
    // Where the shell's file is there already, it is still standard output.
    let file = std::fs::File::create(dir.path().join("shell.csv")).unwrap();
    let done = Command::new(assert_cmd::cargo::cargo_bin("sandbag"))
        .args(["convert", "p.csv", "-o", "/dev/stdout"])
        .current_dir(dir.path())
        .stdout(file)
        .status()
        .unwrap();
    assert!(done.success());
    assert!(dir.read("shell.csv").starts_with("# sandbag profile"));
}

#[test]
fn a_recording_of_jitter_without_a_name_gets_a_new_one() {
    let dir = Dir::new().with("jitter.sbj", "mine");
    for _ in 0..2 {
        dir.line("jitter record -d 500ms --preheat 0s").success();
    }
    assert_eq!(dir.read("jitter.sbj"), "mine");
    let names = dir.names();
    let made = |name: &&String| name.starts_with("sandbag-jitter-");
    assert_eq!(names.iter().filter(made).count(), 2, "{names:?}");
}

#[test]
fn a_directory_with_a_result_is_refused() {
    for (name, text) in [
        ("run.json", "{\"format\": 2}"),
        ("nodes.json", "{}"),
        ("compare.json", "{}"),
    ] {
        let dir = Dir::new().with("t.sbj", "").with("p.csv", PROFILE);
        std::fs::create_dir(dir.path().join("r")).unwrap();
        std::fs::write(dir.path().join("r").join(name), text).unwrap();
        for arguments in [
            &["load", "10", "-d", "1s", "--out", "r"][..],
            &["replay", "p.csv", "--out", "r"],
            &["jitter", "replay", "t.sbj", "--out", "r"],
            &["slow", "--cpus", "0", "--speed", ".5", "--out", "r"],
        ] {
            dir.run(arguments)
                .code(2)
                .stderr(contains(format!("r holds a result already ({name})")));
        }
        let with_command = ["load", "10", "--out", "r", "--", "true"];
        dir.run(&with_command).code(125);
        assert_eq!(dir.read(&format!("r/{name}")), text);
    }
}

#[test]
fn an_ending_that_a_command_does_not_write_is_refused() {
    let dir = taken();
    for arguments in [
        &["record", "-d", "200ms", "-o", "x.html"][..],
        &["jitter", "record", "-d", "50ms", "-o", "x.json"],
        &["jitter", "convert", "t.sbj", "-o", "x.html"],
        &["jitter", "synth", "--like", "bgl-io-2007", "-o", "x.html"],
        &["audit", "run", "-o", "x.sbj"],
        &["convert", "p.csv", "-o", "x.html"],
        &["scale", "predict", "t.sbj", "--ranks", "2", "-o", "x.md"],
        &["scale", "bench", "-d", "100ms", "-o", "x.json"],
    ] {
        dir.run(arguments).code(2).stderr(contains("x."));
        assert!(!dir.names().iter().any(|name| name.starts_with("x.")));
    }
}
