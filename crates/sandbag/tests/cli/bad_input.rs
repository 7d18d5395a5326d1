// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What users get wrong, where `cases/` cannot have it.

use crate::cases::Case;
use crate::dir::{Dir, fixture};
use predicates::prelude::*;
use predicates::str::contains;

/// `replay` of a bad profile, alone and beside a command.
fn refused(content: impl AsRef<[u8]>, said: &[&'static str]) {
    let case = Case {
        words: vec!["replay", "day.csv"],
        code: 2,
        stderr: said.to_vec(),
        beside: vec!["--out", "r", "--", "touch", "ran"],
        ..Case::default()
    };
    case.check(&Dir::new().with("day.csv", content));
}

#[test]
fn a_file_of_empty_lines() {
    refused(" \r\n\n", &["day.csv: the file is empty"]);
}

#[test]
fn a_file_that_begins_with_empty_lines_only() {
    refused(
        "\n".repeat(20_000) + "time,cpu0\n",
        &["day.csv:", "16384 bytes of blanks"],
    );
}

#[test]
fn truncated_json() {
    let text = std::fs::read_to_string(fixture("two_cpus.u.json")).unwrap();
    refused(&text[..text.len() / 2], &["day.csv:", "JSON"]);
}

#[test]
fn a_file_in_utf_16() {
    refused(b"\xff\xfet\0i\0m\0e\0", &["day.csv:", "UTF-8"]);
}

#[test]
fn more_cpus_than_there_are() {
    let header: String = (0..5000).map(|cpu| format!(",cpu{cpu}")).collect();
    let row = ",1".repeat(5000);
    refused(
        format!("time{header}\n0{row}\n1,end\n"),
        &["day.csv:", "5000 CPUs", "mean", "--map"],
    );
}

#[test]
fn a_bad_profile_costs_no_output() {
    let dir = Dir::new()
        .with("bad.csv", "time,cpu0\n0,50\n1,500\n2,end\n")
        .with("good.csv", "kept");
    dir.line("convert --force bad.csv -o good.csv")
        .code(2)
        .stderr(contains("bad.csv:3:"));
    assert_eq!(dir.read("good.csv"), "kept");
}

#[test]
fn input_and_output_are_the_same_file() {
    let text = "time,cpu0\n0,50\n1,end\n";
    let dir = Dir::new().with("day.csv", text);
    dir.line("convert day.csv -o ./day.csv")
        .code(2)
        .stderr(contains("both IN and OUT"));
    assert_eq!(dir.read("day.csv"), text);
}

#[test]
fn no_result_takes_the_place_of_a_trace_that_is_read() {
    let dir = Dir::new();
    dir.line("jitter synth --poisson 100 --length 20us -d 20s -o t.sbj")
        .code(0);
    let before = dir.contents();
    for line in [
        "scale predict t.sbj --ranks 1 -o t.sbj --to csv --force",
        "scale predict t.sbj --ranks 1 --json=t.sbj --force",
        "jitter show t.sbj --brief --json=./t.sbj --force",
        "jitter synth --like t.sbj -d 5s -o t.sbj --force",
    ] {
        dir.line(line)
            .code(2)
            .stderr(contains("an input of this command"));
        assert!(before == dir.contents(), "{line}");
    }
    dir.line("jitter show .")
        .code(2)
        .stderr(contains("is a directory"));
}

#[test]
fn line_ends_and_a_byte_order_mark_are_no_fault() {
    let dir = Dir::new()
        .with("crlf.csv", "time,cpu0\r\n0,50\r\n1,end\r\n")
        .with("bom.csv", "\u{feff}time,cpu0\n0,50\n1,end\n");
    for name in ["crlf.csv", "bom.csv"] {
        dir.run(&["show", name])
            .code(0)
            .stdout(contains("(native)").and(contains("50.00")));
    }
}

#[test]
fn a_file_that_is_not_there_is_said_once() {
    for command in ["replay", "show"] {
        Dir::new()
            .run(&[command, "nosuch.csv"])
            .code(2)
            .stderr(contains("nosuch.csv: No such file").count(1));
    }
}

#[test]
fn a_binary_file_of_sar_is_described_with_what_to_do() {
    Dir::new()
        .with("sa21", b"\x96\xd5\x75\x21\0\0\0\0")
        .run(&["show", "sa21"])
        .code(2)
        .stderr(contains("`sadf -j sa21 -- -P ALL > sa21.json`"))
        .stderr(contains("sadf-json: ").not());
}

/// Whole messages, of which the cases ask for words.
#[test]
fn messages_in_full() {
    let dir = Dir::new()
        .with("day.csv", "time,cpu0,cpu1\n0,50,20\n1,end\n")
        .with("bad.csv", "time,cpu0\n0,50\n1,100.5\n2,end\n")
        .with("comma.csv", "time;cpu0\n0;12,5\n1;end\n")
        .with("diary.txt", "Dear diary,\n")
        .with("foo.json", "{\"foo\": [1, 2]}")
        .with("n.toml", "[[node]]\nname = \"a\"\ncpus = 0\nspede = 1\n");
    assert_snapshot!(dir.transcript(&[
        "no-such-command",
        "load",
        "load 12,5",
        "load 150 -- true",
        "load 50 --method fast",
        "show nosuch.csv",
        "show bad.csv",
        "show comma.csv",
        "show diary.txt",
        "show foo.json",
        "show .",
        "show day.csv --from sar",
        "convert day.csv -o ./day.csv",
        "convert day.csv -o x.simgrid.gz",
        "convert day.csv -o - --to simgrid",
        "convert day.csv -o - --select 5",
        "synth constant 120",
        "slow n.toml",
        "slow --cpus 0 --speed 60",
        "jitter show day.csv",
        "scale predict day.csv",
        "audit show day.csv",
        "audit run --tests memry",
    ]));
}

#[test]
fn what_is_about_thresholds_asks_for_one() {
    for option in ["--fail-if-unsure", "--junit=x.xml"] {
        let asked = Dir::new().line(&format!("sweep --load 0,30 {option} -- true"));
        let name = option.split('=').next().unwrap_or_default();
        let said = format!("{name} is about thresholds: give --fail-if EXPR");
        asked.code(2).stderr(contains(said));
    }
}
