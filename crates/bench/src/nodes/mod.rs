// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How nearly proportional a slowed program is to its speed: each cell runs
//! the same work slowed and unslowed in turn, on the same CPUs, and compares
//! the rates in pairs.

pub mod work;

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use sandbag_kernel::{CpuList, Root, sched};
use serde::Serialize;

use crate::markdown::Table;
use crate::stats::{median, range};
use sandbag_lab::machine;
use work::{Done, Kind};

/// Measure how nearly proportional slowed programs are to their speed (root)
#[derive(Debug, Args)]
pub struct NodesArgs {
    /// The sandbag to measure
    #[arg(long, default_value = "sandbag")]
    sandbag: PathBuf,
    /// Methods; the first in full, the others at some speeds
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "hogs,pace,gov,quota,deadline,rt,shares,lim,cap"
    )]
    methods: Vec<String>,
    /// Fewer cells, shorter runs
    #[arg(long)]
    quick: bool,
    /// These speeds for all methods
    #[arg(long, value_delimiter = ',')]
    speeds: Vec<f64>,
    /// These programs only: one, two or 4N processes, 4N threads, or one that
    /// computes, sleeps and computes
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "one,two,many,threads,sleep"
    )]
    programs: Vec<String>,
    /// Pairs of runs per cell
    #[arg(long)]
    rounds: Option<usize>,
    /// Write tables (.md) and figures (.json) here
    #[arg(long, default_value = "nodes-results.md")]
    out: PathBuf,
}

/// One cell.
#[derive(Debug, Clone, Serialize)]
struct Cell {
    method: String,
    cpus: u32,
    speed: f64,
    tasks: u32,
    kind: Kind,
}

/// What came out of it: ratios slowed/unslowed, one per pair.
#[derive(Debug, Clone, Serialize)]
struct Row {
    cell: Cell,
    /// By steps of work per wall time.
    rate: Vec<f64>,
    /// By CPU time per wall time: free of changes of the machine's own speed.
    cpu: Vec<f64>,
    failed: Option<String>,
}

/// Speeds of the first method.
const SPEEDS: [f64; 6] = [0.1, 0.25, 0.5, 0.75, 0.9, 1.0];
const SOME_SPEEDS: [f64; 3] = [0.25, 0.5, 0.8];

fn cells(args: &NodesArgs, online: u32) -> Vec<Cell> {
    let mut all = Vec::new();
    for (n, method) in args.methods.iter().enumerate() {
        let speeds: &[f64] = match (n, args.quick) {
            _ if !args.speeds.is_empty() => &args.speeds,
            (0, false) => &SPEEDS,
            (0, true) => &[0.1, 0.5, 0.9, 1.0],
            (_, false) => &SOME_SPEEDS,
            (_, true) => &[0.5],
        };
        for cpus in 1..=online.min(2) {
            for speed in speeds {
                let programs = [
                    ("one", 1, Kind::Processes),
                    ("two", 2, Kind::Processes),
                    ("many", 4 * cpus, Kind::Processes),
                    ("threads", 4 * cpus, Kind::Threads),
                    ("sleep", 1, Kind::Sleep),
                ];
                for (name, tasks, kind) in programs {
                    let wanted = args.programs.iter().any(|wanted| wanted == name);
                    // One sleeper needs one CPU.
                    if wanted && (kind != Kind::Sleep || cpus == 1) {
                        all.push(Cell {
                            method: method.clone(),
                            cpus,
                            speed: *speed,
                            tasks,
                            kind,
                        });
                    }
                }
            }
        }
    }
    all
}

/// Runs all cells and prints tables.
pub fn nodes(args: &NodesArgs) -> Result<()> {
    let root = Root::default();
    let online: CpuList = root
        .read("/sys/devices/system/cpu/online")?
        .trim()
        .parse()?;
    let cells = cells(args, online.iter().count() as u32);
    let rounds = args.rounds.unwrap_or(if args.quick { 2 } else { 3 });
    let mut rows: Vec<Row> = Vec::new();
    for (n, cell) in cells.iter().enumerate() {
        let row = measure(args, cell, rounds);
        eprintln!("{}/{} {}", n + 1, cells.len(), line(&row).join(" | "));
        rows.push(row);
        // What is there is kept, whatever happens next.
        write(&args.out, &root, &rows, rounds)?;
    }
    print!("{}", fs::read_to_string(&args.out)?);
    Ok(())
}

