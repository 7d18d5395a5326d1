// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag sweep`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use sandbag_linux::{Root, interrupt};
use sandbag_run::program;
use sandbag_stats::Verdict;
use sandbag_ui::failure::{Context as _, Result};
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{
    JsonArgs, Overwrite, SWEEP_JSON, give_to_caller, new_name, put, put_json,
};
use sandbag_ui::units;
use sandbag_ui::{BadInput, bail, exit};

use crate::answer::answers;
use crate::condition::{ConditionArgs, conditions};
use crate::design::{Design, Turn};
use crate::metric::{FAILED, Metric, of_command};
use crate::record::{FORMAT, OneRun, Program, Sweep};
use crate::report;
use crate::run::{self, STDOUT};
use crate::threshold::{Outcome, Threshold};

const HELP: &str = "\
Exit codes:
  0 measured, and no threshold was exceeded; 1 a metric is missing, or sandbag
  failed; 2 wrong usage, bad input, or a condition that this machine cannot
  have; 3 a threshold was exceeded; 4 a threshold is unsure, with
  --fail-if-unsure; 126, 127 a program cannot be executed or was not found; 130
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
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    time: Option<Duration>,

    /// Runs of each program under the baseline that come first and do not count
    #[arg(long, value_name = "N", default_value = "1")]
    warm_up: u32,

    /// How often a run is made again in its block because its condition was not kept
    #[arg(long, value_name = "N", default_value = "2")]
    repeats: u32,

    /// A number of each run: wall, user, system, cpu, efficiency, rss, switches, failed; or
    /// 'NAME: /REGULAR EXPRESSION/' or 'NAME: json:.key.key' of the program's output (may be
    /// given more than once) [default: wall]
    ///
    /// The group in the expression is the number, of the last match in standard output, else
    /// in standard error. JSON is the whole output, or its last line that is an object. A unit
    /// may follow the name, and up says that more is better: 'rate [1/s]: /rate (.*)/ up'.
    #[arg(long, value_name = "SPEC")]
    metric: Vec<Metric>,

    /// A number that a shell command prints after each run: 'NAME: COMMAND' (may be given more
    /// than once); the run's directory is $SANDBAG_RUN_DIR
    #[arg(long, value_name = "SPEC", value_parser = of_command)]
    metric_cmd: Vec<Metric>,

    /// End with exit code 3 if this is sure: 'p99@30 > 1.5 * p99@0' (may be given more than
    /// once)
    ///
    /// A value is METRIC@CONDITION, of the second program B.METRIC@CONDITION: the mean over
    /// the blocks. Sure: the 95 % interval of the difference of both sides does not contain 0.
    #[arg(long, value_name = "EXPR")]
    fail_if: Vec<String>,

    /// End with exit code 4 if a --fail-if is not sure either way
    #[arg(long, requires = "fail_if")]
    fail_if_unsure: bool,

    /// Write the thresholds as JUnit XML
    #[arg(long, value_name = "FILE", requires = "fail_if")]
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

    /// With sudo, run the programs as root and not as the calling user
    #[arg(long)]
    as_root: bool,

    #[command(flatten)]
    overwrite: Overwrite,

    #[command(flatten)]
    json: JsonArgs,

    /// The program, and with --vs a second one
    #[arg(last = true, value_name = "CMD", required = true)]
    command: Vec<OsString>,
}

/// A shorter run has no window of its condition, s.
const LEAST_S: f64 = 0.1;

/// # Errors
/// Bad input, a run without a result, or a metric that is missing.
pub fn main(args: &SweepArgs, messages: &Messages) -> Result<u8> {
    let mut session = Session::new(args)?;
    interrupt::watch()?;
    let made = session.all(messages);
    // What was measured is kept, whatever comes next.
    session.judge()?;
    let interrupted = match made {
        Err(_) if interrupt::came() => true,
        Err(error) if session.sweep.runs.is_empty() => return Err(error),
        Err(error) => {
            session.leave(messages)?;
            return Err(error);
        }
        Ok(()) => false,
    };
    session.leave(messages)?;
    if interrupted {
        return Ok(exit::INTERRUPTED);
    }
    let has = |outcome| {
        session
            .sweep
            .thresholds
            .iter()
            .any(|one| one.outcome == outcome)
    };
    Ok(match (has(Outcome::Failed), has(Outcome::Unsure)) {
        (true, _) => exit::MISSED,
        (_, true) if args.fail_if_unsure => exit::UNDECIDED,
        _ => exit::KEPT,
    })
}

