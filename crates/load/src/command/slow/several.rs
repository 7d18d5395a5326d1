// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several nodes from a file: a `sandbag slow` for each, a `slow exec` for
//! each of their commands, and one report.

mod commands;
mod nodes;

use std::ffi::OsString;
use std::path::Path;

use crate::method::{self, MethodOptions};
use crate::node::place::{PlacedNode, place};
use crate::node::socket::Directory;
use crate::node::{NodeMachine, NodeSpec, NodesFile, Vocabulary};
use clap::Parser as _;
use sandbag_linux::{Root, machine};
use sandbag_run::registry::Registry;
use sandbag_ui::failure::{Context as _, Result};

use super::SlowArgs;
use super::node;
use super::options::NodeOptions;
use crate::command::run::layers::LayerOptions;
use sandbag_run::directory::RunDir;
use sandbag_run::program;
use sandbag_ui::BadInput;
use sandbag_ui::exit;
use sandbag_ui::messages::Messages;

/// The command line of one node: `slow` and its arguments.
#[derive(Debug, clap::Parser)]
#[command(name = "slow")]
struct NodeLine {
    #[command(flatten)]
    args: SlowArgs,
}

pub fn main(file: &Path, options: &NodeOptions, messages: &Messages) -> Result<u8> {
    node::refuse_nesting()?;
    let layers = LayerOptions::NAMES.map(str::to_owned);
    let names: Vec<String> = MethodOptions::names().into_iter().chain(layers).collect();
    let host = machine::host(&Root::default()).unwrap_or_default();
    let vocabulary = Vocabulary {
        host: &host,
        methods: &method::SLOWING,
        options: &names.iter().map(String::as_str).collect::<Vec<_>>(),
    };
    options.hold.check_results()?;
    let mut wanted = NodesFile::read(file, &vocabulary)?;
    for node in &mut wanted.nodes {
        check_commands(node)?;
        node.method.get_or_insert_with(|| options.method.clone());
    }
    let registry = Registry::open()?;
    if !options.hold.dry_run {
        let undone = registry.restore()?.into_iter();
        undone.for_each(|dead| messages.warning(&dead.to_string()));
    }
    let machine = NodeMachine::read(&Root::default())?;
    let domains = |spec: &NodeSpec| {
        let method = spec.method.as_deref().unwrap_or_default();
        let split = spec.options.get("split-domains");
        node::domains(method, split.is_some_and(|value| value == "true"))
    };
    let placed = place(wanted.nodes, &machine, &node::claims(&registry)?, domains)?;
    for node in &placed {
        check_node(node, options, &registry)?;
    }
    for node in &placed {
        messages.say(&describe(node));
    }
    if options.hold.dry_run {
        return Ok(exit::KEPT);
    }
    let dir = options.hold.make_dir(messages)?;
    let sockets = Directory::in_registry(registry.dir());
    let mut nodes = nodes::NodeProcesses::start(&placed, &sockets, dir.as_ref(), options)?;
    // Until here a node may be refused, and what an earlier run left stays.
    dir.iter().for_each(RunDir::remove_results);
    let commands = commands::run(&placed, &mut nodes, options, messages)?;
    nodes.stop();
    for ended in &commands {
        messages.say(&ended.shown);
    }
    let verdicts = nodes.report(&commands, dir.as_ref(), messages);
    let failed = commands
        .iter()
        .map(|ended| ended.code)
        .find(|code| *code != 0);
    // As with one node and its command: the commands' own code comes first.
    Ok(match failed {
        Some(code) => code,
        None if commands.is_empty() || options.hold.strict || verdicts == exit::FAILED => verdicts,
        None => exit::KEPT,
    })
}

fn check_commands(node: &NodeSpec) -> Result<()> {
    let here = Path::new("");
    let dir = node.cwd.as_deref().unwrap_or(here);
    if dir != here && !dir.is_dir() {
        let what = format!("{} is no directory", dir.display());
        return Err(node
            .origin
            .fault("cwd", what, "make it, or name another")
            .into());
    }
    let key = ["command", "commands"]
        .into_iter()
        .find(|key| node.origin.keys.contains_key(*key))
        .unwrap_or_default();
    for command in &node.commands {
        let words: Vec<OsString> = command.iter().map(Into::into).collect();
        let path = node.env.get("PATH").map(OsString::from);
        program::check_in(&words, dir, path)
            .with_context(|| format!("{}: {key}", node.origin.place(key)))?;
    }
    Ok(())
}

/// Checks, as the node's process will, whether this machine can have the node.
fn check_node(node: &PlacedNode, options: &NodeOptions, registry: &Registry) -> Result<()> {
    let origin = &node.spec.origin;
    // By the option that it names, the key that is meant.
    let key_in = |text: &str| {
        let named = |key: &&String| text.contains(&format!("--{key}"));
        origin.keys.keys().find(named).map_or("", String::as_str)
    };
    let line = NodeLine::try_parse_from(nodes::arguments(node, options)).map_err(|error| {
        let text = error.to_string();
        // What is wrong, and what could be written; then comes our usage.
        let said: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
        let said = said.join(" ");
        let said = said.strip_prefix("error: ").unwrap_or(&said);
        BadInput(format!("{}: {said}", origin.place(key_in(said))))
    })?;
    node::check(&line.args.options, registry)
        .map(|_| ())
        .map_err(|error| {
            let text = error.to_string();
            let key = match key_in(&text) {
                "" if error.exit_code(false) == exit::NOT_POSSIBLE => "method",
                "" => "profile",
                key => key,
            };
            let place = origin.place(key);
            error.context(format!("{place}: node {}", node.spec.name))
        })
}

fn describe(node: &PlacedNode) -> String {
    use crate::node::PlacedCourse;
    let course = match &node.course {
        PlacedCourse::Constant(ratios) => format!("speed {ratios}"),
        PlacedCourse::Profile(path) => format!("speed by {}", path.display()),
    };
    let why = node
        .why
        .as_ref()
        .map_or_else(String::new, |why| format!(" ({why})"));
    format!("node {}: CPUs {}, {course}{why}", node.spec.name, node.cpus)
}
