// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recorded jitter against what a program saw of its replay (De, Kothari and Mann, Cluster
//! 2008, figures 1 to 4 and the divergences of section IV): lengths of events, without and
//! with the paper's safeguards and scale factor, by `jitter verify`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use sandbag_linux::{CpuList, Root};
use serde_json::Value;

use super::DE;
use crate::agreement::{Agreement, Compared, Published};
use crate::experiment::{About, Choices, Experiment, Paper, Remarks};
use crate::figure::{Axes, Line, Point, draw};
use crate::page::Section;
use crate::program;
use crate::row::{Row, grouped};
use crate::setup::Setup;
use crate::steal::StealMeter;
use crate::summary::{Median, Summary, figure as median, shown_figure};
use crate::table::Table;

const HERE: &str = "this machine";
const LINUX: &str = "fitted to Linux 2.6";
const TRACE_S: u32 = 60;
/// Of each way, s; that with a factor takes as many times longer.
const LENGTH_S: u32 = 5;
const LENGTH_QUICK_S: u32 = 3;
const FACTOR: u32 = 3;
const LIMIT: Duration = Duration::from_secs(600);
/// Ways of `jitter verify` that are shown.
const WAYS: [&str; 5] = [
    "no safeguards",
    "safeguards",
    "factor 3",
    "inside, safeguards",
    "polled",
];
/// Distances of its rows.
const DISTANCES: [(&str, &str); 4] = [
    ("kl_bits", "KL, bits"),
    ("kl_back_bits", "KL back, bits"),
    ("js_bits", "JS, bits"),
    ("ks", "KS"),
];
/// The published divergence without scaling and with factor 3, by a formula that is not printed.
const PUBLISHED: [f64; 2] = [18_117.0, 873.0];
const REPRODUCED: &str = "reproduced";
/// Divergence without safeguards by that of a way.
const LESS: &str = "times less";
/// Divergence with safeguards by that of a way: what a factor does, and not the safeguards.
const LESS_BY_FACTOR: &str = "times less by the factor";

#[derive(Debug, Default)]
pub(super) struct Reproduced {
    traces: Vec<(&'static str, PathBuf)>,
}

impl Experiment for Reproduced {
    type Setup = Setup;

    fn name(&self) -> &'static str {
        self.about().name
    }

    fn cells(&self, _setup: &Setup) -> Vec<String> {
        self.traces
            .iter()
            .map(|(name, _)| (*name).to_owned())
            .collect()
    }

    fn measure(&mut self, setup: &Setup, cell: &str, round: u32) -> Result<Vec<Row>> {
        let trace = self.traces.iter().find(|(name, _)| *name == cell);
        let (_, trace) = trace.context("no such trace")?;
        let words = format!(
            "-q jitter verify --cpus {} --share 1 -d {}s --scale-factor {FACTOR} --seed {round} \
             --priority 2 --real-time 1 --json",
            one_cpu(&setup.cpus),
            setup.form(LENGTH_QUICK_S, LENGTH_S)
        );
        let mut command = program::command(&setup.sandbag, &words);
        command.arg(trace);
        let cpu = CpuList::from_iter([one_cpu(&setup.cpus)]);
        let mut steal = StealMeter::start(&Root::default(), &cpu)?;
        let ended = program::run(command, None, LIMIT)?;
        if !ended.status.is_some_and(|status| status.success()) {
            let error = anyhow!("{words}: {}", ended.last_words());
            return Ok(vec![Row::failed(cell, round, &error)]);
        }
        let ways: Vec<Value> = serde_json::from_str(&ended.out)?;
        let mut rows = rows(cell, round, &ways)?;
        let found = steal.disturbance()?;
        rows.iter_mut().for_each(|row| row.disturbed(found));
        Ok(rows)
    }

    fn line(&self, row: &Row) -> String {
        let kl = row.get(DISTANCES[0].0).map(|kl| format!("{kl:.3} bits"));
        format!("{}: {}", row.program, kl.unwrap_or_default())
    }
}

/// The CPU on which it is done.
fn one_cpu(cpus: &CpuList) -> u32 {
    cpus.iter().last().unwrap_or(0)
}

