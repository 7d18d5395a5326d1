// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag status`, `stop` and `restore`: other runs of this machine.

use std::fmt::Write as _;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use sandbag_jitter::replay::process::INJECTOR_VERB;
use sandbag_jitter::replay::process::injector::InjectorSetup;
use sandbag_linux::process::{Process, processes};
use sandbag_linux::{Root, clock};
use sandbag_load::board::{BOUNDARY_NS, Board};
use sandbag_load::node::Ratios;
use sandbag_load::node::protocol::Status;
use sandbag_load::node::socket::{Directory, list, sweep};
use sandbag_load::pacing::Orders as _;
use sandbag_run::journal::RunInfo;
use sandbag_run::process_identity::ProcessIdentity;
use sandbag_run::registry::Registry;
use sandbag_ui::bail;
use sandbag_ui::failure::{Context as _, Result};
use sandbag_ui::text::{command_line, visible};
use serde_json::json;

use sandbag_load::command::slow::client::speed_lines;
use sandbag_ui::exit;
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{JsonArgs, Overwrite};
use sandbag_ui::units::ASK_LIMIT;

/// Show the runs of this machine, with what they take right now
#[derive(Debug, Args)]
#[command(mut_arg("json", |a| a.help("One JSON object per run and line, to FILE [default: standard output]")))]
pub struct StatusArgs {
    #[command(flatten)]
    json: JsonArgs,

    #[command(flatten)]
    overwrite: Overwrite,
}

/// End runs in the background, as Ctrl-C would
#[derive(Debug, Args)]
pub struct StopArgs {
    /// The run's process id (see `sandbag status`)
    #[arg(value_name = "PID", required_unless_present = "all")]
    pid: Option<u32>,

    /// All runs
    #[arg(long, conflicts_with = "pid")]
    all: bool,
}

/// Undo what a killed run left
#[derive(Debug, Args)]
pub struct RestoreArgs {}

/// `sandbag status`.
pub fn status(args: &StatusArgs) -> Result<u8> {
    let mut out = String::new();
    let registry = Registry::open()?;
    let runs = registry.look()?;
    for problem in &runs.problems {
        Messages::error(problem);
    }
    let nodes = list(&Directory::in_registry(registry.dir()), ASK_LIMIT).unwrap_or_default();
    let nodes: Vec<Status> = nodes.into_iter().filter_map(|n| n.status.ok()).collect();
    for run in runs.alive {
        let node = nodes.iter().find(|node| node.pid == run.pid);
        let loads = current_loads(&run).unwrap_or_default();
        let load = load_of(&run, node);
        let here = run.supervisor().map(|process| process.pid);
        let injectors = here.map_or_else(Vec::new, injectors);
        if args.json.path().is_some() {
            let cpus: Vec<_> = loads
                .iter()
                .map(|(cpu, pct)| json!({"cpu": cpu, "got_pct": pct}))
                .collect();
            let line = json!({
                "pid": run.pid, "pid_here": here, "cpus": run.cpus, "method": run.method, "load": load,
                "command": run.command, "started_s": run.started_s, "now": cpus,
                "speeds": node.map(|node| &node.speeds),
                "injectors": injectors
                    .iter()
                    .map(|(cpu, pid)| json!({"cpu": cpu, "pid": pid}))
                    .collect::<Vec<_>>(),
            });
            writeln!(out, "{line}")?;
        } else {
            writeln!(out, "{}", heading(&run, &load))?;
            write!(out, "{}", last_second(&loads, node))?;
            for (cpu, pid) in injectors {
                writeln!(out, "  CPU {cpu}: events by process {pid}")?;
            }
        }
    }
    args.json.put_lines(&out, args.overwrite.existing())?;
    Ok(exit::KEPT)
}

/// What a run does now. Of a node the speeds come from the node itself: the
/// journal is as old as the run, and `slow set` may have changed them.
fn load_of(run: &RunInfo, node: Option<&Status>) -> String {
    let Some(node) = node else {
        return run.load.clone();
    };
    let asked = node.speeds.iter().map(|s| (s.cpu, s.asked)).collect();
    format!("{}, speed {}", run.load, Ratios::new(asked))
}

/// A line per CPU in the unit of the run: speeds of a node, else loads.
fn last_second(loads: &[(u32, f64)], node: Option<&Status>) -> String {
    match node {
        Some(node) => speed_lines(&node.speeds),
        None => loads
            .iter()
            .map(|(cpu, pct)| format!("  CPU {cpu}: load {pct:.2} % in the last second\n"))
            .collect(),
    }
}

