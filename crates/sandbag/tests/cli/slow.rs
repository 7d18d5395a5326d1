// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What users get wrong about virtual nodes: the message names place and
//! remedy, and nothing was made. None of it needs root.

use crate::dir::Dir;
use predicates::prelude::*;
use predicates::str::contains;

/// `slow` with these words is refused with this code, and 125 with a command.
fn refused(words: &str, code: i32, said: &[&str]) {
    let dir = Dir::new();
    let words: Vec<&str> = ["slow"].into_iter().chain(words.split(' ')).collect();
    let mut alone = dir.run(&words).code(code);
    for text in said {
        alone = alone.stderr(contains(*text));
    }
    let with = [&words[..], &["--no-out", "--", "touch", "ran"]].concat();
    dir.run(&with).code(125);
    assert!(dir.names().is_empty(), "{words:?} left {:?}", dir.names());
}

/// A nodes file is refused, with its name and line.
fn file_refused(text: &str, code: i32, said: &[&str]) {
    let dir = Dir::new().with("n.toml", text);
    for words in [&["slow", "n.toml"][..], &["slow", "n.toml", "--dry-run"]] {
        let mut assert = dir.run(words).code(code);
        for text in said {
            assert = assert.stderr(contains(*text));
        }
    }
    assert_eq!(dir.names(), ["n.toml"], "{text}");
}

/// A node called `a` on CPU 0, with more lines.
fn node(lines: &str) -> String {
    format!("[[node]]\nname = \"a\"\ncpus = 0\n{lines}\n")
}

#[test]
fn speeds_that_no_cpu_can_have() {
    refused("--cpus 0 --speed 0", 2, &["never finish", "above 0"]);
    refused("--cpus 0 --speed 1.01", 2, &["faster than it is"]);
    refused("--cpus 0 --speed 60", 2, &["write 60% for percent"]);
    refused("--cpus 0 --speed NaN", 2, &["not a number"]);
    refused("--cpus 0 --speed 0,5", 2, &["with a point"]);
    refused("--cpus 0 --speed=-0.5", 2, &["it is negative"]);
    // Faster than any hardware, or unknown: which it is depends on the machine.
    refused("--cpus 0 --speed 900GHz", 2, &["`900000MHz`", "ratio"]);
}

#[test]
fn a_speed_for_each_cpu_of_the_node_and_no_other() {
    refused("--cpus 0 --speed 0=0.5,9=1", 2, &["CPU 9 is not one"]);
    refused("--cpus 0 --speed 9=1", 2, &["CPU 9 is not one"]);
    refused("--cpus 0 --speed 0=0.5,0=1", 2, &["named twice"]);
}

#[test]
fn cpus_that_are_not_there() {
    refused("--cpus 3-1 --speed 0.5", 2, &["--cpus"]);
    refused(
        "--cpus 4095 --speed 0.5",
        2,
        &["CPU 4095 is not there", "online here are 0"],
    );
    refused("--cores 4095 --speed 0.5", 2, &["--cores", "are free"]);
    refused("--cores 0 --speed 0.5", 2, &["--cores", "1 or more"]);
    refused("--speed 0.5", 2, &["--cpus", "--cores", "NODES.toml"]);
    refused("--cpus 0 --cores 1 --speed 0.5", 2, &["--cores"]);
    refused("--cpus 0", 2, &["--speed"]);
}

#[test]
fn methods_and_what_they_have_not() {
    refused(
        "--cpus 0 --speed 0.5 --method fast",
        2,
        &["hogs", "cap", "deadline"],
    );
    for (options, said) in [
        ("cap --hog-sync barrier", "hogs has"),
        ("pace --hog-priority 5", "hogs has"),
        ("hogs --lim-interval 10ms", "lim has"),
        ("gov --lim-variant wrekavoc", "lim has"),
        ("lim --period 10ms", "interval"),
        ("lim --lim-interval 1s", "between 1 and 100 ms"),
        ("hogs --period 7ms", "divide 100 ms"),
        ("hogs --pace-weight 3", "pace has"),
        ("pace --pace-weight 101", "between 0.01 and 100"),
        ("pace --pace-slice 1s", "between 0.1 and 100 ms"),
        ("hogs --hog-priority 100", "between 1 and 99"),
        ("cap --split-domains", "freq and gov have"),
        ("lim --calibrate", "freq and gov have"),
    ] {
        let words = format!("--cpus 0 --speed 0.5 --method {options}");
        refused(&words, 2, &["--method", said]);
    }
}

#[test]
fn slower_than_the_method_can() {
    refused(
        "--cpus 0 --speed 0.04",
        5,
        &["hogs", "0.060", "pace, gov or cap"],
    );
    refused(
        "--cpus 0 --speed 0.001 --method pace",
        5,
        &["pace", "0.005"],
    );
    file_refused(
        &node("speed = 0.04\nmethod = \"rt\""),
        5,
        &["n.toml:5: node a", "rt", "0.060"],
    );
}

#[test]
fn a_method_that_cannot_work_here_names_one_that_can() {
    if std::path::Path::new("/sys/devices/system/cpu/cpu0/cpufreq").is_dir() {
        return;
    }
    refused(
        "--cpus 0 --speed 0.5 --method freq",
        5,
        &["no cpufreq driver", "use hogs, or gov"],
    );
    file_refused(
        &node("speed = 0.5\nmethod = \"freq\""),
        5,
        &["n.toml:5: node a", "use hogs, or gov"],
    );
}

