// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `jitter replay --inside` and `jitter api`, without root.

use predicates::prelude::*;
use predicates::str::contains;

use crate::dir::Dir;

/// 1 ms every 10 ms for three seconds, on two CPUs.
fn made() -> Dir {
    let events: Vec<[u64; 2]> = (0..300)
        .map(|i| [i * 10_000_000 + 1_000, 1_000_000])
        .collect();
    let text = serde_json::json!({"0": events, "1": events}).to_string();
    Dir::new().with("made.json", text)
}

fn record(dir: &Dir, name: &str) -> serde_json::Value {
    serde_json::from_str(&dir.read(name)).unwrap()
}

/// A shell that works for a while by itself.
const WORK: &str = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";

#[test]
fn a_program_suffers_and_says_what_it_says() {
    let dir = made();
    let script = format!("{WORK}; echo out; echo err >&2; exit 7");
    let words = [
        "jitter",
        "replay",
        "made.json",
        "--inside",
        "--out",
        "r",
        "--",
        "sh",
        "-c",
        &script,
    ];
    dir.run(&words).code(7).stdout("out\n").stderr(
        contains("err\n").and(contains("injected by: timers within CMD").and(contains("sh "))),
    );
    let run = record(&dir, "r/run.json");
    assert_eq!(run["kind"], "jitter-replay-inside");
    assert_eq!(run["command"]["exit_code"], 7);
    assert!(run["all"]["injected"].as_u64().unwrap() > 2, "{run}");
    assert_eq!(run["processes"][0]["name"], "sh");
    assert!(
        run["measured"]["overhead_ns"].as_u64().unwrap() > 0,
        "{run}"
    );
}

#[test]
fn only_those_that_are_named_suffer_and_until_it_is_over() {
    let dir = made();
    let script = format!("sleep 0.1; {WORK}");
    let base = [
        "jitter",
        "replay",
        "made.json",
        "--inside",
        "--json=r.json",
        "--force",
        "--no-out",
        "-q",
    ];
    let with = |more: &[&str]| {
        let words: Vec<&str> = base
            .iter()
            .chain(more)
            .copied()
            .chain(["--", "sh", "-c", &script])
            .collect();
        dir.run(&words).success();
        record(&dir, "r.json")
    };
    let run = with(&["--only", "sleep"]);
    assert_eq!(run["processes"].as_array().unwrap().len(), 1, "{run}");
    assert_eq!(run["processes"][0]["name"], "sleep");
    assert_eq!(run["without"]["not_meant"], 1);
    let run = with(&["--only", "rank"]);
    assert_eq!(run["processes"].as_array().unwrap().len(), 0, "{run}");
    assert!(
        run["warnings"][0].as_str().unwrap().contains("--only"),
        "{run}"
    );
    let run = with(&["--duration", "1ms"]);
    assert!(run["without_jitter_s"].as_f64().unwrap() > 0.0, "{run}");
}

/// A shell has jitter, the static program that it starts has none.
#[test]
fn cpu_time_without_jitter_is_not_kept() {
    let dir = made().with(
        "spin.c",
        "#include <time.h>\nint main(void) { while (clock() < CLOCKS_PER_SEC); return 0; }\n",
    );
    for (how, is_without) in [("-static", true), ("-O1", false)] {
        let built = std::process::Command::new("cc")
            .args([how, "-o", "spin", "spin.c"])
            .current_dir(dir.path())
            .status();
        assert!(built.unwrap().success());
        let mut words = vec!["jitter", "replay", "made.json", "--inside", "--loop"];
        words.extend(["--no-out", "-q", "--json=r.json", "--force"]);
        words.extend(["--", "sh", "-c", "./spin; true"]);
        dir.run(&words).success();
        let run = record(&dir, "r.json");
        let because = run["verdict_because"].as_str().unwrap();
        let said = because.contains("CPU time of CMD processes with jitter took");
        assert_eq!(said, is_without, "{run}");
        assert!(!is_without || run["verdict"] != "kept", "{run}");
    }
}

#[test]
fn what_cannot_be_entered_is_refused() {
    let dir = made().with("plain.c", "int main(void) { return 0; }\n");
    let built = std::process::Command::new("cc")
        .args(["-static", "-o", "plain", "plain.c"])
        .current_dir(dir.path())
        .status();
    assert!(built.unwrap().success());
    dir.line("jitter replay made.json --inside -- ./plain")
        .code(125)
        .stderr(contains("statically linked"));
    dir.line("jitter replay made.json --inside --dry-run -- true")
        .success()
        .stdout(contains("rank 1: 300 events").and(contains("inside: true")));
}

#[test]
fn a_program_may_ask_by_itself() {
    let dir = made().with(
        "ask.c",
        "#include <stdio.h>\n#include \"sandbag_jitter.h\"\n\
         int main(void) { struct sandbag_jitter_report r; sandbag_jitter_init();\n\
         for (int i = 0; i < 2000000; i++) sandbag_jitter_poll();\n\
         sandbag_jitter_report(&r, sizeof r); return r.injected > 0 ? 0 : 9; }\n",
    );
    dir.run(&["jitter", "api", "api"]).success().stdout("");
    let built = std::process::Command::new("cc")
        .args([
            "-O1",
            "-static",
            "-Iapi",
            "-o",
            "ask",
            "ask.c",
            "api/jitter.c",
        ])
        .current_dir(dir.path())
        .status();
    assert!(built.unwrap().success());
    let mut words = vec![
        "jitter",
        "replay",
        "made.json",
        "--inside",
        "--no-out",
        "--method",
        "polled",
    ];
    words.extend(["--share", "1", "--loop", "--", "./ask"]);
    dir.run(&words).success().stderr(contains("CMD itself"));
}
