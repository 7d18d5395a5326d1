// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag compare`: two programs under the same load, which is a sweep of one condition.
//! Its own are the options of the load, and the proof that it was the same.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;

use clap::Args;
use nix::sys::memfd::{MFdFlags, memfd_create};
use sandbag_load::command::run::options::RunOptions;
use sandbag_load::report::achieved::AchievedRow;
use sandbag_load::report::read_achieved;
use sandbag_load::report::same_load::{SameLoad, common_windows, judge, loads};
use sandbag_profile::command::reshape::Reshape;
use sandbag_run::directory::ACHIEVED_CSV;
use sandbag_stats::Verdict;
use sandbag_ui::failure::{Context as _, Result};
use sandbag_ui::messages::Messages;
use sandbag_ui::passed::Passed;
use sandbag_ui::{BadInput, exit, units};

use crate::command::split;
use crate::condition::{Condition, base_name};
use crate::metric::Metric;
use crate::record::OneRun;
use crate::session::{Experiment, Failures, Session, SweepDir};

const HELP: &str = "\
Exit codes:
  0 compared, and the loads were the same; 1 a program failed, or sandbag did;
  2 wrong usage or bad input; 3 the loads were not the same; 4 undecided
  (machine too noisy); 5 not possible on this machine; 126, 127 a program
  cannot be executed or was not found; 130 interrupted.";

/// Compare two programs under the same load
///
/// A sweep of one condition: the programs take turns, in an order of chance, because the
/// speed of a shared machine drifts. A run whose load was not kept is made again.
#[derive(Debug, Args)]
#[command(
    override_usage = "sandbag compare [OPTIONS] <PROFILE> -- <A>... --vs <B>...",
    after_long_help = HELP,
    mut_arg("out", |a| a.help(
        "Directory for sweep.json, report.html and the runs\n\
         [default: sandbag-compare-<time>]").long_help(None::<&str>)),
    mut_arg("command", |a| a.help("Both programs with their arguments: ./a ARGS --vs ./b ARGS")),
    mut_arg("timeout", |a| a.help(
        "End a run after this long; its program has failed").long_help(None::<&str>)),
    mut_arg("no_out", |a| a.hide(true)),
    mut_arg("at", |a| a.hide(true)),
    mut_arg("beside", |a| a.hide(true)),
    mut_arg("start_on", |a| a.hide(true)),
    mut_arg("strict", |a| a.hide(true)),
    mut_arg("progress", |a| a.hide(true)),
    mut_arg("dry_run", |a| a.hide(true)),
)]
pub struct CompareArgs {
    /// The load: a profile of any known format, or a constant (50, 50%)
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,

    /// Pairs of runs that are wanted
    #[arg(long, value_name = "N", default_value = "10",
          value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,

    /// Runs made again, at most, because the load was not kept
    /// [default: as many as --runs]
    #[arg(long, value_name = "N")]
    extra: Option<u32>,

    /// Go on, and count a run, if a program fails
    #[arg(long)]
    ignore_failure: bool,

    /// Repeat the profile until the program ends
    #[arg(long = "loop")]
    repeat: bool,

    #[command(flatten)]
    reshape: Passed<Reshape>,

    #[command(flatten)]
    options: Passed<RunOptions>,
}

/// # Errors
/// Bad input, a load that this machine cannot hold, a program that fails.
pub fn main(args: &CompareArgs, messages: &Messages) -> Result<u8> {
    let options = &args.options.options;
    refuse(options)?;
    let commands = split(&options.hold.command)?;
    if commands.len() < 2 {
        let text = "--vs is missing: sandbag compare PROFILE -- ./a ARGS --vs ./b ARGS";
        return Err(BadInput(text.to_owned()).into());
    }
    let mut session = Session::new(args.experiment(commands)?)?;
    session.make(messages, |session| {
        session.sweep.same_load = Some(proof(session, options, args.runs as usize));
        session.sweep.write(&session.dir)?;
        session.leave(messages)
    })?;
    let same = session.sweep.same_load.as_ref();
    let verdict = same.map_or(Verdict::Undecided, |same| same.verdict);
    Ok(if session.interrupted {
        exit::INTERRUPTED
    } else {
        exit::of_verdict(verdict)
    })
}

