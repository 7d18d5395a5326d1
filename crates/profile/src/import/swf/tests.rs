// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Small logs made by hand.

use proptest::prelude::*;
use rstest::rstest;

use crate::testing::{assert_damage_is_answered, assert_sound, loads, message, read};
use crate::{Format, InputSource, NS_PER_S, Profile, ReadOptions, Spread};

/// A job with only the fields that matter here.
fn job(submit: &str, wait: &str, run: &str, procs: &str, cpu_time: &str) -> String {
    format!(" 1 {submit} {wait} {run} {procs} {cpu_time} -1 -1 -1 -1 1 1 1 -1 1 -1 -1 -1\n")
}

fn on(text: &str, cpus: u32) -> Profile {
    let source = InputSource::spool(&mut text.as_bytes(), "in".into()).unwrap();
    let options = ReadOptions {
        spread: Some(Spread {
            cpus,
            ..Spread::default()
        }),
        ..ReadOptions::default()
    };
    let profile = Profile::collect(source.open(None, &options).unwrap()).unwrap();
    assert_sound(&profile);
    profile
}

#[test]
fn jobs_hold_processors_from_their_begin_for_their_run_time() {
    let p = read(&format!(
        "; Computer: Tiny Cluster\n; UnixStartTime: 749458803\n; MaxNodes: 2\n; MaxProcs: 3\n{}{}{}",
        job("0", "20", "20", "2", "5.00"),
        // Submitted later, begun earlier.
        job("4", "0", "6", "1", "-1"),
        job("10", "12.5", "10", "1", "11"),
    ));
    assert_eq!(p.header.format, Format::Swf);
    assert_eq!(p.header.cpus, [0, 1, 2]);
    assert_eq!(p.header.host.as_deref(), Some("Tiny Cluster"));
    assert_eq!(
        p.header.begins_at.unwrap().to_string(),
        "1993-10-01T07:00:03Z"
    );
    let row = |a, b, c| vec![Some(a), Some(b), Some(c)];
    assert_eq!(
        loads(&p),
        [
            (4, row(0.0, 0.0, 0.0)),
            (10, row(100.0, 0.0, 0.0)),
            (20, row(0.0, 0.0, 0.0)),
            (22, row(25.0, 25.0, 0.0)),
            (32, row(25.0, 25.0, 100.0)),
            (40, row(25.0, 25.0, 0.0)),
        ]
    );
    assert_eq!(p.steps[4].start_ns, 22 * NS_PER_S + NS_PER_S / 2);
    assert_eq!(
        p.warnings,
        ["1 jobs used more CPU time than they ran; their load was cut to 100"]
    );
}

#[test]
fn without_wait_times_they_are_served_as_they_come() {
    let text = [
        job("0", "-1", "10", "2", "-1"),
        job("1", "-1", "5", "1", "-1"),
        job("2", "-1", "5", "1", "-1"),
    ]
    .concat();
    let p = read(&text);
    assert_eq!(
        loads(&p),
        [(10, vec![Some(100.0); 2]), (15, vec![Some(100.0); 2])]
    );
    assert_eq!(p.header.begins_at, None);
    assert_eq!(
        p.warnings,
        [
            "of 3 of 3 jobs it is not known when they began; they begin when they were \
             submitted or, if no CPU is free, when one is",
            "2 of 3 jobs had to wait for CPUs, up to 9 s"
        ]
    );
    // One CPU: what wants two is cut, and all of them wait.
    let one = on(&text, 1);
    assert_eq!(one.end_ns(), 20 * NS_PER_S);
    assert!(one.warnings[1].starts_with("1 of 3 jobs want more CPUs"));
    assert_eq!(on(&text, 4).end_ns(), 10 * NS_PER_S);
}

#[test]
fn what_never_held_a_processor_is_left_out_and_counted() {
    let p = read(&format!(
        "{}{}{}{}",
        job("0", "1", "0", "1", "-1"),
        job("0", "1", "-1", "1", "-1"),
        job("0", "1", "5", "-1", "-1"),
        job("0", "1", "5", "1", "-1"),
    ));
    assert_eq!(p.end_ns(), 6 * NS_PER_S);
    assert_eq!(
        p.warnings,
        ["3 of 4 jobs have no processors or no run time and were left out"]
    );
}

