// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the page of the sources of error shows: a figure per factor, what the
//! defaults rest on, and all medians.

use anyhow::Result;
use sandbag_stats::verdict::NOISY_FOREIGN_PCT;

use super::defaults::{choices, defaults};
use super::factor::{
    BASE_COMPETITORS, BASE_PCT, COMPETITORS, Case, FACTORS, Factor, METHODS, SLICE, SPINNERS,
    WEIGHT,
};
use super::levels::{ERROR, LATENCY, Level, levels, of};
use crate::agreement::Compared;
use crate::figure::{Axes, Line, Point, draw, top};
use crate::page::Section;
use crate::row::{End, MOST_STEAL_PCT, Row, grouped};
use crate::summary::{Median, figure, shown_figure};
use crate::table::Table;

/// Figures of every factor.
const FIGURES: [(&str, &str); 2] = [
    (ERROR, "mean abs. error of 1 s windows, points"),
    (LATENCY, "wake-up latency of a 1 ms sleeper, p99, us"),
];
/// Besides, those of weight and slice, which are about who waits.
const WAITING: [(&str, &str); 3] = [
    ("p50_us", "wake-up latency of a 1 ms sleeper, p50, us"),
    ("p90_us", "wake-up latency of a 1 ms sleeper, p90, us"),
    ("migrations_per_s", "migrations of the spinning tasks per s"),
];

pub fn sections(rows: &[Row]) -> Result<Vec<Section>> {
    let mut sections = vec![defaults(rows)];
    for factor in &FACTORS {
        let more = matches!(factor.name, WEIGHT | SLICE);
        let more = if more { &WAITING[..] } else { &[] };
        for (name, what) in FIGURES.iter().chain(more) {
            sections.extend(against(rows, factor, name, what)?);
        }
    }
    sections.push(steal(rows));
    sections.push(
        Section::new("All figures")
            .text(
                "Medians over the rounds; the spinners are the reference for latency: an ordinary \
                 task on each CPU that never sleeps. They have neither period nor level, so that \
                 in the figures against these one of them stands for all.",
            )
            .table(all(rows)),
    );
    Ok(sections)
}

/// The base case by method, and whether the defaults stand.
pub fn summary(rows: &[Row]) -> Vec<Compared> {
    let mut lines = Vec::new();
    let base = |method: &str| of(rows, &Case::base(method).key());
    let spinners = base(SPINNERS);
    for method in METHODS {
        let own = base(method);
        let show = |name: &str, digits| match shown_figure(&own, name, digits) {
            shown if shown.is_empty() => "-".to_owned(),
            shown => format!("{shown}, n = {}", figure(&own, name).map_or(0, |m| m.n)),
        };
        let beside = format!("{method}, {BASE_PCT} % beside {BASE_COMPETITORS}");
        lines.push(Compared::ours(
            format!("{beside}: mean abs. error of 1 s, points"),
            show(ERROR, 3),
        ));
        let reference = shown_figure(&spinners, LATENCY, 0);
        lines.push(Compared::ours(
            format!("{beside}: latency p99, us (beside spinners {reference})"),
            show(LATENCY, 0),
        ));
    }
    for default in choices(rows) {
        lines.push(Compared::ours(
            format!(
                "default of {}: other values better in error and latency",
                default.name
            ),
            default.verdict(),
        ));
    }
    lines
}

/// A figure against a factor; `None` where nothing was measured.
fn against(rows: &[Row], factor: &Factor, name: &str, what: &str) -> Result<Option<Section>> {
    let of_method = METHODS
        .into_iter()
        .chain([SPINNERS])
        .map(|method| (method, levels(rows, factor, method)));
    let of_method: Vec<(&str, Vec<Level>)> = of_method.collect();
    let mut steps: Vec<Level> = of_method.iter().flat_map(|(_, l)| l).cloned().collect();
    steps.sort_by(|a, b| a.order.total_cmp(&b.order));
    steps.dedup_by(|a, b| a.label == b.label);
    let place = |level: &Level| {
        let at = steps.iter().position(|step| step.label == level.label);
        at.unwrap_or(0) as f64 + 1.0
    };
    let mut lines = Vec::new();
    for (method, levels) in &of_method {
        let points: Vec<Point> = levels
            .iter()
            .filter_map(|level| {
                let median = figure(&of(rows, &level.key), name)?;
                Some(Point::of(place(level), median))
            })
            .collect();
        if !points.is_empty() {
            lines.push(Line {
                reference: *method == SPINNERS,
                ..Line::new(*method, points)
            });
        }
    }
    if lines.is_empty() {
        return Ok(None);
    }
    let spinners = figure(&of(rows, &Case::base(SPINNERS).key()), name);
    if let (Some(median), false) = (spinners, factor.name == COMPETITORS) {
        let ends = [1.0, steps.len() as f64];
        let points = ends.map(|x| Point::of(x, median));
        lines.push(Line::reference(SPINNERS, points));
    }
    let axes = Axes {
        title: format!("{what}, against {}", factor.name),
        x: factor.axis.to_owned(),
        y: what.to_owned(),
        x_range: (0.5, steps.len() as f64 + 0.5),
        x_names: steps.into_iter().map(|step| step.label).collect(),
        y_range: (0.0, top(&lines, 0.0).max(f64::MIN_POSITIVE)),
    };
    let title = format!("{}: {what}", factor.name);
    Ok(Some(Section::new(&title).figure(draw(&axes, &lines)?)))
}

/// Steal, percent, up to which rows are taken together.
const STEAL_PCT: [f64; 4] = [0.1, 1.0, MOST_STEAL_PCT, f64::INFINITY];

