// SPDX-License-Identifier: Apache-2.0 OR MIT
//! C programs that call the library themselves.

mod support;

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rstest::rstest;
use sandbag_jitter::inside::plan::InsideOptions;
use support::{PlanTrial, compile, options, output_text, plain};

const C: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/c");

/// Time limit on a busy machine.
const PATIENCE: Duration = Duration::from_secs(100);

/// The compiler's arguments to link a program with the library.
fn linked(way: &str, trial: &PlanTrial) -> Vec<String> {
    let dir = trial.place.dir().display();
    let arguments = match way {
        "source" => format!("{C}/jitter.c"),
        "static" => format!("{C}/jitter.c -static"),
        _ => format!("{dir}/libsandbag_jitter.so -Wl,-rpath,{dir}"),
    };
    let words = arguments.split(' ').map(str::to_owned);
    std::iter::once(format!("-I{C}")).chain(words).collect()
}

/// With the library preloaded and without.
#[rstest]
fn a_program_polls_or_has_timers(
    #[values("source", "static", "shared")] way: &str,
    #[values(true, false)] polled: bool,
    #[values(None, Some(2))] every: Option<u64>,
) {
    let trial = PlanTrial::new(&InsideOptions {
        polled,
        phase_every: every,
        ..options()
    });
    let dir = tempfile::tempdir().unwrap();
    let arguments = linked(way, &trial);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let program = compile(dir.path(), "api.c", &arguments);
    for (before, preloaded) in [false, true].into_iter().enumerate() {
        let mut command = trial.command(&program);
        if !preloaded {
            command.env_remove("LD_PRELOAD");
        }
        let text = output_text(&command.arg("10").output().unwrap());
        let what = format!("preloaded: {preloaded}: {text}");
        let expected = "begun 1 any 1 injected 1 asked 1\nexit status: 0";
        assert_eq!(text, expected, "{what}");
        let slots = trial.outcome().slots;
        // Two copies of the library would be two slots.
        assert_eq!(slots.len(), before + 1, "{what}");
        let phases = every.map_or(0, |every| 10 / every);
        assert_eq!(slots[before].suffered.counts.phases, phases, "{what}");
        assert_eq!(slots[before].signal == 0, polled, "{what}");
    }
    // Not started by sandbag.
    let output = plain(&program).arg("1").output().unwrap();
    let expected = "begun 0 any 0 injected 0 asked 1\nexit status: 0";
    assert_eq!(output_text(&output), expected);
}

/// It is continued before sandbag is.
#[test]
fn a_phase_that_begins_in_a_pause_is_put_off_once() {
    let trial = PlanTrial::new(&InsideOptions {
        polled: true,
        phase_every: Some(1),
        ..options()
    });
    let dir = tempfile::tempdir().unwrap();
    let include = format!("-I{C}");
    let program = compile(dir.path(), "api.c", &[&include, &format!("{C}/jitter.c")]);
    let begin = Instant::now();
    trial.plan.pause().unwrap();
    sleep(Duration::from_secs(5));
    let mut program = trial
        .command(&program)
        .arg("1")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while trial.outcome().total().counts.phases == 0 {
        assert!(begin.elapsed() < PATIENCE, "it has no phase");
        sleep(Duration::from_millis(1));
    }
    let paused_ns = begin.elapsed().as_nanos() as u64;
    trial.plan.go_on(paused_ns).unwrap();
    let over = Instant::now();
    // It ends after the first event.
    assert!(program.wait().unwrap().success());
    assert!(
        over.elapsed() < Duration::from_secs(4),
        "{:?}",
        over.elapsed()
    );
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
    let program = trial.place.dir().join("phases");
    let output = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread"])
        .arg(format!("-I{C}"))
        .arg("-o")
        .arg(&program)
        .arg(format!("{root}/examples/jitter-in-phases.c"))
        .arg(format!("{C}/jitter.c"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", output_text(&output));
    let output = trial.command(&program).args(["2", "20", "20000"]).output();
    let text = output_text(&output.unwrap());
    assert!(text.contains("20 phases of 20.000 ms"), "{text}");
    let outcome = trial.outcome();
    assert_eq!(outcome.slots.len(), 2);
    for slot in &outcome.slots {
        assert!(slot.suffered.counts.injected > 0, "{slot:?}");
        assert_eq!(slot.suffered.counts.phases, 20);
    }
    let output = plain(&program).args(["2", "20", "1000"]).output();
    let text = output_text(&output.unwrap());
    assert!(!text.contains("thread 0"), "{text}");
}

#[test]
fn the_sources_compile_without_a_warning_and_the_header_as_c_plus_plus() {
    let dir = tempfile::tempdir().unwrap();
    for (name, contents) in sandbag_jitter::inside::library::C_FILES {
        std::fs::write(dir.path().join(name), contents).unwrap();
    }
    for arguments in [
        "-x c++ -fsyntax-only sandbag_jitter.h",
        "-std=gnu11 -c -o /dev/null jitter.c",
    ] {
        let output = Command::new("cc")
            .args(["-Wall", "-Wextra", "-Werror"])
            .args(arguments.split(' '))
            .current_dir(dir.path())
            .output()
            .unwrap();
        let text = output_text(&output);
        // A compiler for C alone has no C++.
        assert!(
            output.status.success() || text.contains("cc1plus"),
            "{text}"
        );
    }
}
