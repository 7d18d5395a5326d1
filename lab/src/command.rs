// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The papers' experiments on this machine.

mod methods;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::experiment::Paper;
use crate::program::Programs;
use crate::results::{self, State};
use crate::run::{self, Repeat};
use crate::setup::{Selection, Setup};
use crate::workload::{self, Name, WorkArgs, WorkReport};
use crate::{experiments, index};
use anyhow::{Context as _, Result, ensure};
use clap::{Args, Subcommand};
use sandbag_linux::interrupt;
use sandbag_linux::topology::Topology;
use sandbag_linux::{CpuList, Root};

use methods::find_methods;
use sandbag_ui::messages::Messages;
use sandbag_ui::output;
use sandbag_ui::units::{self, Cpus};
use sandbag_ui::{BadInput, NotPossible, exit};

/// The papers' experiments.
#[derive(Debug, Subcommand)]
pub enum LabVerb {
    /// List the papers' tables and figures: time they take, and what was run
    List(ListArgs),
    /// Run experiments, or resume them where they were stopped
    Run(Box<RunArgs>),
    /// Make tables, figures and pages again from what was measured
    ///
    /// Measures nothing and needs no privilege: rows.jsonl, choices.json and
    /// summary.json of each experiment are read, everything else is made anew.
    Page(PageArgs),
    /// Run one of the lab's own programs
    #[command(hide = true)]
    Work(WorkArgs),
}

/// List the papers' tables and figures: time they take, and what was run
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Directory of the results
    #[arg(long, value_name = "DIR", default_value = "sandbag-lab")]
    out: PathBuf,
}

/// Make tables, figures and pages again from what was measured
#[derive(Debug, Args)]
pub struct PageArgs {
    /// Directory of the results
    #[arg(long, value_name = "DIR", default_value = "sandbag-lab")]
    out: PathBuf,
}

/// Run experiments, or resume them where they were stopped
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Which (see `sandbag-lab list`) [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// The short form: fewer cells, shorter programs, fewer rounds
    #[arg(long)]
    quick: bool,

    /// Directory for the results, one per experiment in it; results that are
    /// there already are continued
    #[arg(long, value_name = "DIR", default_value = "sandbag-lab")]
    out: PathBuf,

    /// Begin again: remove the results of these experiments from DIR
    #[arg(long)]
    fresh: bool,

    /// Rounds over all conditions [default: as the papers; quick 3 to 6]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,

    /// Continue after the rounds with the cells that they do not decide: until
    /// the slowdown is known to 0.05, or 120 rounds, or --time is over
    /// (krash-table-3 to -5; the default without --rounds)
    #[arg(long)]
    decide: bool,

    /// Begin no more trials of an experiment after so long, but those of its first
    /// round and of --rounds [default: 110m; quick 15m]
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    time: Option<Duration>,

    /// The CPUs to use [default: all]
    #[arg(long, value_name = "LIST", value_parser = units::cpus)]
    cpus: Option<Cpus>,

    /// Only these methods, of those that work here
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    methods: Vec<String>,

    #[command(flatten)]
    selection: Selection,

    /// Time limit of one program
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = limit)]
    limit: Duration,

    /// The sandbag to run [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    sandbag: Option<PathBuf>,

    /// The source tree for the compilation, built as busybox is [default: the one that
    /// scripts/setup-lab has fetched]
    #[arg(long, value_name = "DIR")]
    sources: Option<PathBuf>,
}

/// After so long no more is begun: short form and full one.
const TIMES: [Duration; 2] = [Duration::from_secs(15 * 60), Duration::from_secs(110 * 60)];

fn limit(text: &str) -> Result<Duration, String> {
    const MOST: Duration = Duration::from_secs(86_400);
    match units::positive_duration(text)? {
        limit if limit > MOST => Err("at most a day".to_owned()),
        limit => Ok(limit),
    }
}

