// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run as its reader thinks of it: in loads, or, of a virtual node, in speeds.
//!
//! A node is slowed by a load, so its record holds loads throughout. A CPU
//! with a load of 40 % goes at 60 % of its full speed, and got minus asked
//! changes its sign. Tables, plots and pages show the figures and words of the view.

use std::borrow::Cow;
use std::path::Path;

use sandbag_stats::ErrorStats;

use crate::report::Error;
use crate::report::achieved::{AchievedRow, read_achieved};
use crate::report::run::{CpuResult, Run};
use crate::report::series::LoadSeries;
use sandbag_ui::text::visible;

/// A run with its figures and words as they are shown.
pub(crate) struct View<'a> {
    /// Figures to show; not the record, which may say the opposite.
    pub run: Cow<'a, Run>,
    pub words: &'static Words,
}

pub(crate) struct Words {
    pub quantity: &'static str,
    pub table: &'static str,
    pub unit: &'static str,
    pub of_what: &'static str,
    /// A line above the plot on the terminal, with its end.
    pub plot: &'static str,
    pub charts: &'static str,
    pub held: &'static str,
    pub absent: &'static str,
    pub taken: &'static str,
    /// How far the asked value could have gone.
    pub limit: &'static str,
    pub limit_unit: &'static str,
}

pub(crate) static LOAD: Words = Words {
    quantity: "load",
    table: "Asked and got",
    unit: "%",
    of_what: "% of one CPU",
    plot: "",
    charts: "Load in percent of one CPU, steal excluded.",
    held: "loaded",
    absent: "load absent",
    taken: "burner",
    limit: "headroom",
    limit_unit: "%, least",
};

pub(crate) static SPEED: Words = Words {
    quantity: "speed",
    table: "Speed asked and got",
    unit: "% of full",
    of_what: "% of full speed",
    plot: "speed over time, % of full speed\n",
    charts: "Speed in percent of the CPU's full speed, steal excluded.",
    held: "slowed",
    absent: "not slowed",
    taken: "taken away",
    limit: "slowest possible",
    limit_unit: "% of full",
};

impl<'a> View<'a> {
    /// The view of `run`: speeds if it is a virtual node, else loads.
    pub fn of(run: &'a Run) -> Self {
        if run.node.is_some() {
            Self {
                run: Cow::Owned(speeds_of_run(run)),
                words: &SPEED,
            }
        } else {
            Self {
                run: Cow::Borrowed(run),
                words: &LOAD,
            }
        }
    }

    pub fn series(&self, achieved: &Path) -> Result<LoadSeries, Error> {
        let rows = read_achieved(achieved)?;
        match self.run.node {
            Some(_) => LoadSeries::read(rows.map(|row| row.map(speeds_of_row))),
            None => LoadSeries::read(rows),
        }
    }

    /// What the run is called: its node, or where its profile came from.
    pub fn subject(&self) -> String {
        match &self.run.node {
            Some(node) => format!("node {}", visible(&node.name)),
            None => visible(&self.run.profile),
        }
    }

    pub fn held(&self) -> String {
        match &self.run.node {
            Some(_) => format!("{} of {}", self.words.quantity, self.subject()),
            None => self.words.quantity.to_owned(),
        }
    }

    /// A line above the table of a node on the terminal.
    pub fn heading(&self) -> Option<String> {
        self.run.node.as_ref().map(|_| {
            let method = visible(&self.run.method.name);
            format!("{} by {method}, {}", self.held(), self.words.of_what)
        })
    }
}

/// Speed at a load, both in percent; also the other way round.
fn speed(load_pct: f64) -> f64 {
    100.0 - load_pct
}

fn speeds_of_run(run: &Run) -> Run {
    let mut run = run.clone();
    for cpu in &mut run.cpus {
        *cpu = speeds_of_cpu(cpu);
    }
    for errors in [&mut run.error_1s, &mut run.error_100ms] {
        *errors = errors.map(of_speeds);
    }
    run.error_distribution.reverse();
    for (points, _) in &mut run.error_distribution {
        *points = -*points;
    }
    run
}

fn speeds_of_cpu(cpu: &CpuResult) -> CpuResult {
    CpuResult {
        asked_pct: speed(cpu.asked_pct),
        got_pct: speed(cpu.got_pct),
        error_1s: cpu.error_1s.map(of_speeds),
        error_100ms: cpu.error_100ms.map(of_speeds),
        headroom_pct: cpu.headroom_pct.map(speed),
        ..cpu.clone()
    }
}

fn speeds_of_row(row: AchievedRow) -> AchievedRow {
    AchievedRow {
        asked_pct: speed(row.asked_pct),
        got_pct: speed(row.got_pct),
        error_points: -row.error_points,
        ..row
    }
}

/// Too much load is too little speed; sizes stay.
fn of_speeds(loads: ErrorStats) -> ErrorStats {
    ErrorStats {
        mean_points: -loads.mean_points,
        worst_points: -loads.worst_points,
        ..loads
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn a_run_that_is_no_node_is_shown_as_it_is() {
        let run = fixture::missing_load().run;
        let view = View::of(&run);
        assert!(matches!(view.run, Cow::Borrowed(_)));
        assert_eq!((view.words.quantity, view.heading()), ("load", None));
        assert_eq!(view.subject(), "day.csv");
    }

    #[test]
    fn every_figure_of_a_node_that_has_a_side_changes_it() {
        let f = fixture::node();
        let (run, view) = (&f.run, View::of(&f.run));
        for (load, shown) in run.cpus.iter().zip(&view.run.cpus) {
            let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
            near(load.asked_pct + shown.asked_pct, 100.0);
            near(load.got_pct + shown.got_pct, 100.0);
            near(
                load.headroom_pct.unwrap() + shown.headroom_pct.unwrap(),
                100.0,
            );
            let (a, b) = (load.error_1s.unwrap(), shown.error_1s.unwrap());
            near(a.mean_points + b.mean_points, 0.0);
            near(a.worst_points + b.worst_points, 0.0);
            near(a.mean_abs_points, b.mean_abs_points);
        }
        let (a, b) = (&run.error_distribution, &view.run.error_distribution);
        assert!(b.is_sorted_by(|x, y| x.0 < y.0));
        let first = (-a[0].0, a[0].1);
        assert_eq!(b.last(), Some(&first));
        assert_eq!(view.held(), "speed of node small");
    }

    #[test]
    fn the_windows_of_a_node_are_speeds_and_their_extremes_stay_in_order() {
        let f = fixture::node();
        let (_dir, path) = f.achieved();
        let series = View::of(&f.run).series(&path).unwrap();
        let (cpu, track) = &series.cpus[1];
        assert_eq!(
            (*cpu, track.asked[0], track.asked[40]),
            (1, Some(40.0), Some(30.0))
        );
        for i in 0..series.buckets() {
            let error = track.got[i].unwrap() - track.asked[i].unwrap();
            assert!((error - track.error[i].unwrap()).abs() < 0.02);
        }
        let got_pct = |t| if t == 7 { 95.0 } else { 60.0 };
        let windows = (0..4000).map(|t| fixture::row(0, t.into(), 1.0, 60.0, got_pct(t)));
        let thinned = LoadSeries::read(windows.map(|row| Ok(speeds_of_row(row)))).unwrap();
        let track = &thinned.cpus[0].1;
        assert_eq!(
            (track.got_min[0], track.got_max[0]),
            (Some(5.0), Some(40.0))
        );
        assert_eq!(track.error[0], Some(-35.0));
    }
}
