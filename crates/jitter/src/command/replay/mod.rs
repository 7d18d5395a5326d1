// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag jitter replay`: the jitter of a trace, beside a program or alone.

mod common;
mod inside;
mod listed;
mod record;
mod table;
mod verdict;

pub(super) use common::shown as record_shown;
pub(super) use table::{measured, shown};

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Trace;
use crate::replay::limit::{self, MOST_NS};
use crate::replay::process::beside::{self, End, Failed, Held, Hold};
use crate::replay::process::team::{Ask, CpuOutcome, Health, Team, Want};
use crate::replay::process::{Class, Measured};
use crate::replay::{Plan, Planned};
use clap::{Args, ValueEnum};
use sandbag_linux::Root;
use sandbag_linux::topology::Topology;
use sandbag_linux::user::User;
use sandbag_run::command::{CommandSpec, Waiting};
use sandbag_stats::Verdict;
use sandbag_ui::failure::Result;
use sandbag_ui::quantity::time;
use sandbag_ui::text::command_line;

use common::{About, leave};
use listed::Listed;
use verdict::Due;

use super::plan_args::{More, PlanArgs, factor};
use sandbag_run::directory::RunDir;
use sandbag_run::program;
use sandbag_run::program::words;
use sandbag_run::{failure::leave_reason, machine};
use sandbag_ui::exit;
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{self, Overwrite};
use sandbag_ui::units::{self, nanos};

/// The exit codes of this command.
pub const HELP: &str = "\
Exit codes:
  Without CMD: 0 kept (99 % of the events that were due were injected), 1
  failed, 2 wrong usage or bad input, 3 missed, or on some CPU the jitter ended
  early (it went offline, or its injector was killed), 4 undecided (no event
  was due, or too many came late because the CPU was away), 5 not possible on
  this machine.
  With CMD: CMD's own code; with --strict, and 0 from CMD, also 3 and 4; 128+n if signal n ended it; 125 our own failure, wrong usage and
  what is not possible included (the reason is on standard error, and in
  run.json if a run directory is left); 126 CMD cannot be executed; 127 CMD
  not found; 130 interrupted twice, or before CMD began.
  How well a trace is reproduced says `sandbag jitter verify`.";

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

    /// Directory for run.json and achieved.csv [default: sandbag-run-<time>]
    #[arg(long, value_name = "DIR", conflicts_with = "no_out")]
    out: Option<PathBuf>,

    /// Leave no run directory
    #[arg(long)]
    no_out: bool,

    #[command(flatten)]
    overwrite: Overwrite,

    /// Write the run's record to FILE (`-`: standard output)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-",
          require_equals = true)]
    json: Option<PathBuf>,

    /// Kill CMD should sandbag end or die before CMD does
    #[arg(long, requires = "command")]
    kill: bool,

    /// With sudo, run CMD as root and not as the calling user
    #[arg(long)]
    as_root: bool,

    /// Exit with 3 or 4 if CMD succeeds but the replay was missed or undecided
    #[arg(long)]
    strict: bool,

    /// Check all that a run checks, print what would be done, and do nothing
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
    #[must_use]
    pub fn has_command(&self) -> bool {
        !self.command.is_empty()
    }

    fn guards(&self, safeguard: Safeguard) -> bool {
        !self.no_safeguard.contains(&safeguard)
    }

    fn want(&self, root: &Root) -> Result<Want> {
        Ok(Want {
            class: self.plan.wanted()?,
            overhead: self.guards(Safeguard::Overhead),
            interval: self.guards(Safeguard::Interval),
            most_bytes: self.plan.most_bytes(root)?,
        })
    }
}

/// Runs the command; where that fails by us and there is a CMD, the reason is
/// left in the run directory, if the user named one.
pub fn main(args: &ReplayArgs, messages: &Messages) -> Result<u8> {
    args.overwrite.check_dir(args.out.as_deref())?;
    args.overwrite.check(args.json.as_deref())?;
    let result = replay(args, messages);
    if let Err(error) = &result
        && error.exit_code(true) == exit::OUR_FAILURE
        && args.has_command()
        && !args.no_out
        && !args.dry_run
        && let Some(out) = args.out.clone()
    {
        leave_reason(error, out, user(args), messages);
    }
    result
}

fn user(args: &ReplayArgs) -> Option<User> {
    if args.as_root {
        None
    } else {
        User::behind_sudo()
    }
}

