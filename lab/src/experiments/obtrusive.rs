// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Obtrusiveness (KRASH, tables III to V): the slowdown by a load of 50 % of a file copy, of
//! an exchange of messages by many processes, and of a parallel compilation, beside that by
//! a spinner on each CPU; the same beside a virtual node in which nothing runs, because what slows a node
//! slows its neighbours, and in such a node.

mod page;

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::KRASH;
use super::programs::{self, Program};
use crate::condition::Condition;
use crate::decide;
use crate::experiment::{About, Choices, Experiment, Paper, Remarks};
use crate::pair::PairTrial;
use crate::program::{ProgramExit, run};
use crate::reading::{ProgramResult, Reading, whole_time};
use crate::row::Row;
use crate::setup::Setup;

const LOAD_PCT: f64 = 50.0;

const SPINNERS: &str = "spinners";
/// An empty node beside the program, by the methods that are defaults.
const BESIDE: &str = "node-";
/// The program in such a node.
const INSIDE: &str = "in-node-";
const NODES: [&str; 2] = ["hogs", "pace"];

/// Name of the choice that describes a program.
fn about(program: &str) -> String {
    format!("about {program}")
}

/// For a run of a program before the first pair.
const WARM_UP: Duration = Duration::from_secs(600);

type Make = fn(&Setup) -> Result<Vec<Program>>;

/// One of the three tables.
pub(super) struct Obtrusive {
    about: &'static About,
    make: Make,
    programs: Vec<Program>,
}

macro_rules! table {
    ($number:literal, $roman:literal, $what:literal, $minutes:expr) => {
        &About {
            name: concat!("krash-table-", $number),
            paper: KRASH,
            what: concat!($what, " under a load of 50 %, by each method"),
            source: concat!("KRASH (Perarnau and Huard, IPDPS 2010), table ", $roman),
            rounds: [6, 10],
            most_rounds: 120,
            minutes: $minutes,
            page: |measured| Ok(page::sections(measured.rows, measured.chosen)),
            summary: page::summary,
        }
    };
}

static TABLES: [(&About, Make); 3] = [
    (
        table!("3", "III", "a file copy", [18, 120]),
        programs::copies,
    ),
    (
        table!("4", "IV", "an MPI exchange", [18, 120]),
        programs::exchange,
    ),
    (
        table!("5", "V", "a compilation", [18, 120]),
        programs::compile,
    ),
];

impl Obtrusive {
    /// Tables III to V.
    pub fn all() -> impl Iterator<Item = Box<dyn Paper>> {
        TABLES.iter().map(|(about, make)| {
            Box::new(Self {
                about,
                make: *make,
                programs: Vec::new(),
            }) as Box<dyn Paper>
        })
    }
}

impl Experiment for Obtrusive {
    type Setup = Setup;

    fn name(&self) -> &'static str {
        self.about.name
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
            for method in nodes {
                conditions.push(format!("{BESIDE}{method}"));
                // A copy waits for its disk, in whatever node.
                if !program.name.starts_with("copy") {
                    conditions.push(format!("{INSIDE}{method}"));
                }
            }
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
            condition: &condition_of(condition),
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

fn condition_of(name: &str) -> Condition {
    let speed = 1.0 - LOAD_PCT / 100.0;
    if name == SPINNERS {
        Condition::Spinners
    } else if let Some(method) = name.strip_prefix(INSIDE) {
        let method = method.to_owned();
        Condition::Node { method, speed }
    } else if let Some(method) = name.strip_prefix(BESIDE) {
        let method = method.to_owned();
        Condition::Beside { method, speed }
    } else {
        Condition::load(name, LOAD_PCT)
    }
}

impl Paper for Obtrusive {
    fn about(&self) -> &'static About {
        self.about
    }

    fn prepare(&mut self, setup: &Setup, chosen: &mut Choices) -> Result<Remarks> {
        self.programs = (self.make)(setup)?;
        let names = self.programs.iter().map(|program| program.name);
        setup.chosen.check(names)?;
        self.programs
            .retain(|program| setup.chosen.has(program.name));
        for program in &self.programs {
            chosen.insert(about(program.name), program.about.clone());
            warm_up(program).with_context(|| program.name.to_owned())?;
        }
        Ok(Remarks::default())
    }
}

/// The first run reads what later ones find in memory.
fn warm_up(program: &Program) -> Result<()> {
    program.clear()?;
    let (name, arguments) = program.words.split_first().context("no program")?;
    let mut command = Command::new(name);
    command.args(arguments);
    let ended = run(command, None, WARM_UP)?;
    program.check(&ended.out)
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
