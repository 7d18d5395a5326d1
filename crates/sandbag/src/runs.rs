// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag status`, `stop` and `restore`: other runs of this machine.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use sandbag_jitter::replay::process::INJECTOR_VERB;
use sandbag_jitter::replay::process::injector::InjectorSetup;
use sandbag_linux::process::{Process, processes};
use sandbag_linux::{Root, interrupt};
use sandbag_load::command::slow::client::speed_lines;
use sandbag_load::live::words::{heading, load_of, number, run_text};
use sandbag_load::live::{CpuReading, Watch, WatchedRun};
use sandbag_load::node::protocol::Status;
use sandbag_load::node::socket::{Directory, sweep};
use sandbag_run::journal::RunInfo;
use sandbag_run::other_users;
use sandbag_run::process_identity::ProcessIdentity;
use sandbag_run::registry::{RESTORE_PATIENCE, Registry};
use sandbag_ui::BadInput;
use sandbag_ui::bail;
use sandbag_ui::exit;
use sandbag_ui::failure::Result;
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{self, JsonArgs, Overwrite};
use serde_json::{Value, json};

/// Show the runs of this machine, with what they take right now
///
/// Of runs of other users: the process, the user and the command.
#[derive(Debug, Args)]
#[command(mut_arg("json", |a| a.help("One JSON object per run and line, to FILE [default: standard output]")))]
pub struct StatusArgs {
    /// Every second again, until Ctrl-C
    #[arg(long)]
    watch: bool,

    #[command(flatten)]
    json: JsonArgs,

    #[command(flatten)]
    overwrite: Overwrite,
}

/// End runs in the background, as Ctrl-C would
#[derive(Debug, Args)]
#[command(override_usage = "sandbag stop [OPTIONS] <PID | --all>")]
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
pub fn status(args: &StatusArgs, messages: &Messages) -> Result<u8> {
    for run in other_users::runs(&Root::default()) {
        messages.say(&run.to_string());
    }
    if !args.watch && !Registry::has_place() {
        messages.say("no run of this user");
        args.json.put_lines("", args.overwrite.existing())?;
        return Ok(exit::KEPT);
    }
    let mut watch = Watch::open()?;
    for problem in &watch.problems {
        Messages::error(problem);
    }
    if watch.runs.is_empty() && watch.problems.is_empty() {
        messages.say("no run of this user");
    }
    if !args.watch {
        args.json.put_lines(
            &text(&watch.runs, args.json.path().is_some())?,
            args.overwrite.existing(),
        )?;
        return Ok(exit::KEPT);
    }
    if args.json.path().is_some_and(|path| path != Path::new("-")) {
        return Err(BadInput("--watch prints: leave out the file of --json".to_owned()).into());
    }
    interrupt::watch()?;
    let mut next = Instant::now();
    loop {
        next = next_look(next, Instant::now());
        if interrupt::sleep_until(next).is_err() {
            return Ok(exit::KEPT);
        }
        watch.look()?;
        let lines = text(&watch.runs, args.json.path().is_some())?;
        if !output::print_while_read(lines)? {
            return Ok(exit::KEPT);
        }
    }
}

/// Between two lines of a run.
const EVERY: Duration = Duration::from_secs(1);

/// Looks that were missed, while it was stopped say, are not made up for.
fn next_look(last: Instant, now: Instant) -> Instant {
    (last + EVERY).max(now)
}

fn text(runs: &[WatchedRun], json: bool) -> Result<String> {
    let mut out = String::new();
    for watched in runs {
        let WatchedRun {
            run, node, reading, ..
        } = watched;
        let load = load_of(run, node.as_ref());
        let here = run.supervisor().map(|process| process.pid);
        let injectors = here.map_or_else(Vec::new, injectors);
        // A replay of jitter has no board that says so.
        let paused = reading.paused || here.is_some_and(stands_still);
        if json {
            let cpus: Vec<_> = reading.cpus.iter().map(cpu_json).collect();
            let line = json!({
                "pid": run.pid, "pid_here": here, "cpus": run.cpus, "method": run.method, "load": load,
                "command": run.command, "started_s": run.started_s, "now": cpus,
                "paused": paused, "program_pct": watched.program_pct,
                "speeds": node.as_ref().map(|node| &node.speeds),
                "injectors": injectors
                    .iter()
                    .map(|(cpu, pid)| json!({"cpu": cpu, "pid": pid}))
                    .collect::<Vec<_>>(),
            });
            writeln!(out, "{line}")?;
        } else {
            let paused = if paused { "; paused" } else { "" };
            writeln!(out, "{}{paused}", heading(run, &load))?;
            write!(out, "{}", last_second(&reading.cpus, node.as_ref()))?;
            for (cpu, pid) in injectors {
                writeln!(out, "  CPU {cpu}: events by process {pid}")?;
            }
        }
    }
    Ok(out)
}

