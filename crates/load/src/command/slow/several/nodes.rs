// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The processes that are the nodes.

use std::ffi::{OsStr, OsString};
use std::time::{Duration, Instant};

use crate::node::place::{PlacedCourse, PlacedNode};
use crate::node::protocol::{Reply, Request};
use crate::node::socket::{Directory, ask};
use crate::report::run::Run;
use crate::report::{nodes as report, terminal, write};
use sandbag_stats::Verdict;
use sandbag_ui::bail;
use sandbag_ui::failure::{Context as _, Result};

use super::super::options::NodeOptions;
use super::commands::CommandEnd;
use crate::command::own_run::OwnRun;
use sandbag_run::directory::RunDir;
use sandbag_run::program;
use sandbag_ui::exit;
use sandbag_ui::messages::Messages;
use sandbag_ui::units::ASK_LIMIT;

/// How long a node may take until it holds its speed: 30 s of them to calibrate.
const PATIENCE: Duration = Duration::from_secs(40);

/// Why a node is missed whose own windows say that it was kept.
const EARLY: &str = "it ended before its commands did";

/// Nodes that run. Dropping them ends them.
pub struct NodeProcesses {
    running: Vec<NodeProcess>,
}

struct NodeProcess {
    placed: PlacedNode,
    run: OwnRun,
    /// The user was warned of its end.
    warned: bool,
    /// It ended while commands of it went on.
    early: bool,
}

