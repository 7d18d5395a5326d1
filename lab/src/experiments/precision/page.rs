// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the page of table II shows: time and load perceived by condition, ours
//! and the paper's.

use std::collections::BTreeMap;

use anyhow::Result;

use super::CLASS;
use crate::agreement::{Agreement, Compared, Published};
use crate::condition::Condition;
use crate::experiment::Choices;
use crate::figure::{Axes, Line, Point, draw};
use crate::page::Section;
use crate::published;
use crate::row::{Row, grouped};
use crate::summary::{self, Summary};
use crate::table::Table;

/// Program of the conditions that have a bar in the figure.
const EP: &str = "ep";
/// That under the process limiter, beside the paper's Wrekavoc.
const ONE_LIMITED: &str = "ep, 1 at once";
/// Standard deviations within which a published mean is the same.
const SDS: f64 = 2.0;

pub fn sections(rows: &[Row], chosen: &Choices) -> Result<Vec<Section>> {
    let class = chosen.get(CLASS).map_or("", String::as_str);
    let mut table = Table::of(
        "condition | EP, s (mean, sd) | slowdown (95 %) | perceived, % (95 %) | claimed, % | \
         supervisor, % of a core per CPU | error 1 s, sd | resolution, s | n",
    );
    let mut points = Vec::new();
    let mut x_names = Vec::new();
    let mut perceived = BTreeMap::new();
    for ((program, condition), own) in grouped(rows, under) {
        let summary = Summary::of(&own);
        let figure = |name: &str| {
            summary::figure(&own, name).map_or_else(String::new, |m| format!("{:.3}", m.value))
        };
        let mean_sd = summary.loaded_mean_sd;
        let mean_sd = mean_sd.map(|(mean, sd)| format!("{mean:.2} ± {sd:.2}"));
        let shown = summary.shown(summary.perceived_pct(), 1);
        table.push(vec![
            named(&program, &condition),
            mean_sd.unwrap_or_default(),
            summary.cell(),
            shown.clone(),
            figure("got_pct"),
            figure("supervisor_pct"),
            figure("error_sd"),
            resolution(&own),
            summary.n().to_string(),
        ]);
        let of_method = perceived.entry(condition.method().map(str::to_owned));
        let words = if program == EP {
            shown
        } else {
            format!("{program}: {shown}")
        };
        let all: &mut Vec<String> = of_method.or_default();
        all.push(words);
        if program != EP {
            continue;
        }
        x_names.push(condition.method().unwrap_or("spinners").to_owned());
        if let Some(p) = summary.perceived_pct() {
            points.push(Point::of(x_names.len() as f64, p));
        }
    }
    let mut paper = Table::of("paper | EP, s | perceived, % | our nearest | perceived by ours, %");
    for row in published::PRECISION {
        paper.push(vec![
            row.name.to_owned(),
            format!("{} ± {}", row.seconds, row.seconds_sd),
            format!("{} ± {}", row.perceived_pct, row.perceived_sd),
            row.method.to_owned(),
            perceived
                .get(&Some(row.method.to_owned()))
                .map_or("does not put a load on CPUs here".to_owned(), |all| {
                    all.join("; ")
                }),
        ]);
    }
    let axes = Axes {
        title: "Load perceived by EP, 50 % asked".to_owned(),
        x: "condition".to_owned(),
        y: "perceived load, %".to_owned(),
        x_range: (0.5, x_names.len() as f64 + 0.5),
        x_names,
        y_range: (0.0, 100.0),
    };
    let lines = [Line {
        connected: false,
        ..Line::new("perceived", points)
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

pub fn summary(rows: &[Row]) -> Vec<Compared> {
    let line = |((program, condition), own): ((String, Condition), Vec<&Row>)| {
        let summary = Summary::of(&own);
        let method = condition.method();
        let near = published::PRECISION
            .iter()
            .find(|p| Some(p.method) == method && (program == EP || program == ONE_LIMITED));
        let perceived = summary.perceived_pct();
        Compared {
            what: match program.as_str() {
                EP => format!("load perceived by EP, {}, %", condition.name()),
                other => format!("load perceived by {other}, {}, %", condition.name()),
            },
            paper: near.map_or_else(
                || "-".to_owned(),
                |p| format!("{} ± {} ({})", p.perceived_pct, p.perceived_sd, p.name),
            ),
            ours: summary.counted(perceived, 1),
            agreement: near.map_or(Agreement::Ours, |p| {
                Published::around(p.perceived_pct, SDS * p.perceived_sd)
                    .compare(perceived.filter(|_| summary.decided().is_some()))
            }),
        }
    };
    grouped(rows, under).into_iter().map(line).collect()
}

fn under(row: &Row) -> (String, Condition) {
    (row.program.clone(), row.condition.clone())
}

/// A program under a condition, as tables name it.
fn named(program: &str, condition: &Condition) -> String {
    if program == EP {
        condition.name()
    } else {
        format!("{program}, {}", condition.name())
    }
}

/// Table I, with figures in the place of its words.
/// The window that a method holds within the bound; one that not every trial has is none.
fn resolution(rows: &[&Row]) -> String {
    let found = summary::figure(rows, "resolution_s").map_or(0, |found| found.n);
    // Spinners have neither a window nor an error.
    let is_measured = rows.iter().any(|row| row.get("error_sd").is_some());
    if is_measured && found < Summary::of(rows).n() {
        return "> 1".to_owned();
    }
    summary::shown_figure(rows, "resolution_s", 1)
}

pub fn features(rows: &[Row]) -> Vec<Section> {
    let mut table = Table::of(
        "method | precise: perceived for 50 asked, % | fine: window that it holds within 2 \
         points, s | scatter of 1 s, points | steady: sd of EP's time, % | cost, % of a core per CPU | n",
    );
    for (condition, own) in grouped(rows, |row| row.condition.clone()) {
        let summary = Summary::of(&own);
        let figure = |name: &str, digits| summary::shown_figure(&own, name, digits);
        let steady = summary.loaded_mean_sd;
        table.push(vec![
            condition.method().unwrap_or("spinners").to_owned(),
            summary.shown(summary.perceived_pct(), 1),
            resolution(&own),
            figure("error_sd", 3),
            steady.map_or_else(String::new, |(mean, sd)| {
                format!("{:.1}", 100.0 * sd / mean)
            }),
            figure("supervisor_pct", 3),
            summary.n().to_string(),
        ]);
    }
    vec![
        Section::new("Features, measured")
            .text(
                "The paper's table I compares the methods by their features, in words; here each \
                 has a figure, from EP under a load of 50 %. Of cost the paper says 1 % of a core \
                 for KRASH, and 15 % per user process for Wrekavoc.",
            )
            .points(&published::WHY_LOADS_DIFFER)
            .table(table),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::LOAD_PCT;
    use super::*;
    use crate::row::tests::row;

    #[test]
    fn a_perceived_load_stands_beside_the_papers() {
        let mut rows = [row(0, 1.0, 2.0), row(0, 1.0, 3.0)];
        rows.iter_mut().for_each(|row| row.program = EP.to_owned());
        rows[0].condition = Condition::Spinners;
        rows[1].condition = Condition::load("shares", LOAD_PCT);
        let lines = summary(&rows);
        assert_eq!(lines[0].what, "load perceived by EP, a spinner per CPU, %");
        assert_eq!(lines[0].ours, "50.0, n = 1");
        assert_eq!(lines[1].paper, "48.9 ± 1.1 (KRASH)");
        // One pair decides nothing.
        assert_eq!(lines[1].agreement, Agreement::Undecided);
        let chosen = Choices::from([(CLASS.to_owned(), "A".to_owned())]);
        let sections = sections(&rows, &chosen).unwrap();
        let html = sections[0].html().into_string();
        assert!(
            html.contains("EP class A") && html.contains("(n = 1)"),
            "{html}"
        );
        let html = sections[1].html().into_string();
        assert!(html.contains("<td>66.7</td>"), "{html}");
    }
}
