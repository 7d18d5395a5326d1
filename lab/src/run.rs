// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Running an experiment: cells in an order of chance, round by round, each
//! kept as soon as it is measured.

#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use sandbag_linux::Root;

use crate::experiment::{Cell, Choices, Experiment, NotHere, Paper};
use crate::journal::{Rows, Terms};
use crate::results::{self, CHOICES, ROWS, Report, State, read_json};
use crate::setup::Setup;
use crate::trial::Trial as _;
use crate::whole_file::put;
use sandbag_linux::machine;
use sandbag_stats::Chance;

/// How often each cell is measured.
#[derive(Debug, Clone, Copy, Default)]
pub struct Repeat {
    /// Rounds, in place of the experiment's own.
    pub rounds: Option<u32>,
    /// Go on with the cells that these do not decide.
    pub decide: bool,
}

impl Repeat {
    /// Rounds for all cells, and the last one for those that have not enough.
    fn of(self, experiment: &dyn Paper, quick: bool) -> (u32, u32) {
        let least = self.rounds.unwrap_or_else(|| experiment.rounds(quick));
        if self.decide {
            (least, least.max(experiment.most_rounds()))
        } else {
            (least, least)
        }
    }
}

/// What the caller hears while an experiment runs.
pub trait Listener {
    /// One trial of so many is done, or was there already.
    fn trial(&mut self, done: usize, of: usize, what: &str);
    /// Something its user should know.
    fn note(&mut self, text: &str);
}

/// Runs what is still to be done of an experiment, and writes its files into
/// `dir`. One that cannot be run here, or that fails, says so in its report and
/// on its page.
///
/// # Errors
/// A signal came; its files cannot be read or written, or hold rows that were
/// measured under other terms.
pub fn run(
    experiment: &mut dyn Paper,
    setup: &Setup,
    dir: &Path,
    repeat: Repeat,
    listener: &mut dyn Listener,
) -> Result<Report> {
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let machine: Vec<(String, String)> = machine::describe(&Root::default())
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    let mut rows = Rows::open(
        &dir.join(ROWS),
        Terms {
            experiment: experiment.name().to_owned(),
            quick: setup.quick,
            sandbag: env!("CARGO_PKG_VERSION").to_owned(),
            machine: machine::lasting(&machine),
            cpus: setup.cpus.to_string(),
            limit_s: setup.limit.as_secs_f64(),
            sources: setup.sources.clone(),
            options: String::new(),
            seed: u64::from(std::process::id()),
        },
    )?;
    let path = dir.join(CHOICES);
    let mut chosen = match read_json(&path)? {
        Some(chosen) => chosen,
        None if rows.rows().is_empty() => Choices::new(),
        // Other amounts than those of the rows that are there would be mixed in.
        None => bail!("{} is gone: begin again with --fresh", path.display()),
    };
    let mut report = Report {
        experiment: experiment.name().to_owned(),
        source: experiment.source().to_owned(),
        state: State::Run,
        rounds: repeat.of(experiment, setup.quick).0,
        quick: setup.quick,
        machine,
        lines: Vec::new(),
        left_out: setup.methods.refused.clone(),
        notes: Vec::new(),
        cells: Vec::new(),
    };
    let ended = experiment.prepare(setup, &mut chosen).and_then(|()| {
        put(&path, &serde_json::to_vec_pretty(&chosen)?)?;
        let cells = experiment.cells(setup);
        let remarks = experiment.remarks();
        report.left_out.extend(remarks.skipped);
        report.notes = remarks.notes;
        report.cells = cells.iter().map(|cell| cell.key.clone()).collect();
        for text in report.left_out.iter().chain(&report.notes) {
            listener.note(text);
        }
        let rounds = repeat.of(experiment, setup.quick);
        let mut matrix = Matrix {
            experiment: &mut *experiment,
            setup,
            rows: &mut rows,
            listener,
        };
        matrix.measure(rounds, &mut |experiment, rows| {
            results::write(experiment, &mut report, &chosen, rows, dir)
        })
    });
    if let Err(error) = ended {
        sandbag_linux::interrupt::check()?;
        report.state = match error.downcast_ref::<NotHere>() {
            Some(NotHere(why)) => State::Skipped { why: why.clone() },
            None => State::Failed {
                why: format!("{error:#}"),
            },
        };
    }
    results::write(experiment, &mut report, &chosen, rows.rows(), dir)?;
    Ok(report)
}

/// The cells of an experiment in each round.
pub(crate) struct Matrix<'a, E: Experiment + ?Sized> {
    pub(crate) experiment: &'a mut E,
    pub(crate) setup: &'a E::Setup,
    pub(crate) rows: &'a mut Rows<E::Row>,
    pub(crate) listener: &'a mut dyn Listener,
}

/// Makes a page of what there is.
type Show<'a, E> = dyn FnMut(&E, &[<E as Experiment>::Row]) -> Result<()> + 'a;

impl<E: Experiment + ?Sized> Matrix<'_, E> {
    /// Measures what is still to be measured, so many rounds at least and at
    /// most; a page after every round, for a matrix takes hours.
    pub(crate) fn measure(
        &mut self,
        (least, most): (u32, u32),
        show: &mut Show<'_, E>,
    ) -> Result<()> {
        let cells = self.experiment.cells(self.setup);
        let done = self.rows.done();
        let has = |experiment: &E, cell: &Cell, round| experiment.has_round(cell, round);
        let of = (0..least)
            .flat_map(|round| cells.iter().map(move |cell| (cell, round)))
            .filter(|(cell, round)| has(self.experiment, cell, *round))
            .count();
        let mut count = 0;
        for round in 0..most {
            let mut wanted = 0;
            for cell in order(&cells, self.rows.terms().seed, round) {
                if !has(self.experiment, cell, round) {
                    continue;
                }
                let there = done.contains(&(cell.key.clone(), round));
                if !there && round >= least && self.has_enough(cell) {
                    continue;
                }
                wanted += 1;
                count += 1;
                if there {
                    continue;
                }
                let measured = self
                    .experiment
                    .measure(self.setup, cell, round)
                    .with_context(|| format!("{}, round {}", cell.key, round + 1))?;
                // A trial in which a signal came is no trial.
                sandbag_linux::interrupt::check()?;
                let lines: Vec<String> = measured.iter().map(|row| row.line()).collect();
                let line = format!("{}: {}", cell.key, lines.join(", "));
                self.listener.trial(count, of.max(count), &line);
                self.rows.push(measured)?;
            }
            if wanted == 0 {
                break;
            }
            show(self.experiment, self.rows.rows())?;
        }
        Ok(())
    }

    fn has_enough(&self, cell: &Cell) -> bool {
        let rows = self.rows.rows().iter();
        let own: Vec<&E::Row> = rows.filter(|row| row.cell() == cell.key).collect();
        self.experiment.enough(&own)
    }
}

/// The cells of a round, shuffled by the seed (Fisher and Yates), so that
/// what a machine does meanwhile meets another cell each time.
fn order(cells: &[Cell], seed: u64, round: u32) -> Vec<&Cell> {
    let mut order: Vec<&Cell> = cells.iter().collect();
    let mut chance = Chance::new(seed, &format!("round {round}"));
    for last in (1..order.len()).rev() {
        order.swap(last, chance.below(last as u64 + 1) as usize);
    }
    order
}
