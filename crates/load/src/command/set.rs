// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag set`: change a run while it goes on.

use clap::{ArgGroup, Args};
use nix::sys::signal::Signal;
use sandbag_linux::Root;
use sandbag_linux::signals::is_taken;
use sandbag_run::journal::RunInfo;
use sandbag_run::other_users;
use sandbag_run::registry::Registry;
use sandbag_ui::failure::{Context as _, Failure, Result};
use sandbag_ui::messages::Messages;
use sandbag_ui::units::{self, ASK_LIMIT, Loads};
use sandbag_ui::{BadInput, bail, exit};

use crate::live::words::number;
use crate::node::protocol::{Reply, Request, Status};
use crate::node::socket::{Directory, SocketError, ask, list};
use crate::node::{NodeName, Speeds};

use super::slow::client::set_speed;

/// Change a run while it goes on: its load, its speed; pause and resume it
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true))]
pub struct SetArgs {
    /// The process id of a run (`sandbag status`), or the name of a node
    #[arg(value_name = "RUN")]
    run: NodeName,

    /// Of a load: other loads from now on, 40 or 0=30,2-3=60; CPUs that are not named keep
    /// theirs
    ///
    /// What its profile had for later is forgotten, but for its end. The report names each
    /// change.
    #[arg(long, value_name = "PERCENT", value_parser = units::loads, group = "what")]
    load: Option<Loads>,

    /// Of a node: another speed from now on, 0.5, 50%, 1200MHz; or 0=1,1=0.8
    #[arg(short, long, value_name = "SPEED", group = "what")]
    speed: Option<Speeds>,

    /// Let the run stand still, and its command with it, as Ctrl-Z does: the time of the
    /// profile, too
    #[arg(long, group = "what")]
    pause: bool,

    /// Let it go on
    #[arg(long, group = "what")]
    resume: bool,
}

pub fn main(args: &SetArgs, messages: &Messages) -> Result<u8> {
    if !Registry::has_place() {
        return Err(none(args.run.as_str()));
    }
    let registry = Registry::open()?;
    let nodes = list(&Directory::in_registry(registry.dir()), ASK_LIMIT)?.into_iter();
    let nodes: Vec<Status> = nodes.filter_map(|node| node.status.ok()).collect();
    let run = find(args, registry.runs()?, &nodes)?;
    let node = nodes.iter().find(|node| node.pid == run.pid);
    if let Some(speed) = &args.speed {
        let why_not = || match node_of(&run) {
            Some(name) => format!("node {name} does not answer: it may stand still (--resume)"),
            None => format!("run {} ({}) is no node", number(&run), run.load),
        };
        let node = node.with_context(why_not)?;
        return set_speed(&node.name.parse()?, speed, messages);
    }
    if let Some(loads) = &args.load {
        if let Some(name) = node_of(&run) {
            let text = format!("node {name} has speeds, and its parts follow them: --speed");
            return Err(BadInput(text).into());
        }
        return set_load(&registry, &run, loads, messages);
    }
    let (signal, said) = if args.pause {
        (libc::SIGTSTP, "stands still")
    } else {
        (libc::SIGCONT, "goes on")
    };
    let unseen = || format!("run {} cannot be seen from here", number(&run));
    let supervisor = run.supervisor().with_context(unseen)?;
    // By default the signal would stop sandbag and nothing else.
    if !is_taken(&Root::default(), supervisor.pid, Signal::SIGTSTP) {
        let what = format!("run {} ({}) cannot be paused", number(&run), run.load);
        return Err(BadInput(format!("{what}: only loads, nodes and replays can")).into());
    }
    supervisor.signal(signal)?;
    messages.say(&format!("run {} {said}", number(&run)));
    Ok(exit::KEPT)
}

