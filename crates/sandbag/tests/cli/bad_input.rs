// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What users get wrong: the exit code, and a message that names file, line
//! and remedy. None of it needs root, because none of it may get as far as
//! changing anything.

use crate::dir::{Dir, fixture};
use predicates::prelude::*;
use predicates::str::contains;

/// `replay` of a bad profile: the message, exit code 2, and 125 beside a
/// command, whose reason is then in run.json. Nothing else is written; the
/// command would be seen if it were run.
fn refused(content: impl AsRef<[u8]>, options: &[&str], said: &[&str]) {
    let dir = Dir::new().with("day.csv", content);
    let mut arguments = vec!["replay", "day.csv"];
    arguments.extend(options);
    let mut alone = dir.run(&arguments).code(2);
    for text in said {
        alone = alone.stderr(contains(*text));
    }
    assert_eq!(dir.names(), ["day.csv"]);
    arguments.extend(["--out", "r", "--", "touch", "ran"]);
    let assert = dir.run(&arguments).code(125);
    // Arguments that are none name no directory either.
    if dir.names() != ["day.csv"] {
        assert_eq!(dir.names(), ["day.csv", "r"]);
        let record = dir.read("r/run.json");
        assert!(record.contains("\"kind\": \"bad-input\""), "{record}");
        assert!(record.contains("\"exit_code_alone\": 2"), "{record}");
        let record: serde_json::Value = serde_json::from_str(&record).unwrap();
        let message = record["error"]["message"].as_str().unwrap();
        assert.stderr(contains(message));
        dir.run(&["show", "r"])
            .code(2)
            .stderr(contains("the run failed: "));
    }
}

#[test]
fn a_load_below_0() {
    refused(
        "time,cpu0\n0,50\n1,-1\n2,end\n",
        &[],
        &["day.csv:3:", "-1", "between 0 and 100"],
    );
}

#[test]
fn a_load_above_100() {
    refused(
        "time,cpu0\n0,50\n1,100.5\n2,end\n",
        &[],
        &["day.csv:3:", "100.5", "between 0 and 100"],
    );
}

#[test]
fn a_load_that_is_no_number() {
    refused("time,cpu0\n0,NaN\n2,end\n", &[], &["day.csv:2:", "NaN"]);
}

#[test]
fn no_end() {
    refused(
        "time,cpu0\n0,50\n",
        &[],
        &["day.csv:", "no end", "60,end", "--end"],
    );
}

#[test]
fn an_empty_file() {
    refused("", &[], &["day.csv: the file is empty"]);
    refused(" \r\n\n", &[], &["day.csv: the file is empty"]);
}

#[test]
fn times_that_go_back() {
    refused(
        "time,cpu0\n0,50\n5,10\n4,20\n6,end\n",
        &[],
        &["day.csv:4:", "does not come after", "order of their times"],
    );
}

#[test]
fn truncated_json() {
    let text = std::fs::read_to_string(fixture("two_cpus.u.json")).unwrap();
    refused(&text[..text.len() / 2], &[], &["day.csv:", "JSON"]);
}

#[test]
fn a_wrong_format_named() {
    refused(
        "time,cpu0\n0,50\n1,end\n",
        &["--from", "sar"],
        &["day.csv:", "sar", "--from"],
    );
}

#[test]
fn a_format_that_does_not_exist() {
    refused(
        "time,cpu0\n0,50\n1,end\n",
        &["--from", "xml"],
        &["xml", "sadf-json"],
    );
}

#[test]
fn what_is_no_profile() {
    refused(
        "Dear diary,\n",
        &[],
        &["day.csv:", "not recognised", "--from"],
    );
}

#[test]
fn a_decimal_comma() {
    refused(
        "time;cpu0\n0;12,5\n1;end\n",
        &[],
        &["day.csv:2:", "12,5", "decimal comma"],
    );
    Dir::new()
        .run(&["load", "12,5"])
        .code(2)
        .stderr(contains("with a point, as in 12.5"));
}

#[test]
fn a_file_in_utf_16() {
    refused(b"\xff\xfet\0i\0m\0e\0", &[], &["day.csv:", "UTF-8"]);
}

#[test]
fn an_unknown_column() {
    refused(
        "time,core0\n0,5\n1,end\n",
        &["--from", "native"],
        &["day.csv:1:", "core0", "cpu<N>"],
    );
}

#[test]
fn a_hole_that_nobody_said_how_to_fill() {
    refused(
        "time,cpu0\n0,50\n1,\n2,end\n",
        &[],
        &["day.csv", "cpu0 is unknown", "--gaps"],
    );
}

#[test]
fn more_cpus_than_there_are() {
    let header: String = (0..5000).map(|cpu| format!(",cpu{cpu}")).collect();
    let row = ",1".repeat(5000);
    refused(
        format!("time{header}\n0{row}\n1,end\n"),
        &[],
        &["day.csv:", "5000 CPUs", "mean", "--map"],
    );
}

#[test]
fn a_file_that_is_not_there() {
    let dir = Dir::new();
    for command in ["replay", "show"] {
        dir.run(&[command, "nosuch.csv"])
            .code(2)
            .stderr(contains("nosuch.csv: No such file").count(1));
    }
    assert!(dir.names().is_empty());
}

#[test]
fn a_cpu_that_is_not_there() {
    Dir::new()
        .line("record --cpus 9000 -d 1s")
        .code(2)
        .stderr(contains("CPU 9000 is not present").and(contains("online here")));
}

