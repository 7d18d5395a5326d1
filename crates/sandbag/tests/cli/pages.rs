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
