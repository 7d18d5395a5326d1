// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that may be unable to run on this machine.
//!
//! # Problem
//! A test that needs root or an emulator and returns early without it counts
//! as passed, although nothing was tested.
//!
//! # Approach
//! Each [`Case`] says first whether it can run. One that cannot is reported
//! as ignored, with its reason beside its name, and once more, counted, in the
//! last line of the output. Everything else is
//! [`libtest_mimic`]'s: filters, `--list`, colours, exit code.
//!
//! Other processes of this machine can disturb a measurement: a case that
//! fails only on a [`figure!`](crate::figure) is run once more, and a line after
//! all cases names it. Facts (what was left behind, exit codes, texts) get no
//! second run.
//!
//! A figure that is off while the hypervisor gives the time of a CPU to another
//! guest judges nothing: `/proc/stat` of the time of the run decides, not
//! sandbag's own report. Such a run is repeated, and a case of which all
//! [`RUNS`] were disturbed is skipped, with the shares.

use std::io::Write;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::stat;

/// A measured figure is not what it should be: see [`figure!`](crate::figure).
#[derive(Debug)]
pub struct Off(pub String);

impl std::fmt::Display for Off {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Off {}

/// `anyhow::ensure!` for what is measured and others on the machine can spoil:
/// the case is judged by another run if this fails in the first.
#[macro_export]
macro_rules! figure {
    ($right:expr, $($said:tt)+) => {
        if !$right {
            return Err($crate::case::Off(format!($($said)+)).into());
        }
    };
}

/// A run in which the hypervisor took a greater share of a CPU is disturbed:
/// the limit of sandbag's own verdicts (docs/explanation/concepts.md).
const DISTURBED: f64 = 0.03;
/// At most this many runs of one case.
const RUNS: u32 = 4;

/// One test.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Shown in the list and matched by filters.
    pub name: &'static str,
    /// `Err` with the reason, one line, if this machine cannot run the test.
    /// Called only when the test is about to run, so it may take its time.
    pub can_run: fn() -> Result<(), String>,
    /// The test.
    pub run: fn() -> anyhow::Result<()>,
}

/// What [`run`] runs. [`Case`] is enough where tests are functions; tests
/// that differ only in data have a type of their own.
pub trait Test: Clone + Send + 'static {
    /// See [`Case::name`].
    fn name(&self) -> String;
    /// See [`Case::can_run`].
    ///
    /// # Errors
    /// The reason if not.
    fn can_run(&self) -> Result<(), String>;
    /// The test.
    ///
    /// # Errors
    /// What is wrong.
    fn run(&self) -> anyhow::Result<()>;
}

impl Test for Case {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn can_run(&self) -> Result<(), String> {
        (self.can_run)()
    }

    fn run(&self) -> anyhow::Result<()> {
        (self.run)()
    }
}

/// Set by `make test-all`: the whole of the random series, and the cases that
/// `make test` leaves out.
pub const ALL: &str = "SANDBAG_TEST_ALL";

/// Whether all is to be run.
#[must_use]
pub fn is_all_wanted() -> bool {
    std::env::var_os(ALL).is_some()
}

/// Rounds of a random series of `all`: a quarter of them in `make test`.
#[must_use]
pub fn rounds(all: usize) -> usize {
    if is_all_wanted() {
        all
    } else {
        all.div_ceil(4)
    }
}

/// For [`Case::can_run`] of what takes long and shows no safety or correctness
/// that another case does not show.
///
/// # Errors
/// Where not all is wanted.
pub fn only_in_all() -> Result<(), String> {
    if is_all_wanted() {
        return Ok(());
    }
    Err("left to `make test-all`".to_owned())
}

/// Also after a panic of another case.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long each case took.
static TIMES: Mutex<Vec<(String, Duration)>> = Mutex::new(Vec::new());

/// How many of the slowest cases are named at the end of a long run.
const SLOWEST: usize = 60;

/// `the 20 slowest of 400 s: a 30.1, b 20.0, ...`.
fn slowest(mut times: Vec<(String, Duration)>) -> String {
    let all: Duration = times.iter().map(|(_, took)| *took).sum();
    times.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
    times.truncate(SLOWEST);
    let each: Vec<String> = times
        .iter()
        .map(|(name, took)| format!("{name} {:.1}", took.as_secs_f64()))
        .collect();
    format!(
        "the {} slowest of {:.0} s: {}",
        times.len(),
        all.as_secs_f64(),
        each.join(", ")
    )
}

/// Said once more after all cases.
static REMARKS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Shows something that must not be overlooked: after the result of all
/// cases, on a line of its own.
pub fn remark(text: String) {
    lock(&REMARKS).push(text);
}