fn replay(args: &ReplayArgs, messages: &Messages) -> Result<u8> {
    program::check(&args.command)?;
    if args.inside.asked() {
        return inside::replay(args, user(args), messages);
    }
    args.plan.refuse_phases()?;
    if args.has_command() && args.scale_factor != 1.0 {
        return Err(exit::BadInput(
            "--scale-factor stretches the jitter, and CMD's own work, which it would have to \
             be held against, cannot be stretched: only without CMD, or in `sandbag scale bench`"
                .to_owned(),
        )
        .into());
    }
    let root = Root::default();
    let want = args.want(&root)?;
    let topology = Topology::read(&root)?;
    let cpus = args.plan.online(&root, &topology)?;
    let trace = args.plan.trace(&args.trace, messages)?;
    let more = More {
        random: args.guards(Safeguard::Share),
        factor: args.scale_factor,
        repeat: args.repeat,
    };
    let plan = args.plan.plan(&trace, cpus.len(), more)?;
    let asks: Vec<Ask> = (0u64..)
        .zip(&cpus)
        .map(|(rank, cpu)| Ask {
            cpu: *cpu,
            portion: plan.rank(rank),
        })
        .collect();
    if args.dry_run {
        return dry_run(args, &trace, &plan, &asks);
    }
    let user = user(args);
    let signals = beside::take_signals()?;
    let mut team = Team::start(&asks, want)?;
    let _listed = Listed::enter(
        format!("jitter of {}", args.trace.display()),
        class_name(team.class()),
        &cpus,
        &args.command,
        messages,
    );
    let mut warnings = Vec::new();
    say_measured(&team, &mut warnings, messages);
    let command = if !args.has_command() {
        None
    } else {
        Some(Waiting::start(&CommandSpec {
            arguments: args.command.clone(),
            user: user.clone(),
            kill: args.kill,
            environment: Vec::new(),
            word_on: None,
        })?)
    };
    let dir = if args.no_out {
        None
    } else {
        RunDir::make(args.out.clone(), user.clone(), messages)
    };
    let started_at = jiff::Timestamp::now().to_string();
    let hold = Hold {
        command,
        duration_ns: args.duration.map(nanos),
    };
    let held = match beside::hold(&mut team, hold, &signals) {
        Ok(held) => held,
        Err(failed) => {
            if let Some(dir) = &dir {
                dir.discard_if_empty();
            }
            return Err(match failed {
                Failed::Inject(error) => error.into(),
                Failed::Command(error) => error.into(),
                Failed::Wait(error) => error.into(),
            });
        }
    };
    let (class, why) = (team.class(), team.why_not_better().map(str::to_owned));
    let outcome = team.finish();
    drop(signals);
    warnings.extend(said_after(&outcome, held, args));
    let about = About {
        args,
        trace: &trace,
        started_at,
        machine: machine::describe(&root, &topology, "none"),
        held,
        verdict: Due::beside(&outcome).verdict(),
        warnings,
    };
    let run = record::Run {
        about: &about,
        asks: &asks,
        outcome: &outcome,
        class,
        why,
    };
    let rows: Vec<table::Cpu> = outcome.iter().map(table::Cpu::from).collect();
    messages.show(&table::outcome(&rows, Messages::width()));
    about
        .warnings
        .iter()
        .for_each(|text| messages.warning(text));
    messages.say(&format!(
        "verdict: {}: {}",
        about.verdict.0, about.verdict.1
    ));
    let achieved = |dir: &Path| record::write(dir, &outcome);
    let record = run.json();
    let whole = leave(args, &record, dir.as_ref(), achieved, messages);
    Ok(code(held.end, about.verdict.0, args.strict, whole))
}

/// What was measured before the beginning, and what became of the method.
fn say_measured(team: &Team, warnings: &mut Vec<String>, messages: &Messages) {
    messages.say(&format!("injected by: {}", team.class()));
    if let Some(why) = team.why_not_better() {
        warnings.push(format!(
            "{why}: events are injected by ordinary tasks, less exactly"
        ));
    }
    for (cpu, measured) in team.measured() {
        let Measured { wakes, seen, .. } = measured;
        messages.say(&format!("CPU {cpu}: {}", table::measured(measured)));
        if measured.overhead_ns == 0 {
            warnings.push(format!(
                "CPU {cpu}: what injecting costs could not be seen: it is not taken off"
            ));
        } else if seen * 10 < wakes {
            warnings.push(format!(
                "CPU {cpu}: others wait for this CPU, so that what injecting costs was seen {seen} \
                 times only (of {wakes})"
            ));
        }
    }
}

