// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs with the library and without it: output and exit status are the same, and
//! programs that run for a while suffer.

#[path = "../../base/linux/tests/support/patience.rs"]
mod patience;
mod support;
#[path = "support/victim.rs"]
mod victim;

use std::collections::BTreeSet;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use patience::repeat_until;
use rstest::rstest;
use sandbag_jitter::inside::outcome::SufferEnd;
use sandbag_jitter::inside::plan::{InsideOptions, Portion};
use sandbag_jitter::replay::{PlanColumn, PlannedEvent, RankOutcome};
use sandbag_linux::clock::process_cpu_of;
use support::{
    APART_NS, LENGTH_NS, PlanTrial, column, compile, options, output_text, plain, portions,
};
use victim::victim;

/// Time limit on a busy machine.
const PATIENCE: Duration = Duration::from_secs(100);

/// Runs `words` of the victim both ways.
fn the_same(options: &InsideOptions, words: &[&str]) -> PlanTrial {
    let trial = PlanTrial::new(options);
    let without = plain(victim()).args(words).output().unwrap();
    let with = trial.command(victim()).args(words).output().unwrap();
    assert_eq!(output_text(&with), output_text(&without), "{words:?}");
    assert!(
        !output_text(&with).contains("exit status: 99"),
        "{}",
        output_text(&with)
    );
    trial
}

/// The counts are consistent, and at least this many events were injected.
fn check_suffered(trial: &PlanTrial, at_least: u64) {
    let total = trial.outcome().total();
    let injected = injected(&total);
    assert!(injected >= at_least, "{total:?}");
    assert_eq!(total.start.count(), injected);
    assert_eq!(total.length.count(), injected);
    assert_eq!(total.counts.invalid, 0);
    // Events that were cut, because the host had the CPU, are shorter.
    assert!(total.asked_ns <= injected * LENGTH_NS);
    assert!(total.suffered_ns >= total.asked_ns);
    if total.counts.cut == 0 {
        assert_eq!(total.asked_ns, injected * LENGTH_NS);
    }
}

/// The program does the same both ways, and at least this many events are injected. Other
/// programs may have the CPU when they are due: it runs again until they are.
fn suffers(options: &InsideOptions, words: &[&str], at_least: u64) -> PlanTrial {
    let trial = repeat_until(
        || the_same(options, words),
        |trial| injected(&trial.outcome().total()) >= at_least,
    );
    check_suffered(&trial, at_least);
    trial
}

/// Also together with the one before.
fn injected(outcome: &RankOutcome) -> u64 {
    outcome.counts.injected + outcome.counts.merged
}

#[rstest]
#[case::work("work 0.4", 5)]
#[case::waits("waits", 50)]
#[case::interrupted_selects("selects", 20)]
#[case::own_signals("own-signals", 20)]
#[case::threads("threads", 5)]
#[case::cancellation("cancel", 1)]
#[case::blocked_signals("blocked", 3)]
#[case::masked_waits("masks", 30)]
#[case::reset_signals("resets", 3)]
#[case::programs_of_programs("chain 5", 1)]
#[case::spawning("spawns", 0)]
#[case::forking("forks", 10)]
#[case::closed_descriptors("closes", 3)]
#[case::seccomp_strict("strict", 0)]
#[case::seccomp_filter("filtered", 0)]
#[case::alternate_stacks("stacks", 3)]
#[case::exit("exit 5", 0)]
#[case::immediate_exit("_exit 6", 0)]
#[case::abort("abort", 0)]
#[case::killed("kill", 0)]
fn a_program_does_what_it_does(
    #[case] words: &str,
    #[case] at_least: u64,
    #[values(false, true)] per_thread: bool,
) {
    let words: Vec<&str> = words.split(' ').collect();
    let options = InsideOptions {
        per_thread,
        ..options()
    };
    suffers(&options, &words, at_least);
}

#[test]
fn threads_may_end_while_their_process_does() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = compile(dir.path(), "leaves.c", &["-pthread"]);
    let trial = PlanTrial::new(&InsideOptions {
        per_thread: true,
        ..options()
    });
    let with = trial.command(program).output().unwrap();
    assert_eq!(output_text(&with), "200 ended well\nexit status: 0");
}

