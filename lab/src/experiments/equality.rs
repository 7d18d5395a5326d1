// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether CPUs are equal (Cardo): elapsed, user and system time of a test on each CPU, of a
//! quiet machine and of a loaded one; a chart for each test and state.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use sandbag_audit::model::{Audit, Quantity};

use super::CARDO;
use crate::agreement::{Agreement, Compared, Published};
use crate::condition::Condition;
use crate::experiment::{About, Choices, Experiment, Paper, Remarks};
use crate::figure::{Axes, Line, Point, draw, top};
use crate::page::Section;
use crate::place::Runner as _;
use crate::row::{Row, grouped};
use crate::setup::Setup;
use crate::summary::{Median, Summary, figure, shown_figure};
use crate::table::Table;

/// The load of the loaded state.
const LOAD_PCT: f64 = 50.0;
const LIMIT: Duration = Duration::from_secs(600);
/// Figures of a row, each beside its name in charts.
const TIMES: [(Quantity, &str); 3] = [
    (Quantity::Elapsed, "elapsed"),
    (Quantity::User, "user"),
    (Quantity::System, "system"),
];
/// System time of CPU 0 above the middle of the others, percent.
const ABOVE: &str = "cpu0 system above";

pub(super) struct Equality {
    chart: &'static Chart,
}

struct Chart {
    about: About,
    test: &'static str,
    loaded: bool,
    /// What the paper says of CPU 0's system time.
    published: Option<(&'static str, Published)>,
}

macro_rules! chart {
    ($at:literal, $number:literal, $test:literal, $loaded:literal, $state:literal, $published:expr) => {
        Chart {
            about: About {
                name: concat!("cardo-chart-", $number),
                paper: CARDO,
                what: concat!("the test ", $test, " on each CPU of a ", $state, " machine"),
                source: concat!("Cardo, charts of CPU equality: ", $test, ", ", $state),
                rounds: [3, 6],
                most_rounds: 6,
                minutes: [1, 40],
                page: |measured| Ok(vec![section(&CHARTS[$at], measured.rows)?]),
                summary: |rows| summary(&CHARTS[$at], rows),
            },
            test: $test,
            loaded: $loaded,
            published: $published,
        }
    };
}

static CHARTS: [Chart; 8] = [
    chart!(
        0,
        "1",
        "memory",
        false,
        "quiet",
        Some(("3.5", Published::between(2.5, 4.5)))
    ),
    chart!(1, "2", "memory", true, "loaded", None),
    chart!(
        2,
        "3",
        "syscall",
        false,
        "quiet",
        Some(("none", Published::between(-1.0, 1.0)))
    ),
    chart!(
        3,
        "4",
        "syscall",
        true,
        "loaded",
        Some(("3 to 3.2", Published::between(2.0, 4.2)))
    ),
    chart!(
        4,
        "5",
        "both",
        false,
        "quiet",
        Some(("about 2", Published::between(1.0, 3.0)))
    ),
    chart!(5, "6", "both", true, "loaded", None),
    chart!(
        6,
        "7",
        "compute",
        false,
        "quiet",
        Some(("276", Published::between(100.0, 700.0)))
    ),
    chart!(7, "8", "compute", true, "loaded", None),
];

impl Equality {
    /// The eight charts.
    pub fn all() -> impl Iterator<Item = Box<dyn Paper>> {
        CHARTS
            .iter()
            .map(|chart| Box::new(Self { chart }) as Box<dyn Paper>)
    }
}

impl Experiment for Equality {
    type Setup = Setup;

    fn name(&self) -> &'static str {
        self.chart.about.name
    }

    fn cells(&self, _setup: &Setup) -> Vec<String> {
        vec![self.chart.test.to_owned()]
    }

    fn measure(&mut self, setup: &Setup, cell: &str, round: u32) -> Result<Vec<Row>> {
        let path = setup.scratch.join("audit.json");
        let quick = setup.form(" --quick", "");
        let options = format!(
            "-q audit run{quick} --tests {cell} --cpus {} --force -o",
            setup.cpus
        );
        let mut words = vec![setup.sandbag.clone().into_os_string()];
        words.extend(options.split(' ').map(Into::into));
        words.push(path.clone().into_os_string());
        // An audit that finds a difference says so by its exit code.
        let script = "\"$0\" \"$@\"; code=$?; [ $code = 3 ] || [ $code = 4 ] || exit $code";
        let mut shell = vec!["sh".into(), "-c".into(), script.into()];
        shell.append(&mut words);
        let condition = if self.chart.loaded {
            Condition::load("pace", LOAD_PCT)
        } else {
            Condition::Unloaded
        };
        let mut place = setup.place(&setup.cpus);
        place.limit = LIMIT;
        let met = place.meet(&condition, &shell)?;
        ensure!(
            met.ended.status.is_some(),
            "the audit took longer than ten minutes"
        );
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let audit: Audit = serde_json::from_str(&text).context("an audit")?;
        let mut rows = rows(&audit, cell, round, &condition);
        for row in &mut rows {
            row.disturbed(met.disturbance);
        }
        Ok(rows)
    }

    fn line(&self, row: &Row) -> String {
        format!(
            "CPU {}: {:.3} s",
            row.cpus,
            row.get("elapsed").unwrap_or(f64::NAN)
        )
    }
}

