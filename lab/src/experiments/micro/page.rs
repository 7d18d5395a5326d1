// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the micro-benchmarks' page shows: the speed that each program got
//! against the one that was asked, a line per method.

use anyhow::Result;

use sandbag_linux::CpuList;

use crate::agreement::{Agreement, Compared};
use crate::figure::{Axes, Line, Point, draw, top};
use crate::page::Section;
use crate::published::{self, AtHalf};
use crate::row::{Row, grouped};
use crate::summary::{Median, Summary, mean_sd};
use crate::table::Table;
use crate::workload::{Name, TASKS};

/// A section per program and number of CPUs.
pub fn sections(rows: &[Row]) -> Result<Vec<Section>> {
    let mut sections = Vec::new();
    for (cpus, here) in grouped(rows, |row| row.cpus.clone()) {
        for name in Name::MICRO {
            let own = here
                .iter()
                .copied()
                .filter(|row| row.program == name.as_str());
            let own: Vec<&Row> = own.collect();
            if !own.is_empty() {
                sections.push(section(name, &cpus, &own)?);
            }
        }
    }
    Ok(sections)
}

pub fn summary(rows: &[Row]) -> Vec<Compared> {
    let mut lines = Vec::new();
    let half = rows.iter().filter(|row| row.condition.speed() == 0.5);
    // Another number of CPUs is another experiment.
    for (cpus, here) in grouped(half, |row| row.cpus.clone()) {
        let methods = grouped(here.iter().copied(), |row| method_of(row).to_owned());
        for name in Name::MICRO.map(Name::as_str) {
            for (method, own) in &methods {
                let own = own.iter().copied().filter(|row| row.program == name);
                let own: Vec<&Row> = own.collect();
                // Another choice of programs decides nothing about this one.
                if own.is_empty() {
                    continue;
                }
                let speeds = speeds_got(&own);
                let counted = own.iter().filter(|row| row.counts());
                let unslowed_s: Vec<f64> = counted.map(|row| row.unloaded_s).collect();
                let one = cpus.parse::<CpuList>().is_ok_and(|cpus| cpus.len() == 1);
                let claim = published::micro(name, method);
                let summary = Summary::of(&own);
                lines.push(Compared {
                    what: format!("{name} at speed 0.5 by {method} on CPUs {cpus}: speed got"),
                    paper: claim.unwrap_or("-").to_owned(),
                    ours: summary.counted(Median::of(&speeds), 3),
                    agreement: match claim.map(|words| AtHalf::of(words, one)) {
                        None => Agreement::Ours,
                        Some(claim) if can_be_compared(&summary, claim) => {
                            claim.compare(&speeds, &unslowed_s)
                        }
                        Some(_) => Agreement::Undecided,
                    },
                });
            }
        }
    }
    lines
}

fn can_be_compared(summary: &Summary, claim: AtHalf) -> bool {
    // That the times scatter is then what is claimed.
    let scatters = matches!(claim, AtHalf::Scattered(_));
    let ended = summary.over_limit_s.is_none() && summary.failed.is_none();
    summary.is_decided() || scatters && ended
}

fn method_of(row: &Row) -> &str {
    row.condition.method().unwrap_or("")
}

/// Speeds of the program: its unslowed time over its slowed one, both without the
/// intended sleep.
fn speeds_got(rows: &[&Row]) -> Vec<f64> {
    rows.iter()
        .filter(|row| row.counts())
        .map(|row| {
            let slept = row.figures.get("slept_s").copied().unwrap_or(0.0);
            (row.unloaded_s - slept) / (row.loaded_s - slept)
        })
        .collect()
}

/// Spread of the ends of a program's tasks, where it has several: percent of its time,
/// slowed and not.
fn ends_apart(rows: &[&Row]) -> Option<String> {
    let share = |name: &str, seconds: fn(&Row) -> f64| {
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

fn section(name: Name, cpus: &str, rows: &[&Row]) -> Result<Section> {
    let about = match name {
        Name::Compute => "CPU-intensive".to_owned(),
        Name::Datagrams => "UDP datagrams of 1 KB to an address without a receiver".to_owned(),
        Name::ComputeSleep => "compute, sleep, compute; without the sleep".to_owned(),
        Name::Memory => "STREAM's four kernels, beyond the last cache. `Fluctuates` is a standard \
                         deviation of the speeds above 5 % where its own times have less, \
                         `unrelated` a speed outside .45 to .55, both at half the speed"
            .to_owned(),
        Name::Processes => format!("{TASKS} processes that compute"),
        Name::Threads => format!("{TASKS} threads that compute"),
        Name::Ep | Name::Sleepers | Name::Count | Name::Service => name.as_str().to_owned(),
    };
    let mut table = Table::of(
        "method | speed asked | speed got, median (95 %) | relative spread, % | n | \
         not counted | ends apart, % of the time | the paper",
    );
    let mut lines = Vec::new();
    for (method, of_method) in grouped(rows.iter().copied(), |row| method_of(row).to_owned()) {
        let mut points = Vec::new();
        let mut speeds = grouped(of_method, |row| row.condition.speed());
        speeds.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (speed, own) in speeds {
            let got = speeds_got(&own);
            let summary = Summary::of(&own);
            let shown = match Median::of(&got) {
                Some(m) if summary.over_limit_s.is_none() && summary.failed.is_none() => {
                    points.push(Point::of(speed, m));
                    summary.shown(Some(m), 3)
                }
                _ => summary.cell(),
            };
            let relative = mean_sd(&got).map(|(mean, sd)| format!("{:.1}", 100.0 * sd / mean));
            table.push(vec![
                method.clone(),
                format!("{speed}"),
                shown,
                relative.unwrap_or_default(),
                got.len().to_string(),
                (own.len() - got.len()).to_string(),
                ends_apart(&own).unwrap_or_default(),
                published::micro(name.as_str(), &method)
                    .unwrap_or("")
                    .to_owned(),
            ]);
        }
        lines.push(Line::new(method, points));
    }
    let proportional = [0.0, 1.0].map(|x| Point::bare(x, x));
    lines.push(Line::reference("proportional", proportional));
    let axes = Axes {
        title: format!("{}, CPUs {cpus}", name.as_str()),
        x: "speed asked".to_owned(),
        y: "speed got".to_owned(),
        x_range: (0.0, 1.05),
        x_names: Vec::new(),
        y_range: (0.0, top(&lines, 1.0)),
    };
    Ok(Section::new(&format!("{} on CPUs {cpus}", name.as_str()))
        .text(&format!(
            "{about}. Speed got is the unslowed time of the pair over the slowed one."
        ))
        .figure(draw(&axes, &lines)?)
        .table(table))
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
        assert_eq!(lines.len(), 1, "programs that were not run are undecided");
        assert!(lines[0].ours.contains("n = 2"), "{lines:?}");
        assert_eq!(lines[0].paper, "proportional to the speed");
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
            .map(|section| section.html().into_string())
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
