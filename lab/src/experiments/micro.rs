// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The six micro-benchmarks (Buchert, Nussbaum and Gustedt, HPCC 2011, figures 5 and 6) in
//! slowed nodes, by each method of `slow`, each speed, on one CPU and on more. Within a
//! trial the six run one after another in one node.

mod page;

use std::collections::BTreeMap;
use std::ffi::OsString;

use anyhow::{Context as _, Result, bail};
use sandbag_linux::CpuList;
use sandbag_load::report::Run;
use sandbag_ui::BadInput;

use super::BUCHERT;
use crate::condition::Condition;
use crate::experiment::{About, Choices, Experiment, Paper, Remarks};
use crate::pair::PairTrial;
use crate::published::BARRIER;
use crate::reading::{in_turn, marked_words};
use crate::row::Row;
use crate::setup::{Selection, Setup, of_list};
use crate::summary::mean_sd;
use crate::workload::Name;

/// A part of a program takes about so long at full speed, milliseconds.
const PART_MS: u64 = 500;
/// The same in the short form.
const PART_QUICK_MS: u64 = 150;
/// The CPU-intensive one is three parts long.
const COMPUTE_PARTS: u64 = 3;
/// The memory program is six parts long: a short part is only two periods of a method.
const MEMORY_PARTS: u64 = 6;

const SPEEDS: [f64; 10] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];
const SPEEDS_QUICK: [f64; 3] = [0.25, 0.5, 1.0];

/// What is chosen for a machine: elements of the arrays of the memory program,
/// which would otherwise change with the memory that is free.
const ELEMENTS: &str = "elements of memory";

pub(super) struct Micro {
    about: &'static About,
    /// What each program does in a part, in its own unit.
    amounts: BTreeMap<Name, u64>,
    /// Of the memory program's arrays.
    elements: u64,
}

macro_rules! figure {
    ($number:literal, $where:literal) => {
        &About {
            name: concat!("hpcc-figure-", $number),
            paper: BUCHERT,
            what: concat!(
                "six micro-benchmarks in slowed nodes, every method and speed, ",
                $where
            ),
            source: concat!(
                "Buchert, Nussbaum and Gustedt (HPCC 2011), figure ",
                $number
            ),
            rounds: [3, 5],
            most_rounds: 40,
            minutes: [15, 110],
            page: |measured| page::sections(measured.rows),
            summary: page::summary,
        }
    };
}

static ONE_CORE: &About = figure!("5", "on one CPU");
static ALL_CORES: &About = figure!("6", "on all CPUs");

impl Micro {
    /// Figures 5 and 6.
    pub fn all() -> impl Iterator<Item = Box<dyn Paper>> {
        [ONE_CORE, ALL_CORES].into_iter().map(|about| {
            Box::new(Self {
                about,
                amounts: BTreeMap::new(),
                elements: 0,
            }) as Box<dyn Paper>
        })
    }

    fn programs(setup: &Setup) -> Vec<Name> {
        let all = Name::MICRO.into_iter();
        all.filter(|name| setup.chosen.has(name.as_str())).collect()
    }

    fn cores(&self, setup: &Setup) -> Vec<usize> {
        let all = setup.cpus.len();
        if !setup.chosen.cores.is_empty() {
            return setup.chosen.cores.clone();
        }
        if std::ptr::eq(self.about, ONE_CORE) {
            return vec![1];
        }
        let mut cores: Vec<usize> = if setup.quick {
            Vec::new()
        } else {
            [2, 4, 8].into_iter().filter(|n| *n < all).collect()
        };
        cores.push(all);
        cores
    }
}

struct Parts {
    method: String,
    speed: f64,
    cores: usize,
}

impl Parts {
    fn cell(&self) -> String {
        format!("{}/{}/{}", self.cores, self.speed, self.method)
    }

    fn of(cell: &str) -> Result<Self> {
        let mut words = cell.splitn(3, '/');
        let mut next = || words.next().context("a cell of another experiment");
        Ok(Self {
            cores: next()?.parse()?,
            speed: next()?.parse()?,
            method: next()?.to_owned(),
        })
    }
}

impl Micro {
    fn part_ms(setup: &Setup) -> u64 {
        setup.form(PART_QUICK_MS, PART_MS)
    }

    /// A shell's words that run all six.
    fn words(&self, setup: &Setup) -> Vec<OsString> {
        let programs = Self::programs(setup).into_iter().map(|name| {
            let amount = self.amounts.get(&name).copied().unwrap_or(1);
            let mut words = vec![name.as_str().to_owned()];
            let mut add = |option: &str, value: u64| words.push(format!("{option} {value}"));
            match name {
                Name::Compute => add("--amount", amount * COMPUTE_PARTS),
                Name::Memory => add("--amount", amount * MEMORY_PARTS),
                _ => add("--amount", amount),
            }
            match name {
                Name::ComputeSleep => add("--sleep", Self::part_ms(setup)),
                Name::Memory => add("--elements", self.elements),
                _ => {}
            }
            words
        });
        in_turn(&setup.own, &programs.collect::<Vec<_>>())
    }
}