fn stands_still(pid: u32) -> bool {
    let stat = Process::new(&Root::default(), pid).stat();
    stat.is_ok_and(|stat| stat.state == 'T')
}

fn cpu_json(cpu: &CpuReading) -> Value {
    json!({
        "cpu": cpu.cpu, "asked_pct": cpu.asked_pct, "got_pct": cpu.got_pct,
        "others_pct": cpu.others_pct(), "steal_pct": cpu.steal_pct(),
    })
}

/// A line per CPU in the unit of the run: speeds of a node, else loads.
fn last_second(loads: &[CpuReading], node: Option<&Status>) -> String {
    match node {
        Some(node) => speed_lines(&node.speeds),
        None => loads
            .iter()
            .map(|cpu| {
                format!(
                    "  CPU {}: load {:.2} % in the last second\n",
                    cpu.cpu, cpu.got_pct
                )
            })
            .collect(),
    }
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

/// With a command the first signal is passed on to it; one that has not ended
/// by then is left behind by a second.
const GRACE: Duration = Duration::from_secs(3);
/// After this `stop` reports that a run goes on.
const PATIENCE: Duration = Duration::from_secs(10);

/// `sandbag stop`.
pub fn stop(args: &StopArgs, messages: &Messages) -> Result<u8> {
    if !Registry::has_place() {
        choose(Vec::new(), args.pid)?;
        messages.say("no run of this user");
        return Ok(exit::KEPT);
    }
    let registry = Registry::open()?;
    let (mut wanted, unknown) = choose(registry.runs()?, args.pid)?;
    for run in &unknown {
        Messages::error(&not_proven(run));
    }
    let ask = |runs: &[Proven]| {
        for (run, process) in runs {
            match process.ask_to_end() {
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
        // A part ends with its run, and would be missed if it ended before.
        proven.retain(|(run, _)| run.part_of.is_none());
        return Ok((proven, unknown));
    };
    let all = || proven.iter().map(|(run, _)| run);
    let named = proven.iter().find(|(_, process)| process.pid == pid);
    let meant = named.map(|(run, _)| run.whole_among(all()).id());
    proven.retain(|(run, _)| Some(run.id()) == meant);
    match (proven.is_empty(), unknown.iter().find(|run| run.pid == pid)) {
        (false, _) => Ok((proven, Vec::new())),
        (true, Some(run)) => bail!("{}", not_proven(run)),
        (true, None) => {
            other_users::refuse(&Root::default(), pid)?;
            let text = format!("no run has process id {pid} (see sandbag status)");
            Err(BadInput(text).into())
        }
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
    let restored = registry.restore_all(RESTORE_PATIENCE)?;
    sweep(&Directory::in_registry(registry.dir()))?;
    sweep(&Directory::of_loads(registry.dir()))?;
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
    use sandbag_run::run_process::RunProcess;

    #[test]
    fn looks_that_were_missed_are_not_made_up_for() {
        let begin = Instant::now();
        assert_eq!(next_look(begin, begin), begin + EVERY);
        let late = begin + Duration::from_secs(3600);
        let next = next_look(begin, late);
        assert_eq!(next, late);
        assert_eq!(next_look(next, late), late + EVERY);
    }

    #[test]
    fn a_number_that_no_run_has_is_bad_input() {
        let error = choose(Vec::new(), Some(std::process::id())).unwrap_err();
        assert_eq!(error.exit_code(false), exit::USAGE);
        assert!(choose(Vec::new(), None).unwrap().0.is_empty());
    }

    #[test]
    fn a_part_is_ended_with_its_run() {
        // Two processes that live, and their names in the journals.
        let run = |pid, part_of| RunInfo {
            pid,
            part_of,
            process: RunProcess::own().map(|own| RunProcess {
                start_ticks: ProcessIdentity::of(&Root::default(), pid)
                    .unwrap()
                    .unwrap()
                    .start_ticks,
                ..own
            }),
            ..RunInfo::of_this_process("constant 20 %")
        };
        let (part, whole) = (std::process::id(), std::os::unix::process::parent_id());
        let chosen = |runs: &[RunInfo], pid| {
            let (proven, unknown) = choose(runs.to_vec(), Some(pid)).unwrap();
            assert!(unknown.is_empty());
            proven.iter().map(|(run, _)| run.pid).collect::<Vec<_>>()
        };
        let runs = [run(part, Some(whole)), run(whole, None)];
        assert_eq!(chosen(&runs, part), [whole]);
        assert_eq!(chosen(&runs, whole), [whole]);
        // Its run is gone.
        assert_eq!(chosen(&runs[..1], part), [part]);
    }

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
        let loads = [CpuReading {
            cpu: 0,
            asked_pct: 70.0,
            got_pct: 69.79,
            total_ns: 0,
            burns: true,
            kernel: None,
        }];
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
}