/// A run in one line, whatever its journal holds.
fn heading(run: &RunInfo, load: &str) -> String {
    let mut text = format!("{}: {}", number(run), run_text(run, load));
    if !run.command.is_empty() {
        // Jitter may be inside it as well.
        text += &format!(", with {}", command_line(&run.command));
    }
    let age = humantime::format_duration(age(run));
    visible(&format!("{text}; begun {age} ago"))
}

/// A run's process number, by which `stop` knows it; of a run in another PID
/// namespace that which the supervisor has here.
fn number(run: &RunInfo) -> String {
    match run.supervisor() {
        Some(process) if process.pid == run.pid => run.pid.to_string(),
        Some(process) => format!("{} (in its container {})", process.pid, run.pid),
        None if run.has_ended() => format!("{} (ended, and is being undone)", run.pid),
        None if run.process.is_none() => format!("{} (of an earlier sandbag)", run.pid),
        None => format!("{} (in a container that cannot be seen from here)", run.pid),
    }
}

/// What a run does to which CPUs.
fn run_text(run: &RunInfo, load: &str) -> String {
    if run.cpus.is_empty() {
        // A recording beside a command takes no CPU.
        load.to_owned()
    } else {
        format!("{load} by {} on CPUs {}", run.method, run.cpus)
    }
}

/// Since when a run is there, whole seconds.
fn age(run: &RunInfo) -> Duration {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_s = now_s.map_or(0, |time| time.as_secs());
    Duration::from_secs(now_s.saturating_sub(run.started_s))
}

/// The processes of a run that take CPUs when events of a trace are due: CPU
/// and process id.
fn injectors(of: u32) -> Vec<(u32, u32)> {
    let root = Root::default();
    let children = processes(&root).unwrap_or_default().into_iter();
    let mut all: Vec<(u32, u32)> = children
        .filter(|child| child.parent == of)
        .filter_map(|child| {
            let words = Process::new(&root, child.pid).command_line().ok()?;
            let arguments = words.get(2..).filter(|_| words[1] == INJECTOR_VERB)?;
            Some((InjectorSetup::from_args(arguments)?.cpu, child.pid))
        })
        .collect();
    all.sort_unstable();
    all
}

/// What the burners of a run took in the last second, by the clocks that
/// they note on their board: the run itself is not disturbed.
fn current_loads(run: &RunInfo) -> Result<Vec<(u32, f64)>> {
    let supervisor = run.supervisor().context("it cannot be seen from here")?;
    let path = format!("/proc/{}/fd/{}", supervisor.pid, run.board_fd);
    let file = std::fs::File::open(&path).with_context(|| path.clone())?;
    let board = Board::open(OwnedFd::from(file), false).context(path)?;
    let now = clock::monotonic() / BOUNDARY_NS - 2;
    let mut loads = std::collections::BTreeMap::<u32, f64>::new();
    for slot in (0..board.len()).map(|n| board.slot(n)) {
        if slot.published() == 0 {
            continue;
        }
        let taken = slot
            .boundary(now)
            .zip(slot.boundary(now - 10))
            .map_or(0, |(to, from)| to.cpu_ns.saturating_sub(from.cpu_ns));
        *loads.entry(slot.cpu.load(Ordering::Relaxed)).or_default() +=
            taken as f64 / (10 * BOUNDARY_NS) as f64 * 100.0;
    }
    Ok(loads.into_iter().collect())
}

/// With a command the first signal is passed on to it; one that has not ended
/// by then is left behind by a second.
const GRACE: Duration = Duration::from_secs(3);
/// After this `stop` reports that a run goes on.
const PATIENCE: Duration = Duration::from_secs(10);

