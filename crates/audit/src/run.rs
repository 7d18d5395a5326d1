// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An audit from begin to end.

mod machine;
mod rounds;
mod session;

use sandbag_kernel::{Root, clock};

use crate::accounting::Accounting;
use crate::effects::{self, Level};
use crate::error::{Error, Result};
use crate::model::{Audit, Design, Test, VERSION};
use crate::options::{Options, Progress, Wanted};
use crate::verdict::{self, Rule};
use crate::{facts, suspects};
use session::{Kind, Planned, Session};

/// Runs all tests and says what they found. What goes wrong with a test, or with
/// a CPU on the way, is told in the audit; asked to stop, it evaluates what is
/// there.
///
/// # Errors
/// An option makes no sense, no CPU can be tested, or no process can be had.
pub fn run(
    root: &Root,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
    stop: &dyn Fn() -> bool,
) -> Result<Audit> {
    options.check()?;
    let begun = jiff::Timestamp::now().to_string();
    let begin_ns = clock::monotonic();
    let facts = facts::find(root, &options.cpus, &facts::allowed)?;
    if facts.cpus.is_empty() {
        let why = facts
            .left_out
            .iter()
            .map(|out| format!("CPU {}: {}", out.cpu, out.why));
        return Err(Error::NoCpus {
            asked: match options.cpus.is_empty() {
                true => "this machine".to_owned(),
                false => options.cpus.to_string(),
            },
            why: why.collect::<Vec<_>>().join("; "),
        });
    }
    let planned = planned(root, options)?;
    let kinds: Vec<bool> = planned
        .iter()
        .map(|test| test.kind == Kind::Noise)
        .collect();
    let comparisons = effects::comparisons(&kinds, facts.cpus.len());
    let level = Level {
        confidence: options.confidence,
        comparisons,
    };
    let mut session = Session::new(root, options, &facts, level, begin_ns, progress, stop)?;
    let accounting = session.accounting()?;
    let mut tests = Vec::new();
    for (at, test) in planned.iter().enumerate() {
        (session.progress)(Progress::Test {
            name: test.name.clone(),
            number: at + 1,
            of: planned.len(),
        });
        tests.push(session.test(test));
        if session.stopped() {
            session.remark(format!(
                "it was asked to stop in test {}, {} of {}: what was there is evaluated",
                test.name,
                at + 1,
                planned.len()
            ));
            break;
        }
    }
    let rule = Rule {
        level,
        tolerance_pct: options.tolerance_pct,
        accounting: &accounting,
    };
    judge(&mut tests, &facts.cpus, &rule);
    let seen = session.seen(&facts);
    let suspects = suspects::find(&tests, &seen);
    let ended = session.end(&tests);
    Ok(Audit {
        version: VERSION,
        sandbag: env!("CARGO_PKG_VERSION").to_owned(),
        begun,
        took_ns: clock::monotonic().saturating_sub(begin_ns),
        machine: sandbag_lab::machine::describe(root)
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        cpus: facts.cpus,
        left_out: facts.left_out.into_iter().chain(ended.left_out).collect(),
        design: design(options, &accounting),
        verdict: verdict::of_audit(&tests),
        tests,
        suspects,
        remarks: ended.remarks,
    })
}

/// Corrects and judges all tests.
fn judge(tests: &mut [Test], cpus: &[crate::model::Cpu], rule: &Rule<'_>) {
    effects::correct(tests, rule.level.comparisons);
    for test in tests {
        verdict::judge(test, cpus, rule);
    }
}

fn design(options: &Options, accounting: &Accounting) -> Design {
    Design {
        seed: options.seed,
        confidence: options.confidence,
        tolerance_pct: options.tolerance_pct,
        precision_pct: options.precision_pct,
        rounds: options.rounds,
        limit_ns: u64::try_from(options.limit.as_nanos()).unwrap_or(u64::MAX),
        accounting: accounting.words.clone(),
    }
}

/// What is asked for as tests with names and sizes.
fn planned(root: &Root, options: &Options) -> Result<Vec<Planned>> {
    use crate::memory_room;
    use crate::work::Spec;
    let bytes = match options.memory_bytes {
        Some(bytes) => bytes,
        None => memory_room::default_bytes(root)?,
    };
    let mut all: Vec<Planned> = Vec::new();
    let mut push = |name: String, kind: Kind| all.push(Planned { name, kind });
    for wanted in &options.tests {
        let name = wanted.name().to_owned();
        match wanted {
            Wanted::Memory => push(name, Kind::Work(Spec::Memory { bytes })),
            Wanted::Syscall => push(name, Kind::Work(Spec::Syscall)),
            Wanted::Compute => push(name, Kind::Work(Spec::Compute)),
            Wanted::Noise => push(name, Kind::Noise),
            Wanted::Command { command, .. } => push(name, Kind::Command(command.clone())),
            Wanted::Both => {
                let path = options.files.first().cloned();
                let path = path.unwrap_or_else(|| NULL.into());
                push(name, Kind::Work(Spec::Both { bytes, path }));
            }
            Wanted::Io => {
                let null = std::iter::once(NULL.into());
                for path in null.chain(options.files.iter().cloned()) {
                    push(
                        format!("io:{}", path.display()),
                        Kind::Work(Spec::Io { path }),
                    );
                }
            }
        }
    }
    Ok(all)
}

const NULL: &str = "/dev/null";
