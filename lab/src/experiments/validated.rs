// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The predictor against ranks that run (De, Kothari and Mann, Cluster 2008, figure 8, which
//! has a machine of 416 processors): as many real ranks as there are CPUs, which meet at a
//! barrier by shared memory and by MPI, and up to 416 virtual ones, one after another.
//!
//! Jitter of this machine is in what is measured: the runs alternate phases with and without
//! replayed jitter, and what the host adds is added to the prediction, from a replay with the
//! times of the ranks in the phases without. Real ranks hide each other's delays by it, so it
//! is mostly less than nothing there.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow};
use sandbag_linux::Root;
use sandbag_stats::error_of_mean;
use serde_json::Value;

use super::DE;
use crate::agreement::Compared;
use crate::bench::scale::traces::{MANY_SMALL, TraceFile};
use crate::bench::scale::{around, mpi, overlap, predicted};
use crate::experiment::{About, Choices, Experiment, Paper, Remarks};
use crate::figure::{Axes, Line, Point, draw, top};
use crate::page::Section;
use crate::program::{command, run};
use crate::row::{End, Row, grouped};
use crate::setup::Setup;
use crate::steal::StealMeter;
use crate::table::{Table, interval, yes};

/// Virtual ranks; the paper's processors.
const VIRTUAL: u32 = 416;
/// Numbers of virtual ranks from here on are shown.
const FROM: u64 = 16;
/// Changes between jitter and none in a run: a machine's speed changes within seconds, too.
const CHANGES: u32 = 20;
const SYNCS: [&str; 3] = ["none", "once", "phase"];

const MEMORY: &str = "shared memory";
const MPI: &str = "MPI";
const ONE_BY_ONE: &str = "virtual";

/// Figures of a row, percent more than without jitter.
const RANKS: &str = "ranks";
const MEASURED: &str = "measured";
const PREDICTED: &str = "predicted";
/// What the host adds to that.
const HOST: &str = "host";
/// Interval of the prediction with it.
const LOW: &str = "low";
const HIGH: &str = "high";

#[derive(Debug, Default)]
pub(super) struct Validated {
    trace: PathBuf,
    mpi: bool,
}

impl Experiment for Validated {
    type Setup = Setup;

    fn name(&self) -> &'static str {
        self.about().name
    }

    fn cells(&self, setup: &Setup) -> Vec<String> {
        let all = setup.cpus.len();
        // One rank is the same whatever the synchronisation.
        let mut cells = vec![format!("{MEMORY}/1/none")];
        let mut add = |how: &str, ranks: usize| {
            cells.extend(SYNCS.map(|sync| format!("{how}/{ranks}/{sync}")));
        };
        if all > 1 {
            add(MEMORY, all);
            if self.mpi {
                add(MPI, all);
            }
        }
        add(ONE_BY_ONE, VIRTUAL as usize);
        cells
    }

    fn measure(&mut self, setup: &Setup, cell: &str, round: u32) -> Result<Vec<Row>> {
        let mut parts = cell.split('/');
        let mut next = || parts.next().context("no cell of this one");
        let (how, ranks, sync) = (next()?, next()?, next()?);
        let is_virtual = how == ONE_BY_ONE;
        let seconds = if is_virtual {
            setup.form(40, 240)
        } else {
            setup.form(5, 20)
        };
        let how = match how {
            ONE_BY_ONE => "--virtual --clock cpu --repeats 3 --quantum 1ms".to_owned(),
            MPI => format!("--mpi --rounds {CHANGES}"),
            _ => format!("--rounds {CHANGES}"),
        };
        let json = setup.scratch.join("figures.json");
        let mut bench = command(
            &setup.sandbag,
            &format!(
                "-q scale bench {how} -d {seconds}s --sync {sync} --ranks {ranks} --seed {}",
                round + 1
            ),
        );
        bench.arg("--jitter").arg(&self.trace);
        bench.arg("--json").arg(&json);
        let mut steal = StealMeter::start(&Root::default(), &setup.cpus)?;
        let ended = run(bench, Some(&setup.cpus), setup.limit)?;
        match ended.status {
            Some(status) if status.success() => {}
            Some(_) => {
                let error = anyhow!("scale bench: {}", ended.last_words());
                return Ok(vec![Row::failed(cell, round, &error)]);
            }
            None => {
                let limit_s = setup.limit.as_secs_f64();
                return Ok(vec![Row {
                    end: End::OverLimit { limit_s },
                    ..Row::new(cell, round)
                }]);
            }
        }
        let text = fs::read_to_string(&json).context("read the figures")?;
        fs::remove_file(&json).context("remove the figures")?;
        let figures: Value = serde_json::from_str(&text)?;
        let found = steal.disturbance()?;
        let mut rows = if is_virtual {
            virtual_rows(cell, round, &figures)
        } else {
            meeting_row(cell, round, &figures).into_iter().collect()
        };
        if rows.is_empty() {
            let error = anyhow!("no prediction: ranks wait for CPUs, or all is noise");
            return Ok(vec![Row::failed(cell, round, &error)]);
        }
        rows.iter_mut().for_each(|row| row.disturbed(found));
        Ok(rows)
    }

    fn line(&self, row: &Row) -> String {
        let figure = |name: &str| row.get(name).unwrap_or(f64::NAN);
        format!(
            "{} ranks: {:.2} %, predicted {:.2}",
            figure(RANKS),
            figure(MEASURED),
            figure(PREDICTED) + figure(HOST)
        )
    }
}

