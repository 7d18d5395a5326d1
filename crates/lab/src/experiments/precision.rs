// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Precision and intrusiveness (KRASH, table II): NAS EP on all CPUs under a
//! load of 50 %, by each method.

use std::collections::BTreeMap;
use std::ffi::OsString;

use anyhow::{Context as _, Result, ensure};
use sandbag_report::Run;

use super::{Cell, Choices, Experiment, Setup, distinct};
use crate::condition::{Condition, Place};
use crate::figure::{Axes, Line, Point, draw};
use crate::page::{Section, Table};
use crate::pair::{Trial, own_words};
use crate::published;
use crate::row::Row;
use crate::summary::{Summary, mean_sd};
use crate::workload::Done;
use crate::workload::ep::Class;

/// The load of the table, percent.
const LOAD_PCT: f64 = 50.0;
/// EP unloaded takes about so long, seconds; the paper's took 21.4.
const WANTED_S: f64 = 20.0;
/// The same in the short form.
const WANTED_QUICK_S: f64 = 2.0;
/// By how much time grows from class to class.
const CLASSES: [(Class, f64); 5] = [
    (Class::S, 1.0),
    (Class::W, 2.0),
    (Class::A, 16.0),
    (Class::B, 64.0),
    (Class::C, 256.0),
];

/// What is chosen for a machine.
const CLASS: &str = "class of EP";

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Precision {
    class: Option<Class>,
}

impl Precision {
    fn words(&self, setup: &Setup) -> Vec<OsString> {
        let class = self.class.unwrap_or(Class::S);
        let tasks = setup.cpus.iter().count().to_string();
        let mut words = vec![OsString::from(&setup.sandbag)];
        let rest = [
            "lab",
            "work",
            "ep",
            "--class",
            class.name(),
            "--tasks",
            &tasks,
        ];
        words.extend(rest.map(OsString::from));
        words
    }
}