/// `sandbag stop`.
pub fn stop(args: &StopArgs, messages: &Messages) -> Result<u8> {
    let registry = Registry::open()?;
    let (mut wanted, unknown) = choose(registry.runs()?, args.pid)?;
    for run in &unknown {
        Messages::error(&not_proven(run));
    }
    let ask = |runs: &[Proven]| {
        for (run, process) in runs {
            match process.signal(libc::SIGTERM) {
                Ok(()) => messages.detail(&format!("asked {} to end", number(run))),
                Err(error) => Messages::error(&error.to_string()),
            }
        }
    };
    ask(&wanted);
    let begin = Instant::now();
    let mut again = false;
    while begin.elapsed() < PATIENCE {
        let alive: Vec<_> = registry.runs()?.iter().map(RunInfo::id).collect();
        wanted.retain(|(run, process)| {
            let lives = alive.contains(&run.id());
            if !lives {
                messages.say(&format!(
                    "ended {}: {}",
                    process.pid,
                    run_text(run, &run.load)
                ));
            }
            lives
        });
        if wanted.is_empty() {
            return Ok(if unknown.is_empty() {
                exit::KEPT
            } else {
                exit::FAILED
            });
        }
        if !again && begin.elapsed() > GRACE {
            again = true;
            ask(&wanted);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let names: Vec<String> = wanted.iter().map(|(run, _)| number(run)).collect();
    bail!(
        "did not end within 10 s: {} (see sandbag status)",
        names.join(", ")
    )
}

/// A run with the process that is proven to be its supervisor.
type Proven = (RunInfo, ProcessIdentity);

/// The runs to end, each with the process that gets the signal, and those
/// among them whose process is not proven to be theirs.
fn choose(runs: Vec<RunInfo>, pid: Option<u32>) -> Result<(Vec<Proven>, Vec<RunInfo>)> {
    let mut proven = Vec::new();
    let mut unknown = Vec::new();
    for run in runs {
        match run.supervisor() {
            Some(process) => proven.push((run, process)),
            None => unknown.push(run),
        }
    }
    let Some(pid) = pid else {
        return Ok((proven, unknown));
    };
    proven.retain(|(_, process)| process.pid == pid);
    match (proven.is_empty(), unknown.iter().find(|run| run.pid == pid)) {
        (false, _) => Ok((proven, Vec::new())),
        (true, Some(run)) => bail!("{}", not_proven(run)),
        (true, None) => bail!("no run has process id {pid} (see sandbag status)"),
    }
}

fn not_proven(run: &RunInfo) -> String {
    let (pid, what) = (run.pid, run_text(run, &run.load));
    match &run.process {
        Some(_) => format!(
            "run {pid} ({what}) is not ended: its supervisor is in another PID namespace and \
             cannot be seen from here; run sandbag stop there"
        ),
        None => format!(
            "run {pid} ({what}) is not ended: an earlier sandbag began it and did not note \
             which process it is; if process {pid} is a sandbag, kill -TERM {pid}"
        ),
    }
}

/// `sandbag restore`.
pub fn restore(_args: &RestoreArgs, messages: &Messages) -> Result<u8> {
    let mut complete = true;
    let registry = Registry::open()?;
    let restored = registry.restore()?;
    sweep(&Directory::in_registry(registry.dir()))?;
    for run in &restored {
        if run.left.is_empty() {
            messages.say(&format!("undid what process {} left", run.pid))
        } else {
            complete = false;
            Messages::error(&format!(
                "could not undo all that process {} left: {}",
                run.pid,
                run.left.join("; ")
            ));
        }
    }
    if restored.is_empty() {
        messages.say("nothing to undo");
    }
    Ok(if complete { exit::KEPT } else { exit::FAILED })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbag_load::node::protocol::CpuSpeed;

    #[test]
    fn a_node_is_shown_in_the_speeds_that_it_has_now() {
        let run: RunInfo = serde_json::from_value(json!({
            "pid": 7, "cpus": "0", "method": "hogs", "load": "node small", "command": [],
            "started_s": 0, "board_fd": 3, "kill": false, "shares": false,
        }))
        .unwrap();
        let status = Status {
            name: "small".to_owned(),
            pid: 7,
            cpus: "0".to_owned(),
            speeds: vec![CpuSpeed {
                cpu: 0,
                asked: 1.0 - 70.0 / 100.0,
                got: Some(0.3021),
            }],
            method: "hogs".to_owned(),
            members: Vec::new(),
        };
        let loads = [(0, 69.79)];
        assert_eq!(load_of(&run, Some(&status)), "node small, speed 0=0.3");
        assert_eq!(
            last_second(&loads, Some(&status)),
            "  CPU 0: asked 0.300, 0.302 in the last second\n"
        );
        // A node that does not answer: no speed rather than an old one.
        assert_eq!(load_of(&run, None), "node small");
        assert_eq!(
            last_second(&loads, None),
            "  CPU 0: load 69.79 % in the last second\n"
        );
    }

    #[test]
    fn a_journal_of_others_drives_no_terminal_and_forges_no_line() {
        let foreign = "\u{1b}[31m\u{9b}31m\u{202e}\n4711: forged";
        let run = RunInfo {
            cpus: foreign.to_owned(),
            method: foreign.to_owned(),
            command: vec![foreign.to_owned(); 2],
            ..RunInfo::of_this_process(foreign)
        };
        let text = heading(&run, &run.load);
        assert_eq!(text, visible(&text));
        assert_eq!(
            text.matches(r"\u001b[31m\u009b31m\u202e\n").count(),
            5,
            "{text}"
        );
    }
}