fn rows(cell: &str, round: u32, ways: &[Value]) -> Result<Vec<Row>> {
    let kl_of = |name: &str| {
        let way = ways.iter().find(|way| way["name"] == name)?;
        way["judged"]["distances"][DISTANCES[0].0].as_f64()
    };
    let mut all = Vec::new();
    for name in WAYS {
        let way = ways.iter().find(|way| way["name"] == name);
        let judged = &way.with_context(|| format!("no row {name:?}"))?["judged"];
        let mut row = Row::new(cell, round);
        row.program = name.to_owned();
        row.put(REPRODUCED, judged["reproduced_pct"].as_f64());
        for (key, _) in DISTANCES {
            row.put(key, judged["distances"][key].as_f64());
        }
        for ends in ["asked", "seen"] {
            let found = judged[format!("{ends}_ns")].as_array();
            for (at, ns) in found.into_iter().flatten().enumerate() {
                row.put(quantile(ends, at), ns.as_f64());
            }
        }
        for (key, than) in [(LESS, WAYS[0]), (LESS_BY_FACTOR, WAYS[1])] {
            let less = kl_of(than).zip(kl_of(name)).filter(|(_, kl)| *kl > 0.0);
            row.put(key, less.map(|(than, kl)| than / kl));
        }
        all.push(row);
    }
    Ok(all)
}

fn quantile(ends: &str, at: usize) -> String {
    format!("{ends} {at}")
}

impl Paper for Reproduced {
    fn about(&self) -> &'static About {
        &About {
            name: "osjitter-section-4",
            paper: DE,
            what: "lengths of events, recorded and reproduced, with their divergences",
            source: "De, Kothari and Mann (Cluster 2008), figures 1 to 4 and section IV",
            rounds: [3, 10],
            most_rounds: 10,
            minutes: [6, 30],
            page: |measured| {
                let sections = grouped(measured.rows, |row| row.cell.clone());
                sections.into_iter().map(section).collect()
            },
            summary,
        }
    }

    fn prepare(&mut self, setup: &Setup, _chosen: &mut Choices) -> Result<Remarks> {
        let cpu = one_cpu(&setup.cpus);
        let record = format!("-q jitter record -d {TRACE_S}s --cpus {cpu} --force -o");
        let synth = format!("-q jitter synth --like linux-2007 -d {TRACE_S}s --force -o");
        // A recording of another CPU is none of this one.
        let files = [
            format!("this-machine-cpu{cpu}.sbj"),
            "like-linux.sbj".to_owned(),
        ];
        for ((name, words), file) in [(HERE, record), (LINUX, synth)].into_iter().zip(files) {
            let path = setup.dir.join(file);
            program::make_file(&setup.sandbag, &words, &path, LIMIT)?;
            self.traces.push((name, path));
        }
        Ok(Remarks::default())
    }
}