/// All rows of a method by the steal that came: the other factors are spread
/// over them by chance.
fn steal(rows: &[Row]) -> Section {
    let mut table = Table::of("method | steal, % | error 1 s, points | latency p99, us | n");
    for method in METHODS.into_iter().chain([SPINNERS]) {
        let mut least = 0.0;
        for most in STEAL_PCT {
            let within = |row: &&Row| {
                let of_method = Case::of(&row.cell).is_some_and(|case| case.method == method);
                let bin = row.steal_pct <= most && (row.steal_pct > least || least == 0.0);
                let quiet = row.foreign_pct <= NOISY_FOREIGN_PCT;
                of_method && bin && quiet && row.end == End::Done
            };
            let own: Vec<&Row> = rows.iter().filter(within).collect();
            // Also those that are too noisy to count elsewhere.
            let median = |name: &str, digits| {
                let values: Vec<f64> = own
                    .iter()
                    .filter_map(|row| row.figures.get(name).copied())
                    .collect();
                Median::of(&values).map_or_else(String::new, |m| m.show(digits))
            };
            if !own.is_empty() {
                table.push(vec![
                    method.to_owned(),
                    if most.is_finite() {
                        format!("{least} to {most}")
                    } else {
                        format!("above {least}")
                    },
                    median(ERROR, 3),
                    median(LATENCY, 0),
                    own.len().to_string(),
                ]);
            }
            least = most;
        }
    }
    Section::new("Against steal, as it came")
        .text(&format!(
            "All trials of a method, whatever was varied. Those above {MOST_STEAL_PCT} % are \
             counted here only."
        ))
        .table(table)
}

fn all(rows: &[Row]) -> Table {
    let figures = [
        (ERROR, 3),
        ("mean_abs_100ms_points", 3),
        ("worst_points", 2),
        ("p50_us", 0),
        ("p90_us", 0),
        (LATENCY, 0),
        ("migrations_per_s", 1),
    ];
    let mut table = Table::of(
        "condition | error 1 s, mean abs. | 100 ms | worst 1 s | latency p50, us | p90 | p99 | \
         migrations per s | n",
    );
    for (key, own) in grouped(rows, |row| row.cell.clone()) {
        let mut cells = vec![key.clone()];
        cells.extend(figures.map(|(name, digits)| shown_figure(&own, name, digits)));
        cells.push(figure(&own, "p50_us").map_or(0, |m| m.n).to_string());
        table.push(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::levels::tests::measured;
    use super::*;

    fn html(sections: &[Section]) -> String {
        sections.iter().map(|s| s.html().into_string()).collect()
    }

    #[test]
    fn the_page_has_figures_for_what_was_measured() {
        let rows = [
            measured("load/50/pace", 0.01, 40.0),
            measured(&Case::base(SPINNERS).key(), 0.0, 40.0),
        ];
        let sections = sections(&rows).unwrap();
        let figures = sections.iter().filter(|section| section.svg().is_some());
        assert_eq!(
            figures.count(),
            3,
            "error and latency by load, latency by competitors"
        );
        let lines = summary(&rows);
        assert!(lines[1].what.contains("beside spinners 40"), "{lines:?}");
        assert_eq!(lines[0].ours, "0.010, n = 1");
        assert_eq!(lines[2].ours, "-", "quota was not measured");
    }

    #[test]
    fn the_page_says_what_the_defaults_rest_on() {
        let mut rows = [
            measured("load/50/pace", 0.01, 40.0),
            measured("weight/1/pace", 0.50, 30.0),
            measured("weight/100/pace", 0.01, 5000.0),
            measured("slice/0/pace", 0.01, 3900.0),
            measured("slice/5/pace", 0.005, 30.0),
        ]
        .to_vec();
        rows[1].figures.insert("worst_points".to_owned(), 7.0);
        let of_slice = |rows: &[Row]| {
            let lines = summary(rows);
            let line = lines.iter().find(|line| line.what.contains("pace, slice"));
            line.map(|line| line.ours.clone())
        };
        // One value has no interval, so that none can lie apart.
        assert_eq!(of_slice(&rows).unwrap(), "none of 2");
        rows.extend(rows.clone());
        let page = html(&sections(&rows).unwrap());
        assert!(
            page.contains("1: 0.500 / 30 / 7.00; 100: 0.010 / 5000 / -"),
            "{page}"
        );
        assert!(
            page.contains("headroom") && page.contains("kernel&#39;s") || page.contains("kernel's")
        );
        let lines = summary(&rows);
        let verdict = |what: &str| {
            let line = lines.iter().find(|line| line.what.contains(what));
            line.map(|line| line.ours.clone())
        };
        assert_eq!(verdict("pace, weight").unwrap(), "none of 2");
        assert_eq!(verdict("pace, slice").unwrap(), "5");
        assert_eq!(verdict("hogs, period"), None, "not measured");
        assert!(page.contains("other values were not measured"));
    }

    #[test]
    fn rows_are_sorted_by_the_steal_that_came() {
        let mut rows = [
            measured("load/50/pace", 0.01, 40.0),
            measured("load/95/pace", 0.02, 40.0),
            measured("period/5/pace", 0.90, 40.0),
        ];
        rows[1].steal_pct = 0.1;
        rows[2].steal_pct = 12.0;
        let page = html(&[steal(&rows)]);
        assert!(page.contains("<td>0 to 0.1</td><td>0.015"), "{page}");
        assert!(page.contains("<td>above 3</td><td>0.900"), "{page}");
    }

    #[test]
    fn a_noisy_cell_is_undecided() {
        let mut rows = [measured("load/50/pace", 0.01, 40.0)];
        rows[0].steal_pct = 12.0;
        assert_eq!(summary(&rows)[0].ours, "undecided, n = 0");
    }
}
