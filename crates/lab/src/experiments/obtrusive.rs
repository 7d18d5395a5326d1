// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Obtrusiveness (KRASH, tables III to V): what a load of 50 % does to
//! programs that are not computation alone: copying a file, many processes
//! that exchange messages, a parallel compilation. A load that is an ordinary
//! competitor slows them as much as a real competitor does. The same beside a
//! virtual node in which nothing runs: what slows it slows its neighbours.

mod programs;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};

use super::{Cell, Choices, Experiment, Setup, distinct};
use crate::condition::Condition;
use crate::page::{Section, Table};
use crate::pair::{Trial, whole_time};
use crate::published;
use crate::row::Row;
use crate::summary::Summary;
use programs::Program;

/// The load of the tables, percent.
const LOAD_PCT: f64 = 50.0;

/// A real competitor.
const SPINNERS: &str = "spinners";
/// An empty node beside the program, by the methods that are defaults.
const BESIDE: &str = "node-";
const NODES: [&str; 2] = ["hogs", "pace"];

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Obtrusive {
    programs: Vec<Program>,
    left_out: Vec<String>,
}

impl Experiment for Obtrusive {
    fn name(&self) -> &'static str {
        "obtrusive"
    }

    fn about(&self) -> &'static str {
        "a file copy, an MPI exchange and a compilation under a load of 50 %, by each method"
    }

    fn source(&self) -> &'static str {
        "KRASH (Perarnau and Huard, IPDPS 2010), tables III to V"
    }

    fn rounds(&self, quick: bool) -> u32 {
        if quick { 3 } else { 30 }
    }

    fn prepare(&mut self, setup: &Setup, _chosen: &mut Choices) -> Result<()> {
        (self.programs, self.left_out) = programs::make(setup)?;
        Ok(())
    }

    fn cells(&self, setup: &Setup) -> Vec<Cell> {
        let mut cells = Vec::new();
        for program in &self.programs {
            let mut conditions = vec![SPINNERS.to_owned()];
            conditions.extend(setup.loading.iter().cloned());
            let nodes = NODES
                .iter()
                .filter(|n| setup.slowing.iter().any(|s| s == *n));
            conditions.extend(nodes.map(|method| format!("{BESIDE}{method}")));
            for condition in conditions {
                cells.push(Cell {
                    key: format!("{}/{condition}", program.name),
                });
            }
        }
        cells
    }

    fn left_out(&self) -> Vec<String> {
        self.left_out.clone()
    }

    fn measure(&mut self, setup: &Setup, cell: &Cell, round: u32) -> Result<Vec<Row>> {
        let (program, condition) = cell.key.split_once('/').context("no cell of this one")?;
        let program = self
            .programs
            .iter()
            .find(|p| p.name == program)
            .context("no such program")?;
        let trial = Trial {
            cell,
            round,
            cpus: &setup.cpus,
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
        };
        let read = |trial: &Trial<'_>, ended: &crate::program::Ended| {
            if ended.status.is_some() {
                program.check(&ended.out)?;
            }
            whole_time(trial, ended)
        };
        trial.pairs(setup, &read, &|_| BTreeMap::new())
    }

    fn page(&self, rows: &[Row]) -> Result<Vec<Section>> {
        let programs = distinct(rows, |row| row.program.clone());
        let mut sections = Vec::new();
        for name in &programs {
            let mut table = Table::new(&[
                "condition",
                "slowdown, median (95 %)",
                "to the spinner's",
                "unloaded, s",
                "n",
                "the paper",
            ]);
            let of = |condition: &Condition| -> Vec<&Row> {
                rows.iter()
                    .filter(|row| row.program == *name && row.condition == *condition)
                    .collect()
            };
            let spinners = Summary::of(&of(&Condition::Spinners)).slowdown;
            for condition in distinct(rows, |row| row.condition.clone()) {
                let own = of(&condition);
                if own.is_empty() {
                    continue;
                }
                let summary = Summary::of(&own);
                let against = summary.slowdown.zip(spinners);
                table.push(vec![
                    condition.name(),
                    summary.cell(),
                    against.map_or_else(String::new, |(own, reference)| {
                        format!("{:+.2}", own.value - reference.value)
                    }),
                    summary.unloaded_s.map_or_else(String::new, |m| m.show(2)),
                    summary.n().to_string(),
                    paper(name, &condition).unwrap_or_default(),
                ]);
            }
            let about = self
                .programs
                .iter()
                .find(|program| program.name == *name)
                .map_or(String::new(), |program| program.about.clone());
            sections.push(Section::new(name).text(&about).table(table));
        }
        sections.push(
            Section::new("Where ours differ, and why")
                .text(published::WHAT_SPINNERS_ARE)
                .points(&published::WHY_LOADS_DIFFER),
        );
        Ok(sections)
    }

    fn summary(&self, rows: &[Row]) -> Vec<[String; 3]> {
        let mut lines = Vec::new();
        for program in distinct(rows, |row| row.program.clone()) {
            for condition in distinct(rows, |row| row.condition.clone()) {
                let own: Vec<&Row> = rows
                    .iter()
                    .filter(|row| row.program == program && row.condition == condition)
                    .collect();
                if own.is_empty() {
                    continue;
                }
                let summary = Summary::of(&own);
                lines.push([
                    format!("slowdown of {program}, {}", condition.name()),
                    paper(&program, &condition).unwrap_or_else(|| "-".to_owned()),
                    format!("{}, n = {}", summary.cell(), summary.n()),
                ]);
            }
        }
        lines
    }
}

/// The published slowdown of the generator that is nearest to a condition.
fn paper(program: &str, condition: &Condition) -> Option<String> {
    let Condition::Load { method, .. } = condition else {
        return None;
    };
    let row = published::OBTRUSIVE
        .iter()
        .find(|row| program.starts_with(row.program))?;
    let at = published::GENERATORS
        .iter()
        .position(|(_, ours)| ours == method)?;
    let (generator, _) = published::GENERATORS[at];
    let slowdown = row.slowdowns[at];
    Some(match slowdown.is_finite() {
        true => format!("{slowdown} ({generator})"),
        false => format!("> 100 ({generator})"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::row;

    fn load(method: &str) -> Condition {
        Condition::load(method, LOAD_PCT)
    }

    #[test]
    fn the_papers_figure_is_that_of_the_nearest_generator() {
        assert_eq!(paper("copy-sync", &load("rt")).unwrap(), "3.6 (real time)");
        assert_eq!(paper("exchange", &load("shares")).unwrap(), "2.1 (KRASH)");
        assert_eq!(paper("exchange", &load("pace")), None);
        assert_eq!(paper("exchange", &Condition::Spinners), None);
    }

    #[test]
    fn a_slowdown_stands_beside_the_spinners() {
        let mut rows = vec![row(0, 1.0, 2.0), row(0, 1.0, 2.1)];
        rows[0].condition = Condition::Spinners;
        rows[1].condition = load("pace");
        for row in &mut rows {
            row.program = "copy".to_owned();
        }
        let sections = Obtrusive::default().page(&rows).unwrap();
        let html = sections[0].render().into_string();
        assert!(html.contains("+0.10"), "{html}");
        let lines = Obtrusive::default().summary(&rows);
        assert_eq!(lines.len(), 2);
    }
}
