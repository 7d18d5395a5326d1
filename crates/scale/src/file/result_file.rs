// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result of the benchmark, as text and as JSON.

use std::fmt::Write as _;

use sandbag_jitter::JitterTrace;
use sandbag_jitter::replay::ReplayPlan;
use sandbag_ui::quantity::{nanos, percent, time};
use sandbag_ui::table::{name_columns, plain};
use serde_json::{Value, json};

use super::{BenchOptions, RankModel, rank_model};
use crate::bench::{
    BenchTimes, CommonStart, LONGEST_NS, NoiseLoad, OnHost, PerRank, RankSpread, Slowdown,
    WithHost, rank_spread,
};
use crate::predict::{Places, RankPrediction, Starts};

/// The part of a result that ranks that meet and virtual ranks have in common.
pub struct BenchReport<'a> {
    pub asked: &'a BenchOptions,
    pub measured: &'a BenchTimes,
    pub took_ns: u64,
    pub slowdowns: Vec<Slowdown>,
    pub predicted: RankModel,
    pub with_host: Option<Vec<WithHost>>,
    pub load: Option<NoiseLoad>,
}

impl BenchReport<'_> {
    /// For the terminal. `head`: the ranks and where they ran. `host`: an expectation for this
    /// host. `spread`: how far the ranks spread. `how`: how the duration was decided.
    pub fn text(&self, head: &str, host: &str, spread: &str, how: &str) -> String {
        let mut text = format!(
            "{head}; quantum {} (calibrated: {} in {} iterations)\n\n{}\n{host}",
            time(nanos(self.asked.quantum) as f64),
            time(self.measured.calibrated_ns as f64),
            self.measured.iterations,
            self.table()
        );
        for remark in &self.predicted.remarks {
            let _ = writeln!(text, "Prediction: {remark}");
        }
        text += &saturation_text(self.load);
        text += &capped_text(self.measured.capped());
        let _ = writeln!(
            text,
            "{spread}Asked for {}, took {}: {how}.",
            time(self.asked.duration.as_nanos() as f64),
            time(self.took_ns as f64)
        );
        text
    }

    /// All figures, with those of one kind of ranks.
    pub fn json(&self, own: Value) -> Value {
        let mut all = json!({
            "format": 1,
            "ranks": self.measured.ranks,
            "quantum_ns": nanos(self.asked.quantum),
            "calibrated_ns": self.measured.calibrated_ns,
            "iterations": self.measured.iterations,
            "seed": self.asked.seed,
            "sync": self.asked.sync.to_string(),
            "asked_s": self.asked.duration.as_secs_f64(),
            "took_s": self.took_ns as f64 / 1e9,
            "load": self.load,
            "capped": self.measured.capped(),
            "predicted": self.predicted.points,
            "remarks": self.predicted.remarks,
        });
        if let (Value::Object(all), Value::Object(own)) = (&mut all, own) {
            all.extend(own);
        }
        all
    }

    /// A line for each number of ranks.
    fn table(&self) -> String {
        let predicted = self.predicted.points.as_deref();
        let with_host = self.with_host.as_deref();
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
        for (i, one) in self.slowdowns.iter().enumerate() {
            let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
            let phases = match one.phases {
                (0, quiet) => quiet,
                (jitter, _) => jitter,
            };
            let mut row = vec![
                one.ranks.to_string(),
                phases.to_string(),
                or_none(one.jitter_ns.map(time)),
                time(one.quiet_ns),
                or_none(one.over_run_pct.map(percent)),
                percent(one.over_quantum_pct),
            ];
            if let Some(point) = predicted.and_then(|points| points.get(i)) {
                let interval = point.mean.interval_pct;
                let interval = interval.map_or_else(String::new, |(low, high)| {
                    format!(" ({}-{})", percent(low), percent(high))
                });
                let mean = percent(point.mean.slowdown_pct);
                row.push(format!("{}{mean}{interval}", bound(point)));
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
}

/// Marks a figure that is mostly too low: the trace is too short for this number of ranks.
fn bound(point: &RankPrediction) -> &'static str {
    if point.saturated { ">= " } else { "" }
}

/// A warning if noise saturates.
fn saturation_text(load: Option<NoiseLoad>) -> String {
    let Some(load) = load.filter(|load| load.saturated) else {
        return String::new();
    };
    format!(
        "SATURATED: noise takes {} % of a rank's time, and its events pile up by {} % of it.\n\
         What is measured is how little is left, not what the trace does to a program.\n",
        percent(load.noise_pct),
        percent(load.piled_pct)
    )
}

/// A warning if durations were cut.
fn capped_text(count: usize) -> String {
    match count {
        0 => String::new(),
        _ => format!(
            "{count} of the times are longer than {} and count as that: the figures are too low.\n",
            time(f64::from(LONGEST_NS))
        ),
    }
}

/// Phases of a run for which the drift is printed: the default of `scale predict`.
const PHASES: f64 = 1e5;

/// The spread of ranks whose phases take `phase_ns`.
fn spread_text(spread: &RankSpread, phase_ns: f64) -> String {
    let drift = match spread.after_ns(PHASES * phase_ns) {
        ns if ns < 1e4 => format!("{ns:.0}ns"),
        ns => format!("{:.0}us", ns / 1e3),
    };
    format!(
        "\nRanks that began together replay {} apart from the first to the last (±{})\nafter {} \
         phases: {} at the begin, and clocks that part by {} in a second\n(±{}). Over 10^5 \
         phases: --drift {drift}.\n",
        time(spread.end_ns),
        time(spread.error_ns),
        spread.phases,
        time(spread.begin_ns),
        time(spread.clocks_ns_per_s),
        time(spread.clocks_error_ns_per_s),
    )
}

/// The result of ranks that met.
pub struct ResultFile<'a> {
    report: BenchReport<'a>,
    on_host: Option<OnHost>,
    spread: Option<RankSpread>,
    ranks: Vec<PerRank>,
    /// Where each rank ran.
    places: Vec<String>,
}

