// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the micro-benchmarks' page shows: the speed that each program got
//! against the one that was asked, a line per method.

use anyhow::Result;

use crate::condition::Condition;
use crate::figure::{Axes, Line, Point, draw};
use crate::page::{PageTable, Section};
use crate::published;
use crate::row::{PairRow, distinct};
use crate::summary::{Median, Summary, mean_sd};
use crate::workload::{Name, TASKS};

/// A section per program and number of CPUs.
///
/// # Errors
/// A figure cannot be drawn.
pub fn sections(rows: &[PairRow]) -> Result<Vec<Section>> {
    let mut sections = Vec::new();
    for cpus in distinct(rows, |row| row.cpus.clone()) {
        for name in Name::MICRO {
            let own: Vec<&PairRow> = rows
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

/// What each method makes of half speed.
pub fn summary(rows: &[PairRow]) -> Vec<[String; 3]> {
    let mut lines = Vec::new();
    let half: Vec<&PairRow> = rows
        .iter()
        .filter(|row| matches!(row.condition, Condition::Node { speed, .. } if speed == 0.5))
        .collect();
    // Another number of CPUs is another experiment.
    for cpus in distinct(rows, |row| row.cpus.clone()) {
        let here: Vec<&PairRow> = half.iter().filter(|r| r.cpus == cpus).copied().collect();
        for name in Name::MICRO {
            for method in methods(&here) {
                let own: Vec<&PairRow> = here
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

fn method_of(row: &PairRow) -> &str {
    match &row.condition {
        Condition::Node { method, .. } => method,
        _ => "",
    }
}

fn methods(rows: &[&PairRow]) -> Vec<String> {
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
fn speeds_got(rows: &[&PairRow]) -> Vec<f64> {
    rows.iter()
        .filter(|row| row.counts())
        .map(|row| {
            let slept = row.figures.get("slept_s").copied().unwrap_or(0.0);
            (row.unloaded_s - slept) / (row.loaded_s - slept)
        })
        .collect()
}

/// How far apart the tasks of a program end, of those that have several: in
/// parts of its time, slowed and not.
fn ends_apart(rows: &[&PairRow]) -> Option<String> {
    let share = |name: &str, seconds: fn(&PairRow) -> f64| {
        let counted = rows.iter().filter(|row| row.counts());
        let shares: Vec<f64> = counted
            .filter_map(|row| Some(100.0 * row.figures.get(name)? / seconds(row)))
            .collect();
        Median::of(&shares)
    };
    let slowed = share("ends_spread_s", |row| row.loaded_s)?;
    let unslowed = share("unloaded_ends_spread_s", |row| row.unloaded_s)?;
    Some(format!(
        "{}; unslowed {:.1}",
        slowed.show(1),
        unslowed.value
    ))
}

fn section(name: Name, cpus: &str, rows: &[&PairRow]) -> Result<Section> {
    let about = match name {
        Name::Compute => "CPU-intensive".to_owned(),
        Name::Datagrams => "UDP datagrams of 1 KB to an address where nobody is".to_owned(),
        Name::ComputeSleep => "compute, sleep, compute; without the sleep".to_owned(),
        Name::Memory => "STREAM's four kernels, beyond the last cache".to_owned(),
        Name::Processes => format!("{TASKS} processes that compute"),
        Name::Threads => format!("{TASKS} threads that compute"),
        Name::Ep | Name::Sleepers => name.as_str().to_owned(),
    };
    let mut table = PageTable::new(&[
        "method",
        "speed asked",
        "speed got, median (95 %)",
        "relative spread, %",
        "n",
        "not counted",
        "ends apart, % of the time",
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
        let of_method: Vec<&PairRow> = rows
            .iter()
            .filter(|r| method_of(r) == method)
            .copied()
            .collect();
        for speed in speeds_asked(&of_method) {
            let own: Vec<&PairRow> = of_method
                .iter()
                .filter(|row| speed_of(row) == speed)
                .copied()
                .collect();
            let got = speeds_got(&own);
            let summary = Summary::of(&own);
            let shown = match Median::of(&got) {
                Some(m) if summary.over_limit.is_none() && summary.failed.is_none() => {
                    line.points.push(Point::of(speed, m));
                    summary.shown(Some(m), 3)
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
                ends_apart(&own).unwrap_or_default(),
                published::micro(name.as_str(), &method)
                    .unwrap_or("")
                    .to_owned(),
            ]);
        }
        lines.push(line);
    }
    lines.push(Line {
        name: "proportional".to_owned(),
        points: [0.0, 1.0].map(|x| Point::bare(x, x)).into(),
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

fn speed_of(row: &PairRow) -> f64 {
    match row.condition {
        Condition::Node { speed, .. } => speed,
        _ => 1.0,
    }
}

fn speeds_asked(rows: &[&PairRow]) -> Vec<f64> {
    let mut speeds: Vec<f64> = rows.iter().map(|row| speed_of(row)).collect();
    speeds.sort_by(f64::total_cmp);
    speeds.dedup();
    speeds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::End;
    use crate::row::tests::row;

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
        let sections = sections(&rows).unwrap();
        assert_eq!(sections.len(), 1);
        let lines = summary(&rows);
        assert_eq!(lines.len(), Name::MICRO.len());
        assert!(lines[0][2].contains("n = 2"), "{lines:?}");
        assert_eq!(lines[0][1], "proportional to the speed");
    }

    #[test]
    fn a_program_that_fails_or_hangs_is_one_cell() {
        let mut rows = [row(0, 1.0, 2.0), row(0, 1.0, 0.0), row(0, 1.0, 0.0)];
        rows[1].program = "memory".to_owned();
        rows[1].end = End::Failed {
            why: "exit code 1".to_owned(),
        };
        rows[2].program = "threads".to_owned();
        rows[2].end = End::OverLimit { limit_s: 9.0 };
        let shown: Vec<String> = sections(&rows)
            .unwrap()
            .iter()
            .map(|section| section.render().into_string())
            .collect();
        assert_eq!(shown.len(), 3);
        assert!(
            shown[0].contains("0.500") && shown[0].contains("(n = 1)") && !shown[0].contains("..")
        );
        assert!(shown[1].contains("failed (1)"));
        assert!(shown[2].contains("&gt; limit (9 s)"));
    }

    #[test]
    fn the_spread_of_the_ends_is_a_part_of_the_time() {
        let mut one = row(0, 1.0, 2.0);
        assert_eq!(ends_apart(&[&one]), None);
        one.figures.insert("ends_spread_s".to_owned(), 0.5);
        one.figures.insert("unloaded_ends_spread_s".to_owned(), 0.1);
        assert_eq!(ends_apart(&[&one]).unwrap(), "25.0; unslowed 10.0");
    }
}
