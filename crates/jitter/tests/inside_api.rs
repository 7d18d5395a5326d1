// SPDX-License-Identifier: Apache-2.0 OR MIT
//! C programs that call the library themselves.

mod support;

use std::process::Command;

use rstest::rstest;
use sandbag_jitter::inside::plan::InsideOptions;
use support::{PlanTrial, compile, options, output_text, plain};

/// The compiler's arguments for each way of linking.
fn ways(trial: &PlanTrial) -> Vec<(&'static str, Vec<String>)> {
    let c = concat!(env!("CARGO_MANIFEST_DIR"), "/c");
    let source = vec![format!("-I{c}"), format!("{c}/jitter.c")];
    let dir = trial.place.dir().display().to_string();
    let shared = [
        format!("-I{c}"),
        format!("{dir}/libsandbag_jitter.so"),
        format!("-Wl,-rpath,{dir}"),
    ];
    vec![
        ("source", source.clone()),
        ("static", [source, vec!["-static".to_owned()]].concat()),
        ("shared", shared.to_vec()),
    ]
}

/// By each way of linking, with the library preloaded and without.
#[rstest]
fn a_program_asks(
    #[values(true, false)] polled: bool,
    #[values(None, Some(2))] every: Option<u64>,
) {
    let options = InsideOptions {
        polled,
        phase_every: every,
        ..options()
    };
    let dir = tempfile::tempdir().unwrap();
    for (way, arguments) in ways(&PlanTrial::new(&options)) {
        let trial = PlanTrial::new(&options);
        let arguments: Vec<String> = match way {
            "shared" => ways(&trial).remove(2).1,
            _ => arguments,
        };
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let program = compile(dir.path(), "api.c", &arguments);
        for preloaded in [false, true] {
            let before = trial.outcome().slots.len();
            let mut command = trial.command(&program);
            if !preloaded {
                command.env_remove("LD_PRELOAD");
            }
            let output = command.arg("10").output().unwrap();
            let what = format!("{way}, preloaded: {preloaded}: {}", output_text(&output));
            assert_eq!(
                output_text(&output),
                "begun 1 any 1 injected 1 asked 1\nexit status: 0",
                "{what}"
            );
            let outcome = trial.outcome();
            // Two copies of the library would be two slots.
            assert_eq!(outcome.slots.len(), before + 1, "{what}");
            let slot = &outcome.slots[before];
            assert_eq!(
                slot.suffered.counts.phases,
                every.map_or(0, |every| 10 / every),
                "{what}"
            );
            assert_eq!(slot.signal == 0, polled, "{what}");
        }
        // Not started by sandbag.
        let output = plain(&program).arg("1").output().unwrap();
        assert_eq!(
            output_text(&output),
            "begun 0 any 0 injected 0 asked 1\nexit status: 0"
        );
    }
}

/// The example, as its first lines say.
#[test]
fn threads_ask_in_phases() {
    let options = InsideOptions {
        polled: true,
        phase_every: Some(1),
        ..options()
    };
    let trial = PlanTrial::new(&options);
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let c = format!("{root}/crates/jitter/c");
    let program = trial.place.dir().join("phases");
    let output = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread"])
        .arg(format!("-I{c}"))
        .arg("-o")
        .arg(&program)
        .arg(format!("{root}/examples/jitter-in-phases.c"))
        .arg(format!("{c}/jitter.c"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", output_text(&output));
    let output = trial
        .command(&program)
        .args(["2", "20", "20000"])
        .output()
        .unwrap();
    assert!(
        output_text(&output).contains("20 phases of 20.000 ms"),
        "{}",
        output_text(&output)
    );
    let outcome = trial.outcome();
    assert_eq!(outcome.slots.len(), 2);
    for slot in &outcome.slots {
        assert!(slot.suffered.counts.injected > 0, "{slot:?}");
        assert_eq!(slot.suffered.counts.phases, 20);
    }
    let output = plain(&program).args(["2", "20", "1000"]).output().unwrap();
    assert!(
        !output_text(&output).contains("thread 0"),
        "{}",
        output_text(&output)
    );
}

#[test]
fn the_sources_compile_without_a_word_as_c_plus_plus_sees_the_header() {
    let dir = tempfile::tempdir().unwrap();
    for (name, contents) in sandbag_jitter::inside::library::C_FILES {
        std::fs::write(dir.path().join(name), contents).unwrap();
    }
    let output = Command::new("cc")
        .args(["-x", "c++", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"])
        .arg(dir.path().join("sandbag_jitter.h"))
        .output()
        .unwrap();
    let said = output_text(&output);
    // A compiler for C alone cannot say.
    assert!(
        output.status.success() || said.contains("cc1plus"),
        "{said}"
    );
    let output = Command::new("cc")
        .args([
            "-std=gnu11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-c",
            "-o",
            "/dev/null",
        ])
        .arg(dir.path().join("jitter.c"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", support::output_text(&output));
}