#[test]
fn cpus_that_are_no_list() {
    for list in ["a-b", "3-1", ""] {
        Dir::new()
            .run(&["load", "50", "--cpus", list])
            .code(2)
            .stderr(contains("--cpus"));
    }
}

#[test]
fn loads_outside_0_to_100_on_the_command_line() {
    for load in ["101", "nan", "inf"] {
        Dir::new()
            .run(&["load", load])
            .code(2)
            .stderr(contains("between 0 and 100"));
    }
}

#[test]
fn a_part_that_is_not_there() {
    refused(
        "time,cpu0\n0,50\n10,end\n",
        &["--cut", "20s..30s"],
        &["day.csv", "nothing of the profile is left", "10"],
    );
}

#[test]
fn a_command_that_is_not_there() {
    let dir = Dir::new().with("day.csv", "time,cpu0\n0,50\n1,end\n");
    for arguments in [
        &["replay", "day.csv", "--", "no-such-program"][..],
        &["load", "50", "--", "no-such-program"],
        &["record", "--", "no-such-program"],
    ] {
        dir.run(arguments)
            .code(127)
            .stderr(contains("no-such-program").and(contains("PATH")));
    }
    dir.run(&["record", "--", "./day.csv"])
        .code(126)
        .stderr(contains("cannot be executed"));
    assert_eq!(dir.names(), ["day.csv"]);
}

#[test]
fn a_start_by_what_cannot_be() {
    let dir = Dir::new();
    let start = |by: &str, rest: &[&str]| {
        let mut arguments = vec!["load", "20", "--start-on", by];
        arguments.extend(rest);
        dir.run(&arguments)
    };
    start("2", &["--", "true"]).stderr(contains("3 to 255"));
    start("TERM", &["--", "true"]).stderr(contains("USR1 or USR2"));
    // There is no command that could start the load.
    start("3", &[]).code(2).stderr(contains("CMD"));
    let at = ["--at", "@9000000000", "--", "true"];
    start("3", &at).stderr(contains("cannot be used with"));
    dir.line("compare 50 --start-on 3 -- a --vs b")
        .code(2)
        .stderr(contains("--start-on is not for compare"));
}

#[test]
fn an_interval_that_tells_no_load() {
    Dir::new()
        .run(&["record", "-i", "10ms"])
        .code(2)
        .stderr(contains("100ms or longer"));
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
fn a_stream_of_several_simgrid_traces() {
    let dir = Dir::new().with("day.csv", "time,cpu0,cpu1\n0,50,20\n1,end\n");
    let arguments = ["convert", "day.csv", "-o", "-", "--to", "simgrid"];
    dir.run(&arguments)
        .code(2)
        .stdout("")
        .stderr(contains("is of one CPU and the profile has 2").and(contains("-o day.simgrid")));
    // What is advised works.
    let one = [&arguments[..], &["--cpus", "0", "--map", "first"]].concat();
    dir.run(&one).code(0).stdout(contains("0 0.5"));
}

#[test]
fn a_format_that_is_only_read() {
    let dir = Dir::new().with("day.csv", "time,cpu0\n0,50\n1,end\n");
    dir.line("convert day.csv -o day.txt --to sar")
        .code(2)
        .stderr(contains("only be read, not written"));
    dir.line("convert day.csv -o day.csv.gz")
        .code(2)
        .stderr(contains("gzip"));
    assert_eq!(dir.names(), ["day.csv"]);
}

#[test]
fn a_directory_that_is_no_run() {
    Dir::new()
        .run(&["show", "."])
        .code(2)
        .stderr(contains("no run.json"));
}

#[test]
fn a_record_of_a_run_that_is_cut_off() {
    Dir::new()
        .with("run.json", "{\"format\": 1, \"sandbag\": \"0.1")
        .run(&["show", "run.json"])
        .code(2)
        .stderr(contains("run.json is not a run record").and(contains("line 1")));
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
fn loads_of_several_cpus_are_taken_and_their_mistakes_named() {
    let dir = Dir::new();
    for (words, said) in [
        ("load 30,60", "0=30,1=60"),
        ("load 0=30,60", "`60` has no load"),
        ("load 0=30,0=60", "named twice"),
        ("load 0=130", "between 0 and 100"),
        ("load 0=30 --cpus 1", "name different CPUs"),
        ("load 0=30 --cpus 1 --dry-run", "name different CPUs"),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        dir.run(&words).code(2).stderr(contains(said));
    }
    assert!(dir.names().is_empty());
}

#[test]
fn what_is_no_profile_is_described_with_what_to_do() {
    let dir = Dir::new()
        .with("sa21", b"\x96\xd5\x75\x21\0\0\0\0")
        .with("foo.json", "{\"foo\": [1, 2]}")
        .with("table.csv", "timestamp,load\n0,50\n10,60\n")
        .with(
            "four.csv",
            "time,cpu0,cpu1,cpu2,cpu3\n0,50,50,50,50\n10,end\n",
        );
    for (file, said) in [
        ("sa21", "`sadf -j sa21 -- -P ALL > sa21.json`"),
        ("foo.json", "JSON"),
        ("table.csv", "`time,cpu0,cpu1,...`"),
    ] {
        let shown = dir.run(&["show", file]).code(2).stderr(contains(said));
        let text = String::from_utf8_lossy(&shown.get_output().stderr).into_owned();
        assert!(!text.contains("sadf-json: "), "{text}");
    }
    dir.line("convert four.csv --cpus 0,1 -o b.csv")
        .code(2)
        .stderr(contains("added and clipped at 100 %"));
}

/// Whole messages, of which the tests above ask for words.
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
