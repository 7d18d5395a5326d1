// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An experiment: its cells, how one is measured, and what its page shows.
//! Each is a file here and a line in [`all`].

mod errors;
mod micro;
mod obtrusive;
mod precision;
mod replay;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use sandbag_kernel::CpuList;

use crate::page::Section;
use crate::row::Row;

/// What all experiments are told.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The sandbag under test, which also has the lab's programs.
    pub sandbag: PathBuf,
    /// The CPUs of this machine.
    pub cpus: CpuList,
    /// The short form: fewer cells, shorter programs, fewer rounds.
    pub quick: bool,
    /// Methods that put a load on CPUs and work here.
    pub loading: Vec<String>,
    /// Methods that slow a node and work here.
    pub slowing: Vec<String>,
    /// Why others do not.
    pub left_out: Vec<String>,
    /// What one program may take.
    pub limit: Duration,
    /// A C project to compile, in place of the one that is found.
    pub sources: Option<PathBuf>,
    /// For files of the moment; goes with the experiment.
    pub scratch: PathBuf,
    /// For files that stay, the experiment's own.
    pub dir: PathBuf,
}

/// What an experiment chose for a machine when it was begun (amounts, sizes),
/// by name. Kept with its results, so that going on means the same work.
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

/// One of the papers' experiments.
pub trait Experiment {
    /// On the command line.
    fn name(&self) -> &'static str;

    /// One sentence for lists.
    fn about(&self) -> &'static str;

    /// The figure or table of a paper that it repeats.
    fn source(&self) -> &'static str;

    /// Rounds over all cells.
    fn rounds(&self, quick: bool) -> u32;

    /// Looks what is there, and makes what its trials need; nothing outside
    /// its directories. What it finds in `chosen` it takes, what it chooses
    /// itself it adds.
    ///
    /// # Errors
    /// It cannot be done; [`NotHere`] where that is the machine's fault.
    fn prepare(&mut self, setup: &Setup, chosen: &mut Choices) -> Result<()>;

    /// The cells; to be asked after `prepare`.
    fn cells(&self, setup: &Setup) -> Vec<Cell>;

    /// What this one leaves out here, each with its reason; and what else is
    /// to be known of its programs.
    fn left_out(&self) -> Vec<String>;

    /// One trial of a cell: the rows of its pairs.
    ///
    /// # Errors
    /// Nothing could be measured at all; a program that fails or hangs is a
    /// row that says so.
    fn measure(&mut self, setup: &Setup, cell: &Cell, round: u32) -> Result<Vec<Row>>;

    /// Tables and figures.
    ///
    /// # Errors
    /// A figure cannot be drawn.
    fn page(&self, rows: &[Row]) -> Result<Vec<Section>>;

    /// Lines of the summary: what, the paper's figure, ours.
    fn summary(&self, rows: &[Row]) -> Vec<[String; 3]>;
}

/// All of them, in the order in which they are run.
#[must_use]
pub fn all() -> Vec<Box<dyn Experiment>> {
    vec![
        Box::new(precision::Precision::default()),
        Box::new(obtrusive::Obtrusive::default()),
        Box::new(replay::Replay::default()),
        Box::new(errors::Errors),
        Box::new(micro::Micro::default()),
    ]
}

/// The values of `rows` in the order of their first appearance.
fn distinct<T: PartialEq>(rows: &[Row], value: impl Fn(&Row) -> T) -> Vec<T> {
    let mut found = Vec::new();
    for row in rows {
        let value = value(row);
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_are_told_apart_by_name() {
        let mut names: Vec<&str> = all().iter().map(|e| e.name()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