#[test]
fn each_thread_suffers_if_it_is_asked_for() {
    let options = InsideOptions {
        per_thread: true,
        ..options()
    };
    let outcome = the_same(&options, &["threads"]).outcome();
    assert_eq!(outcome.slots.len(), 1 + 3 * 8);
    assert!(
        outcome
            .slots
            .iter()
            .all(|slot| slot.ended == SufferEnd::Exit && !slot.held)
    );
    let outcome = the_same(&support::options(), &["threads"]).outcome();
    assert_eq!(outcome.slots.len(), 1);
}

#[test]
fn a_program_that_wants_the_signal_gets_it() {
    let outcome = the_same(&options(), &["takes-all"]).outcome();
    assert_eq!(outcome.slots[0].ended, SufferEnd::Conflict);
    let outcome = the_same(&options(), &["filtered"]).outcome();
    assert_eq!(outcome.slots[0].ended, SufferEnd::Seccomp);
}

#[test]
fn a_thread_may_outlive_its_jitter() {
    let options = InsideOptions {
        per_thread: true,
        ..options()
    };
    let outcome = the_same(&options, &["outlives"]).outcome();
    // The initial thread and the one that was there; none after it.
    assert_eq!(outcome.slots.len(), 2, "{outcome:?}");
    for slot in &outcome.slots {
        assert_eq!(slot.ended, SufferEnd::Conflict);
    }
    assert_eq!(outcome.refused, Default::default());
}

/// Until a process of the program has its jitter.
fn await_begin(trial: &PlanTrial) {
    let begin = Instant::now();
    while trial.outcome().slots.is_empty() {
        assert!(begin.elapsed() < PATIENCE, "it did not begin");
        sleep(Duration::from_millis(10));
    }
}