fn row_of(cell: &str, round: u32, ranks: &Value, measured: &Value, point: &Value) -> Option<Row> {
    let (alone, (low, high)) = predicted(point)?;
    let mut row = Row::new(cell, round);
    row.put(RANKS, ranks.as_f64());
    row.put(MEASURED, measured.as_f64());
    for (name, value) in [(PREDICTED, alone), (LOW, low), (HIGH, high)] {
        row.put(name, value);
    }
    Some(row)
}

/// The host's part goes to the row and into its interval.
fn with_host(mut row: Row, on_host: &Value) -> Option<Row> {
    let host = on_host["pct"].as_f64()? - on_host["alone_pct"].as_f64()?;
    row.put(HOST, host);
    for end in [LOW, HIGH] {
        row.put(end, row.get(end)? + host);
    }
    Some(row)
}

fn meeting_row(cell: &str, round: u32, figures: &Value) -> Option<Row> {
    let ranks = &figures["ranks"];
    let measured = &figures["slowdown"]["over_run_pct"];
    let row = row_of(cell, round, ranks, measured, &figures["predicted"][0])?;
    with_host(row, &figures["predicted_on_host"])
}

fn virtual_rows(cell: &str, round: u32, figures: &Value) -> Vec<Row> {
    let list = |name: &str| figures[name].as_array().cloned().unwrap_or_default();
    let each = list("slowdowns").into_iter().zip(list("predicted"));
    each.zip(list("predicted_with_host"))
        .filter(|((one, _), _)| one["ranks"].as_u64().is_some_and(|ranks| ranks >= FROM))
        .filter_map(|((one, point), on_host)| {
            let row = row_of(cell, round, &one["ranks"], &one["over_quantum_pct"], &point)?;
            with_host(row, &on_host)
        })
        .collect()
}

impl Paper for Validated {
    fn about(&self) -> &'static About {
        &About {
            name: "osjitter-figure-8",
            paper: DE,
            what: "predicted slowdowns against those of ranks that run",
            source: "De, Kothari and Mann (Cluster 2008), figure 8",
            rounds: [3, 6],
            most_rounds: 6,
            minutes: [11, 120],
            page: |measured| sections(measured.rows),
            summary,
        }
    }

    fn prepare(&mut self, setup: &Setup, _chosen: &mut Choices) -> Result<Remarks> {
        let made = TraceFile {
            cpus: setup.cpus.len() as u32,
            ..MANY_SMALL
        };
        self.trace = made.write(&setup.scratch, "made.sbj")?;
        self.mpi = mpi(&setup.sandbag).is_some();
        let mut remarks = Remarks::default();
        remarks.notes.push(format!("The jitter is {made}."));
        if !self.mpi {
            let why =
                "MPI: no sandbag-mpi or no mpirun here; make mpi, apt-get install openmpi-bin";
            remarks.skipped.push(why.to_owned());
        }
        Ok(remarks)
    }
}

