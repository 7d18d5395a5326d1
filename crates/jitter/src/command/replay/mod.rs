// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag jitter replay`: the jitter of a trace, beside a program or alone, or
//! inside its processes. Both are a [`ReplayMethod`] of the same run.

mod beside;
mod inside;
mod record;
mod run_entry;
mod table;
mod verdict;

pub(super) use record::read as read_record;
pub(super) use table::whole as shown;
pub(super) use table::{noise_text, signed};

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::JitterTrace;
use crate::replay::Replay;
use crate::replay::hold::{self, Hold, HoldEnd, HoldOutcome};
use crate::replay::process::CpuOutcome;
use clap::{Args, ValueEnum};
use sandbag_linux::Root;
use sandbag_linux::topology::Topology;
use sandbag_linux::user::User;
use sandbag_run::command::{CommandSpec, Waiting};
use sandbag_run::directory::RunDir;
use sandbag_run::{failure::leave_reason, machine, program};
use sandbag_stats::Verdict;
use sandbag_ui::exit;
use sandbag_ui::failure::Result;
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{self, JsonArgs, Overwrite};
use sandbag_ui::units::{self, nanos};

use super::plan_args::{PlanArgs, factor};
use record::{MethodRecord, ReplayRecord};
use run_entry::RunEntry;
use verdict::Due;

/// The exit codes of this command.
pub const HELP: &str = "\
Exit codes:
  Without CMD: 0 kept (99 % of the events that were due were injected), 1
  failed, 2 wrong usage or bad input, 3 missed, or on some CPU the jitter ended
  early (it went offline, or its injector was killed), or in a process, 4
  undecided (no event was due, too many came late because the CPU was away, or
  a process had no jitter), 5 not possible on this machine, 130 interrupted
  before the replay began.
  With CMD: CMD's own code; with --strict, and 0 from CMD, also 3 and 4; 128+n
  if signal n ended it; 125 our own failure, wrong usage and what is not
  possible included (the reason is on standard error, and in run.json if a run
  directory is left); 126 CMD cannot be executed; 127 CMD not found; 130
  interrupted twice, or before CMD began.
  `sandbag jitter verify` measures how well a trace is reproduced.";

/// Replay the jitter of a trace on CPUs, beside a program or alone
///
/// A process per CPU takes it at the moments of the trace, for as long as the
/// events were. What the timer and the switch cost is measured first; events
/// that are too short to be injected are counted, as are those that follow too
/// closely. CMD is not changed and not confined.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// A trace, or what another tool recorded event by event; - for standard
    /// input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    #[command(flatten)]
    plan: PlanArgs,

    #[command(flatten)]
    inside: inside::InsideArgs,

    /// End the jitter after this long [default: when the share is used up]
    #[arg(short, long, value_name = "TIME", value_parser = units::positive_duration)]
    duration: Option<Duration>,

    /// Begin again when the share of the trace is used up
    #[arg(long = "loop")]
    repeat: bool,

    /// Multiply lengths and gaps by this, as the paper does for injectors that
    /// cannot inject short events; results must then be divided by it. Only
    /// without CMD, whose own work we cannot stretch
    #[arg(long, value_name = "K", default_value = "1", value_parser = factor)]
    scale_factor: f64,

    /// Do without one of the paper's safeguards (may be given more than once)
    #[arg(long, value_enum, value_name = "WHICH")]
    no_safeguard: Vec<Safeguard>,

    /// Directory of the record [default: sandbag-run-<time>]
    ///
    /// It gets run.json and achieved.csv.
    #[arg(long, value_name = "DIR", conflicts_with = "no_out")]
    out: Option<PathBuf>,

    /// Leave no run directory
    #[arg(long)]
    no_out: bool,

    #[command(flatten)]
    overwrite: Overwrite,

    #[command(flatten)]
    json: JsonArgs,

    /// Kill CMD should sandbag end or die before CMD does
    #[arg(long, requires = "command")]
    kill: bool,

    /// With sudo, run CMD as root and not as the calling user
    #[arg(long)]
    as_root: bool,

    /// Exit with 3 (missed) or 4 (undecided) though CMD succeeds
    #[arg(long)]
    strict: bool,

    /// Check everything, print what would be done, change nothing
    #[arg(long)]
    dry_run: bool,

    /// The program to run, and its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// What keeps an injector from trying what it cannot do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Safeguard {
    /// What injecting costs is taken off the length; what is shorter is left out
    Overhead,
    /// What follows more closely than the timer's least interval is suffered
    /// together
    Interval,
    /// Each CPU begins at a random position and replays at most a share
    Share,
}

impl ReplayArgs {
    /// Whether a program is to be run.
    pub fn has_command(&self) -> bool {
        !self.command.is_empty()
    }

    fn guards(&self, safeguard: Safeguard) -> bool {
        !self.no_safeguard.contains(&safeguard)
    }

    /// The user of CMD and of the results; `None`: the user of sandbag.
    fn user(&self) -> Option<User> {
        if self.as_root {
            None
        } else {
            User::behind_sudo()
        }
    }
}

