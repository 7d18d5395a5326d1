// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The six micro-benchmarks (Buchert, Nussbaum and Gustedt, HPCC 2011, figures
//! 5 and 6): what a slowed CPU does to computation, datagrams, computation
//! with sleep, memory, processes and threads; each method of `slow`, each
//! speed, on one CPU and on more.
//!
//! Within a trial the six run one after another in one node, so that a node is
//! started once for all of them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};
use sandbag_kernel::CpuList;

use super::{Cell, Choices, Experiment, Setup, distinct};
use crate::condition::{Condition, Place};
use crate::figure::{Axes, Line, Point, draw};
use crate::page::{Section, Table};
use crate::pair::{Trial, own_words};
use crate::published;
use crate::row::Row;
use crate::summary::{Median, Summary, mean_sd};
use crate::workload::{Done, Name, TASKS};

/// A part of a program takes about so long at full speed, milliseconds.
const PART_MS: u64 = 1000;
/// The same in the short form.
const PART_QUICK_MS: u64 = 150;
/// The CPU-intensive one is three parts long.
const COMPUTE_PARTS: u64 = 3;

const SPEEDS: [f64; 10] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];
const SPEEDS_QUICK: [f64; 3] = [0.25, 0.5, 1.0];

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Micro {
    /// What each program does in a part, in its own unit.
    amounts: BTreeMap<Name, u64>,
    notes: Vec<String>,
}

/// A cell's parts.
struct Parts {
    method: String,
    speed: f64,
    cores: usize,
}

impl Parts {
    fn cell(&self) -> Cell {
        Cell {
            key: format!("{}/{}/{}", self.cores, self.speed, self.method),
        }
    }

    fn of(cell: &Cell) -> Result<Self> {
        let mut words = cell.key.splitn(3, '/');
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
        if setup.quick { PART_QUICK_MS } else { PART_MS }
    }

    /// A shell's words that run all six.
    fn words(&self, setup: &Setup) -> Vec<OsString> {
        let mut script = String::new();
        for name in Name::MICRO {
            let amount = self.amounts.get(&name).copied().unwrap_or(1);
            let amount = match name {
                Name::Compute => amount * COMPUTE_PARTS,
                _ => amount,
            };
            let _ = write!(
                script,
                "\"$0\" lab work {} --amount {amount} --sleep {} || exit 1; ",
                name.as_str(),
                Self::part_ms(setup)
            );
        }
        [
            "sh".into(),
            "-c".into(),
            script.into(),
            setup.sandbag.clone().into(),
        ]
        .into()
    }
}

