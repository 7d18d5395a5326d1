// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual nodes on machines without a cpufreq driver, and paths in a nodes file.

use crate::cases::Case;
use crate::dir::Dir;
use crate::skipped::say_skipped;
use predicates::str::contains;

/// A node called `a` on CPU 0, with more lines.
fn node(lines: &str) -> String {
    format!("[[node]]\nname = \"a\"\ncpus = 0\n{lines}\n")
}

#[test]
fn a_method_that_cannot_work_here_names_one_that_can() {
    if std::path::Path::new("/sys/devices/system/cpu/cpu0/cpufreq").is_dir() {
        let test = "a_method_that_cannot_work_here_names_one_that_can";
        say_skipped(test, "a cpufreq driver");
        return;
    }
    let dir = Dir::new().with("n.toml", node("speed = 0.5\nmethod = \"freq\""));
    let driver = ["no cpufreq driver", "use hogs, or gov"];
    let place = ["n.toml:5: node a", "use hogs, or gov"];
    for (words, said, beside) in [
        (
            "slow --cpus 0 --speed 0.5 --method freq",
            driver,
            "--no-out -- touch ran",
        ),
        ("slow n.toml", place, ""),
        ("slow n.toml --dry-run", place, ""),
    ] {
        let case = Case {
            words: words.split(' ').collect(),
            code: 5,
            stderr: said.to_vec(),
            beside: beside.split_whitespace().collect(),
            ..Case::default()
        };
        case.check(&dir);
    }
}

#[test]
fn cpus_have_names() {
    let dir = Dir::new();
    let all = dir.line("slow --cpus all --speed 0.5 --dry-run");
    if dir.is_root() {
        all.code(0).stdout(contains(" on CPUs "));
    } else {
        all.code(5).stderr(contains("run as root"));
    }
    dir.line("slow --cpus some --speed 0.5")
        .code(2)
        .stderr(contains("one of all, even, odd, core"));
    dir.line("slow list")
        .code(0)
        .stderr(contains("no node of this user"));
}

/// As at a limit of processes, which root does not have.
#[test]
fn cpus_are_found_where_no_thread_can_start() {
    let dir = Dir::new();
    let mut dry = dir.command(&["load", "10", "--cpus", "0", "--dry-run"]);
    dry.env("RUST_MIN_STACK", (1_u64 << 50).to_string());
    let code = if dir.is_root() { 0 } else { 5 };
    dry.assert().code(code);
}

/// Paths in a nodes file are seen from the node's directory, and by its PATH.
#[test]
fn a_dry_run_of_a_nodes_file_says_who_is_where() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = Dir::new().with(
        "n.toml",
        node("speed = \"50%\"\ncwd = \"there\"\nenv = { PATH = \"there\" }\ncommands = [\"./app\", \"app 1\"]"),
    );
    let there = dir.path().join("there");
    std::fs::create_dir(&there).unwrap();
    std::fs::write(there.join("app"), "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(there.join("app"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let dry = dir.run(&["slow", "n.toml", "--dry-run"]);
    if dir.is_root() {
        dry.code(0).stderr(contains("node a: CPUs 0, speed 0=0.5"));
    } else {
        dry.code(5).stderr(contains("run as root"));
    }
    assert_eq!(dir.names(), ["n.toml", "there"]);
}
