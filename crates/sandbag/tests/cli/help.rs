// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Help, version, man pages and completions.

use std::process::{Command, Stdio};

use crate::dir::Dir;
use predicates::prelude::*;
use predicates::str::contains;

/// The subcommands that the help of a command names.
fn subcommands(dir: &Dir, command: &str) -> Vec<String> {
    let help = dir.line(format!("{command} -h").trim_start());
    let help = String::from_utf8(help.get_output().stdout.clone()).unwrap();
    let list = help.split("Commands:\n").nth(1).unwrap_or_default();
    list.lines()
        .take_while(|line| !line.is_empty())
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(|name| format!("{command} {name}").trim_start().to_owned())
        .collect()
}

/// `-h` and `--help` of a command and of those below it.
fn help(dir: &Dir, command: &str) -> String {
    let lines = ["-h", "--help"].map(|option| format!("{command} {option}"));
    let mut text = dir.transcript(&lines);
    for command in subcommands(dir, command) {
        text += &help(dir, &command);
    }
    text
}

#[test]
fn help_of_every_command() {
    let dir = Dir::new();
    assert_snapshot!("help", dir.transcript(&["-h", "--help"]));
    let commands = subcommands(&dir, "");
    assert!(commands.len() > 10, "{commands:?}");
    for command in commands {
        assert_snapshot!(format!("help-{command}"), help(&dir, &command));
    }
}

#[test]
fn version() {
    Dir::new()
        .run(&["--version"])
        .success()
        .stdout(format!("sandbag {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn no_command_is_wrong_usage() {
    Dir::new().run(&[]).code(2).stderr(contains("--help"));
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        Dir::new()
            .run(&["generate", "completions", shell])
            .success()
            .stdout(contains("replay").and(contains("convert")));
    }
}

#[test]
fn man_pages_name_options_and_exit_codes() {
    let dir = Dir::new();
    dir.run(&["generate", "man", "man"]).success();
    assert_eq!(dir.names(), ["man"]);
    let page = |name: &str| dir.read(&format!("man/{name}.1"));
    let main = page("sandbag");
    assert!(main.contains(".TH sandbag 1") && main.contains("sandbag\\-replay"));
    let replay = page("sandbag-replay");
    assert!(replay.contains(".SH \"EXIT STATUS\"") && replay.contains("127 CMD not found"));
    assert!(replay.contains("\\-\\-tolerance"));
    assert!(page("sandbag-jitter-record").contains("\\-\\-preheat"));
    assert!(!dir.path().join("man/sandbag-generate.1").exists());
}

/// The commands of the reference, each with a page to which the others refer.
#[test]
fn every_command_has_a_page_and_every_reference_resolves() {
    let dir = Dir::new();
    dir.run(&["generate", "man", "."]).success();
    let pages: Vec<String> = dir.names();
    let reference = include_str!("../../../../docs/reference/command-line.md");
    let commands = reference
        .lines()
        .filter_map(|line| line.strip_prefix("## `"));
    let mut expected: Vec<String> = commands
        .map(|name| name.trim_end_matches('`').replace(' ', "-") + ".1")
        .collect();
    expected.sort();
    assert_eq!(pages, expected);
    assert!(pages.len() > 31, "{pages:?}");
    for page in &pages {
        let text = dir.read(page).replace("\\-", "-");
        for (before, _) in text.match_indices("(1)").map(|(at, _)| text.split_at(at)) {
            let part = |c: char| c.is_ascii_alphanumeric() || c == '-';
            let name = before.trim_end_matches("\\fR");
            let name = name.rsplit(|c| !part(c)).next().unwrap();
            // Those of others are the system's.
            let is_ours = name.starts_with("sandbag");
            let is_there = pages.contains(&format!("{name}.1"));
            assert!(!is_ours || is_there, "{page} names {name}(1)");
        }
    }
    assert!(
        dir.read("sandbag-audit-run.1")
            .contains("all CPUs are equal")
    );
}

/// As a reader sees them; groff says of its own accord what is wrong.
#[test]
#[ignore = "needs groff; make unit runs it where that is"]
fn man_pages_render_without_complaint() {
    let dir = Dir::new();
    dir.run(&["generate", "man", "."]).success();
    for name in dir.names() {
        let rendered = Command::new("groff")
            .args(["-man", "-Tutf8", "-ww", &name])
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let complaints = String::from_utf8_lossy(&rendered.stderr);
        assert!(complaints.is_empty(), "{name}: {complaints}");
    }
}
