// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands of nodes: started together and waited for; they get our signals.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use crate::node::place::PlacedNode;
use crate::node::{Target, TargetName};
use crate::report::run::JoinedCommand;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getpgid, getpgrp};
use sandbag_linux::child::ChildSetup as _;
use sandbag_linux::process::Process;
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
    /// Its node.
    pub node: String,
    pub result: JoinedCommand,
}

struct NodeCommand {
    node: String,
    words: Vec<String>,
    child: Child,
    since: Instant,
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
    let signals = Signals::take(&[Signal::SIGTSTP], None).context("signalfd")?;
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
            if arrived.signal == Signal::SIGTSTP {
                commands.stand_still(&nodes.pids(), arrived.by_kernel, || signals.stand_still());
                continue;
            }
            match requests.judge(arrived, clock::monotonic()) {
                SignalUse::Repeated => continue,
                SignalUse::Command => {}
                SignalUse::End => {
                    ended.extend(commands.leave(arrived.signal));
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

    /// Ctrl-Z, which a terminal sends to the commands as well (`by_key`) and not to the nodes:
    /// all stand still, and the profiles, loads and jitter of the nodes with them. `rest`
    /// returns when all is to go on.
    fn stand_still(&self, nodes: &[u32], by_key: bool, rest: impl FnOnce()) {
        let root = Root::default();
        let in_front = |pid: &u32| {
            let group = getpgid(Some(Pid::from_raw(pid.cast_signed())));
            !by_key || group.is_ok_and(|group| group == getpgrp())
        };
        let own = || self.running.iter().map(|one| one.child.id());
        // Also those that were started meanwhile.
        let programs = || -> Vec<u32> {
            let tree = |pid| {
                let tree = Target::of(&root, &TargetName::Process(pid, true));
                tree.and_then(|tree| tree.members(&root))
                    .unwrap_or_default()
            };
            own().flat_map(tree).filter(in_front).collect()
        };
        let make_stand = || {
            let rest = stop(&root, programs, STOPPED_BY);
            // The kernel drops SIGTSTP where no shell could continue them; who does not heed the
            // key of a terminal goes on.
            let made = rest.into_iter().filter(|_| !by_key);
            made.for_each(|pid| signal(pid, Signal::SIGSTOP));
        };
        // While they are slowed; and once more, as a method that stops its node lets it go, and
        // a stop by the terminal that waited until then is void.
        if !by_key {
            make_stand();
        }
        stop(&root, || nodes.to_vec(), NODES_STAND_BY);
        make_stand();
        let mut stopped = programs();
        stopped.retain(|pid| !goes_on(&root, *pid));
        rest();
        // Also those that the terminal stopped: who continues us may be no shell.
        let all = nodes.iter().copied().chain(own()).chain(stopped);
        all.for_each(|pid| signal(pid, Signal::SIGCONT));
    }

    /// Those that do not heed the signal go on.
    fn leave(&mut self, signal: Signal) -> Vec<CommandEnd> {
        let left = self.running.drain(..);
        left.map(|one| one.left_by(signal)).collect()
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        self.running
            .iter()
            .for_each(|one| signal(one.child.id(), Signal::SIGTERM));
    }
}

/// How long a program may take to stop by itself.
const STOPPED_BY: Duration = Duration::from_millis(100);
/// A node waits for its burners' notes, and so do its parts.
const NODES_STAND_BY: Duration = Duration::from_secs(2);

/// Asks processes to stop; those that went on for so long.
fn stop(root: &Root, all: impl Fn() -> Vec<u32>, patience: Duration) -> Vec<u32> {
    let mut told = BTreeSet::new();
    let until = Instant::now() + patience;
    loop {
        let mut rest = all();
        rest.retain(|pid| goes_on(root, *pid));
        if rest.is_empty() || Instant::now() >= until {
            return rest;
        }
        let new = rest.iter().filter(|pid| told.insert(**pid));
        new.for_each(|pid| signal(*pid, Signal::SIGTSTP));
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn goes_on(root: &Root, pid: u32) -> bool {
    let stat = Process::new(root, pid).stat();
    stat.is_ok_and(|stat| !matches!(stat.state, 'T' | 't') && !stat.has_ended())
}

impl NodeCommand {
    /// It does not heed the signal that asks for the end, and is not waited for.
    fn left_by(&self, signal: Signal) -> CommandEnd {
        CommandEnd {
            shown: format!("node {}: {} goes on", self.node, self.words.join(" ")),
            code: exit::of_command(None, Some(signal as i32)),
            node: self.node.clone(),
            result: self.result(None),
        }
    }

    fn result(&self, status: Option<ExitStatus>) -> JoinedCommand {
        JoinedCommand {
            arguments: self.words.clone(),
            exit_code: status.and_then(|status| status.code()),
            signal: status.and_then(|status| status.signal()),
            wall_s: self.since.elapsed().as_secs_f64(),
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
        let result = self.result(status);
        let (words, seconds) = (self.words.join(" "), result.wall_s);
        CommandEnd {
            shown: format!("node {}: {words} {how} after {seconds:.2} s", self.node),
            code,
            node: self.node.clone(),
            result,
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
        since: Instant::now(),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::Stdio;

    use sandbag_linux::child::reap;

    use super::*;

    fn running(child: Child, word: &str) -> Commands {
        Commands {
            running: vec![NodeCommand {
                node: "a".to_owned(),
                words: vec![word.to_owned()],
                child,
                since: Instant::now(),
            }],
        }
    }

    #[test]
    fn a_command_that_is_left_gets_no_signal() {
        let mut lives = Command::new("sh");
        lives.args(["-c", "read line"]).stdin(Stdio::piped());
        let mut child = lives.spawn().unwrap();
        let (pid, input) = (child.id(), child.stdin.take());
        let mut commands = running(child, "sh");
        let left = commands.leave(Signal::SIGINT);
        drop(commands);
        assert_eq!(left[0].shown, "node a: sh goes on");
        assert_eq!(left[0].result.exit_code.or(left[0].result.signal), None);
        // It ends by itself, with its input, and not by a signal.
        drop(input);
        let pid = nix::unistd::Pid::from_raw(pid.cast_signed());
        let ended = nix::sys::wait::waitpid(pid, None).unwrap();
        assert_eq!(ended, nix::sys::wait::WaitStatus::Exited(pid, 1));
    }

    #[test]
    fn nodes_and_commands_stand_still_until_they_are_continued() {
        let sleeper = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).process_group(0);
            command.spawn().unwrap()
        };
        let mut node = sleeper("exec sleep 600");
        // What a command started stands still with it.
        let mut commands = running(sleeper("sleep 600; :"), "sh");
        let root = Root::default();
        let state = |pid| Process::new(&root, pid).stat().map(|stat| stat.state);
        let shell = commands.running[0].child.id();
        let child = loop {
            let children = Process::new(&root, shell).children().unwrap();
            // Until then a shell that uses vfork waits for it, and cannot be stopped.
            let is_sleep = |pid| {
                Process::new(&root, pid)
                    .stat()
                    .is_ok_and(|s| s.name == "sleep")
            };
            if let [child] = children[..]
                && is_sleep(child)
            {
                break child;
            }
        };
        let stands = |pid| matches!(state(pid), Ok('T'));
        let rest = |of: [u32; 3], wanted: [bool; 3]| {
            let until = Instant::now() + Duration::from_secs(10);
            while of.map(stands) != wanted && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
            assert_eq!(of.map(stands), wanted);
        };
        let all = [node.id(), shell, child];
        commands.stand_still(&all[..1], false, || rest(all, [true; 3]));
        rest(all, [false; 3]);
        // By a key the terminal stops the commands, and a shell continues them.
        commands.stand_still(&all[..1], true, || rest(all, [true, false, false]));
        rest(all, [false; 3]);
        signal(child, Signal::SIGKILL);
        for child in [&mut node, &mut commands.running[0].child] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        commands.running.clear();
    }

    #[test]
    fn a_command_that_vanished_is_not_waited_for() {
        let child = Command::new("true").stdin(Stdio::null()).spawn().unwrap();
        reap(Some(child.id())).unwrap();
        let mut commands = running(child, "true");
        let ended = commands.reap();
        assert!(commands.running.is_empty());
        assert_eq!((ended.len(), ended[0].code), (1, exit::FAILED));
        assert!(ended[0].shown.contains("true vanished after"));
    }
}
