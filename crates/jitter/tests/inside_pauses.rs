// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that begin while the replay pauses, or while a pause ends.

#[path = "../../base/linux/tests/support/patience.rs"]
mod patience;
mod support;
#[path = "support/victim.rs"]
mod victim;

use std::mem::offset_of;
use std::os::unix::fs::FileExt as _;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use patience::repeat_until;
use sandbag_jitter::inside::layout::{HEADER, Plain as _, PlanHeader, PlanShared};
use sandbag_jitter::inside::outcome::{InsideOutcome, SufferEnd};
use sandbag_jitter::inside::plan::{InsideOptions, PlanStart, Portion};
use sandbag_jitter::replay::outcome::EventCounts;
use sandbag_jitter::replay::{PlanColumn, PlannedEvent};
use sandbag_linux::clock;
use support::{LENGTH_NS, PlanTrial, options};
use victim::victim;

const SECOND_NS: u64 = 1_000_000_000;

/// From the beginning of the plan on.
fn together() -> InsideOptions {
    InsideOptions {
        begin: PlanStart::Together,
        repeat: false,
        ..options()
    }
}

/// Of a program that begins now, before the replay goes on, up to its first event.
fn counts_of_program(trial: &PlanTrial, paused_ns: impl Fn() -> u64) -> EventCounts {
    let mut program = trial
        .command(victim())
        .args(["work", "100"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let outcome = || {
        sleep(Duration::from_millis(10));
        trial.outcome()
    };
    let has_timer = |of: &InsideOutcome| of.slots.iter().any(|slot| slot.signal != 0);
    let begun = repeat_until(outcome, has_timer);
    trial.plan.go_on(paused_ns()).unwrap();
    let is_served = |of: &InsideOutcome| {
        let is_over = of
            .slots
            .iter()
            .any(|slot| slot.ended == SufferEnd::Exhausted);
        is_over || of.total().counts.injected > 0
    };
    let served = repeat_until(outcome, is_served);
    program.kill().unwrap();
    program.wait().unwrap();
    assert!(has_timer(&begun) && is_served(&served), "{served:?}");
    served.total().counts
}

/// It is continued before sandbag is, and its portion is shorter than the pause.
#[test]
fn a_program_that_begins_in_a_pause_has_its_portion_after_it() {
    let trial = PlanTrial::new(&together());
    let begin = Instant::now();
    trial.plan.pause().unwrap();
    sleep(Duration::from_millis(1_500));
    let counts = counts_of_program(&trial, || begin.elapsed().as_nanos() as u64);
    assert!(counts.injected + counts.missed > 0, "{counts:?}");
}

/// By how much the pause puts off what is to come is written, but not yet that it is over.
#[test]
fn a_program_that_begins_while_a_pause_ends_misses_nothing() {
    const APART_NS: u64 = SECOND_NS / 20;
    let known_ns = 1_000 * SECOND_NS;
    let events = (0..known_ns / APART_NS).map(|n| PlannedEvent::new(n * APART_NS, LENGTH_NS));
    let events = events.collect();
    let portion = Portion::whole(0, known_ns);
    let mut trial = PlanTrial::of(&together(), &[PlanColumn { known_ns, events }], &[portion]);
    let before_ns = 5 * SECOND_NS;
    let begin_ns = clock::monotonic().saturating_sub(20 * SECOND_NS);
    trial.plan.begin(begin_ns).unwrap();
    trial.plan.go_on(before_ns).unwrap();
    let begin = Instant::now();
    trial.plan.pause().unwrap();
    sleep(Duration::from_secs(5));
    let paused_ns = before_ns + begin.elapsed().as_nanos() as u64;
    let mut header = vec![0; HEADER];
    let file = trial.plan.file();
    file.read_exact_at(&mut header, 0).unwrap();
    let at = PlanHeader::of_bytes(&header).shared_at + offset_of!(PlanShared, paused_ns) as u64;
    file.write_all_at(&paused_ns.to_ne_bytes(), at).unwrap();
    let counts = counts_of_program(&trial, || paused_ns);
    // Some were due while the host had the CPU.
    assert!(counts.missed < 5 * SECOND_NS / APART_NS / 2, "{counts:?}");
}
