// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An audit from begin to end.

mod lost;
mod machine;
mod rounds;
mod session;
mod turn;

use std::time::Duration;

use sandbag_linux::container::cpu_limit;
use sandbag_linux::{Root, clock, machine as system};

use crate::accounting::Accounting;
use crate::effects::{self, TestLevel};
use crate::error::{Error, Result};
use crate::facts::CpuAccess;
use crate::model::{Audit, Design, Test, VERSION};
use crate::options::{AuditOptions, AuditProgress, TestRequest};
use crate::verdict::{self, Rule};
use crate::work::Spec;
use crate::{facts, plan, suspects};
use session::AuditSession;
use turn::{TestKind, TestPlan, Turn};

/// Runs all tests and says what they found. What goes wrong with a test, or with
/// a CPU on the way, stands in the audit; asked to stop, it evaluates what is there.
pub fn run(
    root: &Root,
    options: &AuditOptions,
    progress: &mut dyn FnMut(AuditProgress),
    stop: &dyn Fn() -> bool,
) -> Result<Audit> {
    let begun = jiff::Timestamp::now().to_string();
    machine::restore();
    let begin_ns = clock::monotonic();
    // Before CPUs may go offline.
    let described = system::describe(root);
    let facts = facts::find(root, &options.cpus, &CpuAccess::here()?)?;
    if facts.cpus.is_empty() {
        let why = facts
            .left_out
            .iter()
            .map(|out| format!("CPU {}: {}", out.cpu, out.why));
        return Err(Error::NoCpus {
            asked: if options.cpus.is_empty() {
                "this machine".to_owned()
            } else {
                options.cpus.to_string()
            },
            why: why.collect::<Vec<_>>().join("; "),
        });
    }
    let planned = plan_tests(root, options)?;
    let kinds: Vec<bool> = planned
        .iter()
        .map(|test| test.kind == TestKind::Noise)
        .collect();
    let comparisons = effects::comparisons(&kinds, facts.cpus.len());
    let level = TestLevel {
        confidence: options.confidence,
        comparisons,
    };
    let mut session = AuditSession::new(root, options, &facts, level, begin_ns, progress, stop)?;
    let needed = plan::rounds_needed(facts.cpus.len(), level, plan::LENGTHS);
    if options.rounds.0 < needed {
        session.remark(format!(
            "{} rounds can decide nothing at {} % confidence over {comparisons} comparisons: that \
             takes {needed} at least (--rounds {needed}..{})",
            options.rounds.0,
            options.confidence * 100.0,
            options.rounds.1.max(needed)
        ));
    }
    let of = |is: fn(&TestKind) -> bool| planned.iter().filter(|test| is(&test.kind)).count();
    // Of commands no time is known, and of calls their number is asked for.
    let by_turns = of(|kind| matches!(kind, TestKind::Work(spec) if *spec != Spec::Syscall));
    let at_once = of(|kind| *kind == TestKind::Noise);
    let least = options.least_time(by_turns, at_once, facts.cpus.len());
    if least > LONG {
        session.remark(format!(
            "{} tests of {} CPUs take {} minutes at least: --quick, --tests and --cpus shorten that",
            planned.len(),
            facts.cpus.len(),
            least.as_secs() / 60
        ));
    }
    if let Ok(Some(limit)) = cpu_limit(root) {
        session.remark(format!(
            "our group may use {:.2} CPUs ({}): when that is used up all CPUs look as if others \
             were at work",
            limit.cpus(),
            limit.group.display()
        ));
    }
    let accounting = session.accounting()?;
    let mut tests = take_turns(&mut session, &planned);
    let seen = session.observations(&facts);
    let numbers = facts.cpus.iter().map(|cpu| cpu.cpu);
    let rule = Rule {
        level,
        tolerance_pct: options.tolerance_pct,
        accounting: &accounting,
        contention_fails: options.contention_fails,
        beside_pct: &numbers
            .map(|cpu| (cpu, seen.others.more_beside_pct(cpu)))
            .collect(),
    };
    effects::correct(&mut tests, comparisons);
    for test in &mut tests {
        verdict::judge(test, &facts.cpus, &rule);
    }
    for lost in std::mem::take(&mut session.before_loss) {
        lost.judge(&mut tests, &facts.cpus, &rule);
    }
    let suspects = suspects::find(&tests, &seen);
    if let Some(text) = suspects::competition_text(&seen) {
        session.remark(text);
    }
    session.remark_precision(&tests);
    for text in few_rounds(&tests, options.rounds, facts.cpus.len(), level) {
        session.remark(text);
    }
    let AuditSession {
        left_out, remarks, ..
    } = session;
    let asked_for_all = !options.cpus.is_empty() && !facts.left_out.is_empty();
    let incomplete = asked_for_all || !left_out.is_empty();
    let verdict = verdict::of_whole(&tests, incomplete);
    let host = system::host(root).unwrap_or_else(|| "unknown".to_owned());
    Ok(Audit {
        version: VERSION,
        sandbag: env!("CARGO_PKG_VERSION").to_owned(),
        begun,
        took_ns: clock::monotonic().saturating_sub(begin_ns),
        machine: std::iter::once(("host", host))
            .chain(described)
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        cpus: facts.cpus,
        left_out: facts.left_out.into_iter().chain(left_out).collect(),
        design: design(options, &accounting),
        verdict,
        incomplete,
        tests,
        suspects,
        remarks,
    })
}

