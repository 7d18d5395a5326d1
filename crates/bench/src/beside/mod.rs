// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a slowed node does to everything else on its CPUs: programs that are
//! not in the node, on the same CPUs, while nothing runs in it. The reference
//! is an ordinary spinner pinned on each CPU: a real competitor.

mod programs;

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use sandbag_kernel::{CpuList, Root, sched};
use serde::Serialize;

use crate::machine;
use crate::markdown::Table;
use crate::stats::{median, range};
use programs::Program;

/// Measure what slowed nodes do to programs beside them (root)
#[derive(Debug, Args)]
pub struct BesideArgs {
    /// The sandbag to measure
    #[arg(long, default_value = "sandbag")]
    sandbag: PathBuf,
    /// Methods of `slow`; at half speed
    #[arg(long, value_delimiter = ',', default_value = "hogs,pace,quota")]
    methods: Vec<String>,
    /// Rounds; in each, every case once, in turn
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Write the table (.md) and figures (.json) here
    #[arg(long, default_value = "beside-results.md")]
    out: PathBuf,
}

/// What shares the CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
enum Case {
    Nothing,
    Spinner,
    /// `sandbag load 50`, the default method.
    Load,
    Node(String),
}

impl Case {
    fn name(&self) -> String {
        match self {
            Self::Nothing => "nothing".to_owned(),
            Self::Spinner => "a spinner per CPU".to_owned(),
            Self::Load => "load 50".to_owned(),
            Self::Node(method) => format!("slow 0.5 by {method}"),
        }
    }
}

#[derive(Debug, Serialize)]
struct Row {
    program: &'static str,
    case: Case,
    /// Seconds, one per round.
    seconds: Vec<f64>,
    /// Slowdown against nothing in the same round.
    slowdown: Vec<f64>,
}

/// Measures and prints a table.
pub fn beside(args: &BesideArgs) -> Result<()> {
    let root = Root::default();
    let cpus: CpuList = root
        .read("/sys/devices/system/cpu/online")?
        .trim()
        .parse()?;
    let dir = tempfile::tempdir_in(std::env::current_dir()?)?;
    let mut cases = vec![Case::Nothing, Case::Spinner, Case::Load];
    cases.extend(args.methods.iter().cloned().map(Case::Node));
    let mut rows = Vec::new();
    let mut missing = Vec::new();
    let mut legend = String::new();
    for name in programs::NAMES {
        let Some(program) = programs::make(name, dir.path())? else {
            missing.push(name);
            continue;
        };
        legend += &format!("- {name}: {}\n", program.about);
        let mut seconds: Vec<Vec<f64>> = vec![Vec::new(); cases.len()];
        for round in 0..args.rounds {
            for n in 0..cases.len() {
                // Another order in every round.
                let at = (n + round) % cases.len();
                let took = measure(args, &cases[at], &program, &cpus)?;
                seconds[at].push(took);
                eprintln!("{name} beside {}: {took:.2} s", cases[at].name());
            }
        }
        let alone = seconds[0].clone();
        for (case, seconds) in cases.iter().zip(seconds) {
            rows.push(Row {
                program: name,
                case: case.clone(),
                slowdown: seconds.iter().zip(&alone).map(|(s, a)| s / a).collect(),
                seconds,
            });
        }
        write(args, &root, &rows, &legend, &missing)?;
    }
    print!("{}", fs::read_to_string(&args.out)?);
    Ok(())
}

/// Ends what shares the CPUs.
struct Sharing(Vec<Child>);

impl Drop for Sharing {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // SAFETY: a child of ours that was not waited for.
            unsafe { libc::kill(child.id().cast_signed(), libc::SIGTERM) };
            let _ = child.wait();
        }
    }
}

fn measure(args: &BesideArgs, case: &Case, program: &Program, cpus: &CpuList) -> Result<f64> {
    let sharing = Sharing(share(args, case, cpus)?);
    // Until it is held.
    std::thread::sleep(Duration::from_millis(1500));
    let mut command = program.command();
    let own = cpus.clone();
    // A session of its own: one autogroup, as a program started elsewhere.
    // SAFETY: system calls on a list made before the fork.
    unsafe {
        command.pre_exec(move || {
            nix::unistd::setsid()?;
            sched::set_affinity(0, &own).map_err(std::io::Error::other)
        });
    }
    let begin = Instant::now();
    let status = command.status().context("start a program")?;
    let took = begin.elapsed().as_secs_f64();
    drop(sharing);
    match status.success() {
        true => Ok(took),
        false => bail!("{} ended with {status}", program.name),
    }
}

fn share(args: &BesideArgs, case: &Case, cpus: &CpuList) -> Result<Vec<Child>> {
    let sandbag = |words: &[&str]| -> Result<Child> {
        let mut command = Command::new(&args.sandbag);
        command.args(words).args(["--cpus", &cpus.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.spawn().context("start sandbag")
    };
    match case {
        Case::Nothing => Ok(Vec::new()),
        Case::Spinner => cpus.iter().map(spinner).collect(),
        Case::Load => Ok(vec![sandbag(&["-q", "load", "50", "--no-out"])?]),
        Case::Node(method) => Ok(vec![sandbag(&[
            "-q", "slow", "--no-out", "--speed", "0.5", "--method", method,
        ])?]),
    }
}

/// All of them in our own session: one autogroup, like the threads of one
/// program. A session for each would weigh as much on its one CPU as the
/// program does on all of its CPUs together, and take two thirds of two CPUs.
fn spinner(cpu: u32) -> Result<Child> {
    let mut command = Command::new("sh");
    command.args(["-c", "while :; do :; done"]);
    let own = CpuList::from_iter([cpu]);
    // SAFETY: system calls on a list made before the fork.
    unsafe {
        command.pre_exec(move || {
            nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
            sched::set_affinity(0, &own).map_err(std::io::Error::other)
        });
    }
    command.spawn().context("start a spinner")
}

fn write(
    args: &BesideArgs,
    root: &Root,
    rows: &[Row],
    legend: &str,
    missing: &[&str],
) -> Result<()> {
    let mut table = Table::new(&[
        "program, beside",
        "seconds",
        "slowdown",
        "least",
        "greatest",
    ]);
    for row in rows {
        let (least, greatest) = range(&row.slowdown).unwrap_or_default();
        table.push(vec![
            format!("{}, {}", row.program, row.case.name()),
            format!("{:.2}", median(&row.seconds).unwrap_or_default()),
            format!("{:.2}", median(&row.slowdown).unwrap_or_default()),
            format!("{least:.2}"),
            format!("{greatest:.2}"),
        ]);
    }
    let mut text = String::from("# What slowed nodes do to programs beside them\n\n");
    for (name, value) in machine::describe(root) {
        text += &format!("- {name}: {value}\n");
    }
    text += &format!(
        "\nMedians of {} rounds; in each every case ran once, and slowdowns are against \"nothing\" \
         of the same round.\n\n{}\n{legend}",
        args.rounds,
        table.render()
    );
    if !missing.is_empty() {
        text += &format!(
            "\nNot run, for want of their compilers: {}.\n",
            missing.join(", ")
        );
    }
    fs::write(&args.out, text).with_context(|| format!("write {}", args.out.display()))?;
    let figures = args.out.with_extension("json");
    fs::write(&figures, serde_json::to_vec_pretty(rows)?)
        .with_context(|| format!("write {}", figures.display()))
}
