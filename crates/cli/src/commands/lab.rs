// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag lab`: the papers' experiments on this machine.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use sandbag_burner::method;
use sandbag_kernel::topology::Topology;
use sandbag_kernel::{CpuList, Root};
use sandbag_lab::experiment::{self, Experiment, NotHere, Setup};
use sandbag_lab::run::{self, Listener};
use sandbag_lab::workload::{self, WorkArgs};
use sandbag_lab::{index, interrupt};

use crate::exit::{self, BadInput};
use crate::messages::Messages;
use crate::units::{self, Cpus};

/// Re-run the papers' experiments: which method to trust for which workload
#[derive(Debug, Args)]
pub struct LabArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Say which experiments there are
    List,
    /// Run experiments, or go on with them where they were stopped
    Run(RunArgs),
    /// Run one of the lab's own programs
    #[command(hide = true)]
    Work(WorkArgs),
}

/// Run experiments, or go on with them where they were stopped
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Which (see `sandbag lab list`) [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// The short form: fewer cells, shorter programs, three rounds; all within
    /// an hour
    #[arg(long)]
    quick: bool,

    /// Directory for the results, one per experiment in it; where there are
    /// some already, they are gone on with
    #[arg(long, value_name = "DIR", default_value = "sandbag-lab")]
    out: PathBuf,

    /// Begin again: remove the results of these experiments from DIR
    #[arg(long)]
    fresh: bool,

    /// Rounds over all conditions [default: 30 or 40 as the papers; quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,

    /// The CPUs to use [default: all]
    #[arg(long, value_name = "LIST", value_parser = units::cpus)]
    cpus: Option<Cpus>,

    /// Only these methods, of those that work here
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    methods: Vec<String>,

    /// What one program may take before it counts as hanging
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = limit)]
    limit: Duration,

    /// C sources for the compilation [default: those of zstd, where Cargo has
    /// fetched them]
    #[arg(long, value_name = "DIR")]
    sources: Option<PathBuf>,
}

fn limit(text: &str) -> Result<Duration, String> {
    const MOST: Duration = Duration::from_secs(86_400);
    match units::positive_duration(text)? {
        limit if limit > MOST => Err("at most a day".to_owned()),
        limit => Ok(limit),
    }
}

/// Runs the command.
pub fn main(args: &LabArgs, messages: &Messages) -> Result<u8> {
    match &args.verb {
        Verb::List => list(),
        Verb::Run(args) => run_all(args, messages),
        Verb::Work(args) => {
            let done = workload::work(args)?;
            writeln!(std::io::stdout(), "{}", serde_json::to_string(&done)?)?;
            Ok(exit::KEPT)
        }
    }
}

fn list() -> Result<u8> {
    let mut out = std::io::stdout();
    for experiment in experiment::all() {
        writeln!(
            out,
            "{:<10} {}\n{:<10} {}",
            experiment.name(),
            experiment.about(),
            "",
            experiment.source()
        )?;
    }
    Ok(exit::KEPT)
}