/// The tables of a sweep that was made, for `sandbag show`.
///
/// # Errors
/// As [`Sweep::read`].
pub fn show(dir: &Path) -> Result<String> {
    Ok(report::terminal(&Sweep::read(dir)?))
}

struct Session<'a> {
    args: &'a SweepArgs,
    commands: Vec<Vec<OsString>>,
    metrics: Vec<Metric>,
    thresholds: Vec<Threshold>,
    design: Design,
    dir: PathBuf,
    sweep: Sweep,
    /// Options of every run.
    more: Vec<String>,
}

impl<'a> Session<'a> {
    /// Everything that can be wrong, before a run is made.
    fn new(args: &'a SweepArgs) -> Result<Self> {
        let commands = split(&args.command)?;
        for command in &commands {
            program::check(command)?;
        }
        let metrics = metrics(args)?;
        let mut more = Vec::new();
        more.extend(
            args.timeout
                .map(|time| format!("--timeout={}ms", time.as_millis())),
        );
        more.extend(args.as_root.then(|| "--as-root".to_owned()));
        let conditions = conditions(&args.conditions, &Root::default())?;
        let names = ["A", "B"].into_iter().map(str::to_owned);
        let programs = names.zip(&commands).map(|(name, command)| Program {
            name,
            command: program::words(command),
        });
        let blocks = match (args.runs, args.time) {
            (Some(runs), _) => Some(runs as usize),
            (None, Some(_)) => None,
            (None, None) => Some(5),
        };
        let mut sweep = Sweep {
            format: FORMAT,
            sandbag: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: jiff::Timestamp::now().to_string(),
            arguments: program::arguments(),
            seed: args.seed,
            wanted: blocks,
            conditions,
            programs: programs.collect(),
            metrics: metrics.iter().map(|metric| metric.about.clone()).collect(),
            runs: Vec::new(),
            complete: false,
            answers: Vec::new(),
            thresholds: Vec::new(),
        };
        let thresholds = args
            .fail_if
            .iter()
            .map(|text| Threshold::parse(text, &sweep));
        let thresholds = thresholds.collect::<Result<_, _>>().map_err(BadInput)?;
        for file in [&args.junit, &args.markdown] {
            args.overwrite.check(file.as_deref())?;
        }
        args.json.check(args.overwrite)?;
        for condition in &sweep.conditions {
            run::check(condition, &more, &commands[0])?;
        }
        let dir = match &args.resume {
            Some(dir) => {
                let before = Sweep::read(dir)?;
                if !before.is_like(&sweep) {
                    let text = "is a sweep of other conditions, programs, metrics or another seed";
                    return Err(BadInput(format!("{} {text}", dir.display())).into());
                }
                sweep.runs = before.runs;
                sweep.started_at = before.started_at;
                dir.clone()
            }
            None => {
                args.overwrite.check_dir(args.out.as_deref())?;
                let dir = args.out.clone();
                let dir = dir.unwrap_or_else(|| new_name("sandbag-sweep", ""));
                fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
                give_to_caller(&dir);
                dir
            }
        };
        Ok(Self {
            design: Design {
                cells: sweep.conditions.len() * commands.len(),
                blocks,
                repeats: args.repeats as usize,
                seed: args.seed,
            },
            args,
            commands,
            metrics,
            thresholds,
            dir,
            sweep,
            more,
        })
    }

    fn all(&mut self, messages: &Messages) -> Result<()> {
        let begin = Instant::now();
        if self.sweep.runs.is_empty() {
            for turn in 0..self.args.warm_up as usize * self.commands.len() {
                let program = turn % self.commands.len();
                let dir = self.dir.join(format!("warm-up-{:02}", turn + 1));
                run::make(
                    &self.sweep.conditions[0],
                    &self.more,
                    &self.commands[program],
                    &dir,
                )?;
                messages.say(&format!("warm-up of {}", self.sweep.programs[program].name));
            }
        }
        let mut longest = Duration::ZERO;
        while let Some(turn) = self.design.next(&self.done()) {
            let rest = self
                .args
                .time
                .map(|time| time.saturating_sub(begin.elapsed()));
            if rest.is_some_and(|rest| rest <= longest) {
                break;
            }
            let from = Instant::now();
            self.one(turn, messages)?;
            longest = longest.max(from.elapsed());
            self.judge()?;
        }
        self.sweep.complete = self.args.time.is_some() || self.design.next(&self.done()).is_none();
        Ok(())
    }