impl NodeProcesses {
    pub fn start(
        placed: &[PlacedNode],
        sockets: &Directory,
        dir: Option<&RunDir>,
        options: &NodeOptions,
    ) -> Result<Self> {
        let mut nodes = Self {
            running: Vec::new(),
        };
        for node in placed {
            nodes.running.push(start(node, dir, options)?);
        }
        let until = Instant::now() + PATIENCE;
        for node in &mut nodes.running {
            let name = &node.placed.spec.name;
            while !answers(node, sockets) {
                if let Some(status) = node.run.ended() {
                    bail!("node {name} did not start ({status})");
                }
                if Instant::now() > until {
                    bail!("node {name} did not start within {} s", PATIENCE.as_secs());
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(nodes)
    }

    /// Of those that run.
    pub fn pids(&mut self) -> Vec<u32> {
        let running = self.running.iter_mut();
        running
            .filter_map(|node| node.run.ended().is_none().then(|| node.run.pid()))
            .collect()
    }

    /// Whether a node without commands, which stays until it is stopped, still runs.
    pub fn one_stays(&mut self) -> bool {
        let mut all = self.running.iter_mut();
        all.any(|node| node.placed.spec.commands.is_empty() && node.run.ended().is_none())
    }

    /// Warns of nodes that ended: their programs go on at full speed. `runs`: whether a
    /// command of the node of this name does.
    pub fn notice_ends(&mut self, runs: impl Fn(&str) -> bool, messages: &Messages) {
        for node in &mut self.running {
            if let (false, Some(status)) = (node.warned, node.run.ended()) {
                node.warned = true;
                node.early = runs(node.placed.spec.name.as_str());
                messages.warning(&format!(
                    "node {} ended ({status}): what runs in it goes on at full speed",
                    node.placed.spec.name
                ));
            }
        }
    }

    pub fn stop(&mut self) {
        // By their processes: a name may belong to another node by now.
        self.running
            .iter_mut()
            .for_each(|node| node.run.ask_to_end());
        self.running.iter_mut().for_each(|node| node.run.wait());
    }

    /// The report of all, with their commands; the code of the worst verdict, or of a failure.
    pub fn report(
        &mut self,
        commands: &[CommandEnd],
        dir: Option<&RunDir>,
        messages: &Messages,
    ) -> u8 {
        let mut runs: Vec<Run> = Vec::new();
        let mut lost = Vec::new();
        for node in &mut self.running {
            match node.run.record::<Run>() {
                Ok(mut run) => {
                    if node.early {
                        run.verdict = Verdict::Missed;
                        EARLY.clone_into(&mut run.reason);
                        run.warnings.insert(0, EARLY.to_owned());
                    }
                    let name = node.placed.spec.name.as_str();
                    let own = commands.iter().filter(|ended| ended.node == name);
                    run.commands = own.map(|ended| ended.result.clone()).collect();
                    // It knows those only that we gave it.
                    run.arguments = program::arguments();
                    runs.push(run);
                }
                Err(error) => {
                    let spec = &node.placed.spec;
                    messages.warning(&format!("node {}: {error:#}", spec.name));
                    lost.push((
                        spec.name.as_str(),
                        spec.method.as_deref().unwrap_or_default(),
                    ));
                }
            }
        }
        let mut whole = lost.is_empty();
        let rows = report::NodeRows::of(&runs).with_lost(lost);
        messages.show(&terminal::nodes_table(&rows));
        for run in &runs {
            for text in &run.warnings {
                let name = run.node.as_ref().map_or("", |node| node.name.as_str());
                messages.warning(&format!("node {name}: {text}"));
            }
        }
        if let Some(dir) = dir {
            for run in &runs {
                let name = run.node.as_ref().map_or("", |node| node.name.as_str());
                let own = dir.below(name);
                if let Err(error) = write::write_run(own.path(), run) {
                    whole &= dir.excuses(&error, messages);
                }
                own.give();
            }
            match write::write_nodes(dir.path(), &rows, &runs) {
                Ok(()) => messages.say(&format!(
                    "Report: {}",
                    dir.path()
                        .join(sandbag_run::directory::REPORT_HTML)
                        .display()
                )),
                Err(error) => whole &= dir.excuses(&error, messages),
            }
            dir.give();
        }
        if whole {
            exit::of_verdict(rows.verdict)
        } else {
            exit::FAILED
        }
    }
}

/// Whether this process answers by the node's name: once it holds its speed.
fn answers(node: &NodeProcess, sockets: &Directory) -> bool {
    let name = &node.placed.spec.name;
    let status = ask(sockets, name, &Request::Status, ASK_LIMIT);
    matches!(status, Ok(Reply::Status(status)) if status.pid == node.run.pid())
}

/// Arguments of a node's process, without those for its output.
pub fn arguments(node: &PlacedNode, options: &NodeOptions) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["slow".into()];
    let mut add = |option: &str, value: &OsStr| {
        let mut word = OsString::from(format!("--{option}="));
        word.push(value);
        words.push(word);
    };
    add("name", node.spec.name.as_str().as_ref());
    add("cpus", node.cpus.to_string().as_ref());
    match &node.course {
        PlacedCourse::Constant(ratios) => {
            // Not rounded: the lowest frequency of a CPU is refused a digit below it.
            let each: Vec<String> = ratios
                .iter()
                .map(|(cpu, mu)| format!("{cpu}={mu}"))
                .collect();
            add("speed", each.join(",").as_ref());
        }
        PlacedCourse::Profile(path) => add("profile", path.as_os_str()),
    }
    if let Some(method) = &node.spec.method {
        add("method", method.as_ref());
    }
    for (option, value) in &node.spec.options {
        add(option, value.as_ref());
    }
    let kept = options.hold.tolerance;
    let kept = format!("{},{}", kept.mean_points, kept.window_points);
    add("tolerance", kept.as_ref());
    if let Some(path) = &options.hold.cgroup {
        add("cgroup", path.as_os_str());
    }
    if options.hold.no_settle {
        words.push("--no-settle".into());
    }
    if options.hold.as_root {
        words.push("--as-root".into());
    }
    words
}

fn start(node: &PlacedNode, dir: Option<&RunDir>, options: &NodeOptions) -> Result<NodeProcess> {
    let out = dir.map(|dir| dir.path().join(node.spec.name.as_str()));
    let run = OwnRun::start(&arguments(node, options), out, false)
        .with_context(|| format!("node {}", node.spec.name))?;
    Ok(NodeProcess {
        placed: node.clone(),
        run,
        warned: false,
        early: false,
    })
}

impl Drop for NodeProcesses {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use crate::node::{Cpus, NodeCourse, NodeSpec};

    use super::*;

    #[test]
    fn a_node_whose_process_left_no_record_is_in_the_report() {
        let placed = PlacedNode {
            spec: NodeSpec {
                name: "gone".parse().unwrap(),
                cpus: Cpus::Cores(1),
                course: NodeCourse::Profile("speeds.csv".into()),
                method: Some("hogs".to_owned()),
                options: Default::default(),
                commands: Vec::new(),
                env: Default::default(),
                cwd: None,
                origin: Default::default(),
            },
            cpus: [0].into_iter().collect(),
            course: PlacedCourse::Profile("speeds.csv".into()),
            why: None,
        };
        // This program is that of the tests, which refuses the options of a node.
        let mut run = OwnRun::start(&[], None, false).unwrap();
        run.wait();
        let mut nodes = NodeProcesses {
            running: vec![NodeProcess {
                placed,
                run,
                warned: false,
                early: false,
            }],
        };
        let messages = Messages::new(true, 0);
        let dir = tempfile::tempdir().unwrap();
        let out = RunDir::make(Some(dir.path().to_owned()), None, &messages).unwrap();
        assert_eq!(nodes.report(&[], out.as_ref(), &messages), exit::FAILED);
        let written = write::read_nodes(dir.path()).unwrap();
        assert_eq!(written.verdict, Verdict::Missed);
        assert_eq!(written.nodes[0].directory, "gone");
    }
}
