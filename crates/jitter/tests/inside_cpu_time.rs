// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The CPU time that processes with jitter book, by which a replay is judged.

mod support;
#[path = "support/victim.rs"]
mod victim;

use std::os::unix::fs::FileExt as _;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

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

fn change_header(trial: &PlanTrial, change: impl FnOnce(&mut PlanHeader)) {
    let file = trial.plan.file();
    let mut bytes = vec![0; HEADER];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let mut head = PlanHeader::of_bytes(&bytes);
    change(&mut head);
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
#[case::programs_after_threads("thread-execs 9")]
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
    // Process ids mean something else to sandbag there.
    change_header(&trial, |head| head.pid_namespace = [0; 32]);
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

/// Its first event is soon, and the next one is far away.
fn one_event(options: &InsideOptions) -> PlanTrial {
    let column = PlanColumn {
        known_ns: 1000 * SECOND_NS,
        events: vec![PlannedEvent::new(SECOND_NS / 20, LENGTH_NS)],
    };
    let portion = Portion::whole(0, column.known_ns);
    PlanTrial::of(options, &[column], &[portion])
}

/// When it has worked since its event.
fn kill_later(trial: &PlanTrial, program: &mut Child) {
    loop {
        let outcome = trial.outcome();
        let least_ns = SECOND_NS + 2 * outcome.cpu_ns().unwrap_or(0);
        let counts = outcome.total().counts;
        // The host may have had the CPU when it was due.
        let had_event = counts.injected + counts.missed > 0;
        if had_event && process_cpu_of(program.id()).unwrap() > least_ns {
            break;
        }
        sleep(Duration::from_millis(10));
    }
    program.kill().unwrap();
}

#[rstest]
fn what_a_killed_process_did_not_book_is_bounded(
    #[values("work 1000", "threads 1000")] words: &str,
) {
    let trial = one_event(&options());
    let mut program = spawn_victim(&trial, words);
    kill_later(&trial, &mut program);
    trial.plan.stop().unwrap();
    let used_ns = used_ns(program);
    let outcome = trial.outcome();
    let booked_ns = outcome.cpu_ns().expect("it had not used up its portion");
    assert!(booked_ns < used_ns / 2, "{booked_ns} of {used_ns}");
    let most_ns = booked_ns + outcome.silent_cpu_ns();
    assert!(most_ns >= used_ns - used_ns / 20, "{most_ns} of {used_ns}");
}

/// Its slot is used again, by the next program.
#[test]
fn what_a_killed_process_did_not_book_is_no_more_than_there_are_cpus() {
    let trial = one_event(&InsideOptions {
        slots: Some(1),
        ..options()
    });
    change_header(&trial, |head| head.cpus = 1);
    let begin = Instant::now();
    // With eight threads.
    let mut program = spawn_victim(&trial, "threads 1000");
    kill_later(&trial, &mut program);
    program.wait().unwrap();
    used_ns(spawn_victim(&trial, "work 0.01"));
    let silent_ns = trial.outcome().silent_cpu_ns();
    let most_ns = begin.elapsed().as_nanos() as u64;
    assert!(
        (1..=most_ns).contains(&silent_ns),
        "{silent_ns} of {most_ns}"
    );
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

/// So with each static program that a shell starts: the child of the shell has had no event.
#[rstest]
#[case::slots_for_all(None)]
#[case::slots_used_again(Some(2))]
fn what_many_programs_without_jitter_take_is_missing(#[case] slots: Option<u32>) {
    let column = PlanColumn {
        known_ns: 10 * SECOND_NS,
        events: vec![PlannedEvent::new(5 * SECOND_NS, LENGTH_NS)],
    };
    let portion = Portion::whole(0, column.known_ns);
    let options = InsideOptions { slots, ..options() };
    let trial = PlanTrial::of(&options, &[column], &[portion]);
    let text = "for i in 1 2 3 4 5 6; do env -i \"$0\" work 0.3; done; exit 0";
    let words = ["-c", text, victim().to_str().unwrap()];
    let used_ns = used_ns(spawn(&trial, "sh", &words));
    trial.plan.stop().unwrap();
    let outcome = trial.outcome();
    assert_eq!(outcome.refused.of_meant(), 0);
    let booked_ns = outcome.cpu_ns().expect("none had used up its portion");
    let most_ns = booked_ns + outcome.silent_cpu_ns();
    assert!(most_ns < used_ns / 2, "{most_ns} of {used_ns}");
}
