// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nodes of several speeds on one machine (Buchert, Nussbaum and Gustedt, HPCC 2011, figure
//! 2): a program in each at the same time, from one file of nodes.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use sandbag_linux::Root;
use serde_json::json;

use super::BUCHERT;
use crate::agreement::{Agreement, Compared, Published};
use crate::condition::Condition;
use crate::experiment::{About, Choices, Experiment, NotHere, Paper, Remarks};
use crate::page::Section;
use crate::program;
use crate::row::{Row, grouped};
use crate::setup::{Selection, Setup, of_list};
use crate::steal::StealMeter;
use crate::summary::{Summary, of_asked, speed_got};
use crate::table::Table;
use crate::workload::WorkReport;

/// Work of each program, ms at full speed.
const LENGTH_MS: u64 = 5_000;
const LENGTH_QUICK_MS: u64 = 2_000;
/// Speeds of the paper's nodes.
const SPEEDS: [f64; 4] = [0.75, 0.4, 0.6, 0.25];
/// On top of the programs' own time.
const AROUND: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Several {
    amount: u64,
}

impl Several {
    /// A node of each speed on the first CPUs, and its program's time in seconds.
    fn run(&self, setup: &Setup, method: &str, speeds: &[f64]) -> Result<Vec<f64>> {
        let dir = &setup.scratch;
        let mut nodes = String::new();
        for ((n, speed), cpu) in speeds.iter().enumerate().zip(setup.cpus.iter()) {
            let work = setup.work(&format!("compute --amount {}", self.amount));
            let shell = ["sh", "-c", &format!("\"$0\" \"$@\" >report-{n}")].map(str::to_owned);
            let work = work.iter().map(|word| word.to_string_lossy().into_owned());
            let command: Vec<String> = shell.into_iter().chain(work).collect();
            // A list of JSON strings is one of TOML, too.
            nodes += &format!(
                "[[node]]\nname = \"n{n}\"\ncpus = {cpu}\nspeed = {speed}\nmethod = \"{method}\"\n\
                 command = {}\n",
                json!(command)
            );
        }
        let file = dir.join("nodes.toml");
        fs::write(&file, nodes).with_context(|| file.display().to_string())?;
        let mut command = program::command(&setup.sandbag, "-q slow --no-out --as-root");
        command.arg(&file).current_dir(dir);
        let slowest = speeds.iter().copied().fold(1.0, f64::min);
        let limit = Duration::from_millis(LENGTH_MS).div_f64(slowest) + AROUND;
        let ended = program::run(command, None, limit)?;
        ensure!(
            ended.status.is_some_and(|status| status.success()),
            "the nodes: {}",
            ended.last_words()
        );
        let time = |n| {
            let path = dir.join(format!("report-{n}"));
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let done: WorkReport = serde_json::from_str(&text).context(text.clone())?;
            ensure!(done.right, "the result in node {n} is wrong");
            Ok(done.seconds)
        };
        (0..speeds.len()).map(time).collect()
    }

    fn speeds(setup: &Setup) -> Vec<f64> {
        let speeds = match &setup.chosen.speeds[..] {
            [] => &SPEEDS,
            speeds => speeds,
        };
        speeds.iter().copied().take(setup.cpus.len()).collect()
    }
}

impl Experiment for Several {
    type Setup = Setup;

    fn name(&self) -> &'static str {
        self.about().name
    }

    fn cells(&self, setup: &Setup) -> Vec<String> {
        let published = |method: &&String| ["hogs", "shares", "pace"].contains(&method.as_str());
        setup
            .methods
            .slowing
            .iter()
            .filter(published)
            .cloned()
            .collect()
    }

    fn measure(&mut self, setup: &Setup, cell: &str, round: u32) -> Result<Vec<Row>> {
        let speeds = Self::speeds(setup);
        let full = vec![1.0; speeds.len()];
        let mut steal = StealMeter::start(&Root::default(), &setup.cpus)?;
        let first = round.is_multiple_of(2);
        let measured = || -> Result<_> {
            let before = first.then(|| self.run(setup, cell, &full)).transpose()?;
            let slowed = self.run(setup, cell, &speeds)?;
            let unslowed = match before {
                Some(before) => before,
                None => self.run(setup, cell, &full)?,
            };
            Ok((slowed, unslowed))
        };
        let (slowed, unslowed) = match measured() {
            Ok(times) => times,
            // As many comparisons as without the failure.
            Err(error) => {
                let failed = speeds.iter().map(|speed| Row {
                    program: format!("node of speed {speed}"),
                    condition: Condition::Node {
                        method: cell.to_owned(),
                        speed: *speed,
                    },
                    ..Row::failed(cell, round, &error)
                });
                return Ok(failed.collect());
            }
        };
        let found = steal.disturbance()?;
        let mut rows = Vec::new();
        for (((speed, cpu), slowed), unslowed) in speeds
            .iter()
            .zip(setup.cpus.iter())
            .zip(slowed)
            .zip(unslowed)
        {
            let mut row = Row::new(cell, round);
            row.program = format!("node of speed {speed}");
            row.condition = Condition::Node {
                method: cell.to_owned(),
                speed: *speed,
            };
            row.cpus = cpu.to_string();
            (row.unloaded_s, row.loaded_s) = (unslowed, slowed);
            row.disturbed(found);
            rows.push(row);
        }
        Ok(rows)
    }
}