/// What the user should know of a run.
fn said_after(outcome: &[CpuOutcome], held: Held, args: &ReplayArgs) -> Vec<String> {
    let mut said = Vec::new();
    for one in outcome {
        let cpu = one.cpu;
        match &one.health {
            Health::Well => {}
            Health::Displaced => said.push(format!(
                "CPU {cpu} went offline, or was taken from us by a cpuset: its jitter ended, {} \
                 events that were due later were not injected",
                one.outcome.counts.not_reached
            )),
            Health::Died(how) => said.push(format!(
                "the injector of CPU {cpu} ended ({how}): {} events that were due later were not \
                 injected",
                one.outcome.counts.not_reached
            )),
        }
        if one.stood_ns > 0 && one.health == Health::Well {
            let counts = one.outcome.counts;
            said.push(format!(
                "the injector of CPU {cpu} did not run for {} (it was stopped, or had no CPU): \
                 the events of that time were not injected when they were due ({} late, {} \
                 missed, {} not reached)",
                time(one.stood_ns as f64),
                counts.away,
                counts.missed,
                counts.not_reached
            ));
        }
        if one.left_out.any() {
            said.push(format!(
                "CPU {cpu}: the trace takes more than {} ms of some second; of a whole portion \
                 {} events are left out and {} shortened, {} in all, so that others can run",
                MOST_NS / 1_000_000,
                one.left_out.events,
                one.left_out.shortened,
                time(one.left_out.ns as f64)
            ));
        }
    }
    if held.without_ns > 0 && args.duration.is_none() {
        said.push(format!(
            "the share of the trace was used up: CMD ran its last {} without jitter (--loop \
             begins again, --share replays more)",
            time(held.without_ns as f64)
        ));
    }
    if let (End::UsedUp, Some(duration), true) = (held.end, args.duration, !args.has_command()) {
        said.push(format!(
            "the share of the trace was used up after {}, before {} were over (--loop begins \
             again, --share replays more)",
            time(held.wall_ns as f64),
            time(nanos(duration) as f64)
        ));
    }
    said
}

/// The exit code of a run that was made.
fn code(end: End, verdict: Verdict, strict: bool, whole: bool) -> u8 {
    match end {
        End::Command(how) => match (how.exit_code, how.signal) {
            (Some(0), _) if !whole => exit::OUR_FAILURE,
            (Some(0), _) if strict => exit::of_verdict(verdict),
            (code, signal) => exit::of_command(code, signal),
        },
        End::Interrupted => exit::INTERRUPTED,
        _ if !whole => exit::FAILED,
        End::UsedUp | End::Duration | End::Stopped => exit::of_verdict(verdict),
    }
}

fn dry_run(args: &ReplayArgs, trace: &Trace, plan: &Plan, asks: &[Ask]) -> Result<u8> {
    let mut out = String::new();
    for (place, ask) in asks.iter().enumerate() {
        let portion = &ask.portion;
        let all: Vec<Planned> = portion.once().events().collect();
        let events = all.len();
        let noise_ns: u64 = all.iter().map(|event| event.length_ns).sum();
        let (_, left_out) = limit::cut(&all, 0);
        writeln!(
            out,
            "CPU {}: CPU {} of the trace from {} of its known time on, for {}{}: {events} events, \
             {} in all",
            ask.cpu,
            args.plan.trace_cpu(trace, place),
            time(portion.offset_ns() as f64),
            time(portion.length_ns() as f64),
            if portion.repeats() {
                ", again and again"
            } else {
                ""
            },
            time(noise_ns as f64),
        )?;
        if left_out.any() {
            writeln!(
                out,
                "  of which at least {} events would be left out and {} shortened, by {} in all: \
                 more than {} ms of a second are never taken",
                left_out.events,
                left_out.shortened,
                time(left_out.ns as f64),
                MOST_NS / 1_000_000
            )?;
        }
    }
    let options = plan.options();
    writeln!(
        out,
        "seed {}, groups of {}, --sync {}, --method {}",
        options.seed,
        options.group,
        options.sync,
        args.plan.method.name()
    )?;
    if args.has_command() {
        writeln!(out, "beside: {}", command_line(&words(&args.command)))?;
    }
    output::print(out)?;
    Ok(exit::KEPT)
}

/// A class as records have it.
fn class_name(class: Class) -> &'static str {
    match class {
        Class::Fifo { .. } => "fifo",
        Class::Fair => "fair",
    }
}
