// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several nodes from a file: a `sandbag slow` for each, a `slow exec` for
//! each of their commands, and one report.

mod commands;
mod nodes;

use std::path::Path;

use anyhow::Result;
use sandbag_burner::command::User;
use sandbag_burner::method;
use sandbag_burner::registry::Registry;
use sandbag_kernel::Root;
use sandbag_node::place::{Placed, place};
use sandbag_node::socket::Directory;
use sandbag_node::{Machine, NodesFile, Vocabulary};

use super::one;
use super::options::{METHOD_OPTIONS, NodeOptions};
use crate::messages::Messages;
use crate::run::directory::RunDir;
use crate::{exit, program};

/// Makes the nodes, runs their commands, and waits for them.
pub fn main(file: &Path, options: &NodeOptions, messages: &Messages) -> Result<u8> {
    one::refuse_nesting()?;
    let vocabulary = Vocabulary {
        methods: &method::SLOWING,
        options: &METHOD_OPTIONS,
    };
    let wanted = NodesFile::read(file, &vocabulary)?;
    for command in wanted.nodes.iter().flat_map(|node| &node.commands) {
        let words: Vec<_> = command.iter().map(Into::into).collect();
        program::check(&words)?;
    }
    let registry = Registry::open()?;
    let machine = Machine::read(&Root::default())?;
    let domains = |spec: &sandbag_node::NodeSpec| {
        let name = spec.method.as_deref().unwrap_or(method::SLOWING[0]);
        method::by_name(name).map_or(sandbag_node::Domains::MaySplit, |m| one::domains(&*m))
    };
    let placed = place(wanted.nodes, &machine, &one::held(&registry)?, domains)?;
    for node in &placed {
        messages.say(&described(node));
    }
    if options.dry_run {
        return Ok(exit::KEPT);
    }
    let user = match options.as_root {
        true => None,
        false => User::behind_sudo(),
    };
    let dir = match options.no_out {
        true => None,
        false => RunDir::make(options.out.clone(), user, messages),
    };
    let sockets = Directory::in_registry(registry.dir());
    let mut nodes = nodes::Nodes::start(&placed, &sockets, dir.as_ref(), options)?;
    let commands = commands::run(&placed, options)?;
    nodes.stop();
    for ended in &commands {
        messages.say(&ended.shown());
    }
    let verdicts = nodes.report(dir.as_ref(), messages);
    let failed = commands
        .iter()
        .map(|ended| ended.code)
        .find(|code| *code != 0);
    Ok(failed.unwrap_or(verdicts))
}

fn described(node: &Placed) -> String {
    use sandbag_node::PlacedCourse;
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