impl CompareArgs {
    fn experiment(&self, commands: Vec<Vec<OsString>>) -> Result<Experiment> {
        let hold = &self.options.options.hold;
        // Of compare itself, not of its runs.
        let passed = self.options.without(&["out", "force", "json"]);
        Ok(Experiment {
            commands,
            conditions: vec![self.condition()?],
            metrics: metrics(),
            fail_if: Vec::new(),
            blocks: Some(self.runs as usize),
            time: None,
            warm_up: 0,
            repeats: usize::MAX,
            spoilt: self.extra.unwrap_or(self.runs) as usize,
            seed: 0,
            failures: if self.ignore_failure {
                Failures::Count
            } else {
                Failures::End
            },
            more: self.reshape.words.iter().cloned().chain(passed).collect(),
            user: hold.user(),
            dir: SweepDir::New("sandbag-compare", hold.out.clone()),
            overwrite: hold.overwrite,
            json: hold.json.clone(),
        })
    }

    /// A constant, if it is one and no file has its name; else a profile.
    fn condition(&self) -> Result<Condition> {
        let text = self.profile.to_string_lossy().into_owned();
        if units::loads(&text).is_ok() && !self.profile.exists() {
            return Ok(Condition {
                words: vec!["load".to_owned(), text.clone()],
                name: text,
            });
        }
        let path = match &*text {
            "-" => standard_input()?,
            _ => text,
        };
        let mut words = vec!["replay".to_owned(), path];
        words.extend(self.repeat.then(|| "--loop".to_owned()));
        Ok(Condition {
            name: base_name(&self.profile),
            words,
        })
    }
}

/// A name under which every run can read what came in.
fn standard_input() -> Result<String> {
    let file = memfd_create(c"profile", MFdFlags::MFD_CLOEXEC).context("memfd")?;
    let name = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    let mut file = std::fs::File::from(file);
    io::copy(&mut io::stdin().lock(), &mut file).context("standard input")?;
    // It lives as long as this process.
    std::mem::forget(file);
    Ok(name)
}

/// What programs are compared by. A load of 100 % leaves no CPU time, and no efficiency.
fn metrics() -> Vec<Metric> {
    let all = ["wall", "cpu", "available", "efficiency"];
    let mut own: Vec<Metric> = all.iter().filter_map(|name| name.parse().ok()).collect();
    for metric in &mut own {
        metric.optional = true;
    }
    own
}

/// Options of a single run that mean nothing for many.
fn refuse(options: &RunOptions) -> Result<(), BadInput> {
    let given = [
        (options.hold.no_out, "--no-out"),
        (options.at.is_some(), "--at"),
        (options.start_on.is_some(), "--start-on"),
        (options.hold.strict, "--strict"),
        (options.progress, "--progress"),
        (options.hold.dry_run, "--dry-run"),
    ];
    match given.iter().find(|(given, _)| *given) {
        Some((_, name)) => Err(BadInput(format!("{name} is not for compare"))),
        None => Ok(()),
    }
}

/// Whether the load was the same: over the blocks in which it was kept for both programs, and
/// whose windows can be read.
fn proof(session: &Session, options: &RunOptions, wanted: usize) -> SameLoad {
    let runs = &session.sweep.runs;
    let rows = |program: usize| -> BTreeMap<usize, Vec<AchievedRow>> {
        let own = runs
            .iter()
            .filter(|run| run.program == program && run.counts());
        let read = |run: &OneRun| {
            let path = session.dir.join(&run.dir).join(ACHIEVED_CSV);
            let rows = read_achieved(&path).and_then(Iterator::collect);
            Some((run.block, rows.ok()?))
        };
        own.filter_map(read).collect()
    };
    let (mut a, mut b) = (rows(0), rows(1));
    a.retain(|block, _| b.contains_key(block));
    b.retain(|block, _| a.contains_key(block));
    // What was made again and counts then is no reason.
    let is_made_again = |run: &OneRun| {
        let mut others = runs.iter();
        others.any(|one| one.block == run.block && one.program == run.program && one.counts())
    };
    let others = runs
        .iter()
        .filter(|run| !a.contains_key(&run.block) && !is_made_again(run));
    let verdicts: Vec<Verdict> = others.map(|run| run.verdict).collect();
    let [a, b] = [a, b].map(|rows| rows.into_values().collect::<Vec<_>>());
    let windows = common_windows(a.iter().chain(&b));
    judge(
        a.len(),
        wanted,
        &verdicts,
        loads(&a, &b, windows),
        windows,
        options.hold.tolerance.mean_points,
    )
}
