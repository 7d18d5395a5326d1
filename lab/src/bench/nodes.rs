// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How closely the rate of a slowed program follows its speed: each cell runs the same
//! work slowed and unslowed in turn, on the same CPUs, and compares the rates in pairs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use sandbag_linux::{CpuList, sched};
use sandbag_load::report::Run;
use sandbag_stats::median;
use sandbag_ui::messages::Messages;

use super::benchmark::{self, BenchArgs, Benchmark};
use crate::condition::Condition;
use crate::experiment::Experiment;
use crate::pair::PairTrial;
use crate::place::RunPlace;
use crate::program::Programs;
use crate::reading::own_words;
use crate::row::{End, Row};
use crate::table::{Table, number, spread_by};

/// Longer than any run.
const LIMIT: Duration = Duration::from_secs(600);

/// Measure how closely the rate of slowed programs follows the speed (root)
#[derive(Debug, Args)]
pub struct NodesArgs {
    #[command(flatten)]
    common: BenchArgs,
    /// Methods; the first at all speeds, the others at some
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "hogs,pace,gov,quota,deadline,rt,shares,lim,cap"
    )]
    methods: Vec<String>,
    /// These speeds for all methods
    #[arg(long, value_delimiter = ',')]
    speeds: Vec<f64>,
    /// These programs only: one, two or 4N processes, 4N threads, or one that
    /// computes, sleeps and computes
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "one,two,many,threads,sleep"
    )]
    programs: Vec<String>,
    /// Pairs of runs per cell [default: 3, quick 2]
    #[arg(long)]
    rounds: Option<u32>,
}

#[derive(Debug, Clone)]
struct NodeCell {
    method: String,
    cpus: u32,
    speed: f64,
    tasks: u32,
    kind: &'static str,
}

const SLEEP: &str = "sleep";

impl NodeCell {
    fn key(&self) -> String {
        let (method, cpus, speed, tasks) = (&self.method, self.cpus, self.speed, self.tasks);
        format!(
            "{method}, {cpus} CPUs, speed {speed}, {tasks} {}",
            self.kind
        )
    }

    /// Whether the program has work for every CPU at every time.
    fn is_full(&self) -> bool {
        self.kind != SLEEP && self.tasks >= self.cpus
    }
}

/// The cells of a machine with this number of CPUs.
fn cells(args: &NodesArgs, all_cpus: u32) -> Vec<NodeCell> {
    let mut all = Vec::new();
    for (n, method) in args.methods.iter().enumerate() {
        let speeds: &[f64] = match (n, args.common.is_quick()) {
            _ if !args.speeds.is_empty() => &args.speeds,
            (0, false) => &[0.1, 0.25, 0.5, 0.75, 0.9, 1.0],
            (0, true) => &[0.1, 0.5, 0.9, 1.0],
            (_, false) => &[0.25, 0.5, 0.8],
            (_, true) => &[0.5],
        };
        for cpus in 1..=all_cpus.min(2) {
            for speed in speeds {
                for (name, tasks, kind) in [
                    ("one", 1, "processes"),
                    ("two", 2, "processes"),
                    ("many", 4 * cpus, "processes"),
                    ("threads", 4 * cpus, "threads"),
                    (SLEEP, 1, SLEEP),
                ] {
                    let wanted = args.programs.iter().any(|wanted| wanted == name);
                    // One sleeper needs one CPU.
                    if wanted && (kind != SLEEP || cpus == 1) {
                        all.push(NodeCell {
                            method: method.clone(),
                            cpus,
                            speed: *speed,
                            tasks,
                            kind,
                        });
                    }
                }
            }
        }
    }
    all
}

struct Nodes {
    programs: Programs,
    scratch: PathBuf,
    /// Those that this process may use; a cell uses the first of them.
    cpus: CpuList,
    cells: Vec<NodeCell>,
    rounds: u32,
    /// Length of a run at full speed.
    seconds: f64,
}

