// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Running an experiment: cells in a random order, round by round, each kept as soon
//! as it is measured.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use sandbag_stats::Chance;
use sandbag_ui::BadInput;
use sandbag_ui::messages::Messages;

use crate::experiment::{Choices, Experiment, NotHere, Paper};
use crate::journal::{Rows, Terms, facts, put};
use crate::results::{self, CHOICES, ROWS, Report, State, read_json};
use crate::row::{Row, without_result};
use crate::setup::Setup;

#[derive(Debug, Clone, Copy, Default)]
pub struct Repeat {
    /// Rounds, in place of the experiment's own.
    pub rounds: Option<u32>,
    /// Go on with the cells that these do not decide.
    pub decide: bool,
    /// After so long no trials are begun but those of the rounds asked for, or of the first.
    pub time: Option<Duration>,
}

impl Repeat {
    fn of(self, experiment: &dyn Paper, quick: bool) -> Rounds {
        let least = self.rounds.unwrap_or_else(|| experiment.rounds(quick));
        Rounds {
            most: if self.decide {
                least.max(experiment.about().most_rounds)
            } else {
                least
            },
            until: self.time.map(|time| Instant::now() + time),
            certain: self.rounds.unwrap_or(1),
            ..Rounds::all(least)
        }
    }
}

/// How often cells are measured.
#[derive(Debug, Clone, Copy)]
pub struct Rounds {
    /// Of all cells.
    least: u32,
    /// Of those that have not enough.
    most: u32,
    /// After that no trial is begun but of the certain rounds.
    until: Option<Instant>,
    certain: u32,
}

impl Rounds {
    pub fn all(rounds: u32) -> Self {
        Self {
            least: rounds,
            most: rounds,
            until: None,
            certain: rounds,
        }
    }

    fn is_over(self, round: u32) -> bool {
        round >= self.certain && self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// Runs what is still to be done of an experiment, and writes its files into `dir`. The
/// report and the page of one that cannot be run here, or that fails, say why.
pub fn run(
    experiment: &mut dyn Paper,
    setup: &Setup,
    dir: &Path,
    repeat: Repeat,
    messages: &Messages,
) -> Result<Report> {
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let terms = Terms {
        limit_s: setup.limit.as_secs_f64(),
        sources: setup.sources.clone(),
        options: experiment.terms(&setup.chosen),
        seed: u64::from(std::process::id()),
        ..Terms::here(
            experiment.name(),
            setup.quick,
            setup.cpus.to_string(),
            &setup.sandbag,
        )
    };
    let mut rows = Rows::open(&dir.join(ROWS), terms, false)?;
    let path = dir.join(CHOICES);
    let mut chosen = match read_json(&path)? {
        _ if rows.rows.is_empty() => Choices::new(),
        Some(chosen) => chosen,
        // Other amounts than those of the rows that are there would be mixed in.
        None => bail!("{} is gone: begin again with --fresh", path.display()),
    };
    let rounds = repeat.of(experiment, setup.quick);
    let mut report = Report {
        rounds: rounds.least,
        machine: facts(),
        left_out: setup.methods.refused.clone(),
        ..Report::new(experiment, setup.quick)
    };
    let ended = experiment.prepare(setup, &mut chosen).and_then(|remarks| {
        put(&path, &serde_json::to_vec_pretty(&chosen)?)?;
        let cells = experiment.cells(setup);
        if cells.is_empty() {
            let why = "none of its cells was chosen (--programs, --methods, --loads, --speeds)";
            return Err(NotHere(why.to_owned()).into());
        }
        report.left_out.extend(remarks.skipped);
        report.notes = remarks.notes;
        report.cells = cells;
        for text in report.left_out.iter().chain(&report.notes) {
            messages.warning(text);
        }
        measure(
            experiment,
            setup,
            &mut rows,
            rounds,
            messages,
            &mut |experiment, rows| results::write(experiment, &mut report, &chosen, rows, dir),
        )
    });
    if let Err(error) = ended {
        sandbag_linux::interrupt::check()?;
        // Nothing was begun.
        if error.is::<BadInput>() {
            return Err(error);
        }
        report.state = match error.downcast_ref::<NotHere>() {
            Some(NotHere(why)) => State::Skipped { why: why.clone() },
            None => State::Failed {
                why: format!("{error:#}"),
            },
        };
        // The page of what was measured before stays.
        if matches!(report.state, State::Skipped { .. }) && !rows.rows.is_empty() {
            return Ok(report);
        }
    } else if let Some(why) =
        without_result(&report.cells, &rows.rows, |row| row.why_failed().is_none())
    {
        report.state = State::Failed {
            why: format!("{why}; --fresh begins again"),
        };
    }
    results::write(experiment, &mut report, &chosen, &rows.rows, dir)?;
    Ok(report)
}

/// Makes a report of the rows.
type Show<'a, E> = dyn FnMut(&E, &[Row]) -> Result<()> + 'a;

/// Measures the trials of an experiment that are not among the rows, at least and at
/// most these rounds. A report is made after every round, because all of them take hours.
pub fn measure<E: Experiment + ?Sized>(
    experiment: &mut E,
    setup: &E::Setup,
    rows: &mut Rows,
    rounds: Rounds,
    messages: &Messages,
    show: &mut Show<'_, E>,
) -> Result<()> {
    let cells = experiment.cells(setup);
    let done: BTreeSet<(String, u32)> = rows
        .rows
        .iter()
        .map(|row| (row.cell.clone(), row.round))
        .collect();
    let of = (0..rounds.least)
        .flat_map(|round| cells.iter().map(move |cell| (cell, round)))
        .filter(|(cell, round)| experiment.has_round(cell, *round))
        .count();
    let mut count = 0;
    for round in 0..rounds.most {
        let mut wanted = 0;
        for cell in order(&cells, rows.terms.seed, round) {
            if !experiment.has_round(cell, round) || rounds.is_over(round) {
                continue;
            }
            let there = done.contains(&(cell.to_owned(), round));
            let own = rows.rows.iter().filter(|row| row.cell == cell);
            if !there && round >= rounds.least && experiment.enough(&own.collect::<Vec<_>>()) {
                continue;
            }
            wanted += 1;
            count += 1;
            if there {
                continue;
            }
            let measured = experiment
                .measure(setup, cell, round)
                .with_context(|| format!("{}, round {}", cell, round + 1))?;
            // A trial during which a signal came is not valid.
            sandbag_linux::interrupt::check()?;
            let lines: Vec<String> = measured.iter().map(|row| experiment.line(row)).collect();
            messages.say(&format!(
                "[{count}/{}] {}: {}",
                of.max(count),
                cell,
                lines.join(", ")
            ));
            rows.push(measured)?;
        }
        if wanted == 0 {
            break;
        }
        show(experiment, &rows.rows)?;
    }
    Ok(())
}

/// The cells of a round, shuffled by the seed (Fisher and Yates), so that a disturbance
/// of the machine hits another cell in each round.
fn order(cells: &[String], seed: u64, round: u32) -> Vec<&str> {
    let mut order: Vec<&str> = cells.iter().map(String::as_str).collect();
    let mut chance = Chance::new(seed, &format!("round {round}"));
    for last in (1..order.len()).rev() {
        order.swap(last, chance.below(last as u64 + 1) as usize);
    }
    order
}
