// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag status`, `stop` and `restore`: other runs of this machine.

use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use sandbag_burner::board::{BOUNDARY_NS, Board};
use sandbag_burner::journal::RunInfo;
use sandbag_burner::registry::Registry;
use sandbag_inject::process::INJECTOR_VERB;
use sandbag_inject::process::injector::Setup;
use sandbag_kernel::clock;
use sandbag_node::socket::{Directory, sweep};
use serde_json::json;

use crate::exit;
use crate::messages::Messages;

/// Show the runs of this machine, with what they take right now
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// One JSON object per run and line
    #[arg(long)]
    json: bool,
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
    let mut out = crate::output::stdout();
    let runs = Registry::open()?.look()?;
    for problem in &runs.problems {
        Messages::error(problem);
    }
    for run in runs.alive {
        let loads = current_loads(&run).unwrap_or_default();
        let injectors = injectors(run.pid);
        if args.json {
            let cpus: Vec<_> = loads
                .iter()
                .map(|(cpu, pct)| json!({"cpu": cpu, "got_pct": pct}))
                .collect();
            let line = json!({
                "pid": run.pid, "cpus": run.cpus, "method": run.method, "load": run.load,
                "command": run.command, "started_s": run.started_s, "now": cpus,
                "injectors": injectors
                    .iter()
                    .map(|(cpu, pid)| json!({"cpu": cpu, "pid": pid}))
                    .collect::<Vec<_>>(),
            });
            writeln!(out, "{line}")?;
        } else {
            writeln!(
                out,
                "{}: {}{}{}; begun {} ago",
                run.pid,
                run.load,
                match run.cpus.is_empty() {
                    // A recording beside a command takes no CPU.
                    true => String::new(),
                    false => format!(" by {} on CPUs {}", run.method, run.cpus),
                },
                match run.command.is_empty() {
                    true => String::new(),
                    // Jitter may be inside it as well.
                    false => format!(", with {}", run.command.join(" ")),
                },
                humantime::format_duration(age(&run)),
            )?;
            for (cpu, pct) in loads {
                writeln!(out, "  CPU {cpu}: {pct:.2} % in the last second")?;
            }
            for (cpu, pid) in injectors {
                writeln!(out, "  CPU {cpu}: events by process {pid}")?;
            }
        }
    }
    Ok(exit::KEPT)
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
    let mut all: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let words = std::fs::read(entry.path().join("cmdline")).ok()?;
            let words = String::from_utf8(words).ok()?;
            let mut words = words.trim_end_matches('\0').split('\0').skip(1);
            if words.next()? != INJECTOR_VERB || parent(pid)? != of {
                return None;
            }
            let arguments: Vec<String> = words.map(str::to_owned).collect();
            Some((Setup::from_args(&arguments)?.cpu, pid))
        })
        .collect();
    all.sort_unstable();
    all
}

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(1)?.parse().ok()
}

/// What the burners of a run took in the last second, by the clocks that
/// they note on their board: the run itself is not disturbed.
fn current_loads(run: &RunInfo) -> Result<Vec<(u32, f64)>> {
    let path = format!("/proc/{}/fd/{}", run.pid, run.board_fd);
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
/// After this a run is said to go on.
const PATIENCE: Duration = Duration::from_secs(10);

/// `sandbag stop`.
pub fn stop(args: &StopArgs, messages: &Messages) -> Result<u8> {
    let registry = Registry::open()?;
    let runs = registry.runs()?;
    let wanted: Vec<u32> = match args.pid {
        None => runs.iter().map(|run| run.pid).collect(),
        Some(pid) if runs.iter().any(|run| run.pid == pid) => vec![pid],
        Some(pid) => bail!("no run has process id {pid} (see sandbag status)"),
    };
    let ask = |pids: &[u32]| {
        for pid in pids {
            // SAFETY: a signal to a process that holds a journal of ours.
            unsafe { libc::kill(pid.cast_signed(), libc::SIGTERM) };
            messages.detail(&format!("asked {pid} to end"));
        }
    };
    ask(&wanted);
    let begin = Instant::now();
    let mut again = false;
    while begin.elapsed() < PATIENCE {
        let alive: Vec<u32> = registry.runs()?.iter().map(|run| run.pid).collect();
        let alive: Vec<u32> = wanted
            .iter()
            .copied()
            .filter(|pid| alive.contains(pid))
            .collect();
        if alive.is_empty() {
            return Ok(exit::KEPT);
        }
        if !again && begin.elapsed() > GRACE {
            again = true;
            ask(&alive);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    bail!("some runs did not end within 10 s (see sandbag status)")
}

/// `sandbag restore`.
pub fn restore(_args: &RestoreArgs, messages: &Messages) -> Result<u8> {
    let mut complete = true;
    let registry = Registry::open()?;
    let restored = registry.restore()?;
    sweep(&Directory::in_registry(registry.dir()))?;
    for run in &restored {
        match run.left.is_empty() {
            true => messages.say(&format!("undid what process {} left", run.pid)),
            false => {
                complete = false;
                Messages::error(&format!(
                    "could not undo all that process {} left: {}",
                    run.pid,
                    run.left.join("; ")
                ));
            }
        }
    }
    if restored.is_empty() {
        messages.say("nothing to undo");
    }
    Ok(if complete { exit::KEPT } else { exit::FAILED })
}
