// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag audit run`.

use std::path::PathBuf;
use std::time::Duration;

use crate::{AuditOptions, TestRequest};
use clap::Args;
use sandbag_linux::Root;
use sandbag_linux::interrupt;
use sandbag_linux::topology::Topology;
use sandbag_linux::user::User;
use sandbag_ui::failure::Result;

use super::exit_codes;
use super::output::FormArgs;
use super::progress::ProgressView;
use super::values::{self, FailOn, MemorySize};
use sandbag_ui::messages::Messages;
use sandbag_ui::units::{self, Cpus};
use sandbag_ui::{BadInput, exit};

/// Run the tests on each CPU, and say which differ
///
/// Every test runs alone, pinned to one CPU after the other in random order, at
/// three lengths, round after round, until each CPU's difference from the others
/// is known well enough. The report says which CPU charges a program more in elapsed,
/// user or system time, by how much and with which confidence, and the likely causes:
/// interrupts, kernel threads, settings. Without root it sees fewer causes.
///
/// Ctrl-C ends it early; what was measured by then is evaluated.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    form: FormArgs,

    /// Under a minute on two CPUs: only large differences are seen
    #[arg(long)]
    quick: bool,

    /// Which tests: memory, syscall, io, both, compute, noise [default: all; with
    /// --command none]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = values::test)]
    tests: Vec<TestRequest>,

    /// A test of your own: a command for /bin/sh, as a whole one run (may be given
    /// more than once)
    #[arg(long, value_name = "NAME=COMMAND", value_parser = values::command)]
    command: Vec<TestRequest>,

    /// Which CPUs: 0,2-3, or all, even, odd, core (one per core) [default: all that
    /// can be used]
    #[arg(short, long, value_name = "LIST", value_parser = units::cpus)]
    cpus: Option<Cpus>,

    /// Of the order of CPUs: the same seed, the same order
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// How sure a verdict is to be, for all comparisons of the audit together
    /// [default: 99%]
    #[arg(long, value_name = "PERCENT", value_parser = values::confidence)]
    confidence: Option<f64>,

    /// Differences up to this do not count [default: 0.5%; quick 2%]
    #[arg(long, value_name = "PERCENT", value_parser = values::percent)]
    tolerance: Option<f64>,

    /// A test goes on until differences are known to this, or its limit [default:
    /// 0.3%; quick 1%]
    #[arg(long, value_name = "PERCENT", value_parser = values::percent)]
    precision: Option<f64>,

    /// Rounds of each test, or the fewest and the most: 20, 12..200
    #[arg(long, value_name = "FROM..TO", value_parser = values::rounds)]
    rounds: Option<(u32, u32)>,

    /// What a test may take once the fewest rounds are done [default: 45s; quick 6s]
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    limit: Option<Duration>,

    /// The array of the memory test: 512M, 2G, or a share of what is free, 25%
    /// [default: 256M, a quarter of what is free at most]
    #[arg(long, value_name = "SIZE", value_parser = values::memory)]
    memory: Option<MemorySize>,

    /// System calls on each CPU in the fewest rounds [default: 8000000; quick
    /// 1000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    calls: Option<u64>,

    /// A directory of a file system on which a word is written and read (may be
    /// given more than once) [default: /tmp; /dev/null is always tried, too]
    #[arg(long = "file", value_name = "PATH")]
    files: Vec<PathBuf>,

    /// With sudo, run commands of --command as root and not as the calling user
    #[arg(long)]
    as_root: bool,

    /// What makes the audit unequal, and exit with 3
    #[arg(long, value_enum, value_name = "WHAT", default_value = "any")]
    fail_on: FailOn,
}

pub(super) fn main(args: &RunArgs, messages: &Messages) -> Result<u8> {
    let root = Root::default();
    let options = options(args, &root)?;
    options.check()?;
    let places = args.form.open(messages)?;
    interrupt::watch()?;
    let audit = {
        let mut shown = ProgressView::new(messages);
        crate::run(
            &root,
            &options,
            &mut |progress| shown.update(&progress),
            &interrupt::came,
        )?
    };
    let nothing = audit.tests.iter().all(|test| test.samples.is_empty());
    if interrupt::came() && nothing {
        return Ok(exit::INTERRUPTED);
    }
    places.write_audit(&audit, messages)?;
    Ok(exit_codes::of_audit(&audit))
}

fn options(args: &RunArgs, root: &Root) -> Result<AuditOptions> {
    let base = if args.quick {
        AuditOptions::quick()
    } else {
        AuditOptions::default()
    };
    let cpus = match &args.cpus {
        Some(cpus) => cpus.online(&Topology::read(root)?)?,
        None => base.cpus,
    };
    let memory = args.memory.map(|memory| -> Result<u64> {
        Ok(match memory {
            MemorySize::Bytes(bytes) => bytes,
            share => share.bytes(crate::memory_room(root)?),
        })
    });
    Ok(AuditOptions {
        cpus,
        tests: tests(&args.tests, &args.command, base.tests)?,
        seed: args.seed.unwrap_or(base.seed),
        confidence: args.confidence.unwrap_or(base.confidence),
        tolerance_pct: args.tolerance.unwrap_or(base.tolerance_pct),
        precision_pct: args.precision.unwrap_or(base.precision_pct),
        rounds: args.rounds.unwrap_or(base.rounds),
        limit: args.limit.unwrap_or(base.limit),
        memory_bytes: memory.transpose()?.or(base.memory_bytes),
        calls: args.calls.unwrap_or(base.calls),
        files: if args.files.is_empty() {
            base.files
        } else {
            args.files.clone()
        },
        user: if args.as_root {
            None
        } else {
            User::behind_sudo()
        },
        contention_fails: args.fail_on.contention(),
        ..base
    })
}

/// Ours that were named, then the user's own; each once.
fn tests(
    named: &[TestRequest],
    own: &[TestRequest],
    usual: Vec<TestRequest>,
) -> Result<Vec<TestRequest>, BadInput> {
    let mut all: Vec<TestRequest> = match (named.is_empty(), own.is_empty()) {
        (true, true) => usual,
        _ => Vec::new(),
    };
    for test in named.iter().chain(own) {
        match all.iter().find(|other| other.name() == test.name()) {
            None => all.push(test.clone()),
            Some(same) if same == test => {}
            Some(_) => {
                return Err(BadInput(format!(
                    "--command: two tests are called {}; give each a name of its own",
                    test.name()
                )));
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests_of_run {
    use super::*;

    #[test]
    fn own_tests_stand_beside_named_ones_or_alone() {
        let own = |text: &str| values::command(text).unwrap();
        let usual = TestRequest::all;
        assert_eq!(tests(&[], &[], usual()).unwrap(), usual());
        assert_eq!(tests(&[], &[own("a=b")], usual()).unwrap(), [own("a=b")]);
        let both = tests(
            &[TestRequest::Noise, TestRequest::Noise],
            &[own("a=b")],
            usual(),
        )
        .unwrap();
        assert_eq!(both, [TestRequest::Noise, own("a=b")]);
        let error = tests(&[], &[own("a=b"), own("a=c")], usual()).unwrap_err();
        assert!(error.0.contains("called a"));
    }
}
