// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is told of ranks that met: on the terminal, and as JSON.

use std::fmt::Write as _;

use crate::bench::{BenchTimes, NoiseLoad, OnHost, PerRank, RankSpread, Slowdown, WithHost};
use crate::bench::{load, per_rank, rank_spread, slowdown};
use crate::predict::{Places, RankPrediction, Starts};
use sandbag_jitter::JitterTrace;
use sandbag_jitter::replay::ReplayPlan;
use sandbag_ui::quantity::{nanos, percent, time};
use sandbag_ui::table::{name_columns, plain};
use serde_json::{Value, json};

use crate::file::numerals::{said_of_apart, said_of_capped, said_of_load, said_of_time};
use crate::file::{BenchOptions, CommonStart, RankModel, rank_model};

/// All that there is to tell.
pub struct ResultFile<'a> {
    asked: &'a BenchOptions,
    measured: &'a BenchTimes,
    found: Slowdown,
    predicted: RankModel,
    on_host: Option<OnHost>,
    apart: Option<RankSpread>,
    load: Option<NoiseLoad>,
    ranks: Vec<PerRank>,
    places: Vec<String>,
}

impl<'a> ResultFile<'a> {
    /// Of ranks that suffered a trace, by this plan; `places`: where each ran, in words.
    /// `None` if no phase ended in the time there was.
    #[must_use]
    pub fn new(
        asked: &'a BenchOptions,
        measured: &'a BenchTimes,
        suffered: Option<(&JitterTrace, &ReplayPlan)>,
        places: Vec<String>,
    ) -> Option<Self> {
        let found = slowdown(measured)?;
        let apart = rank_spread(measured);
        let together = apart.map(|apart| CommonStart {
            end_ns: apart.end_ns,
            phases: apart.phases,
            places: Places::new(),
        });
        Some(Self {
            asked,
            measured,
            found,
            predicted: suffered.map_or_else(RankModel::default, |(trace, _)| {
                rank_model(trace, asked, &[found], Starts::Waiting, together)
            }),
            // Whoever waits for a CPU is late by that.
            on_host: suffered
                .filter(|_| !measured.oversubscribed)
                .and_then(|(_, plan)| measured.on_host(plan, asked.seed)),
            apart,
            load: load(measured),
            ranks: per_rank(measured, suffered.is_some()),
            places,
        })
    }

    /// For the terminal; `on`: on what they ran, in words.
    #[must_use]
    pub fn text(&self, on: &str) -> String {
        let measured = self.measured;
        let mut text = format!(
            "{} ranks on {on}{}; quantum {} (calibrated: {} in {} iterations)\n\n{}\n",
            measured.ranks,
            if measured.oversubscribed {
                ", OVERSUBSCRIBED"
            } else {
                ""
            },
            time(nanos(self.asked.quantum) as f64),
            time(measured.calibrated_ns as f64),
            measured.iterations,
            slowdowns(&[self.found], self.predicted.points.as_deref(), None)
        );
        text += &self.said_of_host();
        text += &remarks(&self.predicted);
        text += &said_of_load(self.load);
        text += &said_of_capped(measured.capped());
        if let Some(apart) = &self.apart {
            let phase_ns = self.found.jitter_ns.unwrap_or(self.found.quiet_ns);
            text.push('\n');
            text += &said_of_apart(apart, phase_ns);
        }
        let how = format!(
            "{} segments, each until the first rank's clock says so",
            measured.segments.len()
        );
        text += &said_of_time(self.asked.duration, measured.took_ns(), &how);
        let mut table = plain([
            "rank",
            "where",
            "work, mean",
            "longest",
            "wait, mean",
            "last %",
        ]);
        for rank in &self.ranks {
            let place = self.places.get(rank.rank as usize);
            table.add_row([
                rank.rank.to_string(),
                place.cloned().unwrap_or_default(),
                time(rank.qt_ns),
                time(f64::from(rank.longest_ns)),
                time(rank.bt_ns),
                format!("{:.1}", rank.last_pct),
            ]);
        }
        let kind = match self.asked.jitter {
            Some(_) => "with jitter",
            None => "without jitter",
        };
        let _ = writeln!(text, "\nEach rank, {kind}\n{}", name_columns(table));
        text
    }