impl Experiment for Precision {
    fn name(&self) -> &'static str {
        "precision"
    }

    fn about(&self) -> &'static str {
        "NAS EP on all CPUs under a load of 50 %, by each method: time, load perceived, cost"
    }

    fn source(&self) -> &'static str {
        "KRASH (Perarnau and Huard, IPDPS 2010), table II"
    }

    fn rounds(&self, quick: bool) -> u32 {
        if quick { 3 } else { 30 }
    }

    /// Chooses the class whose time is nearest to the wanted one.
    fn prepare(&mut self, setup: &Setup, chosen: &mut Choices) -> Result<()> {
        if let Some(class) = chosen.get(CLASS).and_then(|name| Class::by_name(name)) {
            self.class = Some(class);
            return Ok(());
        }
        self.class = Some(Class::S);
        let place = Place {
            sandbag: &setup.sandbag,
            cpus: &setup.cpus,
            scratch: &setup.scratch,
            limit: setup.limit,
        };
        let met = place.meet(&Condition::Unloaded, &self.words(setup))?;
        ensure!(
            met.ended.status.is_some(),
            "EP class S took longer than the limit"
        );
        let done: Done = serde_json::from_str(&met.ended.out).context("what EP says")?;
        ensure!(
            done.right,
            "the sums of EP class S are wrong on this machine"
        );
        let wanted = if setup.quick {
            WANTED_QUICK_S
        } else {
            WANTED_S
        };
        let off = |factor: f64| (done.seconds * factor / wanted).ln().abs();
        let nearest = CLASSES
            .iter()
            .min_by(|a, b| off(a.1).total_cmp(&off(b.1)))
            .map(|(class, _)| *class);
        self.class = nearest;
        let name = nearest.map_or("S", Class::name);
        chosen.insert(CLASS.to_owned(), name.to_owned());
        Ok(())
    }

    fn cells(&self, setup: &Setup) -> Vec<Cell> {
        let methods = setup.loading.iter().map(String::as_str);
        ["spinners"]
            .into_iter()
            .chain(methods)
            .map(|key| Cell {
                key: key.to_owned(),
            })
            .collect()
    }

    fn left_out(&self) -> Vec<String> {
        Vec::new()
    }

    fn measure(&mut self, setup: &Setup, cell: &Cell, round: u32) -> Result<Vec<Row>> {
        let condition = match cell.key.as_str() {
            "spinners" => Condition::Spinners,
            method => Condition::load(method, LOAD_PCT),
        };
        let words = self.words(setup);
        let trial = Trial {
            cell,
            round,
            cpus: &setup.cpus,
            programs: &["ep"],
            words: &words,
            before: &|| Ok(()),
            condition: &condition,
        };
        trial.pairs(setup, &own_words, &figures)
    }

    fn page(&self, rows: &[Row]) -> Result<Vec<Section>> {
        let mut table = Table::new(&[
            "condition",
            "EP, s (mean, sd)",
            "slowdown (95 %)",
            "perceived, % (95 %)",
            "claimed, %",
            "supervisor, % of a core per CPU",
            "error 1 s, sd",
            "resolution, s",
            "n",
        ]);
        let mut points = Vec::new();
        let conditions = distinct(rows, |row| row.condition.clone());
        for (index, condition) in conditions.iter().enumerate() {
            let own: Vec<&Row> = rows.iter().filter(|r| r.condition == *condition).collect();
            let summary = Summary::of(&own);
            let figure = |name: &str| {
                let values: Vec<f64> = own
                    .iter()
                    .filter(|row| row.counts())
                    .filter_map(|r| r.figures.get(name).copied())
                    .collect();
                mean_sd(&values).map_or_else(String::new, |(mean, _)| format!("{mean:.3}"))
            };
            table.push(vec![
                condition.name(),
                summary
                    .loaded_mean_sd
                    .map_or_else(String::new, |(mean, sd)| format!("{mean:.2} ± {sd:.2}")),
                summary.cell(),
                summary.shown(summary.perceived_pct(), 1),
                figure("got_pct"),
                figure("supervisor_pct"),
                figure("error_sd"),
                figure("resolution_s"),
                summary.n().to_string(),
            ]);
            if let Some(p) = summary.perceived_pct() {
                points.push(Point {
                    x: index as f64 + 1.0,
                    y: p.value,
                    low: p.low,
                    high: p.high,
                });
            }
        }
        let perceived = |method: &str| {
            let own: Vec<&Row> = rows
                .iter()
                .filter(|row| row.condition == Condition::load(method, LOAD_PCT))
                .collect();
            let summary = Summary::of(&own);
            (!own.is_empty()).then(|| summary.shown(summary.perceived_pct(), 1))
        };
        let mut paper = Table::new(&[
            "paper",
            "EP, s",
            "perceived, %",
            "our nearest",
            "perceived by ours, %",
        ]);
        for row in published::PRECISION {
            paper.push(vec![
                row.name.to_owned(),
                format!("{} ± {}", row.seconds, row.seconds_sd),
                format!("{} ± {}", row.perceived_pct, row.perceived_sd),
                row.method.to_owned(),
                perceived(row.method)
                    .unwrap_or_else(|| "does not put a load on CPUs here".to_owned()),
            ]);
        }
        let axes = Axes {
            title: "Load perceived by EP, 50 % asked".to_owned(),
            x: "condition".to_owned(),
            y: "perceived load, %".to_owned(),
            x_range: (0.5, conditions.len() as f64 + 0.5),
            x_names: conditions.iter().map(short).collect(),
            y_range: (0.0, 100.0),
        };
        let lines = [Line {
            name: "perceived".to_owned(),
            points,
            connected: false,
            reference: false,
        }];
        let class = self.class.map_or("", Class::name);
        Ok(vec![
            Section::new("Ours")
                .text(&format!(
                    "EP class {class}, one thread per CPU. Perceived load is 100 (1 - 1/S), S the \
                     slowdown against the unloaded run of the same pair; claimed is what sandbag \
                     reports. The published formula (shares) takes more than asked on a current \
                     kernel, which divides a group's weight over the CPUs on which it is busy: \
                     67 % for 50 % on two CPUs, 80 % on four."
                ))
                .figure(draw(&axes, &lines)?)
                .table(table),
            Section::new("The paper's table II")
                .text(&format!(
                    "EP unloaded: {} s. Intrusiveness: 1 % of one core for KRASH, 15 % per user \
                     process for Wrekavoc.",
                    published::EP_UNLOADED_S
                ))
                .points(&published::WHY_LOADS_DIFFER)
                .table(paper),
        ])
    }

    fn summary(&self, rows: &[Row]) -> Vec<[String; 3]> {
        let mut lines = Vec::new();
        for condition in distinct(rows, |row| row.condition.clone()) {
            let own: Vec<&Row> = rows.iter().filter(|r| r.condition == condition).collect();
            let summary = Summary::of(&own);
            let paper = match &condition {
                Condition::Load { method, .. } => {
                    let near = published::PRECISION.iter().find(|p| p.method == method);
                    near.map_or_else(
                        || "-".to_owned(),
                        |p| format!("{} ± {} ({})", p.perceived_pct, p.perceived_sd, p.name),
                    )
                }
                _ => "-".to_owned(),
            };
            let ours = format!(
                "{}, n = {}",
                summary.shown(summary.perceived_pct(), 1),
                summary.n()
            );
            lines.push([
                format!("load perceived by EP, {}, %", condition.name()),
                paper,
                ours,
            ]);
        }
        lines
    }
}

/// For the axis of the figure.
fn short(condition: &Condition) -> String {
    match condition {
        Condition::Load { method, .. } => method.clone(),
        _ => "spinners".to_owned(),
    }
}

/// What sandbag says of the run.
fn figures(run: &Run) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    let mut add = |name: &str, value: f64| figures.insert(name.to_owned(), value);
    let got: Vec<f64> = run.cpus.iter().map(|cpu| cpu.got_pct).collect();
    if let Some((mean, _)) = mean_sd(&got) {
        add("got_pct", mean);
    }
    add("supervisor_pct", run.supervisor.pct_per_cpu);
    if let Some(error) = run.error_1s {
        add("error_sd", error.sd_points);
        add("error_mean_abs", error.mean_abs_points);
    }
    // The smallest window in which 95 % of the errors are at most 2 points.
    const WITHIN: f64 = 2.0;
    let fine = run.error_100ms.is_some_and(|e| e.p95_abs_points <= WITHIN);
    let coarse = run.error_1s.is_some_and(|e| e.p95_abs_points <= WITHIN);
    match (fine, coarse) {
        (true, _) => add("resolution_s", 0.1),
        (false, true) => add("resolution_s", 1.0),
        _ => None,
    };
    figures
}