pub fn main(verb: &LabVerb, messages: &Messages) -> Result<u8> {
    match verb {
        LabVerb::List(args) => list(args),
        LabVerb::Run(args) => run_all(args, messages),
        LabVerb::Page(args) => page(args),
        LabVerb::Work(args) => {
            let done = workload::work(args)?;
            output::print(serde_json::to_string(&done)? + "\n")?;
            check(args.name, &done)?;
            Ok(exit::KEPT)
        }
    }
}

/// An error if the result of a program is wrong: scripts see only its exit code.
fn check(name: Name, done: &WorkReport) -> Result<()> {
    ensure!(done.right, "the result of {} is wrong", name.as_str());
    Ok(())
}

fn list(args: &ListArgs) -> Result<u8> {
    let mut out = String::new();
    let mut all = [0, 0];
    let mut paper = "";
    for experiment in experiments::all() {
        let of = experiment.about();
        all = [all[0] + of.minutes[0], all[1] + of.minutes[1]];
        if paper != of.paper {
            paper = of.paper;
            writeln!(out, "{paper}")?;
        }
        let state = results::state(&args.out.join(of.name))?;
        writeln!(
            out,
            "  {:<18} {}; {state}\n  {:<18} {}",
            of.name,
            times(of.minutes),
            "",
            of.what
        )?;
    }
    writeln!(out, "All on two CPUs: {}", times(all))?;
    output::print(out)?;
    Ok(exit::KEPT)
}

fn times([quick, full]: [u32; 2]) -> String {
    format!("quick {}, full {}", about(quick), about(full))
}

fn about(minutes: u32) -> String {
    const HOURS: u32 = 2 * 60;
    match minutes {
        0..HOURS => format!("{minutes} min"),
        _ => format!("{} h", minutes.div_ceil(60)),
    }
}

fn page(args: &PageArgs) -> Result<u8> {
    let all = experiments::all();
    let mut reports = Vec::new();
    for experiment in &all {
        let dir = args.out.join(experiment.name());
        reports.extend(results::again(experiment.as_ref(), &dir)?);
    }
    if reports.is_empty() {
        return Err(BadInput(format!(
            "{} holds no results of the lab; --out names the directory of `sandbag-lab run`",
            args.out.display()
        ))
        .into());
    }
    let text = index::write(&args.out, &reports)?;
    output::print(text)?;
    Ok(exit::KEPT)
}

fn run_all(args: &RunArgs, messages: &Messages) -> Result<u8> {
    let chosen = choose(&args.names)?;
    if !nix::unistd::geteuid().is_root() {
        return Err(NotPossible(
            "the lab holds loads with groups and real-time tasks of its own: run it as root"
                .to_owned(),
        )
        .into());
    }
    let cpus = usable(args)?;
    fs::create_dir_all(&args.out).with_context(|| args.out.display().to_string())?;
    let Programs { own, sandbag } = Programs::find(args.sandbag.as_deref())?;
    let mut setup = Setup {
        methods: find_methods(&sandbag, &cpus, &args.methods)?,
        sandbag,
        own,
        cpus,
        quick: args.quick,
        chosen: args.selection.clone(),
        limit: args.limit,
        sources: args.sources.clone(),
        scratch: PathBuf::new(),
        dir: PathBuf::new(),
    };
    interrupt::watch()?;
    let of = chosen.len();
    let (mut skipped, mut failed) = (0, 0);
    for mut experiment in chosen {
        match run_one(experiment.as_mut(), args, &mut setup, messages) {
            Ok(State::Run) => {}
            Ok(State::Skipped { why }) => {
                skipped += 1;
                messages.warning(&format!("{} skipped: {why}", experiment.name()));
            }
            Ok(State::Failed { why }) => {
                failed += 1;
                Messages::error(&format!("{}: {why}", experiment.name()));
            }
            Err(_) if interrupt::came() => {
                messages.say("Stopped; the same command resumes from here.");
                return Ok(exit::INTERRUPTED);
            }
            // Nothing was begun.
            Err(error) if error.is::<BadInput>() && of == 1 => return Err(error),
            Err(error) => {
                failed += 1;
                Messages::error(&format!("{}: {error:#}", experiment.name()));
            }
        }
    }
    let all = experiments::all();
    let names: Vec<&str> = all.iter().map(|experiment| experiment.name()).collect();
    let text = index::write(&args.out, &index::reports(&args.out, &names)?)?;
    output::print(text)?;
    if failed > 0 {
        messages.warning(&format!("{failed} of {of} experiments failed"));
        return Ok(exit::FAILED);
    }
    if skipped > 0 {
        messages.warning(&format!("{skipped} of {of} experiments were skipped"));
        return Ok(exit::NOT_POSSIBLE);
    }
    Ok(exit::KEPT)
}

