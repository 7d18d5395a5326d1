// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests to nodes that run.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;

use crate::live::Watch;
use crate::node::protocol::{CpuSpeed, Reply, Request, Status};
use crate::node::socket::{Directory, SocketError, ask, list as nodes, names};
use crate::node::{NodeName, Speeds};
use clap::Args;
use sandbag_linux::user::User;
use sandbag_run::registry::Registry;
use sandbag_ui::bail;
use sandbag_ui::failure::{Context as _, Result};
use sandbag_ui::text::visible;
use serde_json::json;

use sandbag_run::program;
use sandbag_ui::BadInput;
use sandbag_ui::exit;
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{JsonArgs, Overwrite};
use sandbag_ui::units::ASK_LIMIT;

/// Run a program in a node that runs
#[derive(Debug, Args)]
pub struct ExecArgs {
    /// The node (`sandbag slow list`)
    #[arg(value_name = "NAME")]
    name: NodeName,

    /// With sudo, run CMD as root and not as the calling user
    #[arg(long)]
    as_root: bool,

    /// The program and its arguments
    #[arg(last = true, value_name = "CMD", required = true)]
    command: Vec<OsString>,
}

/// Change a running node's speed
#[derive(Debug, Args)]
pub struct SetArgs {
    /// The node (`sandbag slow list`)
    #[arg(value_name = "NAME")]
    name: NodeName,

    /// 0.5, 50%, 1200MHz; or for each of its CPUs 0=1,1=0.8
    #[arg(short, long, value_name = "SPEED")]
    speed: Speeds,
}

/// Show the nodes that run: CPUs, speed asked and got
#[derive(Debug, Args)]
#[command(mut_arg("json", |a| a.help("One JSON object per node and line, to FILE [default: standard output]")))]
pub struct ListArgs {
    #[command(flatten)]
    json: JsonArgs,

    #[command(flatten)]
    overwrite: Overwrite,
}

/// End a node: its CMD gets SIGTERM, other programs go on
#[derive(Debug, Args)]
pub struct StopArgs {
    /// The node (`sandbag slow list`)
    #[arg(value_name = "NAME", required_unless_present = "all")]
    name: Option<NodeName>,

    /// All nodes
    #[arg(long, conflicts_with = "name")]
    all: bool,
}

fn directory() -> Result<Directory> {
    Ok(Directory::in_registry(Registry::open()?.dir()))
}

fn send(directory: &Directory, name: &NodeName, request: &Request) -> Result<Reply> {
    accepted(name, ask(directory, name, request, ASK_LIMIT))
}

fn accepted(name: &NodeName, answer: std::result::Result<Reply, SocketError>) -> Result<Reply> {
    match answer? {
        Reply::Error { message } => bail!("node {name}: {message}"),
        reply => Ok(reply),
    }
}

/// `slow exec`: enters the node and becomes the program, with its exit code.
pub fn exec(args: &ExecArgs) -> Result<u8> {
    program::check(&args.command)?;
    let pid = std::process::id();
    let reply = send(&directory()?, &args.name, &Request::Admit { pid })?;
    let Reply::Admitted { environment } = reply else {
        bail!("node {}: unexpected answer: {reply:?}", args.name);
    };
    let (program, arguments) = args.command.split_first().context("CMD is missing")?;
    let mut command = std::process::Command::new(program);
    command.args(arguments).envs(environment);
    if let (false, Some(user)) = (args.as_root, User::behind_sudo()) {
        user.become_in(&mut command);
    }
    let cause = command.exec();
    let program = program.to_string_lossy().into_owned();
    Err(sandbag_run::Error::Command { program, cause }.into())
}

pub fn set(args: &SetArgs, messages: &Messages) -> Result<u8> {
    set_speed(&args.name, &args.speed, messages)
}

/// Changes the speed of a node that runs.
pub fn set_speed(name: &NodeName, speed: &Speeds, messages: &Messages) -> Result<u8> {
    let speeds = speed.to_string();
    match ask(&directory()?, name, &Request::Set { speeds }, ASK_LIMIT)? {
        Reply::Set { speeds } => messages.say(&format!("node {name}: speed {speeds}")),
        // The user's speed is at fault, not the node.
        Reply::Error { message } => {
            return Err(BadInput(format!("node {name}: {message}")).into());
        }
        reply => bail!("node {name}: unexpected answer: {reply:?}"),
    }
    Ok(exit::KEPT)
}

pub fn list(args: &ListArgs, messages: &Messages) -> Result<u8> {
    let mut text = String::new();
    let as_json = args.json.path().is_some();
    let watch = Watch::open()?;
    for mut node in nodes(&directory()?, ASK_LIMIT)? {
        node.status.iter_mut().for_each(|node| watch.measure(node));
        let status = node.status.map_err(|error| visible(&error.to_string()));
        text += &match status {
            Ok(status) if as_json => serde_json::to_string(&status)? + "\n",
            Err(error) if as_json => format!(
                "{}\n",
                json!({"name": node.name.to_string(), "error": error})
            ),
            Ok(status) => status_text(&status),
            Err(error) => format!("{}: {error}\n", node.name),
        };
    }
    if text.is_empty() {
        messages.say("no node of this user");
    }
    args.json.put_lines(&text, args.overwrite.existing())?;
    Ok(exit::KEPT)
}

fn status_text(status: &Status) -> String {
    let text = format!(
        "{}: CPUs {} by {}, process {}, {} inside\n",
        visible(&status.name),
        visible(&status.cpus),
        visible(&status.method),
        status.pid,
        match status.members.len() {
            1 => "1 process".to_owned(),
            n => format!("{n} processes"),
        }
    );
    text + &speed_lines(&status.speeds)
}

pub fn speed_lines(speeds: &[CpuSpeed]) -> String {
    let line = |speed: &CpuSpeed| {
        let got = speed.got.map_or_else(
            || "not measured now".to_owned(),
            |got| format!("{got:.3} in the last second"),
        );
        format!("  CPU {}: asked {:.3}, {got}\n", speed.cpu, speed.asked)
    };
    speeds.iter().map(line).collect()
}

pub fn stop(args: &StopArgs, messages: &Messages) -> Result<u8> {
    let directory = directory()?;
    let names = match &args.name {
        Some(name) => vec![name.clone()],
        None => names(&directory)?,
    };
    let mut code = exit::KEPT;
    for name in names {
        let answer = match ask(&directory, &name, &Request::Stop, ASK_LIMIT) {
            // It ended meanwhile.
            Err(SocketError::NotRunning { .. }) if args.all => continue,
            answer => accepted(&name, answer),
        };
        match answer {
            Ok(_) => messages.say(&format!("node {name}: ending")),
            Err(error) if args.all => {
                Messages::error(&error.line());
                code = exit::FAILED;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(code)
}
