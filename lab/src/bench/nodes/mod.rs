// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How nearly proportional a slowed program is to its speed: each cell runs
//! the same work slowed and unslowed in turn, on the same CPUs, and compares
//! the rates in pairs.

mod cell;
mod pair;
mod table;
pub mod work;

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use sandbag_linux::Root;
use sandbag_linux::topology::Topology;

use crate::bench::benchmark::{self, Benchmark, Conditions};
use crate::bench::markdown::MarkdownTable;
use crate::experiment::{Cell, Experiment};
use cell::{NodeCell, cells};
use pair::{NodeRow, measure};
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
    rounds: Option<u32>,
    /// Write tables (.md) and rows (.jsonl) here
    #[arg(long, default_value = "nodes-results.md")]
    out: PathBuf,
    /// Go on from the rows beside --out
    #[arg(long)]
    resume: bool,
}

struct Nodes<'a> {
    args: &'a NodesArgs,
    cells: Vec<NodeCell>,
}

/// Runs all cells and prints tables.
pub fn nodes(args: &NodesArgs) -> Result<()> {
    let online = Topology::read(&Root::default())?.online;
    let mut nodes = Nodes {
        args,
        cells: cells(args, online.iter().count() as u32),
    };
    let conditions = Conditions {
        quick: args.quick,
        cpus: online.to_string(),
        ..Conditions::default()
    };
    benchmark::run(&mut nodes, conditions, &args.out, args.resume)
}

impl Experiment for Nodes<'_> {
    type Row = NodeRow;
    type Setup = ();

    fn name(&self) -> &'static str {
        "nodes"
    }

    fn cells(&self, _setup: &()) -> Vec<Cell> {
        self.cells
            .iter()
            .map(|cell| Cell::new(cell.key()))
            .collect()
    }

    fn measure(&mut self, _setup: &(), cell: &Cell, round: u32) -> Result<Vec<NodeRow>> {
        let found = self.cells.iter().find(|one| one.key() == cell.key);
        let node = found.context("no such cell")?;
        Ok(vec![measure(self.args, node, round)])
    }
}

impl Benchmark for Nodes<'_> {
    fn title(&self) -> &'static str {
        "Speed asked and got"
    }

    fn rounds(&self) -> u32 {
        let usual = if self.args.quick { 2 } else { 3 };
        self.args.rounds.unwrap_or(usual)
    }

    fn tables(&self, rows: &[NodeRow]) -> String {
        let mut table = MarkdownTable::new(&HEADER);
        for cell in &self.cells {
            let key = cell.key();
            let own: Vec<&NodeRow> = rows.iter().filter(|row| row.cell == key).collect();
            if !own.is_empty() {
                table.push(line(cell, &own));
            }
        }
        format!(
            "Median of {} pairs, least and greatest in brackets; slowed and unslowed runs \
             alternate. The method's own account of what it left is beside what the program made of \
             it; what it left and the program did not have, others used, in points of a CPU.\n\n{}",
            self.rounds(),
            table.render()
        )
    }
}