impl Experiment for Micro {
    fn name(&self) -> &'static str {
        "micro"
    }

    fn about(&self) -> &'static str {
        "six micro-benchmarks in slowed nodes: every method, speed and number of cores"
    }

    fn source(&self) -> &'static str {
        "Buchert, Nussbaum and Gustedt (HPCC 2011), figures 5 and 6"
    }

    fn rounds(&self, quick: bool) -> u32 {
        if quick { 3 } else { 40 }
    }

    /// Finds how much each program does in a part.
    fn prepare(&mut self, setup: &Setup, chosen: &mut Choices) -> Result<()> {
        self.notes.clear();
        let one = CpuList::from_iter(setup.cpus.iter().take(1));
        let place = Place {
            sandbag: &setup.sandbag,
            cpus: &one,
            scratch: &setup.scratch,
            limit: setup.limit,
        };
        let part = Self::part_ms(setup).to_string();
        for name in Name::MICRO {
            let mut words = vec![OsString::from(&setup.sandbag)];
            words.extend(["lab", "work", name.as_str(), "--within", &part].map(OsString::from));
            let met = place.meet(&Condition::Unloaded, &words)?;
            let done: Done = serde_json::from_str(&met.ended.out)
                .with_context(|| format!("{} said {:?}", name.as_str(), met.ended.out))?;
            ensure!(done.right, "the result of {} is wrong", name.as_str());
            for (what, value) in &done.notes {
                self.notes
                    .push(format!("{}: {what} {value}", name.as_str()));
            }
            let amount = chosen
                .entry(format!("{} in {part} ms", name.as_str()))
                .or_insert_with(|| done.amount.max(1).to_string());
            let amount = amount.parse().context("an amount that was chosen before")?;
            self.amounts.insert(name, amount);
        }
        Ok(())
    }

    fn cells(&self, setup: &Setup) -> Vec<Cell> {
        let all = setup.cpus.iter().count();
        let mut cores: Vec<usize> = match setup.quick {
            true => vec![all],
            false => [1, 2, 4, 8].into_iter().filter(|n| *n <= all).collect(),
        };
        if !cores.contains(&all) {
            cores.push(all);
        }
        let speeds: &[f64] = if setup.quick { &SPEEDS_QUICK } else { &SPEEDS };
        let mut cells = Vec::new();
        for cores in cores {
            for speed in speeds {
                for method in &setup.slowing {
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

    fn left_out(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn measure(&mut self, setup: &Setup, cell: &Cell, round: u32) -> Result<Vec<Row>> {
        let parts = Parts::of(cell)?;
        let cpus = CpuList::from_iter(setup.cpus.iter().take(parts.cores));
        let trial = Trial {
            cell,
            round,
            cpus: &cpus,
            programs: &Name::MICRO.map(Name::as_str),
            words: &self.words(setup),
            before: &|| Ok(()),
            condition: &Condition::Node {
                method: parts.method,
                speed: parts.speed,
            },
        };
        trial.pairs(setup, &own_words, &|run| {
            let got = run.cpus.iter().map(|cpu| 100.0 - cpu.got_pct);
            let got: Vec<f64> = got.collect();
            let mean = mean_sd(&got).map(|(mean, _)| ("speed_claimed_pct".to_owned(), mean));
            mean.into_iter().collect()
        })
    }

    fn page(&self, rows: &[Row]) -> Result<Vec<Section>> {
        let mut sections = Vec::new();
        for cpus in distinct(rows, |row| row.cpus.clone()) {
            for name in Name::MICRO {
                let own: Vec<&Row> = rows
                    .iter()
                    .filter(|row| row.cpus == cpus && row.program == name.as_str())
                    .collect();
                if !own.is_empty() {
                    sections.push(section(name, &cpus, &own)?);
                }
            }
        }
        Ok(sections)
    }

    fn summary(&self, rows: &[Row]) -> Vec<[String; 3]> {
        let mut lines = Vec::new();
        let half: Vec<&Row> = rows
            .iter()
            .filter(|row| matches!(row.condition, Condition::Node { speed, .. } if speed == 0.5))
            .collect();
        // Another number of CPUs is another experiment.
        for cpus in distinct(rows, |row| row.cpus.clone()) {
            let here: Vec<&Row> = half.iter().filter(|r| r.cpus == cpus).copied().collect();
            for name in Name::MICRO {
                for method in methods(&here) {
                    let own: Vec<&Row> = here
                        .iter()
                        .filter(|row| row.program == name.as_str() && method_of(row) == method)
                        .copied()
                        .collect();
                    let speed = Median::of(&speeds_got(&own));
                    lines.push([
                        format!(
                            "{} at speed 0.5 by {method} on CPUs {cpus}: speed got",
                            name.as_str()
                        ),
                        published::micro(name.as_str(), &method)
                            .unwrap_or("-")
                            .to_owned(),
                        format!(
                            "{}, n = {}",
                            Summary::of(&own).shown(speed, 3),
                            speed.map_or(0, |m| m.n)
                        ),
                    ]);
                }
            }
        }
        lines
    }
}

fn method_of(row: &Row) -> &str {
    match &row.condition {
        Condition::Node { method, .. } => method,
        _ => "",
    }
}

fn methods(rows: &[&Row]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for row in rows {
        if !found.iter().any(|method| method == method_of(row)) {
            found.push(method_of(row).to_owned());
        }
    }
    found
}

/// Speeds at which the program went: its unslowed time over its slowed one,
/// both without the sleep that was intended.
fn speeds_got(rows: &[&Row]) -> Vec<f64> {
    rows.iter()
        .filter(|row| row.counts())
        .map(|row| {
            let slept = row.figures.get("slept_s").copied().unwrap_or(0.0);
            (row.unloaded_s - slept) / (row.loaded_s - slept)
        })
        .collect()
}

fn section(name: Name, cpus: &str, rows: &[&Row]) -> Result<Section> {
    let about = match name {
        Name::Compute => "CPU-intensive".to_owned(),
        Name::Datagrams => "UDP datagrams of 1 KB to an address where nobody is".to_owned(),
        Name::ComputeSleep => "compute, sleep, compute; without the sleep".to_owned(),
        Name::Memory => "STREAM's four kernels, beyond the last cache".to_owned(),
        Name::Processes => format!("{TASKS} processes that compute"),
        Name::Threads => format!("{TASKS} threads that compute"),
        Name::Ep | Name::Sleepers => name.as_str().to_owned(),
    };
    let mut table = Table::new(&[
        "method",
        "speed asked",
        "speed got, median (95 %)",
        "relative spread, %",
        "n",
        "not counted",
        "the paper",
    ]);
    let mut lines = Vec::new();
    for method in methods(rows) {
        let mut line = Line {
            name: method.clone(),
            points: Vec::new(),
            connected: true,
            reference: false,
        };
        let of_method: Vec<&Row> = rows
            .iter()
            .filter(|r| method_of(r) == method)
            .copied()
            .collect();
        for speed in speeds_asked(&of_method) {
            let own: Vec<&Row> = of_method
                .iter()
                .filter(|row| speed_of(row) == speed)
                .copied()
                .collect();
            let got = speeds_got(&own);
            let summary = Summary::of(&own);
            let shown = match Median::of(&got) {
                Some(m) if summary.over_limit.is_none() && summary.failed.is_none() => {
                    line.points.push(Point {
                        x: speed,
                        y: m.value,
                        low: m.low,
                        high: m.high,
                    });
                    m.show(3)
                }
                _ => summary.cell(),
            };
            table.push(vec![
                method.clone(),
                format!("{speed}"),
                shown,
                mean_sd(&got).map_or_else(String::new, |(mean, sd)| {
                    format!("{:.1}", 100.0 * sd / mean)
                }),
                got.len().to_string(),
                (own.len() - got.len()).to_string(),
                published::micro(name.as_str(), &method)
                    .unwrap_or("")
                    .to_owned(),
            ]);
        }
        lines.push(line);
    }
    lines.push(Line {
        name: "proportional".to_owned(),
        points: [0.0, 1.0]
            .map(|x| Point {
                x,
                y: x,
                low: x,
                high: x,
            })
            .into(),
        connected: true,
        reference: true,
    });
    let top = lines
        .iter()
        .flat_map(|line| &line.points)
        .map(|point| point.high)
        .fold(1.0, f64::max);
    let axes = Axes {
        title: format!("{}, CPUs {cpus}", name.as_str()),
        x: "speed asked".to_owned(),
        y: "speed got".to_owned(),
        x_range: (0.0, 1.05),
        x_names: Vec::new(),
        y_range: (0.0, top * 1.05),
    };
    Ok(Section::new(&format!("{} on CPUs {cpus}", name.as_str()))
        .text(&format!(
            "{about}. Speed got is the unslowed time of the pair over the slowed one."
        ))
        .figure(draw(&axes, &lines)?)
        .table(table))
}

fn speed_of(row: &Row) -> f64 {
    match row.condition {
        Condition::Node { speed, .. } => speed,
        _ => 1.0,
    }
}

fn speeds_asked(rows: &[&Row]) -> Vec<f64> {
    let mut speeds: Vec<f64> = rows.iter().map(|row| speed_of(row)).collect();
    speeds.sort_by(f64::total_cmp);
    speeds.dedup();
    speeds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::row;

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
        assert!(
            Parts::of(&Cell {
                key: "pace".to_owned()
            })
            .is_err()
        );
    }

    #[test]
    fn intended_sleep_is_not_slowed() {
        // 2 s of computation and 1 s of sleep, at half speed 5 s.
        let mut slept = row(0, 3.0, 5.0);
        slept.figures.insert("slept_s".to_owned(), 1.0);
        let got = speeds_got(&[&slept]);
        assert!((got[0] - 0.5).abs() < 1e-12);
    }

    #[test]
    fn the_page_has_a_figure_per_program_and_a_row_per_speed() {
        let rows = [row(0, 1.0, 2.0), row(1, 1.0, 2.1)];
        let sections = Micro::default().page(&rows).unwrap();
        assert_eq!(sections.len(), 1);
        let lines = Micro::default().summary(&rows);
        assert_eq!(lines.len(), Name::MICRO.len());
        assert!(lines[0][2].contains("n = 2"), "{lines:?}");
        assert_eq!(lines[0][1], "proportional to the speed");
    }
}
