// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `synth`: every model writes a profile that the other commands read.

use crate::dir::Dir;
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
        dir.run(&["convert", "a.csv", "-o", "c.csv"]).success();
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
    dir.run(&["synth", "steps", "20:10s", "80:5s", "-o", "-"])
        .success()
        .stdout("# sandbag profile 1\ntime,cpu0\n0,20\n10,80\n15,end\n");
    dir.run(&["synth", "constant", "50", "-o", "a.krash"])
        .success();
    dir.run(&["show", "a.krash"]).success();
}

#[test]
fn what_is_wrong_is_said_and_nothing_written() {
    for (arguments, said) in [
        (&["steps", "20"][..], "LOAD:TIME"),
        (&["constant", "120"], "between 0 and 100"),
        (&["ar", "--weights", "1.2"], "stays around its mean"),
        (&["ar", "--correlation", "2"], "between 0 and 1"),
        (&["lublin", "--start-hour", "24"], "0..24"),
        (&["daily", "--hours", "5,6"], "24 loads, found 2"),
        (&["daily", "--peak", "25"], "between 0 and 24"),
        (&["daily", "--amplitude", "60"], "mean of every hour"),
        (&["daily", "--hours", "1", "--mean", "5"], "expected 24"),
        (&["background", "--load", "100"], "below 100"),
        (
            &["background", "--load", "20", "--rate", "1"],
            "cannot be used",
        ),
        (&["background", "--rate", "1e9"], "run at once"),
        (&["background", "--exponent", "1"], "between -10 and -0.1"),
        (&["background", "--longest", "1s"], "longer than 1 s"),
        (&["background", "--share", "0"], "between 0.1 and 100"),
        (&["background", "--start-hour", "3"], "--working-day"),
        (&["sine", "--cycle", "0s"], "longer than 0"),
        (&["sine", "--shift", "nan"], "a number"),
        (&["square", "--duty", "7"], "between 0 and 1"),
        (
            &["ar", "--weights", "0.25,0.25,0.25,0.25"],
            "stays around its mean",
        ),
        (&["lublin", "--arrivals", "1e-20"], "between"),
        (&["onoff", "--on", "x"], "duration"),
    ] {
        let dir = Dir::new();
        let arguments = [&["synth"], arguments, &["-o", "a.csv"]].concat();
        dir.run(&arguments).code(2).stderr(contains(said));
        assert!(dir.names().is_empty(), "{arguments:?}");
    }
}
