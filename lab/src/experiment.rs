// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an experiment is: its cells, how one is measured, and what its page
//! shows. The papers' are in [`experiments`](crate::experiments).

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use crate::page::Section;
use crate::row::PairRow;
use crate::setup::Setup;
use crate::trial::Trial;

/// What an experiment chose for a machine when it was begun (amounts, sizes,
/// texts of its page), by name. Kept with its results, so that going on means
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

/// A condition, or some that are measured together, to be met in each round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// Its name, unique within the experiment and the same every time.
    pub key: String,
}

impl Cell {
    /// Of that name.
    #[must_use]
    pub fn new(key: impl Into<String>) -> Self {
        Self { key: key.into() }
    }
}

/// What is to be known besides the figures.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remarks {
    /// What was skipped, each with its reason.
    pub skipped: Vec<String>,
    /// About the programs.
    pub notes: Vec<String>,
}

/// What was measured, for a page: nothing else is needed to make one.
#[derive(Debug, Clone, Copy)]
pub struct Measurements<'a> {
    /// The rows, in the order of the cells.
    pub rows: &'a [PairRow],
    /// What was chosen for the machine.
    pub chosen: &'a Choices,
    /// The experiment's directory.
    pub dir: &'a Path,
}

/// Cells that are measured round by round, each trial kept as soon as it is made.
pub trait Experiment {
    /// What is kept of a trial.
    type Row: Trial;
    /// What trials are made with.
    type Setup;

    /// On the command line.
    fn name(&self) -> &'static str;

    fn cells(&self, setup: &Self::Setup) -> Vec<Cell>;

    /// Whether a cell is measured in this round.
    fn has_round(&self, _cell: &Cell, _round: u32) -> bool {
        true
    }

    /// Whether the rows of a cell, those of all the rounds at least, say what
    /// they are to say.
    fn enough(&self, _rows: &[&Self::Row]) -> bool {
        true
    }

    /// One trial of a cell.
    ///
    /// # Errors
    /// Nothing could be measured at all; a program that fails or hangs is a
    /// row that says so.
    fn measure(&mut self, setup: &Self::Setup, cell: &Cell, round: u32) -> Result<Vec<Self::Row>>;
}

/// One of the papers' experiments; its cells are asked for after `prepare`, and
/// its trials are pairs.
pub trait Paper: Experiment<Row = PairRow, Setup = Setup> {
    /// One sentence for lists.
    fn about(&self) -> &'static str;

    /// The figure or table of a paper that it repeats.
    fn source(&self) -> &'static str;

    /// Rounds over all cells.
    fn rounds(&self, quick: bool) -> u32;

    /// Rounds after which cells that have not [enough](Experiment::enough) are
    /// given up.
    fn most_rounds(&self) -> u32 {
        self.rounds(false)
    }

    /// What it takes in all, minutes: on two CPUs with every method but `freq`.
    fn minutes(&self, quick: bool) -> u32;

    /// Looks what is there, and makes what its trials need; nothing outside
    /// its directories. What it finds in `chosen` it takes, what it chooses
    /// itself it adds.
    ///
    /// # Errors
    /// It cannot be done; [`NotHere`] where that is the machine's fault.
    fn prepare(&mut self, setup: &Setup, chosen: &mut Choices) -> Result<()>;

    /// What this one skips here, and what is to be known of its programs; to
    /// be asked after `prepare`.
    fn remarks(&self) -> Remarks {
        Remarks::default()
    }

    /// Tables and figures. Needs no `prepare`.
    ///
    /// # Errors
    /// A figure cannot be drawn.
    fn page(&self, measured: &Measurements<'_>) -> Result<Vec<Section>>;

    /// Lines of the summary: what, the paper's figure, ours. Needs no
    /// `prepare`.
    fn summary(&self, rows: &[PairRow]) -> Vec<[String; 3]>;
}