fn usable(args: &RunArgs) -> Result<CpuList> {
    let topology = Topology::read(&Root::default())?;
    let cpus: CpuList = match &args.cpus {
        Some(cpus) => cpus.on(&topology),
        None => topology.online.clone(),
    };
    if let Some(cpu) = cpus.iter().find(|cpu| !topology.online.contains(*cpu)) {
        return Err(BadInput(format!(
            "--cpus: CPU {cpu} is not online; online are {}",
            topology.online
        ))
        .into());
    }
    if cpus.is_empty() {
        return Err(BadInput("--cpus names no CPU of this machine".to_owned()).into());
    }
    Ok(cpus)
}

fn run_one(
    experiment: &mut dyn Paper,
    args: &RunArgs,
    setup: &mut Setup,
    messages: &Messages,
) -> Result<State> {
    let dir = args.out.join(experiment.name());
    if args.fresh && dir.exists() {
        // A directory of something else may have the name of an experiment.
        if !dir.join(results::ROWS).exists() && fs::read_dir(&dir)?.next().is_some() {
            return Err(BadInput(format!(
                "--fresh: {} holds no results of the lab; it is left alone",
                dir.display()
            ))
            .into());
        }
        fs::remove_dir_all(&dir).with_context(|| dir.display().to_string())?;
    }
    messages.say(&format!(
        "{}: {}; about {} in all",
        experiment.name(),
        experiment.about().what,
        about(experiment.about().minutes[usize::from(!args.quick)])
    ));
    // On the disk of the results: a gigabyte is too much for many a /tmp.
    let scratch = tempfile::tempdir_in(&args.out).context("a directory for the moment")?;
    setup.scratch = absolute(scratch.path())?;
    setup.dir = absolute(&dir)?;
    let repeat = Repeat {
        rounds: args.rounds,
        decide: args.decide || args.rounds.is_none(),
        time: Some(args.time.unwrap_or(TIMES[usize::from(!args.quick)])),
    };
    let report = run::run(experiment, setup, &dir, repeat, messages)?;
    messages.say(&format!("Page: {}", dir.join(results::PAGE).display()));
    Ok(report.state)
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| path.display().to_string())
}

fn choose(names: &[String]) -> Result<Vec<Box<dyn Paper>>, BadInput> {
    let all = experiments::all();
    let known: Vec<&str> = all.iter().map(|experiment| experiment.name()).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(BadInput(format!(
            "there is no experiment {name}; there are {}",
            known.join(", ")
        )));
    }
    Ok(all
        .into_iter()
        .filter(|e| names.is_empty() || names.iter().any(|name| name == e.name()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_experiment_is_named_with_those_there_are() {
        let error = choose(&["macro".to_owned()]).map(drop).unwrap_err();
        assert!(
            error.0.contains("macro") && error.0.contains("hpcc-figure-5"),
            "{error}"
        );
        assert_eq!(choose(&[]).unwrap().len(), experiments::all().len());
        assert_eq!(choose(&["hpcc-figure-5".to_owned()]).unwrap().len(), 1);
    }

    #[test]
    fn a_wrong_result_of_a_program_is_an_error() {
        let mut done = WorkReport {
            right: true,
            ..WorkReport::default()
        };
        check(Name::Ep, &done).unwrap();
        done.right = false;
        let error = check(Name::Ep, &done).unwrap_err();
        assert_eq!(error.to_string(), "the result of ep is wrong");
    }

    #[test]
    fn long_times_are_hours() {
        assert_eq!(
            [3, 119, 120, 240].map(about),
            ["3 min", "119 min", "2 h", "4 h"]
        );
    }
}