/// A method of replay: by processes beside the program, or by a library inside its
/// processes.
trait ReplayMethod {
    type Replay: Replay;

    fn trace(&self) -> &JitterTrace;

    /// Text of `--dry-run`.
    fn dry_run(&self) -> Result<String>;

    /// Prepares the replay up to its beginning; prints what was measured.
    fn start(&mut self, warnings: &mut Vec<String>, messages: &Messages) -> Result<Self::Replay>;

    /// For `sandbag status`: the trace, the method and the CPUs.
    fn run_entry(&self, replay: &Self::Replay) -> (String, &'static str, &[u32]);

    /// Variables for CMD.
    fn environment(&self, _: &Self::Replay) -> Result<Vec<(String, String)>> {
        Ok(Vec::new())
    }

    fn outcome(&self, replay: Self::Replay, held: HoldOutcome) -> Result<ReplayOutcome>;
}

/// The outcome of a replay by any method.
struct ReplayOutcome {
    own: MethodRecord,
    due: Due,
    warnings: Vec<String>,
    /// For achieved.csv: what became of each event, by CPU.
    achieved: Vec<CpuOutcome>,
}

/// Runs the command. If sandbag fails beside a CMD, it leaves the reason in the run
/// directory that the user named.
pub fn main(args: &ReplayArgs, messages: &Messages) -> Result<u8> {
    args.overwrite.check_dir(args.out.as_deref())?;
    args.json
        .check_within(args.overwrite, args.out.as_deref())?;
    let result = program::check(&args.command).and_then(|()| {
        if args.inside.is_requested() {
            run(inside::InsideReplay::new(args, messages)?, args, messages)
        } else {
            run(beside::BesideReplay::new(args, messages)?, args, messages)
        }
    });
    // The exit code says it.
    if let Err(error) = &result
        && error.exit_code(false) == exit::INTERRUPTED
    {
        return Ok(exit::INTERRUPTED);
    }
    if let Err(error) = &result
        && error.exit_code(true) == exit::OUR_FAILURE
        && args.has_command()
        && !args.no_out
        && !args.dry_run
        && let Some(out) = args.out.clone()
    {
        leave_reason(error, out, args.user(), messages);
    }
    result
}

fn run(mut method: impl ReplayMethod, args: &ReplayArgs, messages: &Messages) -> Result<u8> {
    if args.dry_run {
        output::print(method.dry_run()?)?;
        return Ok(exit::KEPT);
    }
    let user = args.user();
    let root = Root::default();
    let machine = machine::describe(&root, &Topology::read(&root)?, "none");
    let signals = hold::take_signals()?;
    let mut warnings = Vec::new();
    let mut replay = method.start(&mut warnings, messages)?;
    let _listed = RunEntry::enter(method.run_entry(&replay), &args.command, messages);
    let spec = CommandSpec {
        arguments: args.command.clone(),
        user: user.clone(),
        kill: args.kill,
        environment: method.environment(&replay)?,
        word_on: None,
    };
    let command = args.has_command().then(|| Waiting::start(&spec));
    let held = Hold {
        command: command.transpose()?,
        duration_ns: args.duration.map(nanos),
    };
    let dir = if args.no_out {
        None
    } else {
        RunDir::make(args.out.clone(), user, messages)?.inspect(RunDir::remove_results)
    };
    let started_at = jiff::Timestamp::now().to_string();
    let held = hold::hold(&mut replay, held, &signals).inspect_err(|_| {
        if let Some(dir) = &dir {
            dir.discard_if_empty();
        }
    })?;
    let outcome = method.outcome(replay, held)?;
    drop(signals);
    warnings.extend(outcome.warnings);
    let (verdict, because) = outcome.due.verdict();
    let mut record = ReplayRecord::new(args, method.trace(), held, machine, outcome.own);
    record.about.started_at = started_at;
    record.about.verdict = Some(verdict);
    record.about.verdict_because = Some(because);
    record.about.warnings = warnings;
    let result = record.about.verdict_line() + &table::events(&record.own, Messages::width());
    messages.show(&result);
    let warnings = record.about.warnings.iter();
    warnings.for_each(|text| messages.warning(text));
    let whole = record::leave(args, &record, dir.as_ref(), &outcome.achieved, messages);
    Ok(code(held.end, verdict, args.strict, whole))
}

/// The exit code of a completed run.
fn code(end: HoldEnd, verdict: Verdict, strict: bool, whole: bool) -> u8 {
    match end {
        HoldEnd::Command(how) => match (how.exit_code, how.signal) {
            (Some(0), _) if !whole => exit::OUR_FAILURE,
            (Some(0), _) if strict => exit::of_verdict(verdict),
            (code, signal) => exit::of_command(code, signal),
        },
        HoldEnd::Interrupted => exit::INTERRUPTED,
        _ if !whole => exit::FAILED,
        HoldEnd::UsedUp | HoldEnd::Duration | HoldEnd::Stopped => exit::of_verdict(verdict),
    }
}
