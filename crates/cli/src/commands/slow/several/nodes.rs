// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The processes that are the nodes.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use sandbag_node::place::{Placed, PlacedCourse};
use sandbag_node::protocol::Request;
use sandbag_node::socket::{Directory, ask};
use sandbag_report::run::Run;

use super::super::options::NodeOptions;
use crate::exit;
use crate::messages::Messages;
use crate::run::directory::RunDir;
use crate::units::ASK_LIMIT;

/// How long a node may take until it holds its speed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Nodes that run. Dropping them ends them.
pub struct Nodes {
    sockets: Directory,
    running: Vec<Running>,
}

struct Running {
    placed: Placed,
    child: Child,
    json: PathBuf,
    /// Where that is; removed at the end.
    _dir: tempfile::TempDir,
}

impl Nodes {
    /// Starts all, and returns when all hold their speeds.
    pub fn start(
        placed: &[Placed],
        sockets: &Directory,
        dir: Option<&RunDir>,
        options: &NodeOptions,
    ) -> Result<Self> {
        let mut nodes = Self {
            sockets: sockets.clone(),
            running: Vec::new(),
        };
        for node in placed {
            nodes.running.push(start(node, dir, options)?);
        }
        let until = Instant::now() + PATIENCE;
        for node in &mut nodes.running {
            let name = &node.placed.spec.name;
            // It answers once it holds its speed, not before.
            while ask(sockets, name, &Request::Status, ASK_LIMIT).is_err() {
                if let Some(status) = node.child.try_wait()? {
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

    /// Ends all of them.
    pub fn stop(&mut self) {
        for node in &mut self.running {
            let asked = ask(
                &self.sockets,
                &node.placed.spec.name,
                &Request::Stop,
                ASK_LIMIT,
            );
            if asked.is_err() {
                crate::commands::slow::several::commands::signal(
                    node.child.id(),
                    nix::sys::signal::Signal::SIGTERM,
                );
            }
        }
        for node in &mut self.running {
            let _ = node.child.wait();
        }
    }

    /// The report of all; the code of the worst verdict.
    pub fn report(&self, dir: Option<&RunDir>, messages: &Messages) -> u8 {
        let mut runs: Vec<Run> = Vec::new();
        for node in &self.running {
            match read(node) {
                Ok(run) => runs.push(run),
                Err(error) => {
                    messages.warning(&format!("node {}: {error:#}", node.placed.spec.name));
                }
            }
        }
        for run in &runs {
            messages.say(&sandbag_report::terminal::summary_table(run));
            run.warnings.iter().for_each(|text| messages.warning(text));
        }
        if let Some(dir) = dir {
            dir.give();
        }
        if runs.len() < self.running.len() {
            return exit::FAILED;
        }
        let codes = runs.iter().map(|run| exit::of_verdict(run.verdict));
        codes.max().unwrap_or(exit::KEPT)
    }
}

fn read(node: &Running) -> Result<Run> {
    let text = std::fs::read(&node.json).context("it left no record")?;
    serde_json::from_slice(&text).context("its record")
}

fn start(node: &Placed, dir: Option<&RunDir>, options: &NodeOptions) -> Result<Running> {
    let out = tempfile::tempdir()?;
    let json = out.path().join("run.json");
    let mut command = Command::new("/proc/self/exe");
    command.arg0("sandbag").args(["-q", "slow"]);
    command.args(["--name", node.spec.name.as_str()]);
    command.args(["--cpus", &node.cpus.to_string()]);
    match &node.course {
        PlacedCourse::Constant(ratios) => command.args(["--speed", &ratios.to_string()]),
        PlacedCourse::Profile(path) => command.arg("--profile").arg(path),
    };
    command.args([
        "--method",
        node.spec.method.as_deref().unwrap_or(&options.method),
    ]);
    for (option, value) in &node.spec.options {
        command.arg(format!("--{option}={value}"));
    }
    let tolerance = options.tolerance;
    command.arg(format!(
        "--tolerance={},{}",
        tolerance.mean_points, tolerance.window_points
    ));
    if let Some(path) = &options.cgroup {
        command.arg("--cgroup").arg(path);
    }
    match dir {
        Some(dir) => command
            .arg("--out")
            .arg(dir.path().join(node.spec.name.as_str())),
        None => command.arg("--no-out"),
    };
    if options.as_root {
        command.arg("--as-root");
    }
    command.arg(format!("--json={}", json.display()));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let parent = std::process::id();
    // SAFETY: only async-signal-safe calls.
    unsafe {
        command.pre_exec(move || {
            // Ctrl-C is for the commands; the nodes end when those have ended,
            // or when we are gone.
            libc::setpgid(0, 0);
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            if libc::getppid().unsigned_abs() != parent {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
            Ok(())
        });
    }
    let child = command
        .spawn()
        .with_context(|| format!("start node {}", node.spec.name))?;
    Ok(Running {
        placed: node.clone(),
        child,
        json,
        _dir: out,
    })
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.stop();
    }
}