pub fn nodes(args: &NodesArgs, messages: &Messages) -> Result<()> {
    let cpus = sched::affinity(0).context("the CPUs of this process")?;
    let scratch = tempfile::tempdir().context("make a directory for the runs")?;
    let mut nodes = Nodes {
        programs: args.common.programs()?,
        scratch: scratch.path().to_owned(),
        cells: cells(args, cpus.len() as u32),
        rounds: args.rounds.unwrap_or(args.common.form(2, 3)),
        seconds: args.common.form(2.0, 3.0),
        cpus,
    };
    let terms = (nodes.cpus.to_string(), String::new());
    benchmark::run(&mut nodes, &args.common, terms, messages)
}

impl Experiment for Nodes {
    type Setup = ();

    fn name(&self) -> &'static str {
        "nodes"
    }

    fn cells(&self, _setup: &()) -> Vec<String> {
        self.cells.iter().map(NodeCell::key).collect()
    }

    fn measure(&mut self, _setup: &(), cell: &str, round: u32) -> Result<Vec<Row>> {
        let node = self.cells.iter().find(|node| node.key() == cell);
        let node = node.context("no such cell")?;
        let cpus: CpuList = self.cpus.iter().take(node.cpus as usize).collect();
        // The slower, the longer: a run has some hundred periods of its work.
        let millis = (self.seconds * 1000.0 / node.speed.max(0.3)) as u64;
        let (tasks, millis) = (node.tasks.to_string(), millis.to_string());
        let mut words = vec![OsString::from(&self.programs.own)];
        let work = ["work", "count", "--kind", node.kind, "--tasks", &tasks];
        words.extend(
            work.into_iter()
                .chain(["--within", &millis])
                .map(OsString::from),
        );
        let place = RunPlace {
            sandbag: &self.programs.sandbag,
            cpus: &cpus,
            scratch: &self.scratch,
            limit: LIMIT,
        };
        let trial = PairTrial {
            programs: &["count"],
            words: &words,
            condition: &Condition::Node {
                method: node.method.clone(),
                speed: node.speed,
            },
            ..PairTrial::new(cell, round, &cpus)
        };
        let mut rows = trial.pairs(&place, &own_words, &left);
        for row in &mut rows {
            put_ratios(row, node);
        }
        Ok(rows)
    }

    fn line(&self, row: &Row) -> String {
        match row.get("rate") {
            Some(rate) => format!("rate {rate:.4}"),
            None => row.line(),
        }
    }
}

/// The speed that the method left, by sandbag's own account: mean over the CPUs and
/// the run.
fn left(run: &Run) -> BTreeMap<String, f64> {
    let got: f64 = run.cpus.iter().map(|cpu| cpu.got_pct).sum();
    let left = 1.0 - got / run.cpus.len() as f64 / 100.0;
    BTreeMap::from([("left".to_owned(), left)])
}

/// Adds slowed to unslowed, by steps of work (`rate`) and by CPU time (`cpu`, free of
/// changes of the machine's own speed), both per wall time; and the share of a CPU that
/// neither the method nor the program had (`others`), where the program always wants
/// all CPUs.
fn put_ratios(row: &mut Row, node: &NodeCell) {
    let ratio =
        |row: &Row, name: &str| Some(row.get(name)? / row.get(&format!("unloaded_{name}"))?);
    row.put("rate", ratio(row, "steps_per_s"));
    row.put("cpu", ratio(row, "cpu_share"));
    let others = row.get("left").zip(row.get("cpu_share"));
    let others = others.filter(|_| node.is_full());
    row.put(
        "others",
        others.map(|(left, used)| left - used / f64::from(node.cpus)),
    );
}

