// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `jitter replay` and `jitter verify`: what they refuse, and a short replay by
//! ordinary tasks.

use std::collections::BTreeSet;

use predicates::prelude::*;
use predicates::str::contains;

use crate::dir::Dir;
use crate::jitter::knows_nothing;
use crate::patience::repeat_until;
use crate::skipped::say_skipped;

/// 1 to 3 ms every 20 ms for a second, on two CPUs.
fn made() -> Dir {
    let events: Vec<[u64; 2]> = (0..50)
        .map(|i| [i * 20_000_000 + 1_000, (1 + i % 3) * 1_000_000])
        .collect();
    let text = serde_json::json!({"0": events, "1": events}).to_string();
    Dir::new().with("made.json", text)
}

#[test]
fn a_dry_run_says_what_each_cpu_would_suffer() {
    let dir = made();
    dir.line(
        "jitter replay made.json --cpus 0 --trace-cpus 1 --share 50% --seed 7 --dry-run -- true",
    )
    .success()
    .stdout(
        contains("CPU 0: CPU 1 of the trace")
            .and(contains("seed 7"))
            .and(contains("beside: true")),
    );
    // Of more CPUs than are wanted those with the same numbers.
    dir.line("jitter replay made.json --cpus 1 --dry-run")
        .success()
        .stdout(contains("CPU 1: CPU 1 of the trace"));
    // In the order of the list.
    dir.line("jitter replay made.json --cpus 0-1 --trace-cpus 1,0 --dry-run")
        .success()
        .stdout(contains("CPU 0: CPU 1 of the trace").and(contains("CPU 1: CPU 0 of the trace")));
    assert_eq!(dir.names(), ["made.json"]);
}

#[test]
fn ordinary_tasks_replay_and_tell() {
    let dir = made();
    let ran = dir
        .run(&[
            "jitter",
            "replay",
            "made.json",
            "--cpus",
            "0",
            "--trace-cpus",
            "0",
            "--method",
            "fair",
            "--out",
            "r",
            "--json=r.json",
            "--",
            "sh",
            "-c",
            "echo said; sleep 0.2; exit 6",
        ])
        .code(6)
        .stdout("said\n")
        .stderr(contains("injecting costs").and(contains("late p50")));
    drop(ran);
    assert!(dir.read("r/achieved.csv").starts_with("cpu,due_ns,"));
    let record: serde_json::Value = serde_json::from_str(&dir.read("r.json")).unwrap();
    assert_eq!(record["kind"], "jitter-replay");
    assert_eq!(record["method"]["used"], "fair");
    assert_eq!(record["command"]["exit_code"], 6);
    assert_eq!(record["seed"], 0);
    let counts = &record["cpus"][0]["counts"];
    check_counts(counts);
    assert!(counts["asked"].as_u64() > Some(0), "{counts}");
    for shown in ["r", "r/run.json"] {
        dir.run(&["show", shown])
            .success()
            .stdout(contains("made.json replayed by fair").and(contains("injecting costs")));
    }
}

#[test]
fn a_replay_that_injects_little_is_missed_by_word_and_exit_code() {
    // Events of 1 ns are shorter than what injecting costs.
    let events: Vec<[u64; 2]> = (1..200).map(|n| [n * 1_000_000, 1]).collect();
    let dir = Dir::new().with("short.json", serde_json::json!({"0": events}).to_string());
    let words = "jitter replay short.json --cpus 0 --trace-cpus 0 --share 1 --method fair -d \
                 200ms --no-out";
    // Other tests run beside this one: what injecting costs is not always seen,
    // and then nothing is too short.
    let replay = |more: &str| {
        let words: Vec<&str> = words.split(' ').chain(more.split_whitespace()).collect();
        let unseen = contains("what injecting costs could not be seen");
        (0..20)
            .map(|_| dir.run(&words))
            .find(|ended| !unseen.eval(&String::from_utf8_lossy(&ended.get_output().stderr)))
            .expect("the cost of injecting is seen once in 20 runs")
    };
    let said = || contains("missed: ").and(contains("shorter than what injecting costs"));
    let ended = replay("--json=-").code(3).stderr(said());
    let record: serde_json::Value = serde_json::from_slice(&ended.get_output().stdout).unwrap();
    assert_eq!(record["verdict"], "missed");
    replay("-- sleep 0.3").code(0).stderr(said());
    replay("--strict -- sleep 0.3").code(3);
    replay("--strict -- false").code(1);
}

