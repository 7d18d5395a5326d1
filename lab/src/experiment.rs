// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an experiment is: its cells, and how one is measured. The papers' experiments
//! are in [`experiments`](crate::experiments), the benchmarks in [`bench`](crate::bench).

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use crate::agreement::Compared;
use crate::page::Section;
use crate::row::Row;
use crate::setup::{Selection, Setup};

/// What an experiment chose for a machine when it was begun (amounts, sizes,
/// texts of its page), by name. Kept with its results, so that resuming means
/// the same work, and a page can be made again without it.
pub type Choices = BTreeMap<String, String>;

/// An experiment cannot be run on this machine: why, with a remedy.
#[derive(Debug)]
pub struct NotHere(pub String);

impl std::fmt::Display for NotHere {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotHere {}

/// What the page reports besides the figures.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remarks {
    /// What was skipped, each with its reason.
    pub skipped: Vec<String>,
    pub notes: Vec<String>,
}

/// The input of a page.
#[derive(Debug, Clone, Copy)]
pub struct Measurements<'a> {
    pub rows: &'a [Row],
    pub chosen: &'a Choices,
    pub dir: &'a Path,
}

/// Cells that are measured round by round, each trial kept as soon as it is made.
pub trait Experiment {
    type Setup;

    fn name(&self) -> &'static str;

    /// Its cells, by name: conditions, each of which is measured once in each round.
    fn cells(&self, setup: &Self::Setup) -> Vec<String>;

    /// Whether a cell is measured in this round.
    fn has_round(&self, _cell: &str, _round: u32) -> bool {
        true
    }

    /// Whether the rows of a cell, after the least number of rounds, decide it.
    fn enough(&self, _rows: &[&Row]) -> bool {
        true
    }

    /// One trial of a cell. A program that fails or hangs is a row that says so; an
    /// error ends the experiment.
    fn measure(&mut self, setup: &Self::Setup, cell: &str, round: u32) -> Result<Vec<Row>>;

    /// The figures of a row, for progress messages.
    fn line(&self, row: &Row) -> String {
        row.line()
    }
}

/// What lists and pages have of an experiment; of two values, the short form's and the
/// full one's.
#[derive(Debug)]
pub struct About {
    /// By which it is run: paper, table or figure.
    pub name: &'static str,
    /// The paper, as lists have it.
    pub paper: &'static str,
    pub what: &'static str,
    /// The figure or table of a paper that it repeats.
    pub source: &'static str,
    /// Rounds over all cells.
    pub rounds: [u32; 2],
    /// Rounds after which cells that have not [enough](Experiment::enough) are given up.
    pub most_rounds: u32,
    /// Minutes, on two CPUs with every method but `freq`.
    pub minutes: [u32; 2],
    /// Tables and figures. Needs no `prepare`.
    pub page: fn(&Measurements<'_>) -> Result<Vec<Section>>,
    /// Our figures beside the published ones. Needs no `prepare`.
    pub summary: fn(&[Row]) -> Vec<Compared>,
}

/// One of the papers' experiments. Its cells are asked for after `prepare`.
pub trait Paper: Experiment<Setup = Setup> {
    fn about(&self) -> &'static About;

    /// Rounds over all cells.
    fn rounds(&self, quick: bool) -> u32 {
        self.about().rounds[usize::from(!quick)]
    }

    /// What rows must have in common of what was chosen.
    fn terms(&self, chosen: &Selection) -> String {
        chosen.terms()
    }

    /// Makes what its trials need, inside its directories only. It takes what is in
    /// `chosen` and adds what it chooses itself. Fails with [`NotHere`] where this
    /// machine cannot run it.
    fn prepare(&mut self, setup: &Setup, chosen: &mut Choices) -> Result<Remarks>;
}
