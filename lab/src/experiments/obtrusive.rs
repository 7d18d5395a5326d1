// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Obtrusiveness (KRASH, tables III to V): the slowdown by a load of 50 % of a file copy, of
//! an exchange of messages by many processes, and of a parallel compilation, beside that by
//! a spinner on each CPU; and the same beside a virtual node in which nothing runs, because
//! what slows a node slows its neighbours.

mod page;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};

use super::programs::{self, Program};
use crate::condition::Condition;
use crate::decide;
use crate::experiment::{About, Choices, Experiment, Paper, Remarks};
use crate::pair::PairTrial;
use crate::program::ProgramExit;
use crate::reading::{ProgramResult, Reading, whole_time};
use crate::row::Row;
use crate::setup::Setup;

const LOAD_PCT: f64 = 50.0;

const SPINNERS: &str = "spinners";
/// An empty node beside the program, by the methods that are defaults.
const BESIDE: &str = "node-";
const NODES: [&str; 2] = ["hogs", "pace"];

/// Name of the choice that describes a program.
fn about(program: &str) -> String {
    format!("about {program}")
}

#[derive(Debug, Default)]
pub(super) struct Obtrusive {
    programs: Vec<Program>,
}

impl Experiment for Obtrusive {
    type Setup = Setup;

    fn name(&self) -> &'static str {
        "obtrusive"
    }

    fn enough(&self, rows: &[&Row]) -> bool {
        decide::enough(rows)
    }

    fn cells(&self, setup: &Setup) -> Vec<String> {
        let mut cells = Vec::new();
        for program in &self.programs {
            let mut conditions = vec![SPINNERS.to_owned()];
            conditions.extend(setup.methods.loading.iter().cloned());
            let nodes = NODES
                .iter()
                .filter(|n| setup.methods.slowing.iter().any(|s| s == *n));
            conditions.extend(nodes.map(|method| format!("{BESIDE}{method}")));
            for condition in conditions {
                cells.push(format!("{}/{condition}", program.name));
            }
        }
        cells
    }

    fn measure(&mut self, setup: &Setup, cell: &str, round: u32) -> Result<Vec<Row>> {
        let (program, condition) = cell.split_once('/').context("no cell of this one")?;
        let program = self
            .programs
            .iter()
            .find(|p| p.name == program)
            .context("no such program")?;
        let trial = PairTrial {
            programs: &[program.name],
            words: &program.words,
            before: &|| program.clear(),
            condition: &match (condition, condition.strip_prefix(BESIDE)) {
                (SPINNERS, _) => Condition::Spinners,
                (_, Some(method)) => Condition::Beside {
                    method: method.to_owned(),
                    speed: 1.0 - LOAD_PCT / 100.0,
                },
                (method, None) => Condition::load(method, LOAD_PCT),
            },
            ..PairTrial::new(cell, round, &setup.cpus)
        };
        let read = |programs: &[&str], ended: &ProgramExit| match ended
            .status
            .map(|_| program.check(&ended.out))
        {
            Some(Err(error)) => failed(programs, &error),
            _ => whole_time(programs, ended),
        };
        let place = setup.place(&setup.cpus);
        Ok(trial.pairs(&place, &read, &|_| BTreeMap::new()))
    }
}

impl Paper for Obtrusive {
    fn about(&self) -> &'static About {
        &About {
            what: "a file copy, an MPI exchange and a compilation under a load of 50 %, by each method",
            source: "KRASH (Perarnau and Huard, IPDPS 2010), tables III to V",
            rounds: [3, 30],
            most_rounds: 120,
            minutes: [9, 1200],
            page: |measured| Ok(page::sections(measured.rows, measured.chosen)),
            summary: page::summary,
        }
    }

    fn prepare(&mut self, setup: &Setup, chosen: &mut Choices) -> Result<Remarks> {
        let (programs, skipped) = programs::make(setup)?;
        self.programs = programs;
        for program in &self.programs {
            chosen.insert(about(program.name), program.about.clone());
        }
        Ok(Remarks {
            skipped,
            ..Remarks::default()
        })
    }
}

fn failed(programs: &[&str], error: &anyhow::Error) -> Reading {
    let result = ProgramResult::Failed {
        why: format!("{error:#}"),
    };
    programs
        .iter()
        .map(|program| ((*program).to_owned(), result.clone()))
        .collect()
}