/// Neither before an event nor in the midst of one.
#[test]
fn a_program_continues_when_sandbag_is_killed() {
    let second = 1_000_000_000;
    let mut sandbag = plain("sleep").arg("60").spawn().unwrap();
    let options = InsideOptions {
        supervisor: Some(sandbag.id()),
        repeat: false,
        ..options()
    };
    let column = PlanColumn {
        known_ns: 60 * second,
        events: vec![PlannedEvent::new(second / 20, 50 * second)],
    };
    let trial = PlanTrial::of(&options, &[column], &[Portion::whole(0, 60 * second)]);
    let mut program = trial
        .command(victim())
        .args(["work", "0.2"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // More CPU time than its work takes: it is in the midst of the event.
    let used_ns = || {
        sleep(Duration::from_millis(10));
        process_cpu_of(program.id()).unwrap()
    };
    repeat_until(used_ns, |ns| *ns > 400_000_000);
    assert!(program.try_wait().unwrap().is_none(), "it did not suffer");
    sandbag.kill().unwrap();
    sandbag.wait().unwrap();
    let begin = Instant::now();
    let status = loop {
        match program.try_wait().unwrap() {
            Some(status) => break status,
            None if begin.elapsed() > PATIENCE => {
                program.kill().unwrap();
                panic!("it still suffers");
            }
            None => sleep(Duration::from_millis(10)),
        }
    };
    assert!(status.success(), "{status}");
    let outcome = trial.outcome();
    assert_eq!(outcome.slots[0].ended, SufferEnd::Stopped);
    let suffered = &outcome.slots[0].suffered;
    assert_eq!(suffered.counts.injected, 1);
    assert!(suffered.suffered_ns < suffered.asked_ns, "{suffered:?}");
}

#[test]
fn forked_children_have_portions_of_their_own_or_none() {
    let outcome = the_same(&options(), &["forks"]).outcome();
    assert_eq!(outcome.slots.len(), 31);
    let portions: BTreeSet<u32> = outcome.slots.iter().map(|slot| slot.portion).collect();
    assert_eq!(portions, (0..4).collect());
    let without = InsideOptions {
        no_forks: true,
        ..options()
    };
    assert_eq!(the_same(&without, &["forks"]).outcome().slots.len(), 1);
}

#[test]
fn slots_are_used_again_and_nothing_is_lost() {
    let options = InsideOptions {
        slots: Some(2),
        ..options()
    };
    let outcome = suffers(&options, &["forks"], 10).outcome();
    assert_eq!(outcome.slots.len(), 2);
    assert_eq!(outcome.recycled, 29);
    assert_eq!(outcome.refused.no_slot, 0);
}

#[test]
fn a_slot_that_is_used_again_keeps_that_its_jitter_ended_early() {
    let options = InsideOptions {
        slots: Some(2),
        ..options()
    };
    let trial = PlanTrial::new(&options);
    // The shell has one slot, and its children after one another the other.
    let script = format!("{0} takes-all && {0} work 0.1; exit $?", victim().display());
    let ended = trial.command("sh").args(["-c", &script]).status().unwrap();
    assert!(ended.success(), "{ended}");
    let outcome = trial.outcome();
    assert_eq!(outcome.recycled_early, 1, "{outcome:?}");
}

#[rstest]
#[case("victim", None, 1)]
#[case("other", None, 0)]
#[case("rank", None, 0)]
#[case("rank", Some("7"), 1)]
#[case("rank=0-2,7", Some("7"), 1)]
#[case("rank=0-2", Some("7"), 0)]
#[case("rank=0-2", Some("nonsense"), 0)]
fn only_those_that_are_meant_suffer(
    #[case] only: &str,
    #[case] rank: Option<&str>,
    #[case] slots: usize,
) {
    let options = InsideOptions {
        only: only.parse().unwrap(),
        ..options()
    };
    let trial = PlanTrial::new(&options);
    let mut command = trial.command(victim());
    if let Some(rank) = rank {
        command.env("PMIX_RANK", rank);
    }
    assert!(command.args(["work", "0.05"]).status().unwrap().success());
    let outcome = trial.outcome();
    assert_eq!(outcome.slots.len(), slots);
    assert_eq!(outcome.refused.not_meant, 1 - slots as u64);
}

/// Of the name by which it was called the kernel keeps 15 bytes.
#[rstest]
#[case("a-program-of-a-long-name", 1)]
#[case("a-program-of-b-long-name", 0)]
#[case("a-program", 0)]
fn a_long_name_is_meant(#[case] only: &str, #[case] slots: usize) {
    let options = InsideOptions {
        only: only.parse().unwrap(),
        ..options()
    };
    let trial = PlanTrial::new(&options);
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("a-program-of-a-long-name");
    std::os::unix::fs::symlink(victim(), &link).unwrap();
    let status = trial.command(&link).args(["work", "0.05"]).status();
    assert!(status.unwrap().success());
    assert_eq!(trial.outcome().slots.len(), slots);
}

#[test]
fn a_rank_has_its_portion_and_what_it_starts_others() {
    let options = InsideOptions {
        ranked: 3,
        ..options()
    };
    let trial = PlanTrial::new(&options);
    let mut command = trial.command(victim());
    command
        .env("OMPI_COMM_WORLD_RANK", "5")
        .env("SLURM_PROCID", "1");
    assert!(command.arg("forks").status().unwrap().success());
    let outcome = trial.outcome();
    let first = &outcome.slots[0];
    // The fourth portion is for everybody else.
    assert_eq!((first.rank, first.portion), (Some(5), 5 % 4));
    assert!(outcome.slots[1..].iter().all(|slot| slot.portion == 3));
}

#[test]
fn a_portion_ends() {
    let options = InsideOptions {
        repeat: false,
        ..options()
    };
    let outcome = the_same(&options, &["work", "1.2"]).outcome();
    assert_eq!(outcome.slots[0].ended, SufferEnd::Exhausted);
    let total = outcome.total();
    assert_eq!(injected(&total) + total.counts.missed, 100);
}

/// A plan of events every 10 ms, of which the first is of this length and the others are too
/// short to be injected.
fn mostly_short(repeat: bool, events: u64, first_ns: u64) -> PlanTrial {
    let length = |n| if n == 0 { first_ns } else { 1_000 };
    let event = |n| PlannedEvent::new(n * APART_NS + APART_NS / 2, length(n));
    let column = PlanColumn {
        known_ns: events * APART_NS,
        events: (0..events).map(event).collect(),
    };
    let options = InsideOptions {
        repeat,
        ..options()
    };
    let portion = Portion::whole(0, column.known_ns);
    PlanTrial::of(&options, &[column], &[portion])
}

#[rstest]
#[case::within_a_portion(false, 1_000, 1_000, SufferEnd::TooShort)]
#[case::within_a_round(true, 1_000, 1_000, SufferEnd::TooShort)]
#[case::in_rounds(true, 3, 1_000, SufferEnd::TooShort)]
#[case::after_the_last(false, 1_000, LENGTH_NS, SufferEnd::Exhausted)]
#[case::between_two(true, 1_000, LENGTH_NS, SufferEnd::Exit)]
fn short_events_count_when_their_time_has_come(
    #[case] repeat: bool,
    #[case] events: u64,
    #[case] first_ns: u64,
    #[case] ended: SufferEnd,
) {
    let trial = mostly_short(repeat, events, first_ns);
    let begin = Instant::now();
    let status = trial.command(victim()).args(["work", "0.3"]).status();
    let most = begin.elapsed().as_nanos() as u64 / APART_NS + 1;
    assert!(status.unwrap().success());
    let outcome = trial.outcome();
    assert_eq!(outcome.slots[0].ended, ended, "{outcome:?}");
    let counts = outcome.total().counts;
    assert!(
        (28..=most).contains(&counts.below_floor),
        "{counts:?} of {most}"
    );
}

/// What comes after the end of the replay is not due, nor what comes in a pause.
#[rstest]
fn short_events_count_until_the_replay_ends_or_pauses(#[values(false, true)] pauses: bool) {
    let trial = mostly_short(true, 10, 1_000);
    let begin = Instant::now();
    let mut program = trial
        .command(victim())
        .args(["work", "0.6"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    await_begin(&trial);
    sleep(Duration::from_millis(150));
    if pauses {
        trial.plan.pause().unwrap();
    } else {
        trial.plan.stop().unwrap();
    }
    let most = begin.elapsed().as_nanos() as u64 / APART_NS + 1;
    assert!(program.wait().unwrap().success());
    let counts = trial.outcome().total().counts;
    assert!(
        (1..=most).contains(&counts.below_floor),
        "{counts:?} of {most}"
    );
}

/// A program that has just stopped itself.
fn stopped_victim(trial: &PlanTrial) -> (Child, Pid) {
    let mut program = trial.command(victim());
    let program = program.arg("stops").stdout(Stdio::null()).spawn().unwrap();
    let pid = Pid::from_raw(program.id().cast_signed());
    let stopped = waitpid(pid, Some(WaitPidFlag::WUNTRACED)).unwrap();
    assert_eq!(stopped, WaitStatus::Stopped(pid, Signal::SIGSTOP));
    (program, pid)
}

#[test]
fn rounds_that_pass_while_a_program_is_stopped_are_counted() {
    let column = PlanColumn {
        known_ns: 5 * APART_NS,
        events: column().events.into_iter().take(5).collect(),
    };
    let portion = Portion::whole(0, column.known_ns);
    let trial = PlanTrial::of(&options(), &[column], &[portion]);
    let begin = Instant::now();
    let (mut program, pid) = stopped_victim(&trial);
    sleep(Duration::from_millis(500));
    kill(pid, Signal::SIGCONT).unwrap();
    assert!(program.wait().unwrap().success());
    let most = begin.elapsed().as_nanos() as u64 / APART_NS + 1;
    let total = trial.outcome().total();
    let all = injected(&total) + total.counts.missed;
    assert!((75..=most).contains(&all), "{total:?} of {most}");
    assert!(total.counts.missed >= 40, "{total:?}");
}

/// What was to come is put off by the pause.
#[test]
fn nothing_is_missed_in_a_pause_of_the_replay() {
    let trial = PlanTrial::new(&options());
    let (mut program, pid) = stopped_victim(&trial);
    let begin = Instant::now();
    trial.plan.pause().unwrap();
    sleep(Duration::from_secs(2));
    // A shell continues it before sandbag knows.
    kill(pid, Signal::SIGCONT).unwrap();
    sleep(Duration::from_millis(20));
    let paused_ns = begin.elapsed().as_nanos() as u64;
    trial.plan.go_on(paused_ns).unwrap();
    assert!(program.wait().unwrap().success());
    // Some were due while the host had the CPU.
    let counts = trial.outcome().total().counts;
    assert!(counts.missed < paused_ns / APART_NS / 2, "{counts:?}");
}

#[rstest]
fn late_events_are_counted_where_late_is_known(#[values(0, 1)] away_ns: u64) {
    let options = InsideOptions {
        away_ns,
        ..options()
    };
    let counts = suffers(&options, &["work", "0.4"], 5)
        .outcome()
        .total()
        .counts;
    // Every handler is later than a nanosecond.
    let of_first = counts.injected.saturating_sub(counts.behind);
    assert_eq!(counts.away, away_ns * of_first, "{counts:?}");
}

/// Neither after the end of the replay, nor when sandbag is gone.
#[rstest]
fn nothing_is_injected_after_the_end(#[values(false, true)] is_gone: bool) {
    // No process has this number.
    let supervisor = if is_gone {
        4_194_305
    } else {
        std::process::id()
    };
    let options = InsideOptions {
        supervisor: Some(supervisor),
        ..options()
    };
    let trial = PlanTrial::new(&options);
    if !is_gone {
        trial.plan.stop().unwrap();
    }
    let status = trial.command(victim()).args(["work", "0.2"]).status();
    assert!(status.unwrap().success());
    assert_eq!(trial.outcome().slots.len(), 0);
}

#[test]
fn a_plan_with_other_contents_does_no_harm() {
    let trial = PlanTrial::new(&options());
    let path = trial.plan.path();
    let whole = std::fs::read(path).unwrap();
    let run = || {
        let with = trial.command(victim()).args(["work", "0.02"]).output();
        assert_eq!(output_text(&with.unwrap()), "work ok\nexit status: 0");
    };
    let mut files: Vec<Vec<u8>> = [0, 7, 4095, 4096, 65536, whole.len() - 1]
        .map(|length| whole[..length].to_vec())
        .into();
    // Portions and events of noise below a valid header.
    let mut noise = whole.clone();
    for (at, byte) in noise[4096..65536].iter_mut().enumerate() {
        *byte = ((at * 7919) >> 3) as u8;
    }
    let mut backwards = whole.clone();
    for at in (4096 + 4 * 40..).step_by(16).take(100) {
        backwards[at..at + 8].copy_from_slice(&(u64::MAX - at as u64).to_ne_bytes());
    }
    files.extend([noise, backwards]);
    for file in files {
        std::fs::write(path, file).unwrap();
        run();
    }
    std::fs::remove_file(path).unwrap();
    run();
    std::fs::create_dir(path).unwrap();
    run();
}

/// Also with jitter of half of the time: it takes CPU time from who sleeps, which needs none.
#[test]
fn a_sleep_ends_when_it_would_without_jitter() {
    let events = (0..50).map(|n| PlannedEvent::new(2 * n * APART_NS, APART_NS));
    let half = PlanColumn {
        known_ns: 100 * APART_NS,
        events: events.collect(),
    };
    let slept = || {
        let trial = PlanTrial::of(&options(), std::slice::from_ref(&half), &portions());
        let with = trial.command(victim()).arg("sleeps").output().unwrap();
        let ms = String::from_utf8_lossy(&with.stdout).trim().parse::<u64>();
        (ms.unwrap(), injected(&trial.outcome().total()))
    };
    // 2 s where each event puts off the end.
    let (ms, events) = repeat_until(slept, |(ms, events)| *ms < 1_500 && *events > 20);
    assert!((1_000..1_500).contains(&ms), "{ms} ms");
    assert!(events > 20, "{events}");
}

#[test]
fn of_two_libraries_one_works() {
    let (outer, trial) = (PlanTrial::new(&options()), PlanTrial::new(&options()));
    let both = [&outer, &trial].map(|trial| trial.place.environment()[0].1.clone());
    let with = trial
        .command(victim())
        .env("LD_PRELOAD", both.join(std::ffi::OsStr::new(":")))
        .arg("waits")
        .output()
        .unwrap();
    assert_eq!(output_text(&with), "waits ok\nexit status: 0");
    assert_eq!(outer.outcome().slots.len(), 0);
    // The victim and a child of it.
    assert_eq!(trial.outcome().slots.len(), 2);
}

#[test]
fn shells_and_pipes() {
    let trial = PlanTrial::new(&options());
    let text = "dd if=/dev/zero bs=1000 count=2000 2>/dev/null | tr '\\0' x | wc -c; \
                (sleep 0.1; exit 3); echo $?; (kill -TERM $$; sleep 1) ; echo no";
    let without = plain("sh").args(["-c", text]).output().unwrap();
    let with = trial.command("sh").args(["-c", text]).output().unwrap();
    assert_eq!(output_text(&with), output_text(&without));
    assert!(output_text(&with).starts_with("2000000\n3\n"));
    check_suffered(&trial, 1);
}
