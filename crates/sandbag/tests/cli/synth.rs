// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `synth`: every model writes a profile that the other commands read.

use crate::dir::Dir;
use predicates::prelude::*;
use predicates::str::contains;

const HOURS: &str = "5,5,4,4,4,6,10,20,35,50,60,65,55,60,70,70,65,55,40,30,20,15,10,7";

const MODELS: [&[&str]; 14] = [
    &["constant", "50", "-d", "1m"],
    &["steps", "20:10s", "80:5s"],
    &["ramp", "0", "90", "-d", "1m"],
    &["sine", "--shift", "0.5", "-d", "1m"],
    &["square", "--duty", "0.25", "-d", "1m"],
    &["onoff", "--on", "2s", "--off", "8s", "-d", "10m"],
    &[
        "ar",
        "--weights",
        "0.7,-0.2",
        "--correlation",
        "0.6",
        "-d",
        "10m",
    ],
    &["daily"],
    &["daily", "--hours", HOURS, "--start-hour", "8.5"],
    &["background", "--share", "40", "-d", "1h"],
    &["background", "--rate", "0.05", "--exponent", "-1.2"],
    &["background", "--working-day", "--load", "30", "-d", "12h"],
    &["lublin", "-d", "24h", "--arrivals", "0.3"],
    &[
        "lublin",
        "-d",
        "24h",
        "--one-type",
        "--published-sizes",
        "--drift",
    ],
];

#[test]
fn every_model_is_a_profile_and_the_same_again() {
    for model in MODELS {
        let dir = Dir::new();
        for name in ["a.csv", "b.csv"] {
            let arguments = [&["synth"], model, &["--cpus", "0,1", "-o", name]].concat();
            dir.run(&arguments).success().stdout("");
        }
        assert_eq!(dir.read("a.csv"), dir.read("b.csv"), "{model:?}");
        assert!(dir.read("a.csv").contains("time,cpu0,cpu1"), "{model:?}");
        dir.line("convert a.csv -o c.csv").success();
        assert_eq!(dir.read("a.csv"), dir.read("c.csv"), "{model:?}");
        dir.run(&["show", "a.csv"]).success();
    }
}

#[test]
fn another_seed_is_another_profile() {
    for model in ["onoff", "ar", "daily", "background", "lublin"] {
        let dir = Dir::new();
        for seed in ["1", "2"] {
            let name = format!("{seed}.csv");
            dir.run(&["synth", model, "-d", "24h", "--seed", seed, "-o", &name])
                .success();
        }
        assert_ne!(dir.read("1.csv"), dir.read("2.csv"), "{model}");
    }
}

#[test]
fn other_formats_and_standard_output() {
    let dir = Dir::new();
    assert_snapshot!(dir.transcript(&[
        "synth steps 20:10s 80:5s -o -",
        "synth ramp 0 90 -d 10s -o -",
        "synth square --duty 0.25 -d 10s -o -",
        "synth onoff --on 2s --off 8s -d 1m --cpus 0,1 -o -",
        "synth ar --weights 0.6,0.2 --correlation 0.5 --cpus 0,1 -d 1h -o day.csv",
        "synth fit day.csv",
    ]));
    dir.line("synth constant 50 -o a.krash").success();
    dir.run(&["show", "a.krash"]).success();
}

/// What `synth fit` prints, and the command line in it that makes the model.
fn fitted(dir: &Dir, arguments: &[&str], model: &str) -> (String, Vec<String>) {
    let output = dir.run(&[&["synth", "fit"], arguments].concat()).success();
    let text = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    let begin = format!("sandbag synth {model} ");
    let line = text.lines().find(|line| line.starts_with(&begin));
    let words = line.unwrap_or_else(|| panic!("no {model} in {text}"));
    let words = words.split(' ').skip(1).map(str::to_owned).collect();
    (text, words)
}

#[test]
fn a_fit_prints_the_command_that_makes_what_it_writes() {
    for (made_by, model, nearer) in [
        (
            &["ar", "--weights", "0.6,0.2", "--correlation", "0.5"][..],
            "ar",
            "AR(",
        ),
        (
            &["onoff", "--on", "20s", "--off", "1m"],
            "onoff",
            "on/off comes nearer",
        ),
    ] {
        let dir = Dir::new();
        let of = ["--cpus", "0,1", "-d", "2h", "-o", "day.csv"];
        dir.run(&[&["synth"], made_by, &of].concat()).success();
        let arguments = ["day.csv", "-d", "1h", "--seed", "3", "-o", "fit.csv"];
        let (text, command) = fitted(&dir, &arguments, model);
        assert!(
            text.contains(nearer) && text.contains("recording"),
            "{text}"
        );
        let written = dir.read("fit.csv");
        std::fs::remove_file(dir.path().join("fit.csv")).unwrap();
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        dir.run(&command).success();
        assert_eq!(dir.read("fit.csv"), written, "{command:?}");
        dir.run(&["show", "fit.csv"])
            .success()
            .stderr("")
            .stdout(contains("3600.0 s"));
    }
}

#[test]
fn a_fit_gives_the_parameters_back_and_takes_what_is_asked_for() {
    let dir = Dir::new();
    let make = "synth onoff --high 90 --low 10 --on 3s --off 9s --cpus 0-3 -d 6h -o day.csv";
    dir.run(&make.split(' ').collect::<Vec<_>>()).success();
    let (_, command) = fitted(&dir, &["day.csv", "--select", "1,3"], "onoff");
    let value = |option: &str| {
        let at = command.iter().position(|word| word == option).unwrap() + 1;
        command[at].parse::<f64>().unwrap()
    };
    assert_eq!((value("--high"), value("--low")), (90.0, 10.0));
    // Twice 1800 times on: four standard deviations are 7 %.
    assert!((value("--on") / 3.0 - 1.0).abs() < 0.07, "{command:?}");
    assert!((value("--off") / 9.0 - 1.0).abs() < 0.07, "{command:?}");
    assert!(command.join(" ").contains("--cpus 1,3 -d 21600 -o OUT"));
    // The other model, as another format, on standard output.
    let arguments = "synth fit day.csv --step 1s --model ar --to csv-wide -d 10s -o -";
    dir.run(&arguments.split(' ').collect::<Vec<_>>())
        .success()
        .stdout(predicates::str::starts_with("start_s,end_s,cpu0"))
        .stderr(contains("autocorrelation after 1 s").and(contains("sandbag synth ar")));
}

#[test]
fn a_fit_says_what_a_model_cannot_do() {
    // One CPU is the less busy the more the other is; a third is always.
    let mut rows = "time,cpu0,cpu1,cpu2\n".to_owned();
    for i in 0..200 {
        let load = (i * 37) % 50;
        rows += &format!("{i},{load},{},90\n", 50 - load);
    }
    rows += "200,end\n";
    let dir = Dir::new().with("day.csv", rows);
    dir.run(&["synth", "fit", "day.csv"]).success().stderr(
        contains("goes against what is new on another")
            .and(contains("points apart"))
            .and(contains("--select"))
            .and(contains("no on/off")),
    );
    dir.line("synth fit day.csv --select 0")
        .success()
        .stderr(contains("hardly longer than a step"))
        .stdout(contains("sandbag synth onoff"));
    dir.line("synth fit day.csv --model onoff -o x.csv")
        .code(2)
        .stderr(contains("cannot be fitted"));
    dir.line("synth fit day.csv -o day.csv")
        .code(2)
        .stderr(contains("both IN and OUT"));
    dir.line("synth fit day.csv --model ar")
        .code(2)
        .stderr(contains("--output"));
    assert_eq!(dir.names(), ["day.csv"]);
}
