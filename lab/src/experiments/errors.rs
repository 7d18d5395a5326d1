// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sources of error: how well a load is held, and how an ordinary competitor
//! fares beside it, against the method's period, weight and slice, the number
//! of competitors and the load asked; one factor at a time around 50 % beside
//! five. Steal cannot be made; what came is a factor, too.

mod defaults;
mod factor;
mod levels;
mod page;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use sandbag_load::report::Run;

use super::OWN;
use crate::experiment::{About, Choices, Experiment, Paper, Remarks};
use crate::pair::PairTrial;
use crate::reading::own_words;
use crate::row::Row;
use crate::setup::Setup;
use factor::{COMPETITORS, Case, FACTORS, METHODS, SPINNERS, factor};

/// How long the competitors run, ms: as many whole windows of 1 s, at least,
/// as the error wants.
const LENGTH_MS: u64 = 10_000;
const LENGTH_QUICK_MS: u64 = 4_000;

#[derive(Debug)]
pub(super) struct Errors;

impl Experiment for Errors {
    type Setup = Setup;

    fn name(&self) -> &'static str {
        self.about().name
    }

    fn cells(&self, setup: &Setup) -> Vec<String> {
        let mut cases = Vec::new();
        let spinners = factor(COMPETITORS).map_or(&[][..], |all| all.values(setup.quick));
        cases.extend(
            spinners
                .iter()
                .map(|value| Case::new(COMPETITORS, *value, SPINNERS)),
        );
        for factor in &FACTORS {
            for value in factor.values(setup.quick) {
                for method in METHODS {
                    let works = setup.methods.loading.iter().any(|name| name == method);
                    if works && factor.is_of(method) {
                        cases.push(Case::new(factor.name, *value, method));
                    }
                }
            }
        }
        cases.iter().map(Case::key).collect()
    }

    fn measure(&mut self, setup: &Setup, cell: &str, round: u32) -> Result<Vec<Row>> {
        let case = Case::of(cell).context("no cell of this one")?;
        let length = setup.form(LENGTH_QUICK_MS, LENGTH_MS);
        let competitors = case.competitors();
        let words = setup.work(&format!("sleepers --tasks {competitors} --within {length}"));
        let trial = PairTrial {
            programs: &["sleepers"],
            words: &words,
            condition: &case.condition(),
            ..PairTrial::new(cell, round, &setup.cpus)
        };
        let row = trial.single(&setup.place(&setup.cpus), &own_words, &figures);
        Ok(vec![row])
    }
}

impl Paper for Errors {
    fn about(&self) -> &'static About {
        &About {
            name: "errors",
            paper: OWN,
            what: "error, wake-up latency and migrations against period, weight, slice, competitors, load \
           and steal: why the defaults are so",
            source: "no paper; docs/explanation/methods.md argues with these figures",
            rounds: [3, 30],
            most_rounds: 30,
            minutes: [10, 520],
            page: |measured| page::sections(measured.rows),
            summary: page::summary,
        }
    }

    fn prepare(&mut self, _setup: &Setup, _chosen: &mut Choices) -> Result<Remarks> {
        let steal = "errors: steal cannot be made here; the rows are sorted by what came";
        Ok(Remarks {
            notes: vec![steal.to_owned()],
            ..Remarks::default()
        })
    }
}

fn figures(run: &Run) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    let mut add = |name: &str, value: f64| figures.insert(name.to_owned(), value);
    if let Some(error) = run.error_1s {
        add("mean_abs_points", error.mean_abs_points);
        add("worst_points", error.worst_points.abs());
    }
    if let Some(error) = run.error_100ms {
        add("mean_abs_100ms_points", error.mean_abs_points);
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::tests::setup;

    #[test]
    fn every_cell_is_found_again_and_is_there_once() {
        let dir = tempfile::tempdir().unwrap();
        for quick in [false, true] {
            let mut setup = setup(dir.path());
            setup.quick = quick;
            setup.methods.loading = ["pace", "hogs", "shares"].map(str::to_owned).into();
            let cells = Errors.cells(&setup);
            for (n, cell) in cells.iter().enumerate() {
                assert_eq!(Case::of(cell).unwrap().key(), *cell);
                assert!(!cells[..n].contains(cell), "{cell:?}");
            }
            let count = |part: &str| cells.iter().filter(|c| c.contains(part)).count();
            assert!(count("slice/") > 1 && count("weight/") > 1);
            assert_eq!(count("shares") + count("quota"), 0);
            assert!(
                cells
                    .iter()
                    .all(|c| !c.starts_with("slice") || c.ends_with("pace"))
            );
        }
    }
}
