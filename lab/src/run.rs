// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Running an experiment: cells in an order of chance, round by round, each
//! kept as soon as it is measured.

#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use sandbag_linux::Root;

use crate::experiment::{Cell, Choices, Experiment, NotHere};
use crate::journal::{Rows, Terms};
use crate::results::{self, CHOICES, ROWS, Report, State, put, read_json};
use crate::row::{End, Row};
use crate::setup::Setup;
use sandbag_linux::machine;

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
    fn of(self, experiment: &dyn Experiment, quick: bool) -> (u32, u32) {
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
    experiment: &mut dyn Experiment,
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
        let mut matrix = Matrix {
            experiment: &mut *experiment,
            setup,
            cells: &cells,
            rows: &mut rows,
            listener,
        };
        matrix.measure(repeat, &mut |experiment, rows| {
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
struct Matrix<'a> {
    experiment: &'a mut dyn Experiment,
    setup: &'a Setup,
    cells: &'a [Cell],
    rows: &'a mut Rows,
    listener: &'a mut dyn Listener,
}

/// Makes a page of what there is.
type Show<'a> = dyn FnMut(&dyn Experiment, &[Row]) -> Result<()> + 'a;

impl Matrix<'_> {
    /// Measures what is still to be measured; a page after every round, for a
    /// matrix takes hours.
    fn measure(&mut self, repeat: Repeat, show: &mut Show<'_>) -> Result<()> {
        let (least, most) = repeat.of(self.experiment, self.setup.quick);
        let done = self.rows.done();
        let (mut count, of) = (0, self.cells.len() * least as usize);
        for round in 0..most {
            let mut wanted = 0;
            for cell in order(self.cells, self.rows.terms().seed, round) {
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
                self.listener
                    .trial(count, of.max(count), &told(cell, &measured));
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
        let own: Vec<&Row> = rows.filter(|row| row.cell == cell.key).collect();
        self.experiment.enough(&own)
    }
}

/// The cells of a round, shuffled by the seed (Fisher and Yates), so that
/// what a machine does meanwhile meets another cell each time.
fn order(cells: &[Cell], seed: u64, round: u32) -> Vec<&Cell> {
    let mut order: Vec<&Cell> = cells.iter().collect();
    let mut state = seed ^ (u64::from(round) << 32);
    for last in (1..order.len()).rev() {
        // SplitMix64 (Steele, Lea and Flood 2014): every bit of the state is
        // in every bit of the output.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        order.swap(last, (mixed % (last as u64 + 1)) as usize);
    }
    order
}

/// A trial in a line.
fn told(cell: &Cell, rows: &[Row]) -> String {
    let times: Vec<String> = rows
        .iter()
        .map(|row| match &row.end {
            // Some programs run for a given time: nothing to compare.
            End::Done if row.unloaded_s > 0.0 => {
                format!("{} x {:.2}", row.program, row.loaded_s / row.unloaded_s)
            }
            End::Done => format!("{} {:.1} s", row.program, row.loaded_s),
            End::OverLimit { limit_s } => format!("{} > {limit_s} s", row.program),
            End::Failed { why } => format!("{} failed: {why}", row.program),
        })
        .collect();
    format!("{}: {}", cell.key, times.join(", "))
}