/// Runs that differ by their places in the trace.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Validation {
    ranks: u64,
    /// Mean, with half of its 95 % interval.
    measured: (f64, f64),
    predicted: f64,
    host: f64,
    interval: (f64, f64),
    n: usize,
}

impl Validation {
    /// `None` of fewer than two.
    fn of(runs: &[&Row]) -> Option<Self> {
        let figures =
            |name: &str| -> Vec<f64> { runs.iter().filter_map(|r| r.get(name)).collect() };
        let mean = |name: &str| {
            let all = figures(name);
            all.iter().sum::<f64>() / all.len() as f64
        };
        let (measured, host) = (figures(MEASURED), figures(HOST));
        // What the host does differs from run to run, and is in both.
        let error = error_of_mean(measured.iter().zip(&host).map(|(all, host)| all - host))?;
        Some(Self {
            ranks: mean(RANKS) as u64,
            measured: (mean(MEASURED), error),
            predicted: mean(PREDICTED),
            host: mean(HOST),
            interval: (mean(LOW), mean(HIGH)),
            n: runs.len(),
        })
    }

    fn ends(&self) -> (f64, f64) {
        around(self.measured)
    }

    fn meets(&self) -> bool {
        overlap(self.ends(), self.interval)
    }
}

/// Numbers of ranks that run in one way, with one synchronisation.
#[derive(Debug)]
struct Way {
    sync: String,
    how: String,
    all: Vec<Validation>,
}

fn ways(rows: &[Row]) -> Vec<Way> {
    let part = |row: &Row, at: usize| row.cell.split('/').nth(at).unwrap_or("").to_owned();
    let way = |((sync, how), own): ((String, String), Vec<&Row>)| {
        let mut all: Vec<Validation> = grouped(own, |row| row.get(RANKS).map(f64::to_bits))
            .iter()
            .filter_map(|(_, runs)| Validation::of(runs))
            .collect();
        all.sort_by_key(|one| one.ranks);
        Way { sync, how, all }
    };
    let rows = rows.iter().filter(|row| row.counts());
    let mut ways: Vec<Way> = grouped(rows, |row| (part(row, 2), part(row, 0)))
        .into_iter()
        .map(way)
        .collect();
    ways.sort_by(|a, b| (&a.sync, &a.how).cmp(&(&b.sync, &b.how)));
    ways
}

fn sections(rows: &[Row]) -> Result<Vec<Section>> {
    let mut sections = Vec::new();
    for own in ways(rows).chunk_by(|a, b| a.sync == b.sync) {
        let sync = &own[0].sync;
        let mut table = Table::of(
            "ranks | run | measured, % (95 %) | predicted, % | the host adds | predicted with it \
             (95 %) | the intervals meet | n",
        );
        let mut lines = Vec::new();
        for Way { how, all, .. } in own {
            for one in all {
                let with_host = one.predicted + one.host;
                table.push(vec![
                    one.ranks.to_string(),
                    how.clone(),
                    interval(one.measured.0, one.ends(), 2),
                    format!("{:.2}", one.predicted),
                    format!("{:+.2}", one.host),
                    interval(with_host, one.interval, 2),
                    yes(one.meets()),
                    one.n.to_string(),
                ]);
            }
            let point = |one: &Validation, value: f64, (low, high): (f64, f64)| Point {
                low,
                high,
                ..Point::bare((one.ranks as f64).log2(), value)
            };
            let measured = all.iter().map(|one| point(one, one.measured.0, one.ends()));
            lines.push(Line::new(how.as_str(), measured.collect::<Vec<_>>()));
            let expected = all
                .iter()
                .map(|one| point(one, one.predicted + one.host, one.interval));
            lines.push(Line::reference(
                format!("predicted, {how}"),
                expected.collect::<Vec<_>>(),
            ));
        }
        let axes = Axes {
            title: format!("Slowdown of ranks, synchronisation {sync}"),
            x: "log2 of the ranks".to_owned(),
            y: "slowdown, %".to_owned(),
            x_range: (-0.5, f64::from(VIRTUAL).log2() + 0.5),
            x_names: Vec::new(),
            y_range: (0.0, top(&lines, 1e-3)),
        };
        sections.push(
            Section::new(&format!("Synchronisation: {sync}"))
                .text(
                    "By `sandbag scale bench`, each run at other places of the trace. The paper \
                     has a machine of 416 processors; here as many ranks run at the same time as \
                     there are CPUs, and virtual ones compute one after another, each with its \
                     part of the jitter, and the slowest of a phase is found afterwards.",
                )
                .figure(draw(&axes, &lines)?)
                .table(table),
        );
    }
    Ok(sections)
}