/// Runs the rounds of all tests by turns until each has enough.
fn take_turns(session: &mut AuditSession<'_>, planned: &[TestPlan]) -> Vec<Test> {
    let tests = planned.iter().enumerate();
    let mut turns: Vec<Turn<'_>> = tests
        .map(|(number, planned)| Turn::new(number, planned, session.options))
        .collect();
    for turn in &mut turns {
        if session.is_stopped() {
            break;
        }
        (session.progress)(AuditProgress::Preparing {
            name: turn.test.name.clone(),
        });
        session.take_up(turn);
        session.tell_if_over(turn);
    }
    let mut round = 0;
    while !session.is_stopped() && turns.iter().any(|turn| !turn.is_over) {
        let open: Vec<usize> = (0..turns.len()).filter(|at| !turns[*at].is_over).collect();
        for at in plan::order(session.options.seed, round, &open) {
            if session.is_stopped() {
                break;
            }
            session.take_turn(&mut turns[at]);
            let shares: f64 = turns.iter().map(Turn::share).sum();
            let turn = &turns[at];
            (session.progress)(AuditProgress::Round {
                name: turn.test.name.clone(),
                round: turn.done,
                half_width_pct: turn.half_width_pct,
                done: shares / turns.len() as f64,
            });
            session.tell_if_over(turn);
        }
        round += 1;
    }
    if session.is_stopped() {
        let enough = |turn: &&Turn<'_>| turn.is_over && turn.test.failure.is_none();
        let over = turns.iter().filter(enough).count();
        session.remark(format!(
            "it was asked to stop in round {round}, when {over} of {} tests had enough: what was \
             there is evaluated",
            turns.len()
        ));
    }
    turns.into_iter().map(|turn| session.finish(turn)).collect()
}

/// Tests of one length that had too few rounds to decide anything, in words. If `asked` is too few
/// for all tests, that was said before.
fn few_rounds(tests: &[Test], asked: (u32, u32), cpus: usize, level: TestLevel) -> Vec<String> {
    if asked.0 < plan::rounds_needed(cpus, level, plan::LENGTHS) {
        return Vec::new();
    }
    let whole = tests.iter().filter(|test| test.failure.is_none());
    let few = whole.filter_map(|test| {
        let rounds = test.samples.iter().map(|sample| sample.round + 1).max()?;
        let needed = plan::rounds_needed(cpus, level, test.lengths.len());
        (rounds < needed).then(|| {
            format!(
                "the {rounds} rounds of {} can decide nothing, as it has one length: that takes \
                 {needed} at least (--rounds {needed}..{})",
                test.name,
                asked.1.max(needed)
            )
        })
    });
    few.collect()
}