    /// The prediction is of a host that treats all ranks alike.
    fn said_of_host(&self) -> String {
        let points = self.predicted.points.as_deref();
        match points.and_then(|points| points.first()).zip(self.on_host) {
            Some((point, on_host)) => format!(
                "Predicted over the run without, with what this host does to its ranks by itself: \
                 {}{} %.\n",
                least(point),
                percent(point.mean.slowdown_pct + on_host.adds_points()),
            ),
            None => String::new(),
        }
    }

    /// All figures.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "format": 1,
            "ranks": self.measured.ranks,
            "oversubscribed": self.measured.oversubscribed,
            "quantum_ns": nanos(self.asked.quantum),
            "calibrated_ns": self.measured.calibrated_ns,
            "iterations": self.measured.iterations,
            "seed": self.asked.seed,
            "sync": self.asked.sync.to_string(),
            "asked_s": self.asked.duration.as_secs_f64(),
            "took_s": self.measured.took_ns() as f64 / 1e9,
            "slowdown": self.found,
            "load": self.load,
            "capped": self.measured.capped(),
            "drift_ns": self.apart,
            "clocks": self.measured.clocks,
            "predicted": self.predicted.points,
            "predicted_on_host": self.on_host,
            "remarks": self.predicted.remarks,
            "per_rank": self.ranks,
            "places": self.places,
        })
    }
}

/// What is to be said of a prediction, a line each.
#[must_use]
pub fn remarks(predicted: &RankModel) -> String {
    let lines = predicted.remarks.iter();
    lines
        .map(|remark| format!("Prediction: {remark}\n"))
        .collect()
}

/// The trace is too short for more: it is at least that.
fn least(point: &RankPrediction) -> &'static str {
    if point.saturated { ">= " } else { "" }
}

/// A line for each number of ranks. `with_host`: predicted over the quantum, the
/// host's noise included, and how far from it what was measured may be by chance.
#[must_use]
pub fn slowdowns(
    found: &[Slowdown],
    predicted: Option<&[RankPrediction]>,
    with_host: Option<&[WithHost]>,
) -> String {
    let mut header = vec![
        "ranks",
        "phases",
        "slowest,\njitter",
        "slowest,\nnone",
        "over the\nrun without %",
        "over the\nquantum %",
    ];
    header.extend(predicted.map(|_| "predicted %"));
    header.extend(with_host.map(|_| "with the\nhost's own %"));
    let mut table = plain(header);
    for (i, one) in found.iter().enumerate() {
        let shown = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), time);
        let phases = match one.phases {
            (0, quiet) => quiet.to_string(),
            (jitter, _) => jitter.to_string(),
        };
        let mut row = vec![
            one.ranks.to_string(),
            phases,
            shown(one.jitter_ns),
            time(one.quiet_ns),
            one.over_run_pct.map_or_else(|| "-".to_owned(), percent),
            percent(one.over_quantum_pct),
        ];
        if let Some(point) = predicted.and_then(|points| points.get(i)) {
            let interval = point.mean.interval_pct;
            let interval = interval.map_or_else(String::new, |(low, high)| {
                format!(" ({}-{})", percent(low), percent(high))
            });
            let mean = percent(point.mean.slowdown_pct);
            row.push(format!("{}{mean}{interval}", least(point)));
        }
        let with_host = with_host.and_then(|all| all.get(i));
        row.extend(with_host.map(|one| match one.apart_points {
            Some(apart) => format!("{} +- {}", percent(one.pct), percent(apart)),
            None => percent(one.pct),
        }));
        table.add_row(row);
    }
    name_columns(table).to_string()
}
