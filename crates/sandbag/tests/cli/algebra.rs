// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `convert` and `show` make of several profiles, and of one.

use predicates::str::contains;

use crate::dir::Dir;

const DAY: &str = "# sandbag profile 1\ntime,cpu0,cpu1\n0,50,12\n2,80,60\n5,end\n";

#[test]
fn profiles_follow_each_other_or_meet() {
    let dir = Dir::new()
        .with("day.csv", DAY)
        .with("more.csv", "time,cpu1,cpu0\n0,1,2\n3,end\n")
        .with("other.csv", "time,cpu2\n0,7\n3,end\n");
    assert_snapshot!(dir.transcript(&[
        "convert day.csv -o - --append more.csv",
        "convert day.csv -o - --add other.csv --add day.csv",
        "convert day.csv -o - --delay 1s --times 2 --select 1",
    ]));
}

#[test]
fn an_output_may_be_an_input_and_the_old_one_stays_until_the_end() {
    let dir = Dir::new()
        .with("day.csv", DAY)
        .with("bad.csv", "time,cpu0,cpu1\n0,1,2\n3,x,1\n4,end\n");
    let arguments = ["-q", "convert", "--force", "day.csv", "-o"];
    let all = [&arguments[..], &["bad.csv", "--append", "bad.csv"]].concat();
    dir.run(&all)
        .code(2)
        .stderr(contains("bad.csv:3:3: expected a number"));
    assert!(dir.read("bad.csv").contains("3,x,1"));
    let dir = dir.with("more.csv", DAY);
    let all = [&arguments[..], &["more.csv", "--append", "more.csv"]].concat();
    dir.run(&all).success();
    assert!(dir.read("more.csv").ends_with("5,50,12\n7,80,60\n10,end\n"));
    assert_eq!(dir.names(), ["bad.csv", "day.csv", "more.csv"]);
}

#[test]
fn statistics_are_of_pieces_of_one_length() {
    // A sliver at the end, and more CPUs than are compared.
    let names: Vec<String> = (0..257).map(|cpu| format!("cpu{cpu}")).collect();
    let row = |load: &str| vec![load; 257].join(",");
    let many = format!(
        "time,{}\n0,{}\n1,{}\n2.003,end\n",
        names.join(","),
        row("5"),
        row("50")
    );
    let dir = Dir::new()
        .with("day.csv", DAY)
        .with("late.csv", "time,cpu0\n0,5\n1,50\n2,5\n2.003,end\n")
        .with("many.csv", many);
    assert_snapshot!(dir.transcript(&[
        "-q show day.csv --stats --stats-step 500ms",
        "-q show late.csv --stats",
    ]));
    dir.line("-q show many.csv --stats")
        .success()
        .stdout(contains("left out above 256 CPUs"));
}

#[test]
fn every_format_is_listed_and_written_ones_are_written() {
    let dir = Dir::new().with("day.csv", DAY);
    let listed = dir.run(&["show", "--formats"]).success();
    let listed = String::from_utf8(listed.get_output().stdout.clone()).unwrap();
    let mut written = 0;
    for line in listed.lines().skip(1) {
        let name = line.split_whitespace().next().unwrap();
        assert!(line.contains("read") || line.contains("written"), "{line}");
        if line.contains(" written ") {
            let one = ["--cpus", "0", "--map", "first"];
            let arguments = [
                &["-q", "convert", "day.csv", "-o", "-", "--to", name][..],
                &one,
            ];
            dir.run(&arguments.concat())
                .success()
                .stdout(contains("\n"));
            written += 1;
        }
    }
    assert!(written >= 7, "{written}");
    dir.run(&["show", "--formats", "day.csv"]).code(2);
    dir.run(&["show"]).code(2);
}