#[test]
fn submit_times_may_be_unix_seconds() {
    let p = read(&format!(
        "; UnixStartTime: 749458803\n{}",
        job("749458903", "4000", "7", "1", "-1")
    ));
    assert_eq!(
        p.header.begins_at.unwrap().to_string(),
        "1993-10-01T07:01:43Z"
    );
    assert_eq!(p.end_ns(), 4007 * NS_PER_S);
    assert_eq!(
        p.warnings,
        ["no job runs before 4000 s; what is before may be cut off"]
    );
}

#[test]
fn a_log_that_is_not_sorted_gives_the_same_profile() {
    let mut jobs: Vec<String> = (0..40u32)
        .map(|i| {
            job(
                &(i * 3).to_string(),
                &(i * 7 % 11).to_string(),
                &(1 + i % 5).to_string(),
                "1",
                "-1",
            )
        })
        .collect();
    let sorted = on(&jobs.concat(), 64);
    jobs.reverse();
    jobs.swap(3, 20);
    let mixed = on(&jobs.concat(), 64);
    let busy = |p: &Profile| -> Vec<(u64, usize)> {
        let count = |s: &crate::Step| s.cells.iter().filter(|c| c.unwrap().load_pct > 0.0).count();
        p.steps.iter().map(|s| (s.end_ns, count(s))).collect()
    };
    assert_eq!(busy(&sorted), busy(&mixed));
}

#[rstest]
#[case(
    "1 2 3\n",
    "in:1: expected a job, 18 numbers with blanks between them, found 3 fields; the file may be cut short"
)]
#[case(
    &job("x", "0", "1", "1", "1"),
    "in:1:4: expected the submit time in seconds, or -1, found `x`"
)]
#[case(
    &job("0", "0", "1", "1.5", "1"),
    "expected the number of processors, or -1, found `1.5`"
)]
#[case(&job("0", "0", "99999999999999999999", "1", "1"), "expected the run time in seconds")]
#[case("; MaxProcs: 3\n", "it holds no job, a line of 18 numbers")]
#[case(&job("0", "0", "0", "1", "1"), "none of its 1 jobs has processors and a run time")]
#[case(
    &format!("; MaxProcs: 786432\n{}", job("0", "0", "1", "1", "1")),
    "the jobs run on 786432 processors, and a profile has at most 65535 CPUs"
)]
fn rejects(#[case] text: &str, #[case] expected: &str) {
    let got = message(text, Format::Swf);
    assert!(got.contains(expected), "{got}");
}

#[test]
fn detection() {
    let detect = |text: &str| Format::detect(text.as_bytes());
    assert_eq!(detect(&job("0", "0", "1", "1", "1.5")), Some(Format::Swf));
    assert_eq!(
        detect("; Version: 2.2\n; MaxJobs: 42264\n"),
        Some(Format::Swf)
    );
    assert_eq!(detect("; a comment\nx = 5\n"), None);
    assert_eq!(detect("1 2 3 4\n"), None);
}

#[test]
fn damage_is_answered() {
    let jobs = job("0", "0", "7", "2", "-1") + &job("-1", "3", "5.5", "1", "9");
    assert_damage_is_answered(
        format!("; MaxProcs: 5\n; UnixStartTime: 7\n{jobs}"),
        Format::Swf,
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_processor_second_is_lost(
        jobs in prop::collection::vec((0u32..100, -1i32..50, 0u32..20, 0u32..9), 1..40),
    ) {
        let text: String = jobs.iter().map(|(submit, wait, run, procs)| {
            job(&submit.to_string(), &wait.to_string(), &run.to_string(), &procs.to_string(), "-1")
        }).collect();
        let work: u32 = jobs.iter().map(|(_, _, run, procs)| run * procs.min(&5)).sum();
        prop_assume!(work > 0);
        let p = on(&text, 5);
        let done: f64 = p.steps.iter().map(|step| {
            let busy: f64 = step.cells.iter().map(|c| c.unwrap().load_pct / 100.0).sum();
            busy * step.length_ns() as f64 / NS_PER_S as f64
        }).sum();
        prop_assert_eq!(done, f64::from(work));
    }
}