/// Names and reasons of the cases that did not run.
static SKIPPED: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// Whether the command line selects a case of this name.
#[must_use]
pub fn is_selected(name: &str) -> bool {
    let arguments = Arguments::from_args();
    let is = |pattern: &String| {
        if arguments.exact {
            name == pattern
        } else {
            name.contains(pattern.as_str())
        }
    };
    arguments.filter.as_ref().is_none_or(is) && !arguments.skip.iter().any(is)
}

/// Runs the cases that the command line selects, one after another, because
/// they measure the machine that they all share. This is the whole `main` of
/// a test target with `harness = false`.
#[must_use]
pub fn run<T: Test>(cases: &[T]) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let trials = cases.iter().map(|case| trial(case.clone())).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    for remark in &*lock(&REMARKS) {
        println!("{remark}\n");
    }
    let skipped = lock(&SKIPPED);
    if !skipped.is_empty() {
        println!("{}\n", summary(&skipped));
    }
    let times = std::mem::take(&mut *lock(&TIMES));
    if times.len() > SLOWEST {
        println!("{}\n", slowest(times));
    }
    conclusion.exit_code()
}

/// Shows something about a case that is running, on a line of its own.
pub fn note(text: &str) {
    print!("\n    {text} ... ");
    // What cannot be shown must not fail a test.
    let _ = std::io::stdout().flush();
}

fn trial<T: Test>(case: T) -> Trial {
    Trial::ignorable_test(case.name(), move || match timed(&case) {
        Ok(None) => Ok(Completion::Completed),
        Ok(Some(reason)) => {
            lock(&SKIPPED).push((case.name(), reason.clone()));
            Ok(Completion::ignored_with(reason))
        }
        Err(error) => Err(Failed::from(format!("{error:#}"))),
    })
}

fn timed(case: &impl Test) -> anyhow::Result<Option<String>> {
    let begin = Instant::now();
    let outcome = outcome(case);
    lock(&TIMES).push((case.name(), begin.elapsed()));
    outcome
}

/// `Some` reason if the case was skipped.
fn outcome(case: &impl Test) -> anyhow::Result<Option<String>> {
    match case.can_run() {
        Ok(()) => judged(case, || {
            let before = stat::read();
            let ran = case.run();
            let of = before.and_then(|before| Ok(stolen(&before, &stat::read()?)));
            (ran, of.unwrap_or_default())
        }),
        Err(reason) => Ok(Some(reason)),
    }
}

/// Runs the case until it is judged: `ran` gives the outcome of a run, and the
/// share of a CPU that the hypervisor took meanwhile.
fn judged(
    case: &impl Test,
    mut ran: impl FnMut() -> (anyhow::Result<()>, f64),
) -> anyhow::Result<Option<String>> {
    let mut shares = Vec::new();
    let mut was_off = false;
    for run in 1..=RUNS {
        let error = match ran() {
            (Err(error), share) if error.is::<Off>() => {
                if share > DISTURBED {
                    shares.push(format!("{:.1}", 100.0 * share));
                } else if was_off {
                    return Err(error);
                } else {
                    was_off = true;
                }
                error
            }
            (outcome, _) => return outcome.map(|()| None),
        };
        if run == RUNS && was_off {
            return Err(error);
        }
        note(&format!("once more, because: {error:#}"));
        remark(format!(
            "{} was not judged by run {run}, which gave: {error:#}",
            case.name()
        ));
    }
    Ok(Some(format!(
        "the host took {} % of a CPU in its {RUNS} runs, each off",
        shares.join(", ")
    )))
}

/// The greatest share of one CPU's time that the hypervisor took.
fn stolen(before: &stat::CpuTimes, after: &stat::CpuTimes) -> f64 {
    let of_one = |(cpu, after): (&Option<u32>, &stat::CpuTime)| {
        let time = after.since(*before.get(cpu)?);
        let all_s = time.delivered_s() + time.steal_s;
        (cpu.is_some() && all_s > 0.0).then(|| time.steal_s / all_s)
    };
    after.iter().filter_map(of_one).fold(0.0, f64::max)
}

