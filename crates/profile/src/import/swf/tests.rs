// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Logs of random jobs.

use proptest::prelude::*;

use crate::testing::{assert_sound, message};
use crate::{Fault, Format, InputSource, NS_PER_S, Profile, ReadOptions, Spread};

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
fn another_machine_than_the_log_names_is_refused() {
    let one = job("0", "0", "10", "1", "-1");
    let text = format!("; Computer: iPSC/860\n{one}");
    let source = InputSource::spool(&mut text.as_bytes(), "in".into()).unwrap();
    let open = |machine: &str| {
        let options = ReadOptions {
            machine: Some(machine.to_owned()),
            ..ReadOptions::default()
        };
        source.open(Some(Format::Swf), &options)
    };
    let e = open("SP2").err().unwrap();
    assert!(matches!(*e.fault, Fault::WhichMachine { .. }), "{e}");
    assert!(open("iPSC/860").is_ok());
}

#[test]
fn a_job_that_is_logged_with_its_parts_counts_once() {
    let line = |status: &str| {
        let whole = job("0", "0", "10", "1", "-1");
        whole.replace(" -1 1 1 1 -1", &format!(" -1 {status} 1 1 -1"))
    };
    let text = [line("1"), line("2"), line("3")].concat();
    let p = on(&text, 4);
    assert_eq!(p.end_ns(), 10 * NS_PER_S);
    let loads = p.steps[0].cells.iter().map(|c| c.unwrap().load_pct);
    assert_eq!(loads.sum::<f64>(), 100.0);
    let warning = &p.warnings[0];
    assert!(warning.starts_with("2 lines are of parts"), "{warning}");
    let got = message(&line("4"), Format::Swf);
    assert!(got.contains("1 lines are of parts"), "{got}");
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