#[test]
fn names_that_nobody_has() {
    let dir = Dir::new();
    for words in [
        &["slow", "set", "no-such-node", "--speed", "0.5"][..],
        &["slow", "stop", "no-such-node"],
    ] {
        dir.run(words)
            .code(2)
            .stderr(contains("no node `no-such-node` runs here"));
    }
    dir.line("slow exec no-such-node -- true")
        .code(125)
        .stderr(contains("no node `no-such-node` runs here"));
    dir.line("slow exec no-such-node -- no-such-program")
        .code(127);
    dir.line("slow exec no-such-node -- /").code(126);
    dir.run(&["slow", "exec", "no-such-node"]).code(2);
    dir.run(&["slow", "stop"]).code(2);
    refused("--cpus 0 --speed 0.5 --name a/b", 2, &["letters, digits"]);
}

#[test]
fn a_command_that_is_not_there() {
    let dir = Dir::new().with("plain", "");
    let node = ["slow", "--cpus", "0", "--speed", "0.5", "--"];
    dir.run(&[&node[..], &["no-such-program"]].concat())
        .code(127)
        .stderr(contains("no-such-program").and(contains("PATH")));
    dir.run(&[&node[..], &["./plain"]].concat())
        .code(126)
        .stderr(contains("./plain").and(contains("cannot be executed")));
    assert_eq!(dir.names(), ["plain"]);
}

#[test]
fn nodes_files_that_mean_nothing() {
    file_refused("", 2, &["n.toml: there are no nodes", "write a [[node]]"]);
    file_refused("node = 1", 2, &["n.toml:1: node", "[[node]]"]);
    file_refused(
        &node("speed = 0.5\nspede = 1"),
        2,
        &["n.toml:5: spede", "speed"],
    );
    file_refused(&node(""), 2, &["n.toml:1: speed", "write speed"]);
    file_refused(&node("speed = 0"), 2, &["n.toml:4: speed", "never finish"]);
    file_refused(&node("speed = "), 2, &["n.toml:4"]);
    let one = node("speed = 0.5");
    file_refused(&format!("{one}{one}"), 2, &["n.toml:6: name", "(line 1)"]);
    let other = one.replace("\"a\"", "\"b\"");
    file_refused(&format!("{one}{other}"), 2, &["n.toml:7: cpus", "node `a`"]);
    file_refused(
        &one.replace("cpus = 0", "cpus = 4095"),
        2,
        &["n.toml:3: cpus", "CPU 4095 is not there"],
    );
    file_refused(
        &node("speed = 0.5\nmethod = \"hog\""),
        2,
        &["n.toml:5: method", "did you mean hogs?"],
    );
}

#[test]
fn options_of_methods_in_a_nodes_file() {
    file_refused(
        &node("speed = 0.5\nmethod = \"lim\"\nhog-sync = \"barrier\""),
        2,
        &["n.toml:5: node a", "hogs has"],
    );
    file_refused(
        &node("speed = 0.5\nhog-sync = \"loud\""),
        2,
        &["n.toml:5: ", "loud", "--hog-sync", "clock, barrier"],
    );
    file_refused(
        &node("profile = \"none.csv\""),
        2,
        &["n.toml:4: node a", "none.csv", "No such file"],
    );
}

#[test]
fn commands_in_a_nodes_file() {
    file_refused(
        &node("speed = 0.5\ncommand = \"no-such-program 1\""),
        127,
        &["n.toml:5: command", "no-such-program"],
    );
    file_refused(
        &node("speed = 0.5\ncommands = [\"true\", \"./n.toml\"]"),
        126,
        &["n.toml:5: commands", "cannot be executed"],
    );
    file_refused(
        &node("speed = 0.5\ncwd = \"nowhere\"\ncommand = \"true\""),
        2,
        &["n.toml:5: cwd", "nowhere is no directory"],
    );
}

#[test]
fn what_is_each_node_s_own_is_not_said_beside_the_file() {
    let dir = Dir::new().with("n.toml", node("speed = 0.5"));
    for words in [
        &["--cpus", "0"][..],
        &["--speed", "0.5"],
        &["--name", "b"],
        &["--timeout", "1s"],
        &["--period", "10ms"],
        &["--pace-slice", "5ms"],
        &["--hog-priority", "1"],
        &["--calibrate"],
        &["--json"],
    ] {
        dir.run(&[&["slow", "n.toml"][..], words].concat())
            .code(2)
            .stderr(contains(words[0]).and(contains("cannot be used with")));
    }
    dir.line("slow n.toml -- touch ran").code(125);
    dir.run(&["slow", "none.toml"])
        .code(2)
        .stderr(contains("none.toml: No such file"));
    assert_eq!(dir.names(), ["n.toml"]);
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
    dir.run(&["slow", "n.toml", "--dry-run"])
        .code(0)
        .stderr(contains("node a: CPUs 0, speed 0=0.5"));
    assert_eq!(dir.names(), ["n.toml", "there"]);
}