fn find(args: &SetArgs, mut runs: Vec<RunInfo>, nodes: &[Status]) -> Result<RunInfo> {
    let name = args.run.as_str();
    let by_name = nodes
        .iter()
        .find(|node| node.name == name)
        .map(|node| node.pid);
    let pid = by_name.or_else(|| name.parse().ok());
    let here = |run: &RunInfo| run.supervisor().map(|process| process.pid);
    let is_it = |run: &RunInfo| pid.is_some_and(|pid| run.pid == pid || here(run) == Some(pid));
    // A node that stands still does not answer; its journal has its name.
    let is_named = |run: &RunInfo| node_of(run) == Some(name);
    let at = runs.iter().position(is_it);
    let at = at.or_else(|| runs.iter().position(is_named));
    let run = runs.swap_remove(at.ok_or_else(|| none(name))?);
    // The whole would not know of it, and be judged as if nothing had been changed.
    if let Some(whole) = run.part_of {
        let text = format!("run {} is a part of run {whole}: name that one", run.pid);
        return Err(BadInput(text).into());
    }
    Ok(run)
}

/// Why there is no run of this name or number.
fn none(name: &str) -> Failure {
    let pid = name.parse().ok();
    match pid.map(|pid| other_users::refuse(&Root::default(), pid)) {
        Some(Err(error)) => error.into(),
        _ => BadInput(format!("no run is {name} (see sandbag status)")).into(),
    }
}

/// The name of a run that is a node, by its journal.
fn node_of(run: &RunInfo) -> Option<&str> {
    run.load.strip_prefix("node ")
}

fn set_load(registry: &Registry, run: &RunInfo, loads: &Loads, messages: &Messages) -> Result<u8> {
    let directory = Directory::of_loads(registry.dir());
    let name: NodeName = run.pid.to_string().parse()?;
    let loads = match loads {
        Loads::All(pct) => pct.to_string(),
        Loads::PerCpu(each) => {
            let parts = each.iter().map(|(cpus, pct)| format!("{cpus}={pct}"));
            parts.collect::<Vec<_>>().join(",")
        }
    };
    let number = number(run);
    match ask(&directory, &name, &Request::Load { loads }, ASK_LIMIT) {
        Ok(Reply::Load { loads }) => messages.say(&format!("run {number}: load {loads}")),
        Ok(Reply::Error { message }) => {
            return Err(BadInput(format!("run {number}: {message}")).into());
        }
        Ok(reply) => bail!("run {number}: unexpected answer: {reply:?}"),
        Err(SocketError::NotRunning { .. }) => {
            let text = format!("run {number} ({}) has no load that can be set", run.load);
            return Err(BadInput(text).into());
        }
        Err(error) => bail!("run {number} takes no other load: {error}"),
    }
    Ok(exit::KEPT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(pid: u32, load: &str) -> RunInfo {
        RunInfo {
            pid,
            ..RunInfo::of_this_process(load)
        }
    }

    fn named(name: &str) -> SetArgs {
        SetArgs {
            run: name.parse().unwrap(),
            load: None,
            speed: None,
            pause: false,
            resume: true,
        }
    }

    #[test]
    fn a_node_that_does_not_answer_is_found_by_its_journal() {
        let all = [(7, "constant 20 %"), (8, "node small"), (9, "node 7")];
        let all = all.map(|(pid, load)| run(pid, load)).to_vec();
        let found = |name: &str| {
            let found = find(&named(name), all.clone(), &[]);
            found.ok().map(|run| run.pid)
        };
        assert_eq!(found("small"), Some(8));
        // A number is a process first.
        assert_eq!(found("7"), Some(7));
        assert_eq!(found("smal"), None);
    }

    #[test]
    fn a_part_is_not_changed_without_its_run() {
        let part = RunInfo {
            part_of: Some(8),
            ..run(7, "constant 20 %")
        };
        let error = find(&named("7"), vec![part, run(8, "node small")], &[]).unwrap_err();
        assert_eq!(error.exit_code(false), exit::USAGE);
        let text = error.to_string();
        assert!(text.contains("7 is a part of run 8"), "{text}");
    }
}
