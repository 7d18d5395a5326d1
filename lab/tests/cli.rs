// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What of the lab needs no root: its list, and pages of what was measured.

#[allow(dead_code, reason = "shared with the tests of sandbag")]
#[path = "../../crates/sandbag/tests/cli/dir.rs"]
mod dir;

use dir::Dir;
use predicates::prelude::*;
use predicates::str::contains;

/// The terms of some rows, and one of a pair.
const ROWS: &str = concat!(
    r#"{"experiment":"krash-table-2","quick":true,"sandbag":"0.1.0","machine":"CPU: fast","#,
    r#""cpus":"0","limit_s":600.0,"sources":null,"seed":1}"#,
    "\n",
    r#"{"cell":"pace","round":0,"program":"ep","condition":{"load":{"method":"pace","pct":50.0}},"#,
    r#""cpus":"0","unloaded_s":1.0,"loaded_s":2.0,"end":"done","steal_pct":0.0}"#,
    "\n",
);

#[test]
fn the_list_has_every_table_and_figure_with_its_time_and_state() {
    let numbered = |name: &str, numbers: &[u32]| -> Vec<String> {
        numbers.iter().map(|n| format!("{name}-{n}")).collect()
    };
    let all = [
        numbered("krash-table", &[1, 2, 3, 4, 5]),
        numbered("krash-figure", &[2, 3]),
        numbered("hpcc-figure", &[2, 3, 5, 6]),
        numbered("osjitter-section", &[4]),
        numbered("osjitter-figure", &[5, 6, 8]),
        numbered("cardo-chart", &[1, 2, 3, 4, 5, 6, 7, 8]),
    ]
    .concat();
    let dir = Dir::new();
    let results = dir.path().join("sandbag-lab/krash-table-2");
    std::fs::create_dir_all(&results).unwrap();
    std::fs::write(results.join("rows.jsonl"), ROWS).unwrap();
    dir.run(&["page"]).success();
    let assert = dir.run(&["list"]).success();
    let text = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    for name in &all {
        assert!(text.contains(name.as_str()), "{name}: {text}");
    }
    let run = text.lines().find(|line| line.contains("krash-table-2"));
    assert!(run.unwrap().ends_with("; quick, 6 rounds"), "{text}");
    // And errors and competitor, which no paper has.
    assert_eq!(text.matches("never run").count(), all.len() + 1, "{text}");
}

#[test]
fn a_page_is_made_of_what_was_measured() {
    let dir = Dir::new();
    let results = dir.path().join("sandbag-lab/krash-table-2");
    std::fs::create_dir_all(&results).unwrap();
    std::fs::write(results.join("rows.jsonl"), ROWS).unwrap();
    dir.run(&["page"])
        .success()
        .stdout(contains("50.0, n = 1").and(contains("CPU: fast")));
    let page = dir.read("sandbag-lab/krash-table-2/index.html");
    assert!(page.contains("<svg") && page.contains("(n = 1)"));
    assert!(
        dir.read("sandbag-lab/index.html")
            .contains("1 experiment: 1 run")
    );
    assert_eq!(dir.read("sandbag-lab/krash-table-2/rows.jsonl"), ROWS);
}

#[test]
fn names_in_foreign_results_are_shown_escaped() {
    let foreign = r"\u001b[31mred\u009b31m\u202e\r\nFORGED";
    let rows = ROWS
        .replace("CPU: fast", foreign)
        .replace(r#""cell":"pace""#, &format!(r#""cell":"{foreign}""#));
    let dir = Dir::new();
    let results = dir.path().join("sandbag-lab/krash-table-2");
    std::fs::create_dir_all(&results).unwrap();
    std::fs::write(results.join("rows.jsonl"), rows).unwrap();
    let shown = dir.run(&["page"]).success();
    let text = String::from_utf8(shown.get_output().stdout.clone()).unwrap();
    assert!(text.contains(r"\u001b[31mred\u009b31m\u202e"), "{text}");
    for line in text.lines() {
        assert!(
            !line.contains(|c: char| c.is_control() || c == '\u{202e}'),
            "{line:?}"
        );
        assert!(!line.trim_start().starts_with("FORGED"), "{line:?}");
    }
}

#[test]
fn a_directory_without_results_is_refused() {
    let dir = Dir::new();
    dir.run(&["page", "--out", "nothing"])
        .code(2)
        .stderr(contains("holds no results"));
    assert!(dir.names().is_empty());
}

#[test]
fn rows_that_are_none_are_named() {
    let dir = Dir::new();
    let results = dir.path().join("sandbag-lab/hpcc-figure-6");
    std::fs::create_dir_all(&results).unwrap();
    std::fs::write(results.join("rows.jsonl"), "rubbish\n").unwrap();
    dir.run(&["page"])
        .code(predicate::ne(0))
        .stderr(contains("rows.jsonl, line 1"));
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = std::process::Command::new(assert_cmd::cargo::cargo_bin("sandbag-lab"))
        .arg("list")
        .stdout(writer)
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
}