const WAYS: [&str; 7] = [
    "no safeguards",
    "safeguards",
    "factor 2",
    "inside, no safeguards",
    "inside, safeguards",
    "inside, factor 2",
    "polled",
];

#[test]
fn verify_has_a_row_for_each_way() {
    let dir = made();
    let mut words = vec!["jitter", "verify", "made.json", "--cpus", "0"];
    words.extend(["--trace-cpus", "0", "--share", "1", "-d", "300ms", "--json"]);
    words.extend(["--method", "fair", "--scale-factor", "2"]);
    let mut judged = BTreeSet::new();
    // The ways in which events were judged so far; `None` without a constant counter.
    let run = || {
        let ended = dir.command(&words).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        if ended.status.code() == Some(5) && said.contains("flags of /proc/cpuinfo") {
            return None;
        }
        if !knows_nothing(&ended) {
            assert!(ended.status.success(), "{ended:?}");
            let rows: Vec<serde_json::Value> = serde_json::from_slice(&ended.stdout).unwrap();
            let names: Vec<&str> = rows.iter().map(|r| r["name"].as_str().unwrap()).collect();
            assert_eq!(names, WAYS);
            rows.iter().for_each(check_row);
            let with_events = |place: &usize| rows[*place]["judged"]["asked"].as_u64() > Some(0);
            judged.extend((0..rows.len()).filter(with_events).map(|place| WAYS[place]));
        }
        Some(judged.clone())
    };
    // Again while other programs have the CPU for all of a replay.
    let is_over = |judged: &Option<BTreeSet<_>>| {
        let of = judged.as_ref();
        of.is_none_or(|judged| judged.len() == WAYS.len())
    };
    match repeat_until(run, is_over) {
        None => say_skipped("verify_has_a_row_for_each_way", "no constant counter"),
        Some(judged) => assert_eq!(judged, BTreeSet::from(WAYS)),
    }
}

/// How it ended; by itself where it did not come to the library.
fn verify_interrupted(dir: &Dir) -> Option<i32> {
    let words = "jitter verify made.json --cpus 0 --trace-cpus 0 --share 1 --method fair -q";
    let mut verify = std::process::Command::new(env!("CARGO_BIN_EXE_sandbag"))
        .args(words.split(' '))
        .current_dir(dir.path())
        .env("TMPDIR", dir.runtime())
        .stderr(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while !has_library(dir) {
        if let Some(status) = verify.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    // As Ctrl-C, which our caller may ignore.
    // SAFETY: a child that was not reaped.
    unsafe { libc::kill(verify.id().cast_signed(), libc::SIGTERM) };
    verify.wait().unwrap().code()
}

fn has_library(dir: &Dir) -> bool {
    let entries = std::fs::read_dir(dir.runtime()).unwrap();
    let mut names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.any(|name| name.starts_with("sandbag-inside-"))
}

#[test]
fn a_verify_that_is_interrupted_leaves_nothing() {
    let dir = made();
    // Again where other programs have the CPU for all of a recording.
    let is_over = |code: &Option<i32>| matches!(code, Some(5 | 130) | None);
    let code = repeat_until(|| verify_interrupted(&dir), is_over);
    assert!(!has_library(&dir));
    if code == Some(5) {
        let test = "a_verify_that_is_interrupted_leaves_nothing";
        say_skipped(test, "no constant counter");
    } else {
        assert_eq!(code, Some(130));
    }
}

/// Each event that was due has one outcome.
fn check_counts(counts: &serde_json::Value) {
    let count = |name: &str| counts[name].as_u64().unwrap();
    let parts = [
        "injected",
        "merged",
        "below_floor",
        "over_limit",
        "shortened",
        "missed",
        "not_reached",
    ];
    let sum: u64 = parts.into_iter().map(count).sum();
    assert_eq!(count("asked"), sum, "{counts}");
}

fn check_row(row: &serde_json::Value) {
    check_counts(&row["counts"]);
    let is_inside = row["name"].as_str().unwrap().starts_with("inside");
    assert_eq!(row["inside"]["overhead_ns"].is_u64(), is_inside, "{row}");
    assert_eq!(row["method"] == "timer", is_inside, "{row}");
}

#[test]
fn help_has_the_exit_codes_of_a_replay() {
    let dir = made();
    dir.run(&["jitter", "replay", "--help"]).success().stdout(
        contains("early (it went offline")
            .and(contains("127 CMD"))
            .and(contains("with --strict")),
    );
}