/// What was chosen before, or else `now`, which is then kept.
fn choose(chosen: &mut Choices, what: String, now: impl FnOnce() -> String) -> Result<u64> {
    let value = chosen.entry(what).or_insert_with(now);
    value.parse().context("a number that was chosen before")
}

impl Experiment for Micro {
    type Setup = Setup;

    fn name(&self) -> &'static str {
        self.about.name
    }

    fn cells(&self, setup: &Setup) -> Vec<String> {
        let speeds: &[f64] = match &setup.chosen.speeds[..] {
            [] => setup.form(&SPEEDS_QUICK[..], &SPEEDS[..]),
            speeds => speeds,
        };
        let mut methods = setup.methods.slowing.clone();
        if methods.iter().any(|method| method == "hogs") {
            methods.push(BARRIER.to_owned());
        }
        let mut cells = Vec::new();
        for cores in self.cores(setup) {
            for speed in speeds {
                for method in &methods {
                    let parts = Parts {
                        method: method.clone(),
                        speed: *speed,
                        cores,
                    };
                    cells.push(parts.cell());
                }
            }
        }
        cells
    }

    fn measure(&mut self, setup: &Setup, cell: &str, round: u32) -> Result<Vec<Row>> {
        let parts = Parts::of(cell)?;
        let cpus = CpuList::from_iter(setup.cpus.iter().take(parts.cores));
        let programs: Vec<&str> = Self::programs(setup)
            .into_iter()
            .map(Name::as_str)
            .collect();
        let trial = PairTrial {
            programs: &programs,
            words: &self.words(setup),
            condition: &Condition::Node {
                method: parts.method,
                speed: parts.speed,
            },
            ..PairTrial::new(cell, round, &cpus)
        };
        Ok(trial.pairs(&setup.place(&cpus), &marked_words, &speed_claimed))
    }
}

impl Paper for Micro {
    fn about(&self) -> &'static About {
        self.about
    }

    fn terms(&self, chosen: &Selection) -> String {
        chosen.terms() + &of_list(" programs", &chosen.programs)
    }

    /// Finds how much each program does in a part.
    fn prepare(&mut self, setup: &Setup, chosen: &mut Choices) -> Result<Remarks> {
        let names = Name::MICRO.iter().map(|name| name.as_str());
        setup.chosen.check(names)?;
        let mut remarks = Remarks::default();
        let all = setup.cpus.len();
        if let Some(cores) = setup.chosen.cores.iter().find(|n| !(1..=all).contains(*n)) {
            bail!(BadInput(format!(
                "--cores {cores}: there are {all} CPUs here"
            )));
        }
        for name in Self::programs(setup) {
            let done = setup.calibrated(name.as_str(), Self::part_ms(setup))?;
            let what = format!("{} in {} ms", name.as_str(), Self::part_ms(setup));
            let amount = choose(chosen, what, || done.amount.max(1).to_string())?;
            self.amounts.insert(name, amount);
            let notes = done.notes.iter();
            let notes = notes.map(|(what, value)| format!("{}: {what} {value}", name.as_str()));
            remarks.notes.extend(notes);
            if let (Name::Memory, Some(elements)) = (name, done.notes.get("elements")) {
                self.elements = choose(chosen, ELEMENTS.to_owned(), || elements.clone())?;
            }
        }
        Ok(remarks)
    }
}

/// The speed that sandbag says the node had.
fn speed_claimed(run: &Run) -> BTreeMap<String, f64> {
    let got: Vec<f64> = run.cpus.iter().map(|cpu| 100.0 - cpu.got_pct).collect();
    let mean = mean_sd(&got).map(|(mean, _)| ("speed_claimed_pct".to_owned(), mean));
    mean.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_found_again_by_its_key() {
        let parts = Parts {
            method: "hogs".to_owned(),
            speed: 0.3,
            cores: 2,
        };
        let again = Parts::of(&parts.cell()).unwrap();
        assert_eq!(
            (again.method.as_str(), again.speed, again.cores),
            ("hogs", 0.3, 2)
        );
        assert!(Parts::of("pace").is_err());
    }

    #[test]
    fn what_was_chosen_stays() {
        let mut chosen = Choices::new();
        let mut elements = |now: &str| choose(&mut chosen, ELEMENTS.to_owned(), || now.to_owned());
        assert_eq!(elements("1000").unwrap(), 1000);
        assert_eq!(elements("2000").unwrap(), 1000);
    }

    #[test]
    fn the_memory_program_has_the_same_arrays_each_time() {
        let dir = tempfile::tempdir().unwrap();
        let micro = Micro {
            about: ONE_CORE,
            amounts: BTreeMap::new(),
            elements: 77,
        };
        let words = micro.words(&crate::setup::tests::setup(dir.path()));
        let script = words[2].to_string_lossy().into_owned();
        assert!(
            script.contains("work memory --amount 6 --elements 77"),
            "{script}"
        );
        assert_eq!(script.matches("work").count(), Name::MICRO.len());
    }
}
