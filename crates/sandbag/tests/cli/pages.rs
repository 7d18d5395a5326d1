// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the documentation shows is what the program takes.

use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// README.md and the pages under docs, without those of results.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(ROOT);
    let mut dirs = vec![root.join("docs")];
    let mut pages = vec![root.join("README.md")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("results") {
                dirs.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                pages.push(path);
            }
        }
    }
    pages
}

/// Lines that run a program under a load: with the text before them, as far as the
/// heading or the paragraph before, they are an example for CI or they are not.
#[test]
fn examples_for_ci_fail_with_the_load() {
    let mut examples = 0;
    for path in pages() {
        let text = fs::read_to_string(&path).unwrap();
        let paragraphs: Vec<&str> = text.split("\n\n").collect();
        for two in paragraphs.windows(2) {
            let is_ci = two[0]
                .split(|c: char| !c.is_alphanumeric())
                .any(|word| word == "CI");
            let runs = |line: &&str| {
                ["load", "replay", "slow"]
                    .iter()
                    .any(|verb| line.contains(&format!("sandbag {verb} ")))
                    && line.contains(" -- ")
                    && !line.starts_with('|')
            };
            for line in two[1].lines().filter(runs).filter(|_| is_ci) {
                examples += 1;
                assert!(line.contains("--strict"), "{}: {line}", path.display());
            }
        }
    }
    assert!(examples >= 2);
}

/// The commands of blocks tagged `console` (behind a `$`) and `sh`, with their lines.
fn commands(text: &str) -> Vec<(usize, &str)> {
    let mut tag = "";
    let mut commands = Vec::new();
    for (line, text) in text.lines().enumerate() {
        let text = text.trim_start();
        if let Some(begin) = text.strip_prefix("```") {
            tag = begin.split(' ').next().unwrap_or_default();
        } else if let Some(command) = text.strip_prefix("$ ").filter(|_| tag == "console") {
            commands.push((line + 1, command));
        } else if tag == "sh" {
            commands.push((line + 1, text));
        }
    }
    commands
}

/// With what needs a service or a cluster. The machine test `pages` runs the others.
#[test]
fn commands_of_tutorials_and_how_tos_are_parsed() {
    let mut parsed = 0;
    for path in pages() {
        let dir = path.parent().unwrap();
        if !dir.ends_with("tutorial") && !dir.ends_with("how-to") {
            continue;
        }
        for (line, command) in commands(&fs::read_to_string(&path).unwrap()) {
            let at = command.match_indices("sandbag ").map(|(at, _)| at);
            for at in
                at.filter(|at| matches!(command[..*at].chars().last(), None | Some(' ' | '(')))
            {
                let mut options = &command[at + "sandbag ".len()..];
                for end in [" -- ", " | ", " >", " &"] {
                    options = options.split(end).next().unwrap_or_default();
                }
                if command[..at].ends_with("$(") {
                    options = options.strip_suffix(')').unwrap_or(options);
                }
                let help = std::process::Command::new("sh")
                    .args(["-c", &format!("\"$0\" {options} --help")])
                    .arg(env!("CARGO_BIN_EXE_sandbag"))
                    .output()
                    .unwrap();
                let said = String::from_utf8_lossy(&help.stderr);
                assert!(help.status.success(), "{}:{line}: {said}", path.display());
                parsed += 1;
            }
        }
    }
    assert!(parsed >= 40, "{parsed}");
}

/// Results take days, and .gitignore has them as it has what is built.
#[test]
fn make_clean_leaves_what_was_measured() {
    let makefile = fs::read_to_string(Path::new(ROOT).join("Makefile")).unwrap();
    let recipe = |target: &str| {
        let rest = makefile.split(&format!("\n{target}: ")).nth(1).unwrap();
        rest.split("\n\n").next().unwrap().to_owned()
    };
    let (clean, results) = (recipe("clean"), recipe("clean-results"));
    for measured in ["bench-results", "lab-results", "sandbag-run-*"] {
        assert!(!clean.contains(measured), "{clean}");
        assert!(results.contains(measured), "{results}");
    }
}
