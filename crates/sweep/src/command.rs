// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag sweep`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use sandbag_linux::Root;
use sandbag_linux::user::User;
use sandbag_load::method::SLOWING;
use sandbag_run::directory::remove_result;
use sandbag_ui::failure::Result;
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{JsonArgs, Overwrite, put};
use sandbag_ui::units;
use sandbag_ui::{BadInput, bail, exit};

use crate::answer::unmeasured;
use crate::condition::{ConditionArgs, conditions};
use crate::metric::{Metric, of_command};
use crate::record::Sweep;
use crate::report;
use crate::session::{Experiment, Failures, Session, SweepDir};
use crate::threshold::Outcome;

const HELP: &str = "\
Exit codes:
  0 measured, and no threshold was exceeded; 1 a metric is missing in a run, or
  has no value because all runs of a program failed or were spoilt, or sandbag
  failed; 2 wrong usage or bad input; 3 a threshold was exceeded; 4 a threshold
  is unsure, with --fail-if-unsure; 5 a condition is not possible on this
  machine; 126, 127 a program cannot be executed or was not found; 130
  interrupted (--resume goes on).";

/// Measure how a program responds to loads, speeds, profiles, jitter
///
/// Every combination of the lists is a condition, the first one the baseline. Each is a run
/// of its own; the order is that of chance within blocks of all conditions, so that a drift
/// of the machine's speed cancels. A run whose condition was not kept is made again.
#[derive(Debug, Args)]
#[command(
    override_usage = "sandbag sweep [OPTIONS] -- <CMD>... [--vs <CMD>...]",
    after_long_help = HELP,
)]
pub struct SweepArgs {
    #[command(flatten)]
    conditions: ConditionArgs,

    /// Runs of each condition [default: 5; with --time as many as fit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,

    /// Begin no run that would not end within this time
    ///
    /// With --resume it begins anew.
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    time: Option<Duration>,

    /// Runs of each program under the baseline that come first and do not count
    #[arg(long, value_name = "N", default_value = "1")]
    warm_up: u32,

    /// How often a run is made again in its block because its condition was not kept
    #[arg(long, value_name = "N", default_value = "2")]
    repeats: u32,

    /// A number of each run: wall, user, system, cpu, available, efficiency, rss, switches,
    /// exit, failed, cpu0 (its CPU time on CPU 0); or 'NAME: /REGULAR EXPRESSION/' or 'NAME:
    /// json:.key.key' of the program's output (may be given more than once) [default: wall]
    ///
    /// The group in the expression is the number, of the last match in standard output, else
    /// in standard error. JSON is the whole output, or its last line that is an object; a key
    /// with dots is in double quotes: 'p99: json:.percentile."99.9"'. A unit may follow the
    /// name, and up says that more is better: 'rate [1/s]: /rate (.*)/ up'.
    #[arg(long, value_name = "SPEC")]
    metric: Vec<Metric>,

    /// A number that a shell command prints after each run: 'NAME: COMMAND' (may be given more
    /// than once); the run's directory is $SANDBAG_RUN_DIR
    ///
    /// A unit may follow the name. An up at the end is a word of the command: less is better.
    /// With sudo it runs as the calling user, unless --as-root is given.
    #[arg(long, value_name = "SPEC", value_parser = of_command)]
    metric_cmd: Vec<Metric>,

    /// End with exit code 3 if this is sure: 'p99@30 > 1.5 * p99@0' (may be given more than
    /// once)
    ///
    /// A value is METRIC@CONDITION, of the second program B.METRIC@CONDITION: the mean over
    /// the blocks. Sure: the 95 % interval of the difference of both sides does not contain 0,
    /// or is 0 to 0. Failures are counted: failed@30, the share of the blocks that failed,
    /// compared with a number has no interval. It is unsure only where blocks whose condition
    /// was not kept decide it.
    #[arg(long, value_name = "EXPR")]
    fail_if: Vec<String>,

    /// End with exit code 4 if a --fail-if is not sure either way
    #[arg(long)]
    fail_if_unsure: bool,

    /// Write the thresholds as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Write the tables as Markdown, for the comment of a merge request
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,

    /// Directory for sweep.json, report.html and the runs [default: sandbag-sweep-<time>]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Go on with the sweep of this directory, asked for by the same arguments
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "force"])]
    resume: Option<PathBuf>,

    /// Decides the order of the runs
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,

    /// End a run's program after this long
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    timeout: Option<Duration>,

    /// With sudo, run the programs and --metric-cmd as root and not as the calling user
    #[arg(long)]
    as_root: bool,

    /// How loads are produced and CPUs slowed: `sandbag load --help`, `sandbag slow --help`
    /// [default: pace; with --speed or --jitter hogs]
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(SLOWING))]
    method: Option<String>,

    /// Make the groups of the runs in this cgroup, which was delegated to us
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,

    #[command(flatten)]
    overwrite: Overwrite,

    #[command(flatten)]
    json: JsonArgs,

    /// The program, and with --vs a second one
    #[arg(last = true, value_name = "CMD", required = true)]
    command: Vec<OsString>,
}

