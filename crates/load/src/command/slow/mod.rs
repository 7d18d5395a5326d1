// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag slow`: virtual nodes.
//!
//! A node is one process: `node` makes it and is its supervisor. Several nodes
//! (`several`) are several such processes, which the first starts and waits
//! for. `client` talks to nodes that run.

pub mod client;
mod node;
mod options;
mod several;

use std::path::PathBuf;

use crate::method::MethodOptions;
use clap::{ArgGroup, Args, Subcommand};
use sandbag_ui::failure::Result;

use options::NodeOptions;
use sandbag_ui::messages::Messages;

/// Slow CPUs for a program: virtual nodes, slower or unequal CPUs
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true,
          group = ArgGroup::new("where").args(["cpus", "cores", "pid", "unit", "container", "file"]).required(true)
              .multiple(true),
          mut_args(apart_from_methods))]
pub struct SlowArgs {
    #[command(subcommand)]
    verb: Option<SlowVerb>,

    /// A file of several nodes with their commands (TOML), in place of
    /// --cpus and --speed
    ///
    /// The nodes stay until the last command ends, or until Ctrl-C where a
    /// node has none. Each has its own report in the run directory. The keys
    /// are in docs/reference/nodes.md.
    // What is each node's own is in the file, or could be.
    #[arg(value_name = "NODES.toml", conflicts_with_all = ["cpus", "cores", "pid", "unit",
          "container", "duration",
          "speed", "profile", "load", "jitter", "at", "name", "period", "json", "timeout", "kill", "metrics",
          "metrics_file", "command"])]
    file: Option<PathBuf>,

    #[command(flatten)]
    options: NodeOptions,
}

/// A file has the options of methods of each node. In place: an argument that
/// is changed by its name moves behind the others.
fn apart_from_methods(argument: clap::Arg) -> clap::Arg {
    if argument.get_id() == "file" {
        argument.conflicts_with_all(MethodOptions::ids())
    } else {
        argument
    }
}

/// What can be done with a node that runs.
#[derive(Debug, Subcommand)]
enum SlowVerb {
    /// Run a program in a node that runs
    ///
    /// This process enters the node and becomes the program: terminal, signals
    /// and exit code are the program's. It finds the node's name, CPUs and
    /// speeds in SANDBAG_NODE, SANDBAG_NODE_CPUS, SANDBAG_NODE_SPEED and
    /// SANDBAG_NODE_SPEEDS. Failures of ours are exit code 125.
    Exec(client::ExecArgs),
    /// Change a running node's speed
    ///
    /// From the next period on, on all of its CPUs in the same one. What a
    /// --profile had for later is forgotten.
    Set(client::SetArgs),
    /// Show the nodes that run: CPUs, speed asked and got
    List(client::ListArgs),
    /// End a node: its CMD gets SIGTERM, other programs go on
    ///
    /// A node that was started with a CMD sends SIGTERM to everything in it,
    /// and ends with CMD. One without ends at once, and the programs in it go
    /// on at full speed.
    Stop(client::StopArgs),
}

impl SlowArgs {
    pub fn has_command(&self) -> bool {
        matches!(self.verb, Some(SlowVerb::Exec(_))) || !self.options.hold.command.is_empty()
    }
}

pub fn main(args: &SlowArgs, messages: &Messages) -> Result<u8> {
    match (&args.verb, &args.file) {
        (Some(SlowVerb::Exec(args)), _) => client::exec(args),
        (Some(SlowVerb::Set(args)), _) => client::set(args, messages),
        (Some(SlowVerb::List(args)), _) => client::list(args, messages),
        (Some(SlowVerb::Stop(args)), _) => client::stop(args, messages),
        (None, Some(file)) => several::main(file, &args.options, messages),
        (None, None) => node::main(&args.options, messages),
    }
}