impl Paper for Equality {
    fn about(&self) -> &'static About {
        &self.chart.about
    }

    fn prepare(&mut self, _setup: &Setup, _chosen: &mut Choices) -> Result<Remarks> {
        Ok(Remarks::default())
    }
}

/// A row for each CPU: the middle of its longest runs, in seconds.
fn rows(audit: &Audit, cell: &str, round: u32, condition: &Condition) -> Vec<Row> {
    let mut rows = Vec::new();
    for test in &audit.tests {
        let longest = test.samples.iter().map(|sample| sample.length).max();
        for cpu in &audit.cpus {
            let mut row = Row::new(cell, round);
            row.program.clone_from(&test.name);
            row.condition = condition.clone();
            row.cpus = cpu.cpu.to_string();
            for (quantity, name) in TIMES {
                let own = test
                    .samples
                    .iter()
                    .filter(|sample| sample.cpu == cpu.cpu && Some(sample.length) == longest)
                    .filter_map(|sample| sample.figure(quantity))
                    .map(|ns| ns / 1e9);
                let middle = Median::of(&own.collect::<Vec<_>>());
                row.put(name, middle.map(|m| m.value));
            }
            rows.push(row);
        }
    }
    let system = |row: &Row| row.get("system");
    let others: Vec<f64> = rows.iter().skip(1).filter_map(system).collect();
    let others = Median::of(&others).map(|m| m.value).filter(|s| *s > 0.0);
    if let Some(first) = rows.first_mut() {
        let above = system(first)
            .zip(others)
            .map(|(own, others)| 100.0 * (own / others - 1.0));
        first.put(ABOVE, above);
    }
    rows
}

fn section(chart: &Chart, rows: &[Row]) -> Result<Section> {
    let mut table = Table::of("CPU | elapsed, s | user, s | system, s | n");
    let mut points: BTreeMap<&str, Vec<Point>> = BTreeMap::new();
    let mut names = Vec::new();
    for (cpu, own) in grouped(rows, |row| row.cpus.clone()) {
        names.push(cpu.clone());
        let mut cells = vec![cpu];
        for (_, name) in TIMES {
            cells.push(shown_figure(&own, name, 4));
            let found = figure(&own, name);
            let point = found.map(|found| Point::of(names.len() as f64, found));
            points.entry(name).or_default().extend(point);
        }
        cells.push(figure(&own, "elapsed").map_or(0, |m| m.n).to_string());
        table.push(cells);
    }
    let lines: Vec<Line> = TIMES
        .into_iter()
        .map(|(_, name)| Line::new(name, points.remove(name).unwrap_or_default()))
        .collect();
    let state = if chart.loaded { "loaded" } else { "quiet" };
    let axes = Axes {
        title: format!("{} by CPU, {state}", chart.test),
        x: "CPU".to_owned(),
        y: "s".to_owned(),
        x_range: (0.5, names.len() as f64 + 0.5),
        x_names: names,
        y_range: (0.0, top(&lines, 1e-6)),
    };
    let load = format!("a load of {LOAD_PCT} % on each CPU");
    Ok(Section::new(&format!("{}, {state}", chart.test))
        .text(&format!(
            "The longest runs of the test on each CPU, medians over {} audits, with {}. The \
             paper's figures are of machines with many CPUs and of other kernels.",
            figure_count(rows),
            if chart.loaded {
                load.as_str()
            } else {
                "nothing else on the machine"
            }
        ))
        .figure(draw(&axes, &lines)?)
        .table(table))
}

fn figure_count(rows: &[Row]) -> usize {
    grouped(rows, |row| row.round).len()
}

fn summary(chart: &Chart, rows: &[Row]) -> Vec<Compared> {
    let first: Vec<&Row> = rows.iter().filter(|row| row.get(ABOVE).is_some()).collect();
    let found = figure(&first, ABOVE);
    let mut ours = shown_figure(&first, ABOVE, 1);
    if ours.is_empty() {
        "no system time".clone_into(&mut ours);
    }
    vec![Compared {
        what: format!(
            "{}: system time of the first CPU above the others, %",
            chart.about.what
        ),
        paper: chart
            .published
            .as_ref()
            .map_or("-", |(words, _)| words)
            .to_owned(),
        ours: format!("{ours}, n = {}", found.map_or(0, |m| m.n)),
        agreement: match &chart.published {
            None => Agreement::Ours,
            Some((_, range)) => range.compare(found.filter(|_| Summary::of(&first).is_decided())),
        },
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_a_row_for_each_cpu() {
        let rows: Vec<Row> = (0..3)
            .flat_map(|round| {
                [("0", 1.03), ("1", 1.0)].map(|(cpu, system)| {
                    let mut row = Row::new("memory", round);
                    row.cpus = cpu.to_owned();
                    TIMES.iter().for_each(|(_, name)| row.put(*name, system));
                    row.put(ABOVE, (cpu == "0").then_some(3.0));
                    row
                })
            })
            .collect();
        let html = section(&CHARTS[0], &rows).unwrap().html().into_string();
        assert!(
            html.contains("1.0300") && html.contains("nothing else"),
            "{html}"
        );
        assert_eq!(summary(&CHARTS[0], &rows)[0].agreement, Agreement::Agrees);
        assert_eq!(summary(&CHARTS[1], &rows)[0].agreement, Agreement::Ours);
    }
}