impl Benchmark for Nodes {
    fn title(&self) -> &'static str {
        "Speed asked and got"
    }

    fn rounds(&self) -> u32 {
        self.rounds
    }

    fn tables(&self, rows: &[Row]) -> String {
        let mut table = Table::of(
            "method | CPUs | speed | program | rate, slowed to unslowed | \
             off proportional by work, % | by CPU time, % | left by the method, off asked, % | \
             others, points | left out",
        );
        for cell in &self.cells {
            let key = cell.key();
            let own: Vec<&Row> = rows.iter().filter(|row| row.cell == key).collect();
            if !own.is_empty() {
                table.push(line(cell, &own));
            }
        }
        format!(
            "Median of {} pairs, least and greatest in brackets; slowed and unslowed runs \
             alternate. Pairs with more than 3 % steal or 2 % foreign load are left out and counted. \
             What the method left by its own account is beside the rate of the program; \
             what it left and the program did not have, others used, in points of a CPU.\n\n{}",
            self.rounds,
            table.markdown()
        )
    }
}

fn line(cell: &NodeCell, rows: &[&Row]) -> Vec<String> {
    let counting = || rows.iter().filter(|row| row.counts());
    let all = |name: &str| -> Vec<f64> { counting().filter_map(|row| row.get(name)).collect() };
    let done = rows.iter().filter(|row| row.end == End::Done).count();
    let off = |name: &str| spread_by(&all(name), |ratio| pct(ratio / cell.speed - 1.0));
    let failed = rows.iter().find_map(|row| row.why_failed());
    vec![
        cell.method.clone(),
        cell.cpus.to_string(),
        cell.speed.to_string(),
        match cell.kind {
            SLEEP => "compute, sleep, compute".to_owned(),
            kind => format!("{} {kind}", cell.tasks),
        },
        failed.map_or_else(
            || number(median(&all("rate")), 4),
            |why| format!("failed: {why}"),
        ),
        off("rate"),
        off("cpu"),
        off("left"),
        spread_by(&all("others"), pct),
        (done - counting().count()).to_string(),
    ]
}

fn pct(share: f64) -> String {
    format!("{:+.2}", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_becomes_a_line() {
        let cell = NodeCell {
            method: "hogs".to_owned(),
            cpus: 2,
            speed: 0.5,
            tasks: 8,
            kind: "threads",
        };
        let row = |steps: f64| {
            let mut row = Row::new(&cell.key(), 0);
            row.put("steps_per_s", steps);
            row.put("unloaded_steps_per_s", 100.0);
            row.put("cpu_share", 0.96);
            row.put("unloaded_cpu_share", 2.0);
            row.put("left", 0.5);
            put_ratios(&mut row, &cell);
            row
        };
        let mut rows = [row(50.0), row(49.0), row(52.0), row(90.0), row(10.0)];
        rows[3].steal_pct = 3.5;
        rows[4].foreign_pct = 2.5;
        let line = line(&cell, &rows.iter().collect::<Vec<_>>());
        assert_eq!(line[3..6], ["8 threads", "0.5000", "+0.00 (-2.00..+4.00)"]);
        assert_eq!(line[6..8], ["-4.00 (-4.00..-4.00)", "+0.00 (+0.00..+0.00)"]);
        assert_eq!(line[8..], ["+2.00 (+2.00..+2.00)", "2"]);
    }

    #[test]
    fn a_cell_has_the_first_cpus_of_those_that_may_be_used() {
        let scratch = tempfile::tempdir().unwrap();
        let cell = NodeCell {
            method: "hogs".to_owned(),
            cpus: 2,
            speed: 0.5,
            tasks: 2,
            kind: "processes",
        };
        let key = cell.key();
        // No program is there, so the run fails; its row has the CPUs.
        let mut nodes = Nodes {
            programs: Programs {
                own: "/no/lab".into(),
                sandbag: "/no/sandbag".into(),
            },
            scratch: scratch.path().to_owned(),
            cpus: CpuList::from_iter([2, 5, 6]),
            cells: vec![cell],
            rounds: 1,
            seconds: 1.0,
        };
        let rows = nodes.measure(&(), &key, 0).unwrap();
        assert_eq!((rows.len(), rows[0].cpus.as_str()), (1, "2,5"));
    }
}