/// `skipped 3: a, b (no root); c (no emulator)`, reasons in order of
/// appearance.
fn summary(skipped: &[(impl AsRef<str>, String)]) -> String {
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, reason) in skipped {
        match by_reason.iter_mut().find(|(known, _)| known == reason) {
            Some((_, names)) => names.push(name.as_ref()),
            None => by_reason.push((reason, vec![name.as_ref()])),
        }
    }
    let each: Vec<String> = by_reason
        .iter()
        .map(|(reason, names)| format!("{} ({reason})", names.join(", ")))
        .collect();
    format!("skipped {}: {}", skipped.len(), each.join("; "))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn case(can_run: fn() -> Result<(), String>, run: fn() -> anyhow::Result<()>) -> Case {
        Case {
            name: "guest_boots",
            can_run,
            run,
        }
    }

    #[test]
    fn a_case_that_cannot_run_is_neither_passed_nor_failed() {
        let cannot = case(
            || Err("no emulator".to_owned()),
            || panic!("must not be run"),
        );
        assert_eq!(outcome(&cannot).unwrap().as_deref(), Some("no emulator"));
    }

    #[test]
    fn a_case_that_can_run_passes_or_fails() {
        assert_eq!(outcome(&case(|| Ok(()), || Ok(()))).unwrap(), None);
        let fails = case(|| Ok(()), || anyhow::bail!("37 points off"));
        assert_eq!(outcome(&fails).unwrap_err().to_string(), "37 points off");
    }

    #[test]
    fn only_a_figure_has_a_second_chance() {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let figure = case(
            || Ok(()),
            || {
                let run = RUNS.fetch_add(1, Ordering::Relaxed);
                figure!(run == 1, "run {run}");
                Ok(())
            },
        );
        // Off in run 0, right in run 1, off in runs 2 and 3.
        assert_eq!(outcome(&figure).unwrap(), None);
        assert_eq!(outcome(&figure).unwrap_err().to_string(), "run 3");
        let fact = case(
            || Ok(()),
            || {
                let run = RUNS.fetch_add(1, Ordering::Relaxed);
                anyhow::bail!("run {run}")
            },
        );
        assert_eq!(outcome(&fact).unwrap_err().to_string(), "run 4");
    }

    #[test]
    fn a_figure_of_a_disturbed_run_judges_nothing() {
        let any = case(|| Ok(()), || Ok(()));
        // Each run: whether it is off, and the share that the host took.
        let of_runs = |runs: &[(bool, f64)]| {
            let mut runs = runs.iter();
            judged(&any, || {
                let &(is_off, share) = runs.next().expect("no further run");
                let off = || Err(Off(format!("off at {share}")).into());
                (if is_off { off() } else { Ok(()) }, share)
            })
        };
        let judged = [
            &[(true, 0.06), (false, 0.0)][..],
            &[(true, 0.06), (true, 0.0), (true, 0.05), (false, 0.2)],
        ];
        for runs in judged {
            assert_eq!(of_runs(runs).unwrap(), None, "{runs:?}");
        }
        let wrong = [
            &[(true, 0.0), (true, 0.03)][..],
            &[(true, 0.06), (true, 0.0), (true, 0.0)],
            &[(true, 0.06), (true, 0.0), (true, 0.06), (true, 0.06)],
        ];
        for runs in wrong {
            assert!(of_runs(runs).is_err(), "{runs:?}");
        }
        assert_eq!(
            of_runs(&[(true, 0.0625); 4]).unwrap().as_deref(),
            Some("the host took 6.2, 6.2, 6.2, 6.2 % of a CPU in its 4 runs, each off")
        );
    }

    #[test]
    fn the_most_disturbed_cpu_counts() {
        let times = |stolen: [f64; 3]| -> stat::CpuTimes {
            let cpus = [None, Some(0), Some(1)].into_iter().zip(stolen);
            let time = |steal_s| stat::CpuTime {
                busy_s: 3.0,
                idle_s: 6.0 - steal_s,
                steal_s,
                irq_s: 0.0,
            };
            cpus.map(|(cpu, steal_s)| (cpu, time(steal_s))).collect()
        };
        let mut before = times([0.0; 3]);
        for time in before.values_mut() {
            *time = stat::CpuTime::default();
        }
        assert_eq!(stolen(&before, &times([3.0, 0.9, 0.0])), 0.1);
        // A CPU that was offline before.
        before.remove(&Some(0));
        assert_eq!(stolen(&before, &times([3.0, 0.9, 0.0])), 0.0);
    }

    #[test]
    fn the_slowest_come_first() {
        let times = [("a", 1), ("b", 30), ("c", 2)]
            .map(|(name, s)| (name.to_owned(), Duration::from_secs(s)));
        assert_eq!(
            slowest(times.to_vec()),
            "the 3 slowest of 33 s: b 30.0, c 2.0, a 1.0"
        );
    }

    #[test]
    fn the_summary_counts_all_and_says_each_reason_once() {
        let skipped = [
            ("a", "no root".to_owned()),
            ("b", "no emulator".to_owned()),
            ("c", "no root".to_owned()),
        ];
        assert_eq!(
            summary(&skipped),
            "skipped 3: a, c (no root); b (no emulator)"
        );
    }
}
