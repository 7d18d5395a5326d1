// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What users get wrong, as text: files in `cases/` name commands, exit codes and words of
//! the message. None of it needs root, because none of it may get as far as changing
//! anything.
//!
//! ```text
//! # A comment.
//! [a title; the directory is empty again]
//! file NAME           a file of the indented lines that follow
//! beside WORDS        what follows is run again with these words, and then exits with 125
//! $ WORDS             a command, and what is expected of it:
//! sudo WORDS          the same of a command that gets as far only as root; others are refused
//! CODE TEXT & TEXT    its exit code, and texts in standard error
//! out TEXT            a text in standard output
//! not TEXT            a text that is not in standard error
//! ```
//!
//! A command that is refused prints nothing to standard output, and neither makes nor changes a file.

use std::path::PathBuf;
use std::process::Output;

use rstest::rstest;

use crate::dir::Dir;

/// In front of the lines of a file.
const INDENT: &str = "    ";

/// Exit codes of commands that are refused, alone and beside a command of the user.
const REFUSED: [i32; 6] = [1, 2, 5, 125, 126, 127];

#[derive(Default)]
pub struct Case<'a> {
    pub words: Vec<&'a str>,
    pub code: i32,
    pub stderr: Vec<&'a str>,
    pub stdout: Vec<&'a str>,
    pub absent: Vec<&'a str>,
    pub beside: Vec<&'a str>,
    /// What it is refused for comes after the permission to make groups.
    pub root: bool,
}

impl Case<'_> {
    /// Runs the command, and fails where something is not as expected.
    pub fn check(&self, dir: &Dir) {
        if self.words.is_empty() {
            return;
        }
        if self.root && !dir.is_root() {
            let said = run(dir, &self.words, 5).stderr;
            assert!(text(&said).contains("run as root"), "{}", text(&said));
            return;
        }
        let before = dir.contents();
        let output = run(dir, &self.words, self.code);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        let said = format!("{:?}: {stdout}{stderr}", self.words);
        for part in &self.stderr {
            assert!(stderr.contains(part), "no `{part}` in {said}");
        }
        for part in &self.stdout {
            assert!(stdout.contains(part), "no `{part}` in {said}");
        }
        for part in &self.absent {
            assert!(!stderr.contains(part), "`{part}` in {said}");
        }
        if REFUSED.contains(&self.code) {
            assert_eq!(stdout, "", "{said}");
            assert!(dir.contents() == before, "files changed: {said}");
        }
        if !self.beside.is_empty() {
            let words = [&self.words[..], &self.beside].concat();
            let stderr = text(&run(dir, &words, 125).stderr).to_owned();
            for part in &self.stderr {
                assert!(stderr.contains(part), "no `{part}` in {words:?}: {stderr}");
            }
            // Arguments that are none name no directory either.
            if dir.path().join("r").exists() {
                self.check_record(dir, &stderr);
            }
            // The command would be seen if it were run.
            assert!(dir.contents() == before, "files changed: {words:?}");
        }
    }

    /// The run directory of a refused command has the reason; it is removed.
    fn check_record(&self, dir: &Dir, stderr: &str) {
        let record = dir.read("r/run.json");
        let record: serde_json::Value = serde_json::from_str(&record).unwrap();
        let error = &record["error"];
        assert_eq!(error["kind"], "bad-input", "{record}");
        assert_eq!(error["exit_code_alone"], self.code, "{record}");
        let message = error["message"].as_str().unwrap();
        assert!(stderr.contains(message), "{message} / {stderr}");
        let shown = run(dir, &["show", "r"], 2);
        assert!(text(&shown.stderr).contains("the run failed: "));
        std::fs::remove_dir_all(dir.path().join("r")).unwrap();
    }
}

fn run(dir: &Dir, words: &[&str], code: i32) -> Output {
    let output = dir.command(words).output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
    output
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[rstest]
fn commands_exit_and_say_as_the_case_has_it(#[files("tests/cli/cases/*.txt")] path: PathBuf) {
    let all = std::fs::read_to_string(path).unwrap();
    let mut dir = Dir::new();
    let mut beside: Vec<&str> = Vec::new();
    let mut case = Case::default();
    let mut lines = all.lines().peekable();
    while let Some(line) = lines.next() {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        match first {
            "out" => case.stdout.push(rest),
            "not" => case.absent.push(rest),
            "" | "#" => {}
            code if code.parse::<i32>().is_ok() => {
                case.code = code.parse().unwrap();
                case.stderr = rest.split(" & ").collect();
            }
            // What follows is not of the command before.
            _ => {
                std::mem::take(&mut case).check(&dir);
                match first {
                    "$" | "sudo" => {
                        case.root = first == "sudo";
                        case.words = rest.split(' ').collect();
                        case.beside = beside.clone();
                    }
                    "file" => {
                        let mut content = String::new();
                        while let Some(line) = lines.next_if(|line| line.starts_with(INDENT)) {
                            content += &line[INDENT.len()..];
                            content.push('\n');
                        }
                        dir = dir.with(rest, content);
                    }
                    "beside" => beside = rest.split(' ').collect(),
                    _ if line.starts_with('[') => {
                        dir = Dir::new();
                        beside.clear();
                    }
                    _ => panic!("not known: {line}"),
                }
            }
        }
    }
    case.check(&dir);
}