    fn done(&self) -> Vec<(Turn, bool)> {
        let programs = self.commands.len();
        let turn = |run: &OneRun| Turn {
            block: run.block,
            cell: run.condition * programs + run.program,
        };
        let runs = self.sweep.runs.iter();
        runs.map(|run| (turn(run), run.counts())).collect()
    }

    fn one(&mut self, turn: Turn, messages: &Messages) -> Result<()> {
        let programs = self.commands.len();
        let (condition, program) = (turn.cell / programs, turn.cell % programs);
        let number = self.sweep.runs.len() + 1;
        let name = format!("run-{number:03}");
        let dir = self.dir.join(&name);
        let asked = &self.sweep.conditions[condition];
        let finished = run::make(asked, &self.more, &self.commands[program], &dir)?;
        let (exit_code, signal) = finished.end();
        let mut values = BTreeMap::new();
        let mut missing = None;
        let verdict = finished.verdict();
        if let (Verdict::Undecided, Some(wall)) = (verdict, finished.own("wall"))
            && wall < LEAST_S
        {
            bail!(
                "{name}: the program ended after {wall:.3} s, and a condition is measured over \
                 {LEAST_S} s at least: let one run do its work several times"
            );
        }
        if finished.is_success() {
            for metric in &self.metrics {
                match metric.value(&finished, &dir) {
                    Ok(value) => drop(values.insert(metric.about.name.clone(), value)),
                    Err(why) => missing = Some((metric.about.name.clone(), why)),
                }
            }
        }
        values.insert(
            FAILED.to_owned(),
            f64::from(u8::from(!finished.is_success())),
        );
        let whose = &self.sweep.programs[program].name;
        let first = self.metrics.first().and_then(|metric| {
            let value = values.get(&metric.about.name)?;
            Some(format!(", {} {value}", metric.about.name))
        });
        let failed = match (exit_code, signal) {
            (Some(0), _) => String::new(),
            (_, Some(signal)) => format!(", ended by signal {signal}"),
            (code, None) => format!(", exit code {}", code.unwrap_or(-1)),
        };
        messages.say(&format!(
            "{name}: block {}, {whose} at {}: {verdict}{failed}{}",
            turn.block,
            asked.name,
            first.unwrap_or_default()
        ));
        if let Some((metric, why)) = missing {
            bail!(
                "metric {metric}: {name} ({whose} at {}): {why}; its output is in {}",
                asked.name,
                dir.join(STDOUT).display()
            );
        }
        self.sweep.runs.push(OneRun {
            number,
            block: turn.block,
            condition,
            program,
            dir: name,
            verdict,
            reason: match verdict {
                Verdict::Kept => String::new(),
                _ => finished.reason,
            },
            exit_code,
            signal,
            values,
        });
        Ok(())
    }

    /// Answers to what is known so far, and the record.
    fn judge(&mut self) -> Result<()> {
        self.sweep.answers = answers(&self.sweep);
        let judged = self.thresholds.iter().map(|one| one.judge(&self.sweep));
        self.sweep.thresholds = judged.collect();
        self.sweep.write(&self.dir)
    }

    /// What the user asked for, besides the record.
    fn leave(&self, messages: &Messages) -> Result<()> {
        let (sweep, existing) = (&self.sweep, self.args.overwrite.existing());
        let page = self.dir.join(sandbag_run::directory::REPORT_HTML);
        put(&page, report::page(sweep), sandbag_input::Existing::Replace)?;
        messages.show(&report::terminal(sweep));
        if let Some(file) = &self.args.junit {
            put(
                file,
                report::junit(sweep, self.args.fail_if_unsure),
                existing,
            )?;
        }
        if let Some(file) = &self.args.markdown {
            put(file, report::markdown(sweep), existing)?;
        }
        if let Some(path) = self.args.json.path() {
            put_json(path, sweep, existing)?;
        }
        messages.say(&format!(
            "Results: {}, {}",
            self.dir.join(SWEEP_JSON).display(),
            page.display()
        ));
        Ok(())
    }
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

/// One program, or two with `--vs` between them.
fn split(words: &[OsString]) -> Result<Vec<Vec<OsString>>> {
    let mut programs = words.splitn(2, |word| word == "--vs");
    let all: Vec<Vec<OsString>> = programs.by_ref().map(<[OsString]>::to_vec).collect();
    if all.iter().any(Vec::is_empty) {
        let text = "a program is missing beside --vs: -- ./a ARGS --vs ./b ARGS";
        return Err(BadInput(text.to_owned()).into());
    }
    Ok(all)
}
