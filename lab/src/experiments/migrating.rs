// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program that migrates (Buchert, Nussbaum and Gustedt, HPCC 2011, figure 3): one thread
//! in a slowed node of several CPUs. Burners in phase leave it the speed of the node; burners
//! out of phase leave it the CPU that is free.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use super::BUCHERT;
use crate::agreement::{Agreement, Compared, Published};
use crate::condition::Condition;
use crate::experiment::{About, Choices, Experiment, NotHere, Paper, Remarks};
use crate::figure::{Axes, Line, Point, draw};
use crate::page::Section;
use crate::pair::PairTrial;
use crate::published::BARRIER;
use crate::reading::own_words;
use crate::row::{Row, grouped};
use crate::setup::Setup;
use crate::summary::{Median, Summary, of_asked, speed_got};
use crate::table::Table;

/// Work of the thread, ms at full speed.
const LENGTH_MS: u64 = 3_000;
const LENGTH_QUICK_MS: u64 = 1_000;
/// Burners on the grid of the clock, at a barrier, and on each CPU by themselves.
const METHODS: [&str; 3] = ["hogs", BARRIER, APART];
const APART: &str = "hogs, CPU by CPU";
const SPEEDS: [f64; 3] = [0.25, 0.5, 0.75];

#[derive(Debug, Default)]
pub(super) struct Migrating {
    amount: u64,
}

impl Experiment for Migrating {
    type Setup = Setup;

    fn name(&self) -> &'static str {
        self.about().name
    }

    fn cells(&self, setup: &Setup) -> Vec<String> {
        let speeds = match &setup.chosen.speeds[..] {
            [] => &SPEEDS,
            speeds => speeds,
        };
        let works = |method: &&str| {
            let name = method.split([' ', ',']).next();
            setup
                .methods
                .slowing
                .iter()
                .any(|works| Some(works.as_str()) == name)
        };
        let methods: Vec<&str> = METHODS.into_iter().filter(works).collect();
        let mut cells = Vec::new();
        for speed in speeds {
            cells.extend(methods.iter().map(|method| format!("{speed}/{method}")));
        }
        cells
    }

    fn measure(&mut self, setup: &Setup, cell: &str, round: u32) -> Result<Vec<Row>> {
        let Some((speed, method)) = cell.split_once('/') else {
            bail!("{cell} is no cell of this one");
        };
        let speed = speed.parse()?;
        let condition = if method == APART {
            Condition::Apart {
                method: "hogs".to_owned(),
                speed,
            }
        } else {
            Condition::Node {
                method: method.to_owned(),
                speed,
            }
        };
        let trial = PairTrial {
            programs: &["compute"],
            words: &setup.work(&format!("compute --amount {}", self.amount)),
            condition: &condition,
            ..PairTrial::new(cell, round, &setup.cpus)
        };
        Ok(trial.pairs(&setup.place(&setup.cpus), &own_words, &|_| BTreeMap::new()))
    }
}

impl Paper for Migrating {
    fn about(&self) -> &'static About {
        &About {
            name: "hpcc-figure-3",
            paper: BUCHERT,
            what: "one thread in a slowed node of all CPUs, with burners in phase and out of phase",
            source: "Buchert, Nussbaum and Gustedt (HPCC 2011), figure 3",
            rounds: [5, 30],
            most_rounds: 30,
            minutes: [4, 60],
            page: |measured| Ok(vec![section(measured.rows)?]),
            summary,
        }
    }

    fn prepare(&mut self, setup: &Setup, chosen: &mut Choices) -> Result<Remarks> {
        if setup.cpus.len() < 2 {
            bail!(NotHere(
                "a program migrates between two CPUs at least".to_owned()
            ));
        }
        let length_ms = setup.form(LENGTH_QUICK_MS, LENGTH_MS);
        self.amount = setup.amount("compute", length_ms, chosen)?;
        Ok(Remarks::default())
    }
}

fn parts(row: &Row) -> (String, f64) {
    let burners = match &row.condition {
        Condition::Apart { .. } => APART,
        condition => condition.method().unwrap_or_default(),
    };
    (burners.to_owned(), row.condition.speed())
}

/// What the paper says of it, and the factors of the speed asked for which that is right.
fn published(method: &str) -> (&'static str, Published) {
    match method {
        APART => (
            "more than the speed",
            Published::between(1.02, f64::INFINITY),
        ),
        _ => ("the speed", Published::between(0.9, 1.1)),
    }
}

fn summary(rows: &[Row]) -> Vec<Compared> {
    let line = |((method, speed), own): ((String, f64), Vec<&Row>)| {
        let found = speed_got(&own);
        let (words, factors) = published(&method);
        let relative = found.map(|m| Median {
            value: m.value / speed,
            low: m.low / speed,
            high: m.high / speed,
            ..m
        });
        Compared {
            what: format!("one thread at speed {speed} by {method}: speed got"),
            paper: words.to_owned(),
            ours: Summary::of(&own).counted(found, 3),
            agreement: match Summary::of(&own).decided() {
                Some(_) => factors.compare(relative),
                None => Agreement::Undecided,
            },
        }
    };
    grouped(rows, parts).into_iter().map(line).collect()
}

fn section(rows: &[Row]) -> Result<Section> {
    let mut table =
        Table::of("burners | speed asked | speed got, median (95 %) | of what was asked | n");
    let mut lines = Vec::new();
    for (method, own) in grouped(rows, |row| parts(row).0) {
        let mut points = Vec::new();
        let mut speeds = grouped(own, |row| parts(row).1);
        speeds.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (speed, own) in speeds {
            let found = speed_got(&own);
            points.extend(found.map(|m| Point::of(speed, m)));
            let shown = Summary::of(&own).shown(found, 3);
            let [part, n] = of_asked(found, speed);
            table.push(vec![method.clone(), speed.to_string(), shown, part, n]);
        }
        lines.push(Line::new(method, points));
    }
    lines.push(Line::reference(
        "proportional",
        [0.0, 1.0].map(|x| Point::bare(x, x)),
    ));
    let axes = Axes {
        title: "One thread that migrates".to_owned(),
        x: "speed asked".to_owned(),
        y: "speed got".to_owned(),
        x_range: (0.0, 1.05),
        x_names: Vec::new(),
        y_range: (0.0, 1.1),
    };
    Ok(Section::new("In phase and out of phase")
        .text(
            "One thread that computes, free to run on every CPU of the node. `hogs` burn on the \
             grid of the clock, with `--hog-sync barrier` they meet at a barrier as published; CPU by \
             CPU each has a period of its own (10, 20, 50, 5 ms), so that one CPU is often free while \
             another is not.",
        )
        .figure(draw(&axes, &lines)?)
        .table(table))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::row;

    #[test]
    fn a_thread_that_finds_the_free_cpu_is_too_fast() {
        let method = || "hogs".to_owned();
        let phases = [
            Condition::Node {
                method: method(),
                speed: 0.5,
            },
            Condition::Apart {
                method: method(),
                speed: 0.5,
            },
        ];
        let pairs = phases.iter().zip([2.0, 1.25]);
        let rows: Vec<Row> = pairs
            .flat_map(|(condition, seconds)| {
                (0..3).map(move |round| Row {
                    condition: condition.clone(),
                    ..row(round, 1.0, seconds)
                })
            })
            .collect();
        let lines = summary(&rows);
        assert!(
            lines.iter().all(|line| line.agreement == Agreement::Agrees),
            "{lines:?}"
        );
        let html = section(&rows).unwrap().html().into_string();
        assert!(html.contains("0.800") && html.contains("0.500"), "{html}");
    }
}