impl<'a> ResultFile<'a> {
    /// Of ranks that replayed a trace by a plan, or nothing. `places`: where each rank ran.
    /// `None` if no phase ended.
    pub fn new(
        asked: &'a BenchOptions,
        measured: &'a BenchTimes,
        replayed: Option<(&JitterTrace, &ReplayPlan)>,
        places: Vec<String>,
    ) -> Option<Self> {
        let slowdowns = measured.slowdowns(&[measured.ranks]);
        let spread = rank_spread(measured);
        let together = spread.map(|spread| CommonStart {
            end_ns: spread.end_ns,
            phases: spread.phases,
            places: Places::new(),
        });
        slowdowns.first()?;
        Some(Self {
            // A rank that waits for a CPU is late by that.
            on_host: replayed
                .filter(|_| !measured.oversubscribed)
                .and_then(|(_, plan)| measured.on_host(plan, asked.seed)),
            spread,
            ranks: measured.per_rank(replayed.is_some()),
            places,
            report: BenchReport {
                asked,
                measured,
                took_ns: measured.took_ns(),
                predicted: replayed.map_or_else(RankModel::default, |(trace, _)| {
                    rank_model(trace, asked, &slowdowns, Starts::Waiting, together)
                }),
                slowdowns,
                with_host: None,
                load: measured.load(),
            },
        })
    }

    /// For the terminal; `on`: the machine or machines.
    pub fn text(&self, on: &str) -> String {
        let BenchTimes {
            ranks, segments, ..
        } = self.report.measured;
        let mut head = format!("{ranks} ranks on {on}");
        if self.report.measured.oversubscribed {
            head += ", OVERSUBSCRIBED";
        }
        let slowdown = self.report.slowdowns[0];
        let phase_ns = slowdown.jitter_ns.unwrap_or(slowdown.quiet_ns);
        let spread = self.spread.as_ref();
        let spread = spread.map_or_else(String::new, |spread| spread_text(spread, phase_ns));
        let how = format!(
            "{} segments, each until the first rank's clock says so",
            segments.len()
        );
        let mut text = self.report.text(&head, &self.host_text(), &spread, &how);
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
        let kind = match self.report.asked.jitter {
            Some(_) => "with jitter",
            None => "without jitter",
        };
        let _ = writeln!(text, "\nEach rank, {kind}\n{}", name_columns(table));
        text
    }

    /// The prediction assumes a host that treats all ranks equally; this adds the host's noise.
    fn host_text(&self) -> String {
        let points = self.report.predicted.points.as_deref();
        match points.and_then(|points| points.first()).zip(self.on_host) {
            Some((point, on_host)) => format!(
                "Predicted over the run without, with what this host does to its ranks by itself: \
                 {}{} %.\n",
                bound(point),
                percent(point.mean.slowdown_pct + on_host.adds_points()),
            ),
            None => String::new(),
        }
    }

    /// All figures.
    pub fn json(&self) -> Value {
        let measured = self.report.measured;
        self.report.json(json!({
            "oversubscribed": measured.oversubscribed,
            "slowdown": self.report.slowdowns[0],
            "drift_ns": self.spread,
            "clocks": measured.clocks,
            "predicted_on_host": self.on_host,
            "per_rank": self.ranks,
            "places": self.places,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_cut_durations_and_saturation_are_warned_of() {
        assert_eq!(capped_text(0), "");
        assert!(capped_text(3).starts_with("3 of the times are longer than 4.29 s"));
        let load = |saturated| NoiseLoad {
            noise_pct: 95.0,
            piled_pct: 0.5,
            saturated,
        };
        assert_eq!(saturation_text(None), "");
        assert_eq!(saturation_text(Some(load(false))), "");
        assert!(saturation_text(Some(load(true))).starts_with("SATURATED: noise takes 95.0 %"));
    }

    #[test]
    fn the_drift_is_printed_for_a_long_run() {
        let spread = RankSpread {
            begin_ns: 400.0,
            end_ns: 700.0,
            deviation_ns: 350.0,
            error_ns: 90.0,
            clocks_ns_per_s: 100.0,
            clocks_error_ns_per_s: 6.0,
            phases: 3000,
        };
        let text = spread_text(&spread, 2e6);
        // 200 s of 100 ns, and the begin.
        for part in ["--drift 20us", "700 ns apart", "±90.0 ns"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
