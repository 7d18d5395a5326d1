// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The defaults of methods beside the other values that were measured.

use super::factor::{BASE_COMPETITORS, BASE_PCT, factor};
use super::levels::{DEFAULTS, ERROR, LATENCY, Level, levels, of};
use crate::page::Section;
use crate::row::Row;
use crate::summary::{Median, figure, shown_figure};
use crate::table::Table;

/// A default beside the other values.
pub struct Choice {
    pub name: String,
    own: Level,
    others: Vec<Level>,
    /// Of the others, those that are better in both error and latency.
    better: Vec<String>,
}

impl Choice {
    /// `None` where the other values were not measured.
    fn of(rows: &[Row], (method, name, _, label): (&str, &str, f64, &str)) -> Option<Self> {
        let factor = factor(name)?;
        let (own, others): (Vec<Level>, Vec<Level>) = levels(rows, factor, method)
            .into_iter()
            .partition(|level| level.label == label);
        let own = own.into_iter().next()?;
        if others.is_empty() {
            return None;
        }
        let medians = |level: &Level| -> Option<[Median; 2]> {
            let own = of(rows, &level.key);
            Some([figure(&own, ERROR)?, figure(&own, LATENCY)?])
        };
        let ours = medians(&own)?;
        let is_better = |level: &&Level| {
            medians(level).is_some_and(|theirs| {
                ours.iter()
                    .zip(theirs)
                    // One value has no interval that could lie apart.
                    .all(|(own, other)| own.n > 1 && other.n > 1 && other.high < own.low)
            })
        };
        let better = others.iter().filter(is_better);
        Some(Self {
            name: format!("{method}, {}", factor.named(label)),
            better: better.map(|level| level.label.clone()).collect(),
            own,
            others,
        })
    }

    pub fn verdict(&self) -> String {
        if self.better.is_empty() {
            format!("none of {}", self.others.len())
        } else {
            self.better.join(", ")
        }
    }
}

/// Those of the defaults beside which other values were measured.
pub fn choices(rows: &[Row]) -> impl Iterator<Item = Choice> {
    DEFAULTS
        .into_iter()
        .filter_map(|default| Choice::of(rows, default))
}

/// The defaults, and the figures behind them.
pub fn defaults(rows: &[Row]) -> Section {
    let mut table = Table::of(
        "default | error 1 s, points | latency p99, us | n | worst 1 s, points | \
         other values: error / p99 / worst | better in both",
    );
    for default in DEFAULTS {
        let Some(default) = Choice::of(rows, default) else {
            let (method, name, _, label) = default;
            let mut row = vec![String::new(); 6];
            let named = factor(name).map(|factor| factor.named(label));
            row[0] = format!("{method}, {}", named.unwrap_or_default());
            row.push("other values were not measured".to_owned());
            table.push(row);
            continue;
        };
        let own = of(rows, &default.own.key);
        let shown = |level: &Level| {
            let own = of(rows, &level.key);
            let median = |name| figure(&own, name).map_or(f64::NAN, |m: Median| m.value);
            let (error, late) = (median(ERROR), median(LATENCY));
            format!("{}: {error:.3} / {late:.0} / {}", level.label, worst(&own))
        };
        let others: Vec<String> = default.others.iter().map(shown).collect();
        table.push(vec![
            default.name.clone(),
            shown_figure(&own, ERROR, 3),
            shown_figure(&own, LATENCY, 0),
            figure(&own, ERROR).map_or(0, |m| m.n).to_string(),
            worst(&own),
            others.join("; "),
            default.verdict(),
        ]);
    }
    Section::new("The defaults, and the figures behind them")
        .text(&format!(
            "At {BASE_PCT} % beside {BASE_COMPETITORS} spinning tasks. A default stands where no \
             other value holds the load better and lets others wake up sooner, with both intervals \
             apart. Headroom is the weight that pace finds for itself. The worst second is that of \
             all rounds: what happens once in a hundred runs no median shows."
        ))
        .table(table)
}

/// The worst second of all rounds, points.
fn worst(rows: &[&Row]) -> String {
    let counted = rows.iter().filter(|row| row.counts());
    let all = counted.filter_map(|row| row.figures.get("worst_points").copied());
    all.reduce(f64::max)
        .map_or_else(|| "-".to_owned(), |points| format!("{points:.2}"))
}
