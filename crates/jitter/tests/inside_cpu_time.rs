// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The CPU time that processes with jitter book, by which a replay is judged.

mod support;
#[path = "support/victim.rs"]
mod victim;

use std::os::unix::fs::FileExt as _;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rstest::rstest;
use sandbag_jitter::inside::layout::{HEADER, Plain as _, PlanHeader};
use sandbag_jitter::inside::plan::{InsideOptions, Portion};
use sandbag_jitter::replay::{PlanColumn, PlannedEvent};
use sandbag_linux::clock::process_cpu_of;
use support::{LENGTH_NS, PlanTrial, options};
use victim::victim;

const SECOND_NS: u64 = 1_000_000_000;

/// User and system time of a process and of those that it waited for.
fn used_ns(program: Child) -> u64 {
    let pid = program.id().cast_signed();
    // SAFETY: all zeros is a usage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let mut status = 0;
    // SAFETY: both are valid for writing.
    let ended = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
    assert!(ended == pid && matches!(status & 0x7f, 0 | libc::SIGKILL));
    let ns = |time: libc::timeval| time.tv_sec as u64 * SECOND_NS + time.tv_usec as u64 * 1_000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

fn spawn(trial: &PlanTrial, program: &str, words: &[&str]) -> Child {
    let mut command = trial.command(program);
    command.args(words).stdout(Stdio::null()).spawn().unwrap()
}

fn spawn_victim(trial: &PlanTrial, words: &str) -> Child {
    let words: Vec<&str> = words.split(' ').collect();
    spawn(trial, victim().to_str().unwrap(), &words)
}

/// Where process ids mean something else to sandbag.
fn in_another_namespace(trial: &PlanTrial) {
    let file = trial.plan.file();
    let mut bytes = vec![0; HEADER];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let mut head = PlanHeader::of_bytes(&bytes);
    head.pid_namespace = [0; 32];
    head.seal();
    file.write_all_at(head.bytes(), 0).unwrap();
}

/// What a process takes to end is not booked.
fn most_of(used_ns: u64) -> u64 {
    (used_ns * 3 / 4).saturating_sub(10_000_000)
}

/// Rounded by the kernel.
fn all_of(used_ns: u64) -> u64 {
    used_ns + used_ns / 20 + 5_000_000
}

#[rstest]
#[case::exit("work 0.4")]
#[case::used_up("work 1.2")]
#[case::threads("threads")]
#[case::children("forks")]
#[case::programs_of_programs("chain 5")]
#[case::programs_after_programs("execs 9")]
fn cpu_time_of_processes_with_jitter_is_booked(
    #[case] words: &str,
    #[values(false, true)] per_thread: bool,
    #[values(false, true)] repeat: bool,
) {
    let trial = PlanTrial::new(&InsideOptions {
        per_thread,
        repeat,
        ..options()
    });
    let used_ns = used_ns(spawn_victim(&trial, words));
    let booked_ns = trial.outcome().cpu_ns().expect("no process was killed");
    let range = most_of(used_ns)..=all_of(used_ns);
    assert!(range.contains(&booked_ns), "{booked_ns} of {used_ns}");
}

#[test]
fn cpu_time_is_booked_once_in_another_namespace() {
    let trial = PlanTrial::new(&options());
    in_another_namespace(&trial);
    let used_ns = used_ns(spawn_victim(&trial, "execs 9"));
    let booked_ns = trial.outcome().cpu_ns().expect("no process was killed");
    assert!(
        (1..=all_of(used_ns)).contains(&booked_ns),
        "{booked_ns} of {used_ns}"
    );
}

/// Threads that had used up their portions book at their end, too.
#[test]
fn threads_that_end_after_their_jitter_do_not_hold_their_slots() {
    let column = PlanColumn {
        known_ns: SECOND_NS / 10,
        events: vec![PlannedEvent::new(SECOND_NS / 20, LENGTH_NS)],
    };
    let portion = Portion::whole(0, column.known_ns);
    let options = InsideOptions {
        per_thread: true,
        repeat: false,
        ..options()
    };
    let trial = PlanTrial::of(&options, &[column], &[portion]);
    let used_ns = used_ns(spawn_victim(&trial, "threads"));
    let booked_ns = trial.outcome().cpu_ns().expect("all slots are given up");
    let range = most_of(used_ns)..=all_of(used_ns);
    assert!(range.contains(&booked_ns), "{booked_ns} of {used_ns}");
}

/// It worked since its last event, and the next one is far away.
#[rstest]
fn what_a_killed_process_did_not_book_is_bounded(
    #[values("work 1000", "threads 1000")] words: &str,
) {
    let column = PlanColumn {
        known_ns: 1000 * SECOND_NS,
        events: vec![PlannedEvent::new(SECOND_NS / 20, LENGTH_NS)],
    };
    let portion = Portion::whole(0, column.known_ns);
    let trial = PlanTrial::of(&options(), &[column], &[portion]);
    let mut program = spawn_victim(&trial, words);
    while process_cpu_of(program.id()).unwrap() < SECOND_NS {
        sleep(Duration::from_millis(10));
    }
    program.kill().unwrap();
    trial.plan.stop().unwrap();
    let used_ns = used_ns(program);
    let outcome = trial.outcome();
    let booked_ns = outcome.cpu_ns().expect("it had not used up its portion");
    assert!(booked_ns < used_ns / 2, "{booked_ns} of {used_ns}");
    let most_ns = booked_ns + outcome.silent_cpu_ns();
    assert!(most_ns >= used_ns - used_ns / 20, "{most_ns} of {used_ns}");
}

/// A process that became a program without jitter did not: it would have booked.
#[test]
fn what_a_program_without_jitter_takes_is_missing() {
    let trial = PlanTrial::new(&options());
    let words = ["-i", victim().to_str().unwrap(), "work", "3"];
    let used_ns = used_ns(spawn(&trial, "env", &words));
    trial.plan.stop().unwrap();
    let outcome = trial.outcome();
    let booked_ns = outcome.cpu_ns().expect("it had not used up its portion");
    let most_ns = booked_ns + outcome.silent_cpu_ns();
    assert!(most_ns < used_ns / 2, "{most_ns} of {used_ns}");
}
