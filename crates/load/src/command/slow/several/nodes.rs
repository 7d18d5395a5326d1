// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The processes that are the nodes.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::node::place::{PlacedCourse, PlacedNode};
use crate::node::protocol::{Reply, Request};
use crate::node::socket::{Directory, ask};
use crate::report::run::Run;
use crate::report::{nodes as report, terminal, write};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sandbag_linux::child::ChildSetup as _;
use sandbag_ui::failure::{Context as _, Result};
use sandbag_ui::{bail, ensure};

use super::super::options::NodeOptions;
use sandbag_run::directory::RunDir;
use sandbag_ui::exit;
use sandbag_ui::messages::Messages;
use sandbag_ui::units::ASK_LIMIT;

/// How long a node may take until it holds its speed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Nodes that run. Dropping them ends them.
pub struct NodeProcesses {
    running: Vec<NodeProcess>,
}

struct NodeProcess {
    placed: PlacedNode,
    child: Child,
    /// Reaped; its process id may be reused.
    ended: Option<ExitStatus>,
    /// Its record, once it ended; gone with us, whatever ends us.
    json: File,
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
                node.ended = node.child.try_wait()?;
                if let Some(status) = node.ended {
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

    /// Whether a node without commands, which stays until it is stopped, still runs.
    pub fn one_stays(&self) -> bool {
        let mut there = self.running.iter().filter(|node| node.ended.is_none());
        there.any(|node| node.placed.spec.commands.is_empty())
    }

    /// Warns of nodes that ended: their programs go on at full speed.
    pub fn notice_ends(&mut self, messages: &Messages) {
        for node in &mut self.running {
            if node.ended.is_none()
                && let Ok(Some(status)) = node.child.try_wait()
            {
                node.ended = Some(status);
                messages.warning(&format!(
                    "node {} ended ({status}): what runs in it goes on at full speed",
                    node.placed.spec.name
                ));
            }
        }
    }

    pub fn stop(&mut self) {
        for node in &mut self.running {
            node.ended = node.ended.or_else(|| node.child.try_wait().ok().flatten());
            // By its process: its name may belong to another node by now.
            if node.ended.is_none() {
                signal(node.child.id(), Signal::SIGTERM);
            }
        }
        for node in &mut self.running {
            node.ended = node.ended.or_else(|| node.child.wait().ok());
        }
    }

    /// The report of all; the code of the worst verdict, or of a failure.
    pub fn report(&mut self, dir: Option<&RunDir>, messages: &Messages) -> u8 {
        let mut runs: Vec<Run> = Vec::new();
        for node in &mut self.running {
            match read(node) {
                Ok(run) => runs.push(run),
                Err(error) => {
                    messages.warning(&format!("node {}: {error:#}", node.placed.spec.name));
                }
            }
        }
        messages.show(&terminal::nodes_table(&report::NodeRows::of(&runs)));
        for run in &runs {
            for text in &run.warnings {
                let name = run.node.as_ref().map_or("", |node| node.name.as_str());
                messages.warning(&format!("node {name}: {text}"));
            }
        }
        if let Some(dir) = dir {
            match write::write_nodes(dir.path(), &runs) {
                Ok(()) => messages.say(&format!(
                    "Report: {}",
                    dir.path()
                        .join(sandbag_run::directory::REPORT_HTML)
                        .display()
                )),
                Err(error) => messages.warning(&error.to_string()),
            }
            dir.give();
        }
        if runs.len() < self.running.len() {
            return exit::FAILED;
        }
        let codes = runs.iter().map(|run| exit::of_verdict(run.verdict));
        codes.max().unwrap_or(exit::KEPT)
    }
}

/// Whether this process answers by the node's name: once it holds its speed.
fn answers(node: &NodeProcess, sockets: &Directory) -> bool {
    let name = &node.placed.spec.name;
    let status = ask(sockets, name, &Request::Status, ASK_LIMIT);
    matches!(status, Ok(Reply::Status(status)) if status.pid == node.child.id())
}

fn read(node: &mut NodeProcess) -> Result<Run> {
    let mut text = Vec::new();
    node.json.read_to_end(&mut text).context("its record")?;
    ensure!(!text.is_empty(), "it left no record");
    serde_json::from_slice(&text).context("its record")
}

/// Arguments of a node's process, without those for its output.
pub fn arguments(node: &PlacedNode, options: &NodeOptions) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["-q".into(), "slow".into()];
    let mut add = |option: &str, value: &OsStr| {
        let mut word = OsString::from(format!("--{option}="));
        word.push(value);
        words.push(word);
    };
    add("name", node.spec.name.as_str().as_ref());
    add("cpus", node.cpus.to_string().as_ref());
    match &node.course {
        PlacedCourse::Constant(ratios) => add("speed", ratios.to_string().as_ref()),
        PlacedCourse::Profile(path) => add("profile", path.as_os_str()),
    }
    let method = node.spec.method.as_deref().unwrap_or(&options.method);
    add("method", method.as_ref());
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

/// To a child of ours that was not reaped, so the number is its own.
pub fn signal(pid: u32, signal: Signal) {
    let _ = kill(Pid::from_raw(pid.cast_signed()), signal);
}

fn start(node: &PlacedNode, dir: Option<&RunDir>, options: &NodeOptions) -> Result<NodeProcess> {
    let json = memfd_create("sandbag", MFdFlags::MFD_CLOEXEC).context("memfd_create")?;
    let json_fd = json.as_raw_fd();
    let mut command = Command::new("/proc/self/exe");
    command.arg0("sandbag").args(arguments(node, options));
    match dir {
        Some(dir) => command
            // The directory above was asked about.
            .arg("--force")
            .arg("--out")
            .arg(dir.path().join(node.spec.name.as_str())),
        None => command.arg("--no-out"),
    };
    command.arg(format!("--json=/proc/self/fd/{json_fd}"));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let child = command
        .keep_open(json_fd)
        // Ctrl-C is for the commands; the nodes end when those have ended, or
        // when we are gone.
        .process_group(0)
        .die_with_us(libc::SIGTERM)
        .spawn()
        .with_context(|| format!("start node {}", node.spec.name))?;
    Ok(NodeProcess {
        placed: node.clone(),
        child,
        ended: None,
        json: json.into(),
    })
}

impl Drop for NodeProcesses {
    fn drop(&mut self) {
        self.stop();
    }
}