fn summary(rows: &[Row]) -> Vec<Compared> {
    let mut lines = Vec::new();
    let (mut meet, mut count) = (0, 0);
    for Way { sync, how, all } in ways(rows) {
        for one in all {
            meet += u32::from(one.meets());
            count += 1;
            lines.push(Compared::ours(
                format!(
                    "{} ranks, {how}, synchronisation {sync}: slowdown, %",
                    one.ranks
                ),
                format!(
                    "{}, predicted {}, n = {}",
                    interval(one.measured.0, one.ends(), 2),
                    interval(one.predicted + one.host, one.interval, 2),
                    one.n
                ),
            ));
        }
    }
    if count > 0 {
        lines.push(Compared::ours(
            "intervals of measurement and prediction that meet".to_owned(),
            format!("{meet} of {count}"),
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(measured: f64, round: u32) -> Row {
        let figures = json!({
            "ranks": 2,
            "slowdown": {"over_run_pct": measured},
            "predicted": [{"mean": {"slowdown_pct": 10.0, "interval_pct": [9.5, 10.5]}}],
            "predicted_on_host": {"pct": 9.0, "alone_pct": 10.0},
        });
        meeting_row("shared memory/2/none", round, &figures).unwrap()
    }

    #[test]
    fn few_runs_have_a_wider_interval() {
        let runs = [run(10.0, 0), run(11.0, 1), run(12.0, 2)];
        // A standard deviation of 1, of three; t of 2 degrees of freedom is 4.303.
        let one = Validation::of(&runs.iter().collect::<Vec<_>>()).unwrap();
        assert!((one.measured.0 - 11.0).abs() < 1e-9 && one.ranks == 2);
        assert!(
            (one.measured.1 - 4.303 / 3f64.sqrt()).abs() < 1e-3,
            "{one:?}"
        );
        assert!((one.interval.0 - 8.5).abs() < 1e-9 && one.meets());
        let same = [run(11.0, 0), run(11.0, 1)];
        let narrow = Validation::of(&same.iter().collect::<Vec<_>>()).unwrap();
        assert!(!narrow.meets());
        assert_eq!(Validation::of(&[&runs[0]]), None);
        assert_eq!(meeting_row("a/1/none", 0, &json!({})), None);
    }

    #[test]
    fn virtual_ranks_are_shown_from_sixteen_on() {
        let point = json!({"mean": {"slowdown_pct": 20.0, "interval_pct": [19.0, 21.0]}});
        let host = json!({"pct": 25.0, "alone_pct": 20.0});
        let figures = json!({
            "slowdowns": [
                {"ranks": 8, "over_quantum_pct": 20.0}, {"ranks": 16, "over_quantum_pct": 24.5},
            ],
            "predicted": [point, point],
            "predicted_with_host": [host, host],
        });
        let rows: Vec<Row> = (0..3)
            .flat_map(|round| virtual_rows("virtual/416/once", round, &figures))
            .collect();
        assert_eq!(rows.len(), 3);
        let lines = summary(&rows);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[1].ours, "1 of 1");
        assert_eq!(sections(&rows).unwrap().len(), 1);
    }
}
