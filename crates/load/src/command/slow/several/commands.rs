// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands of nodes: started together and waited for; they get our signals.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus};

use crate::node::place::PlacedNode;
use nix::sys::signal::{SigSet, Signal};
use sandbag_linux::child::ChildSetup as _;
use sandbag_linux::signals::ENDING;
use sandbag_ui::failure::{Context as _, Result};

use super::super::options::NodeOptions;
use super::nodes::NodeProcesses;
use crate::command::own_run::signal;
use sandbag_ui::exit;
use sandbag_ui::messages::Messages;

/// A command that ended: a line about it, and its code as a shell has it.
pub struct CommandEnd {
    pub shown: String,
    pub code: u8,
}

struct NodeCommand {
    node: String,
    words: Vec<String>,
    child: Child,
    since: std::time::Instant,
}

/// Runs the commands of all nodes to their ends. Nodes without any stay until
/// they are stopped, or a signal comes.
pub fn run(
    placed: &[PlacedNode],
    nodes: &mut NodeProcesses,
    options: &NodeOptions,
    messages: &Messages,
) -> Result<Vec<CommandEnd>> {
    let mut wanted: SigSet = ENDING.into_iter().collect();
    wanted.add(Signal::SIGCHLD);
    wanted.thread_block().context("block signals")?;
    let mut commands = Commands {
        blocked: wanted,
        running: Vec::new(),
    };
    for node in placed {
        for words in &node.spec.commands {
            commands.running.push(start(node, words, options)?);
        }
    }
    let mut open = true;
    let mut ended = Vec::new();
    while open && nodes.one_stays() || !commands.running.is_empty() {
        let signal = wanted.wait().context("wait for a signal")?;
        if ENDING.contains(&signal) {
            open = false;
            // A terminal has told them already; once more does no harm to
            // who ends, and a second one is for who did not.
            commands.tell(signal);
        }
        ended.extend(commands.reap());
        nodes.notice_ends(messages);
    }
    Ok(ended)
}

/// The commands that run. Dropping them, with some still running because
/// another could not be started, ends them.
struct Commands {
    blocked: SigSet,
    running: Vec<NodeCommand>,
}

impl Commands {
    fn tell(&self, what: Signal) {
        self.running
            .iter()
            .for_each(|one| signal(one.child.id(), what));
    }

    fn reap(&mut self) -> Vec<CommandEnd> {
        let mut ended = Vec::new();
        self.running.retain_mut(|one| match one.child.try_wait() {
            Ok(Some(status)) => {
                ended.push(one.end(status));
                false
            }
            _ => true,
        });
        ended
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        self.tell(Signal::SIGTERM);
        let _ = self.blocked.thread_unblock();
    }
}

impl NodeCommand {
    fn end(&self, status: ExitStatus) -> CommandEnd {
        let code = exit::of_command(status.code(), status.signal());
        let (words, seconds) = (self.words.join(" "), self.since.elapsed().as_secs_f64());
        CommandEnd {
            shown: format!(
                "node {}: {words} ended with {code} after {seconds:.2} s",
                self.node
            ),
            code,
        }
    }
}

fn start(node: &PlacedNode, words: &[String], options: &NodeOptions) -> Result<NodeCommand> {
    let mut command = Command::new("/proc/self/exe");
    command.args(["slow", "exec", node.spec.name.as_str()]);
    if options.hold.as_root {
        command.arg("--as-root");
    }
    command.arg("--").args(words).envs(&node.spec.env);
    if let Some(dir) = &node.spec.cwd {
        command.current_dir(dir);
    }
    // The signals that we wait for must reach the commands.
    command.unblock_signals();
    Ok(NodeCommand {
        node: node.spec.name.to_string(),
        words: words.to_vec(),
        child: command
            .spawn()
            .with_context(|| format!("start a command of node {}", node.spec.name))?,
        since: std::time::Instant::now(),
    })
}