fn measure(args: &NodesArgs, cell: &Cell, rounds: usize) -> Row {
    let mut row = Row {
        cell: cell.clone(),
        rate: Vec::new(),
        cpu: Vec::new(),
        failed: None,
    };
    for round in 0..rounds {
        let pair = match round % 2 {
            0 => unslowed(args, cell).and_then(|a| Ok((a, slowed(args, cell)?))),
            _ => slowed(args, cell).and_then(|b| Ok((unslowed(args, cell)?, b))),
        };
        match pair {
            Ok((full, slow)) => {
                let per = |amount: u64, done: &Done| amount as f64 / done.wall_ns as f64;
                row.rate
                    .push(per(slow.steps, &slow) / per(full.steps, &full));
                row.cpu
                    .push(per(slow.cpu_ns, &slow) / per(full.cpu_ns, &full));
            }
            Err(error) => {
                row.failed = Some(format!("{error:#}"));
                break;
            }
        }
    }
    row
}

fn work_args(args: &NodesArgs, cell: &Cell) -> Vec<String> {
    // The slower, the longer: a run has some hundred periods of its work.
    let seconds = if args.quick { 2.0 } else { 3.0 };
    let millis = (seconds * 1000.0 / cell.speed.max(0.3)) as u64;
    let kind = match cell.kind {
        Kind::Processes => "processes",
        Kind::Threads => "threads",
        Kind::Sleep => "sleep",
    };
    [
        "work",
        "--tasks",
        &cell.tasks.to_string(),
        "--kind",
        kind,
        "--millis",
        &millis.to_string(),
    ]
    .map(str::to_owned)
    .to_vec()
}

fn cpus(cell: &Cell) -> CpuList {
    (0..cell.cpus).collect()
}

fn unslowed(args: &NodesArgs, cell: &Cell) -> Result<Done> {
    let cpus = cpus(cell);
    let mut command = Command::new(std::env::current_exe()?);
    command.args(work_args(args, cell));
    // SAFETY: one system call on a list made before the fork.
    unsafe {
        command.pre_exec(move || sched::set_affinity(0, &cpus).map_err(std::io::Error::other));
    }
    done(command)
}

fn slowed(args: &NodesArgs, cell: &Cell) -> Result<Done> {
    let mut command = Command::new(&args.sandbag);
    command
        .args(["-q", "slow", "--no-out", "--method", &cell.method])
        .args(["--cpus", &cpus(cell).to_string()])
        .args(["--speed", &cell.speed.to_string()])
        .arg("--")
        .arg(std::env::current_exe()?)
        .args(work_args(args, cell));
    done(command)
}

fn done(mut command: Command) -> Result<Done> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .with_context(|| format!("start {}", command.get_program().display()))?;
    if !output.status.success() {
        bail!(
            "{}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    serde_json::from_slice(&output.stdout).context("the work's own account")
}

fn line(row: &Row) -> Vec<String> {
    let cell = &row.cell;
    let deviation = |ratios: &[f64]| -> String {
        let Some(middle) = median(ratios) else {
            return "-".to_owned();
        };
        let (least, most) = range(ratios).unwrap_or((middle, middle));
        let percent = |ratio: f64| (ratio / cell.speed - 1.0) * 100.0;
        format!(
            "{:+.2} ({:+.2}..{:+.2})",
            percent(middle),
            percent(least),
            percent(most)
        )
    };
    vec![
        cell.method.clone(),
        cell.cpus.to_string(),
        cell.speed.to_string(),
        match cell.kind {
            Kind::Processes => format!("{} processes", cell.tasks),
            Kind::Threads => format!("{} threads", cell.tasks),
            Kind::Sleep => "compute, sleep, compute".to_owned(),
        },
        median(&row.rate).map_or_else(|| "-".to_owned(), |r| format!("{r:.4}")),
        deviation(&row.rate),
        deviation(&row.cpu),
        row.failed.clone().unwrap_or_default(),
    ]
}

fn write(out: &Path, root: &Root, rows: &[Row], rounds: usize) -> Result<()> {
    let mut table = Table::new(&[
        "method",
        "CPUs",
        "speed",
        "program",
        "rate, slowed to unslowed",
        "off proportional by work, %",
        "by CPU time, %",
        "failed",
    ]);
    rows.iter().for_each(|row| table.push(line(row)));
    let mut text = String::from("# Speed asked and got\n\n");
    for (name, value) in machine::describe(root) {
        text += &format!("- {name}: {value}\n");
    }
    text += &format!(
        "\nMedian of {rounds} pairs, least and greatest in brackets; slowed and unslowed runs \
         alternate.\n\n{}",
        table.render()
    );
    fs::write(out, text).with_context(|| format!("write {}", out.display()))?;
    let figures = out.with_extension("json");
    fs::write(&figures, serde_json::to_vec_pretty(rows)?)
        .with_context(|| format!("write {}", figures.display()))
}