impl Paper for Several {
    fn about(&self) -> &'static About {
        &About {
            name: "hpcc-figure-2",
            paper: BUCHERT,
            what: "a program in each of up to four nodes of several speeds, from one file",
            source: "Buchert, Nussbaum and Gustedt (HPCC 2011), figure 2",
            rounds: [6, 20],
            most_rounds: 20,
            minutes: [4, 30],
            page: |measured| Ok(vec![section(measured.rows)]),
            summary,
        }
    }

    fn terms(&self, chosen: &Selection) -> String {
        chosen.terms() + &of_list(" speeds", &chosen.speeds)
    }

    fn prepare(&mut self, setup: &Setup, chosen: &mut Choices) -> Result<Remarks> {
        let (speeds, cpus) = (setup.chosen.speeds.len(), setup.cpus.len());
        ensure!(
            speeds <= cpus,
            NotHere(format!(
                "--speeds has {speeds} speeds, and there are {cpus} CPUs"
            ))
        );
        let length_ms = setup.form(LENGTH_QUICK_MS, LENGTH_MS);
        self.amount = setup.amount("compute", length_ms, chosen)?;
        Ok(Remarks::default())
    }
}

fn parts(row: &Row) -> (String, f64) {
    let method = row.condition.method().unwrap_or_default();
    (method.to_owned(), row.condition.speed())
}

fn summary(rows: &[Row]) -> Vec<Compared> {
    let line = |((method, speed), own): ((String, f64), Vec<&Row>)| {
        let published = method != "pace";
        let found = speed_got(&own);
        Compared {
            what: format!("node of speed {speed} by {method}: speed got"),
            paper: if published {
                speed.to_string()
            } else {
                "-".to_owned()
            },
            ours: Summary::of(&own).counted(found, 3),
            agreement: match (published, Summary::of(&own).decided()) {
                (false, _) => Agreement::Ours,
                (true, None) => Agreement::Undecided,
                (true, Some(_)) => Published::around(speed, 0.1 * speed).compare(found),
            },
        }
    };
    grouped(rows, parts).into_iter().map(line).collect()
}

fn section(rows: &[Row]) -> Section {
    let mut table =
        Table::of("method | speed asked | speed got, median (95 %) | of what was asked | n");
    for ((method, speed), own) in grouped(rows, parts) {
        let found = speed_got(&own);
        let shown = Summary::of(&own).shown(found, 3);
        let [part, n] = of_asked(found, speed);
        table.push(vec![method, speed.to_string(), shown, part, n]);
    }
    Section::new("Nodes of several speeds at the same time")
        .text(
            "The paper's figure is a machine of eight cores, divided into nodes of 75, 40, 60 and \
             25 %; here as many of them as there are CPUs, with one CPU each. Speed got is the time of \
             the node's program in a node of speed 1 over that in its own.",
        )
        .table(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::row;

    #[test]
    fn each_node_is_compared_with_its_own_speed() {
        let rows: Vec<Row> = [("hogs", 0.5, 2.0), ("shares", 0.5, 3.0), ("pace", 0.5, 3.0)]
            .into_iter()
            .flat_map(|(method, speed, seconds)| {
                (0..3).map(move |round| Row {
                    condition: Condition::Node {
                        method: method.to_owned(),
                        speed,
                    },
                    ..row(round, 1.0, seconds)
                })
            })
            .collect();
        let found: Vec<Agreement> = summary(&rows).iter().map(|line| line.agreement).collect();
        assert_eq!(
            found,
            [Agreement::Agrees, Agreement::Differs, Agreement::Ours]
        );
        assert!(section(&rows).html().into_string().contains("0.333"));
    }
}