/// # Errors
/// Bad input, a run without a result, or a metric that is missing.
pub fn main(args: &SweepArgs, messages: &Messages) -> Result<u8> {
    let experiment = args.experiment()?;
    for file in [&args.junit, &args.markdown] {
        let overwrite = args.overwrite();
        overwrite.check_within(file.as_deref(), experiment.dir.made())?;
    }
    let mut session = Session::new(experiment)?;
    if args.resume.is_none() {
        let files = [&args.junit, &args.markdown].into_iter().flatten();
        files.for_each(|file| remove_result(file));
    }
    session.make(messages, |session| args.leave(session, messages))?;
    let has = |outcome| {
        let mut all = session.sweep.thresholds.iter();
        all.any(|one| one.outcome == outcome)
    };
    Ok(match (has(Outcome::Failed), has(Outcome::Unsure)) {
        _ if session.interrupted => exit::INTERRUPTED,
        (true, _) => exit::MISSED,
        (_, true) if args.fail_if_unsure => exit::UNDECIDED,
        // That a program fails may be what was to be shown.
        _ if has(Outcome::Passed) => exit::KEPT,
        _ => match unmeasured(&session.sweep) {
            Some(why) => bail!("{why}; see the runs in {}", session.dir.display()),
            None => exit::KEPT,
        },
    })
}

impl SweepArgs {
    /// A sweep that goes on replaces what it wrote when it was interrupted.
    fn overwrite(&self) -> Overwrite {
        Overwrite {
            force: self.overwrite.force || self.resume.is_some(),
        }
    }

    fn experiment(&self) -> Result<Experiment> {
        let given = [
            (self.fail_if_unsure, "--fail-if-unsure"),
            (self.junit.is_some(), "--junit"),
        ];
        if let Some((_, name)) = given.iter().find(|(given, _)| *given)
            && self.fail_if.is_empty()
        {
            let text = format!("{name} is about thresholds: give --fail-if EXPR, or leave it out");
            return Err(BadInput(text).into());
        }
        let (method, cgroup) = (self.method.as_ref(), self.cgroup.as_ref());
        let more = [
            self.timeout
                .map(|time| format!("--timeout={}ms", time.as_millis())),
            self.as_root.then(|| "--as-root".to_owned()),
            method.map(|name| format!("--method={name}")),
            cgroup.map(|path| format!("--cgroup={}", path.display())),
        ];
        Ok(Experiment {
            commands: split(&self.command)?,
            conditions: conditions(&self.conditions, &Root::default())?,
            metrics: metrics(self)?,
            fail_if: self.fail_if.clone(),
            blocks: match (self.runs, self.time) {
                (Some(runs), _) => Some(runs as usize),
                (None, Some(_)) => None,
                (None, None) => Some(5),
            },
            time: self.time,
            warm_up: self.warm_up as usize,
            repeats: self.repeats as usize,
            spoilt: usize::MAX,
            seed: self.seed,
            failures: Failures::AreResults,
            more: more.into_iter().flatten().collect(),
            user: User::behind_sudo().filter(|_| !self.as_root),
            dir: match &self.resume {
                Some(dir) => SweepDir::Resumed(dir.clone()),
                None => SweepDir::New("sandbag-sweep", self.out.clone()),
            },
            overwrite: self.overwrite(),
            json: self.json.clone(),
        })
    }

    /// What the user asked for, besides the record.
    fn leave(&self, session: &Session, messages: &Messages) -> Result<()> {
        session.leave(messages)?;
        let (sweep, existing) = (&session.sweep, self.overwrite().existing());
        if let Some(file) = &self.junit {
            put(file, report::junit(sweep, self.fail_if_unsure), existing)?;
        }
        if let Some(file) = &self.markdown {
            put(file, report::markdown(sweep), existing)?;
        }
        Ok(())
    }
}

/// The tables of a sweep that was made, for `sandbag show`.
///
/// # Errors
/// As [`Sweep::read`].
pub fn show(dir: &Path) -> Result<String> {
    Ok(report::terminal(&Sweep::read(dir)?))
}

/// The metrics that were asked for, each name once.
fn metrics(args: &SweepArgs) -> Result<Vec<Metric>> {
    let mut all: Vec<Metric> = args
        .metric
        .iter()
        .chain(&args.metric_cmd)
        .cloned()
        .collect();
    if all.is_empty() {
        all.extend("wall".parse::<Metric>());
    }
    for (at, one) in all.iter().enumerate() {
        let name = &one.about.name;
        let twice = all.iter().take(at).any(|other| other.about.name == *name);
        if twice {
            return Err(BadInput(format!("metric {name} is there twice")).into());
        }
    }
    Ok(all)
}

/// One program, or two with the first `--vs` between them.
pub(crate) fn split(words: &[OsString]) -> Result<Vec<Vec<OsString>>> {
    let mut programs = words.splitn(2, |word| word == "--vs");
    let all: Vec<Vec<OsString>> = programs.by_ref().map(<[OsString]>::to_vec).collect();
    if all.iter().any(Vec::is_empty) {
        let text = "a program is missing beside --vs: -- ./a ARGS --vs ./b ARGS";
        return Err(BadInput(text.to_owned()).into());
    }
    Ok(all)
}
