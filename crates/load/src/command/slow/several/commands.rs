// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands of nodes: started together and waited for; they get our signals.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus};

use crate::node::place::PlacedNode;
use nix::sys::signal::Signal;
use sandbag_linux::child::ChildSetup as _;
use sandbag_linux::signals::{ENDING, EndRequests, SignalUse, Signals, pass_on};
use sandbag_linux::{Root, clock};
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

/// Runs the commands of all nodes to their ends, or until a second signal asks for the
/// end. Nodes without any stay until they are stopped, or a signal comes.
pub fn run(
    placed: &[PlacedNode],
    nodes: &mut NodeProcesses,
    options: &NodeOptions,
    messages: &Messages,
) -> Result<Vec<CommandEnd>> {
    let root = Root::default();
    let signals = Signals::take(&[], None).context("signalfd")?;
    let mut commands = Commands {
        running: Vec::new(),
    };
    for node in placed {
        for words in &node.spec.commands {
            commands.running.push(start(node, words, options)?);
        }
    }
    let mut open = true;
    let mut ended = Vec::new();
    let mut requests = EndRequests::default();
    while open && nodes.one_stays() || !commands.running.is_empty() {
        signals.wait(None).context("wait for a signal")?;
        while let Some(arrived) = signals.next() {
            if arrived.signal == Signal::SIGCHLD {
                continue;
            }
            match requests.judge(arrived, clock::monotonic()) {
                SignalUse::Repeated => continue,
                SignalUse::Command => {}
                SignalUse::End => {
                    let running = commands.running.iter();
                    ended.extend(running.map(|one| one.left_by(arrived.signal)));
                    return Ok(ended);
                }
            }
            open &= !ENDING.contains(&arrived.signal);
            let running = commands.running.iter();
            running.for_each(|one| pass_on(&root, one.child.id(), arrived));
        }
        ended.extend(commands.reap());
        let runs = |name: &str| commands.running.iter().any(|one| one.node == name);
        nodes.notice_ends(runs, messages);
    }
    Ok(ended)
}

/// The commands that run. Dropping them, with some still running because
/// another could not be started, ends them.
struct Commands {
    running: Vec<NodeCommand>,
}

impl Commands {
    fn reap(&mut self) -> Vec<CommandEnd> {
        let mut ended = Vec::new();
        self.running.retain_mut(|one| match one.child.try_wait() {
            Ok(None) => true,
            // Of an error (ECHILD) its end is not known, and is no more to be waited for.
            status => {
                ended.push(one.end(status.ok().flatten()));
                false
            }
        });
        ended
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        self.running
            .iter()
            .for_each(|one| signal(one.child.id(), Signal::SIGTERM));
    }
}

impl NodeCommand {
    /// It does not heed the signal that asks for the end, and is not waited for.
    fn left_by(&self, signal: Signal) -> CommandEnd {
        CommandEnd {
            shown: format!("node {}: {} goes on", self.node, self.words.join(" ")),
            code: exit::of_command(None, Some(signal as i32)),
        }
    }

    fn end(&self, status: Option<ExitStatus>) -> CommandEnd {
        let code = status.map_or(exit::FAILED, |status| {
            exit::of_command(status.code(), status.signal())
        });
        let how = match status {
            Some(_) => format!("ended with {code}"),
            None => "vanished".to_owned(),
        };
        let (words, seconds) = (self.words.join(" "), self.since.elapsed().as_secs_f64());
        CommandEnd {
            shown: format!("node {}: {words} {how} after {seconds:.2} s", self.node),
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

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use sandbag_linux::child::reap;

    use super::*;

    #[test]
    fn a_command_that_vanished_is_not_waited_for() {
        let child = Command::new("true").stdin(Stdio::null()).spawn().unwrap();
        reap(Some(child.id())).unwrap();
        let mut commands = Commands {
            running: vec![NodeCommand {
                node: "a".to_owned(),
                words: vec!["true".to_owned()],
                child,
                since: std::time::Instant::now(),
            }],
        };
        let ended = commands.reap();
        assert!(commands.running.is_empty());
        assert_eq!((ended.len(), ended[0].code), (1, exit::FAILED));
        assert!(ended[0].shown.contains("true vanished after"));
    }
}