fn design(options: &AuditOptions, accounting: &Accounting) -> Design {
    Design {
        seed: options.seed,
        confidence: options.confidence,
        tolerance_pct: options.tolerance_pct,
        precision_pct: options.precision_pct,
        rounds: options.rounds,
        limit_ns: u64::try_from(options.limit.as_nanos()).unwrap_or(u64::MAX),
        accounting: accounting.words.clone(),
        contention_fails: options.contention_fails,
    }
}

/// What is asked for as tests with names and sizes.
fn plan_tests(root: &Root, options: &AuditOptions) -> Result<Vec<TestPlan>> {
    use crate::memory_room;
    let bytes = match options.memory_bytes {
        Some(bytes) => bytes,
        None => memory_room::default_bytes(root)?,
    };
    let mut all: Vec<TestPlan> = Vec::new();
    let mut push = |name: String, kind: TestKind| all.push(TestPlan { name, kind });
    for wanted in &options.tests {
        let name = wanted.name().to_owned();
        match wanted {
            TestRequest::Memory => push(name, TestKind::Work(Spec::Memory { bytes })),
            TestRequest::Syscall => push(name, TestKind::Work(Spec::Syscall)),
            TestRequest::Compute => push(name, TestKind::Work(Spec::Compute)),
            TestRequest::Noise => push(name, TestKind::Noise),
            TestRequest::Command { command, .. } => push(name, TestKind::Command(command.clone())),
            TestRequest::Both => {
                let path = options.files.first().cloned();
                let path = path.unwrap_or_else(|| NULL.into());
                push(name, TestKind::Work(Spec::Both { bytes, path }));
            }
            TestRequest::Io => {
                let null = std::iter::once(NULL.into());
                let mut done = Vec::new();
                for path in null.chain(options.files.iter().cloned()) {
                    if !done.contains(&path) {
                        let name = format!("io:{}", path.display());
                        push(name, TestKind::Work(Spec::Io { path: path.clone() }));
                        done.push(path);
                    }
                }
            }
        }
    }
    Ok(all)
}

const NULL: &str = "/dev/null";
/// An audit that takes longer says so before.
const LONG: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::AuditSample;

    #[test]
    fn a_command_that_had_too_few_rounds_is_named() {
        let level = TestLevel {
            confidence: 0.99,
            comparisons: 5,
        };
        let with = |rounds: u32, lengths: usize| {
            let sample = |round| AuditSample {
                round,
                ..AuditSample::default()
            };
            Test {
                lengths: vec![1; lengths],
                samples: (0..rounds).map(sample).collect(),
                ..Test::empty("fft")
            }
        };
        let of = |test: Test, asked| few_rounds(&[test], asked, 2, level);
        let of_four = |test: Test| few_rounds(&[test], (6, 60), 4, level);
        let said = |test| of(test, (6, 60));
        let found = said(with(6, 1));
        assert!(
            found.len() == 1
                && found[0].contains("6 rounds of fft")
                && found[0].contains("--rounds 10..60"),
            "{found:?}"
        );
        assert!(said(with(10, 1)).is_empty() && said(with(6, 3)).is_empty());
        // Of more CPUs a block says more.
        assert!(of_four(with(6, 1)).is_empty() && of_four(with(4, 1)).len() == 1);
        // It was asked to stop, or that many were too few for any test.
        let mut stopped = with(6, 1);
        stopped.failure = Some(crate::model::STOPPED.to_owned());
        assert!(said(stopped).is_empty() && of(with(3, 1), (3, 3)).is_empty());
    }
}
