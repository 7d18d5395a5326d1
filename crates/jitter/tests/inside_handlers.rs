// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs whose handlers of signals are not installed by sigaction(2) of the C library.

#[path = "../../base/linux/tests/support/patience.rs"]
mod patience;
mod support;

use patience::repeat_until;
use rstest::rstest;
use sandbag_jitter::inside::plan::{InsideOptions, Portion};
use sandbag_jitter::replay::{PlanColumn, PlannedEvent};
use support::{APART_NS, LENGTH_NS, PlanTrial, compile, options, output_text, plain};

/// Alarms that come during an event, for which the program's handlers are to be counted. In
/// strict C `signal` is another function, and resets the handler.
#[rstest]
fn handlers_by_older_functions_end_waits(
    #[values("signal", "sysv_signal", "bsd_signal", "ssignal", "sigset")] function: &str,
) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let strict = ["-std=c99", "-D_POSIX_C_SOURCE=200809L"];
    let program = compile(dir.path(), "handlers.c", &strict);
    // More would take all that a program gets beside others.
    let tenth = PlanColumn {
        known_ns: 100 * APART_NS,
        events: (0..100)
            .map(|n| PlannedEvent::new(n * APART_NS, LENGTH_NS))
            .collect(),
    };
    let portions = [Portion::whole(0, tenth.known_ns)];
    let without = plain(&program).arg(function).output().unwrap();
    let run = || {
        let trial = PlanTrial::of(&options(), std::slice::from_ref(&tenth), &portions);
        let with = trial.command(&program).arg(function).output().unwrap();
        (trial, output_text(&with))
    };
    assert!(without.status.success(), "{}", output_text(&without));
    let injected = |trial: &PlanTrial| {
        let counts = trial.outcome().total().counts;
        counts.injected + counts.merged
    };
    // A rescue in place of the alarm, or before it, is no wrong answer of the library.
    let right = output_text(&without);
    let is_judged = |(trial, text): &(PlanTrial, String)| *text == right && injected(trial) >= 10;
    let (trial, text) = repeat_until(run, is_judged);
    assert_eq!(text, right);
    assert!(injected(&trial) >= 10);
}

/// A handler may be the first to call such a function, and dlsym(3) is not for handlers.
#[test]
fn older_functions_are_looked_up_before_a_handler_calls_them() {
    let trial = PlanTrial::new(&options());
    let with = trial.command("true").env("LD_DEBUG", "symbols").output();
    let text = output_text(&with.unwrap());
    // Only one C library says what it looks up.
    if !text.contains("symbol=sigaction;") {
        return;
    }
    for function in [
        "bsd_signal",
        "ssignal",
        "__sysv_signal",
        "sysv_signal",
        "sigset",
    ] {
        assert!(text.contains(&format!("symbol={function};")), "{function}");
    }
}

/// Which has handlers of its own for all signals.
#[test]
fn a_program_in_go_never_begins() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = compile(dir.path(), "go.c", &[]);
    let trial = PlanTrial::new(&options());
    assert!(trial.command(&program).status().unwrap().success());
    let outcome = trial.outcome();
    assert_eq!((outcome.slots.len(), outcome.refused.no_signal), (0, 1));
    // Without timers it needs no signal.
    let polled = InsideOptions {
        polled: true,
        ..options()
    };
    let trial = PlanTrial::new(&polled);
    assert!(trial.command(&program).status().unwrap().success());
    assert_eq!(trial.outcome().refused.no_signal, 0);
}
