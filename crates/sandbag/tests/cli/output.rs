// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where results go: readers that leave, and names that are taken.

use std::process::{Command, Stdio};

use predicates::str::contains;

use crate::dir::{Dir, fixture};
use crate::jitter::knows_nothing;
use crate::patience::repeat_until;

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let dir = Dir::new();
    let profile = fixture("two_cpus.u.json");
    for arguments in [
        &["generate", "completions", "bash"][..],
        &["status"],
        &["status", "--json"],
        &["status", "--watch"],
        &["jitter", "synth", "--like", "bgl-io-2007", "-o", "-"],
        &["show", &profile],
        &["convert", &profile, "-o", "-"],
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
        let run = || {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            Command::new(assert_cmd::cargo::cargo_bin("sandbag"))
                .args(arguments)
                .current_dir(dir.path())
                .env("XDG_RUNTIME_DIR", dir.runtime())
                .stdin(Stdio::null())
                .stdout(writer)
                .output()
                .unwrap()
        };
        let ended = repeat_until(run, |ended| !knows_nothing(ended));
        let text = String::from_utf8(ended.stderr).unwrap();
        assert!(!text.contains("roken pipe"), "{arguments:?}: {text}");
        assert_eq!(ended.status.code(), Some(0), "{arguments:?}: {text}");
    }
}

const PROFILE: &str = "# sandbag profile 1\ntime,cpu0\n0,50\n1,end\n";

/// Files of the interface that are not there are written before.
#[test]
fn a_file_of_the_interface_that_exists_is_refused() {
    let dir = Dir::new().with("jitter.c", "mine");
    dir.run(&["jitter", "api", "."])
        .code(2)
        .stderr(contains("jitter.c: it exists already"));
    assert_eq!(dir.read("jitter.c"), "mine");
}

#[test]
fn force_replaces_and_pipes_and_devices_are_no_results() {
    let dir = Dir::new().with("p.csv", PROFILE).with("old.csv", "mine");
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
fn a_record_that_cannot_be_written_is_said_also_when_quiet() {
    let events = r#"{"0": [[1000, 1000000], [20000000, 1000000]]}"#;
    let dir = Dir::new().with("t.json", events);
    dir.line("-q jitter replay t.json --cpus 0 --method fair --no-out --json=/dev/full -- true")
        .code(125)
        .stderr(contains("/dev/full"));
}

#[test]
fn a_recording_of_jitter_without_a_name_gets_a_new_one() {
    let dir = Dir::new().with("jitter.sbj", "mine");
    for _ in 0..2 {
        let record = || dir.line("jitter record -d 500ms --preheat 0s");
        repeat_until(record, |ended| !knows_nothing(ended.get_output())).success();
    }
    assert_eq!(dir.read("jitter.sbj"), "mine");
    let names = dir.names();
    let made = |name: &&String| name.starts_with("sandbag-jitter-");
    assert_eq!(names.iter().filter(made).count(), 2, "{names:?}");
}