fn section((trace, own): (String, Vec<&Row>)) -> Result<Section> {
    let mut table = Table::of(
        "way | reproduced, % | KL, bits | KL back, bits | JS, bits | KS | KL, times less than \
         without safeguards | than with them, without a factor | n",
    );
    let mut lines = Vec::new();
    let mut ends = (f64::INFINITY, f64::NEG_INFINITY);
    for (way, own) in grouped(own, |row| row.program.clone()) {
        let mut cells = vec![way.clone(), shown_figure(&own, REPRODUCED, 1)];
        cells.extend(DISTANCES.map(|(key, _)| shown_figure(&own, key, 3)));
        cells.extend([LESS, LESS_BY_FACTOR].map(|key| shown_figure(&own, key, 2)));
        cells.push(median(&own, DISTANCES[0].0).map_or(0, |m| m.n).to_string());
        table.push(cells);
        let us = |ends: &str, at: usize| {
            let found = median(&own, &quantile(ends, at))?;
            (found.value > 0.0).then(|| (found.value / 1e3).log10())
        };
        let points: Vec<Point> = (0..)
            .map_while(|at| Some(Point::bare(us("asked", at)?, us("seen", at)?)))
            .collect();
        for point in &points {
            ends = (
                ends.0.min(point.x).min(point.y),
                ends.1.max(point.x).max(point.y),
            );
        }
        lines.push(Line::new(way, points));
    }
    let ends = if ends.0 < ends.1 {
        (ends.0 - 0.1, ends.1 + 0.1)
    } else {
        (0.0, 1.0)
    };
    lines.push(Line::reference(
        "the same",
        [ends.0, ends.1].map(|x| Point::bare(x, x)),
    ));
    let axes = Axes {
        title: format!("Lengths of events, {trace}"),
        x: "recorded, log10 of us".to_owned(),
        y: "seen, log10 of us".to_owned(),
        x_range: ends,
        x_names: Vec::new(),
        y_range: ends,
    };
    Ok(Section::new(&trace)
        .text(
            "Quantiles of the lengths: those of the trace, and those that a program on the same \
             CPU saw. The divergence (Kullback and Leibler) is that of the densities of the \
             logarithm of the length (Parzen window, on one grid); the paper's is not \
             normalised and its formula not printed, so that only its ratios stand beside ours. \
             Results of factor 3 are divided by it. \"Fitted\" is a synthetic trace with the \
             published statistics.",
        )
        .figure(draw(&axes, &lines)?)
        .table(table))
}

fn summary(rows: &[Row]) -> Vec<Compared> {
    let mut lines = Vec::new();
    for ((trace, way), own) in grouped(rows, |row| (row.cell.clone(), row.program.clone())) {
        let found = median(&own, DISTANCES[0].0);
        lines.push(Compared::ours(
            format!("divergence of lengths, {trace}, {way}, bits"),
            counted(&own, DISTANCES[0].0, found),
        ));
        if trace == LINUX && way == "factor 3" {
            let found = median(&own, LESS_BY_FACTOR);
            let found = found.filter(|_| Summary::of(&own).is_decided());
            lines.push(Compared {
                what: format!("divergence, {trace}: times less by factor 3"),
                paper: format!("less ({:.1} times)", PUBLISHED[0] / PUBLISHED[1]),
                ours: counted(&own, LESS_BY_FACTOR, found),
                // Which is less is comparable, how much is not.
                agreement: match found {
                    Some(_) => Published::between(1.02, f64::INFINITY).compare(found),
                    None => Agreement::Undecided,
                },
            });
        }
    }
    lines
}

fn counted(own: &[&Row], key: &str, found: Option<Median>) -> String {
    format!(
        "{}, n = {}",
        shown_figure(own, key, 3),
        found.map_or(0, |m| m.n)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(kl: [f64; 5]) -> Vec<Row> {
        let way = |(name, kl): (&str, f64)| {
            serde_json::json!({"name": name, "judged": {
                "reproduced_pct": 90.0, "asked_ns": [1000, 20_000], "seen_ns": [1500, 21_000],
                "distances": {"kl_bits": kl, "kl_back_bits": kl, "js_bits": 0.1, "ks": 0.2},
            }})
        };
        let ways: Vec<Value> = WAYS.into_iter().zip(kl).map(way).collect();
        (0..3)
            .flat_map(|round| rows(LINUX, round, &ways).unwrap())
            .collect()
    }

    #[test]
    fn a_factor_that_helps_agrees_and_one_that_does_not_differs() {
        // What the safeguards do is not the factor's.
        for (factor, agreement) in [(0.5, Agreement::Agrees), (0.9, Agreement::Differs)] {
            let rows = measured([1.0, 0.8, factor, 0.7, 0.1]);
            let lines = summary(&rows);
            let published = lines.iter().find(|line| line.paper != "-").unwrap();
            assert_eq!(published.agreement, agreement);
            assert_eq!(lines.len(), 6);
        }
        let rows = measured([1.0, 0.8, 0.5, 0.7, 0.1]);
        assert!(rows.iter().all(|row| row.get("seen 1") == Some(21_000.0)));
        let all = grouped(&rows, |row| row.cell.clone());
        assert!(all.into_iter().all(|cell| section(cell).is_ok()));
        assert!(super::rows("x", 0, &[]).is_err());
    }
}