fn run_all(args: &RunArgs, messages: &Messages) -> Result<u8> {
    let chosen = choose(&args.names)?;
    if !nix::unistd::geteuid().is_root() {
        return Err(sandbag_burner::Error::NotPossible {
            what: "the lab holds loads with groups and real-time tasks of its own".to_owned(),
            remedy: "run it as root".to_owned(),
        }
        .into());
    }
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
    fs::create_dir_all(&args.out).with_context(|| args.out.display().to_string())?;
    let sandbag = std::env::current_exe().context("our own program")?;
    let mut setup = Setup {
        sandbag,
        cpus,
        quick: args.quick,
        loading: Vec::new(),
        slowing: Vec::new(),
        left_out: Vec::new(),
        limit: args.limit,
        sources: args.sources.clone(),
        scratch: PathBuf::new(),
        dir: PathBuf::new(),
    };
    find_methods(&mut setup, &args.methods)?;
    interrupt::watch()?;
    let names: Vec<&str> = experiment::all().iter().map(|e| e.name()).collect();
    let of = chosen.len();
    let (mut left_out, mut failed) = (0, 0);
    for mut experiment in chosen {
        let dir = args.out.join(experiment.name());
        if args.fresh && dir.exists() {
            // Somebody else's directory may have the name of an experiment.
            if !dir.join(run::ROWS).exists() && fs::read_dir(&dir)?.next().is_some() {
                return Err(BadInput(format!(
                    "--fresh: {} holds no results of the lab; it is left alone",
                    dir.display()
                ))
                .into());
            }
            fs::remove_dir_all(&dir).with_context(|| dir.display().to_string())?;
        }
        messages.say(&format!("{}: {}", experiment.name(), experiment.about()));
        // On the disk of the results: a gigabyte is too much for many a /tmp.
        let scratch = tempfile::tempdir_in(&args.out).context("a directory for the moment")?;
        setup.scratch = absolute(scratch.path())?;
        setup.dir = absolute(&dir)?;
        let mut told = Told(messages);
        let ended = run::run(experiment.as_mut(), &setup, &dir, args.rounds, &mut told);
        if ended.is_err() && interrupt::came() {
            messages.say("Stopped; the same command goes on from here.");
            return Ok(exit::INTERRUPTED);
        }
        match ended {
            Ok(_) => {}
            Err(error) if error.is::<NotHere>() => {
                left_out += 1;
                messages.warning(&format!("{} left out: {error}", experiment.name()));
                continue;
            }
            Err(error) => {
                failed += 1;
                Messages::error(&format!("{}: {error:#}", experiment.name()));
                continue;
            }
        }
        messages.say(&format!("Page: {}", dir.join(run::PAGE).display()));
    }
    let text = index::write(&args.out, &index::reports(&args.out, &names)?)?;
    std::io::stdout().write_all(text.as_bytes())?;
    if failed > 0 {
        messages.warning(&format!("{failed} of {of} experiments failed"));
        return Ok(exit::FAILED);
    }
    if left_out > 0 {
        messages.warning(&format!("{left_out} of {of} experiments were left out"));
        return Ok(exit::NOT_POSSIBLE);
    }
    Ok(exit::KEPT)
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| path.display().to_string())
}

fn choose(names: &[String]) -> Result<Vec<Box<dyn Experiment>>, BadInput> {
    let all = experiment::all();
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

/// Which methods work on these CPUs: by what a run with them checks.
fn find_methods(setup: &mut Setup, wanted: &[String]) -> Result<()> {
    if let Some(name) = wanted
        .iter()
        .find(|name| !method::SLOWING.contains(&name.as_str()))
    {
        return Err(BadInput(format!(
            "--methods: there is no method {name}; there are {}",
            method::SLOWING.join(", ")
        ))
        .into());
    }
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    let uses: [(&[&str], &[&str]); 2] = [
        (&method::NAMES, &["load", "50"]),
        (&method::SLOWING, &["slow", "--speed", "0.5"]),
    ];
    for (names, verb) in uses {
        let mut usable = Vec::new();
        for name in names.iter().filter(|name| is_wanted(name)) {
            match refused(setup, verb, name)? {
                None => usable.push((*name).to_owned()),
                Some(reason) => setup
                    .left_out
                    .push(format!("{name} ({}): {reason}", verb[0])),
            }
        }
        match verb[0] {
            "load" => setup.loading = usable,
            _ => setup.slowing = usable,
        }
    }
    Ok(())
}

/// Why a method does not work here.
fn refused(setup: &Setup, verb: &[&str], method: &str) -> Result<Option<String>> {
    let ended = Command::new(&setup.sandbag)
        .arg("-q")
        .args(verb)
        .args([
            "--dry-run",
            "--cpus",
            &setup.cpus.to_string(),
            "--method",
            method,
        ])
        .stdin(Stdio::null())
        .output()
        .context("try a method")?;
    let said = String::from_utf8_lossy(&ended.stderr);
    let reason = said.trim().trim_start_matches("sandbag: ");
    Ok((!ended.status.success()).then(|| reason.to_owned()))
}

/// What an experiment says, on our standard error.
struct Told<'a>(&'a Messages);

impl Listener for Told<'_> {
    fn trial(&mut self, done: usize, of: usize, what: &str) {
        self.0.say(&format!("[{done}/{of}] {what}"));
    }

    fn note(&mut self, text: &str) {
        self.0.warning(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_experiment_is_named_with_those_there_are() {
        let error = choose(&["macro".to_owned()]).map(drop).unwrap_err();
        assert!(
            error.0.contains("macro") && error.0.contains("micro"),
            "{error}"
        );
        assert_eq!(choose(&[]).unwrap().len(), experiment::all().len());
        assert_eq!(choose(&["micro".to_owned()]).unwrap().len(), 1);
    }
}
