// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the page of table II shows: time and load perceived by condition, ours
//! and the paper's.

use anyhow::Result;

use super::LOAD_PCT;
use crate::condition::Condition;
use crate::figure::{Axes, Line, Point, draw};
use crate::page::{PageTable, Section};
use crate::published;
use crate::row::{PairRow, distinct};
use crate::summary::{self, Summary};

/// Ours, and the paper's table.
///
/// # Errors
/// A figure cannot be drawn.
pub fn sections(rows: &[PairRow], class: &str) -> Result<Vec<Section>> {
    let mut table = PageTable::new(&[
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
        let own: Vec<&PairRow> = rows.iter().filter(|r| r.condition == *condition).collect();
        let summary = Summary::of(&own);
        let figure = |name: &str| {
            summary::figure(&own, name).map_or_else(String::new, |m| format!("{:.3}", m.value))
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
            points.push(Point::of(index as f64 + 1.0, p));
        }
    }
    let perceived = |method: &str| {
        let own: Vec<&PairRow> = rows
            .iter()
            .filter(|row| row.condition == Condition::load(method, LOAD_PCT))
            .collect();
        let summary = Summary::of(&own);
        (!own.is_empty()).then(|| summary.shown(summary.perceived_pct(), 1))
    };
    let mut paper = PageTable::new(&[
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
            perceived(row.method).unwrap_or_else(|| "does not put a load on CPUs here".to_owned()),
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

/// The load that EP perceived, by condition.
pub fn summary(rows: &[PairRow]) -> Vec<[String; 3]> {
    let mut lines = Vec::new();
    for condition in distinct(rows, |row| row.condition.clone()) {
        let own: Vec<&PairRow> = rows.iter().filter(|r| r.condition == condition).collect();
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

/// For the axis of the figure.
fn short(condition: &Condition) -> String {
    match condition {
        Condition::Load { method, .. } => method.clone(),
        _ => "spinners".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::row;

    #[test]
    fn a_perceived_load_stands_beside_the_papers() {
        let mut rows = [row(0, 1.0, 2.0), row(0, 1.0, 3.0)];
        rows[0].condition = Condition::Spinners;
        rows[1].condition = Condition::load("shares", LOAD_PCT);
        let lines = summary(&rows);
        assert_eq!(lines[0][2], "50.0, n = 1");
        assert_eq!(lines[1][1], "48.9 ± 1.1 (KRASH)");
        let sections = sections(&rows, "A").unwrap();
        let html = sections[0].render().into_string();
        assert!(
            html.contains("EP class A") && html.contains("(n = 1)"),
            "{html}"
        );
        let html = sections[1].render().into_string();
        assert!(html.contains("<td>66.7</td>"), "{html}");
    }
}
