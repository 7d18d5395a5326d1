// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How nearly proportional a slowed program is to its speed: each cell runs
//! the same work slowed and unslowed in turn, on the same CPUs, and compares
//! the rates in pairs.

mod cell;
mod pair;
mod table;
pub mod work;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use sandbag_linux::{CpuList, Root};

use crate::bench::markdown::Table;
use cell::cells;
use pair::{Row, measure};
use sandbag_linux::machine;
use table::{HEADER, line};

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

fn write(out: &Path, root: &Root, rows: &[Row], rounds: usize) -> Result<()> {
    let mut table = Table::new(&HEADER);
    rows.iter().for_each(|row| table.push(line(row)));
    let mut text = String::from("# Speed asked and got\n\n");
    for (name, value) in machine::describe(root) {
        text += &format!("- {name}: {value}\n");
    }
    text += &format!(
        "\nMedian of {rounds} pairs, least and greatest in brackets; slowed and unslowed runs \
         alternate. The method's own account of what it left is beside what the program made of \
         it; what it left and the program did not have, others used, in points of a CPU.\n\n{}",
        table.render()
    );
    fs::write(out, text).with_context(|| format!("write {}", out.display()))?;
    let figures = out.with_extension("json");
    fs::write(&figures, serde_json::to_vec_pretty(rows)?)
        .with_context(|| format!("write {}", figures.display()))
}
