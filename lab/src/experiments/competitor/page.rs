// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables: each figure of each program beside a load and beside the competitor, and how
//! many agree, by period and slice of the load.

use sandbag_stats::{PairedRatio, paired_ratio};

use super::{HUNGRY, SHARE};
use crate::agreement::Compared;
use crate::condition::Condition;
use crate::experiment::Choices;
use crate::page::Section;
use crate::row::{Row, grouped};
use crate::summary::{Median, Summary, figure};
use crate::table::{Table, interval};
use crate::workload::latency::QUANTILES;

/// A ratio this near to 1 is the competitor's.
const NEAR: f64 = 0.1;
/// Pairs that a ratio is judged by at least.
const FEWEST: usize = 3;
/// A competitor whose share is lower than the level by this, in points, is not equal.
const STARVED_POINTS: f64 = 5.0;

/// Loads whose figures are shown one by one; of others how many are like the competitor's.
const SHOWN: [&str; 2] = ["pace", "pace, feel competitor"];

/// Figures that are compared, where a program has them.
fn compared() -> impl Iterator<Item = &'static str> {
    let quantiles = QUANTILES.into_iter().map(|(name, _)| name);
    quantiles.chain(["seconds"])
}

/// Those that are shown: requests come at a rate that was asked, so that it says little of
/// the load.
fn listed() -> impl Iterator<Item = &'static str> {
    compared().chain(["requests_per_s"])
}

/// What a comparison says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Likeness {
    /// Within a tenth.
    Near,
    /// Farther away, but not by these pairs.
    WithinInterval,
    Other,
    /// The competitor was starved: no weight gave a stable share.
    NoEqual,
}

impl Likeness {
    fn of(ratio: PairedRatio, equal: bool) -> Self {
        if !equal {
            Self::NoEqual
        } else if (ratio.ratio - 1.0).abs() <= NEAR {
            Self::Near
        } else if ratio.low <= 1.0 && ratio.high >= 1.0 {
            Self::WithinInterval
        } else {
            Self::Other
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Near => "within 10 %",
            Self::WithinInterval => "within the interval",
            Self::Other => "differs",
            Self::NoEqual => "no stable share",
        }
    }
}

/// Whether the competitor was not starved. Beside a program that leaves time it has more than
/// the level.
/// The weight beside a `hungry` one is chosen for its share.
fn is_equal(cell: &str, rows: &[&Row]) -> bool {
    let hungry = rows.iter().any(|row| row.get(HUNGRY).is_some());
    let competitors: Vec<&Row> = rows
        .iter()
        .copied()
        .filter(|row| is_competitor(row))
        .collect();
    let level = cell
        .split_once('/')
        .and_then(|(_, pct)| pct.parse::<f64>().ok());
    match (level, figure(&competitors, SHARE)) {
        (Some(level), Some(share)) => {
            let above = share.value - level;
            above >= -STARVED_POINTS && (!hungry || above <= STARVED_POINTS)
        }
        _ => true,
    }
}

fn is_competitor(row: &Row) -> bool {
    row.condition.method() == Some("shares")
}

/// The ratio of a figure beside a load to that beside the competitor, round by round.
fn ratio(rows: &[&Row], condition: &Condition, name: &str) -> Option<PairedRatio> {
    let (mut load, mut reference) = (Vec::new(), Vec::new());
    for row in rows
        .iter()
        .filter(|row| row.condition == *condition && row.counts())
    {
        let beside =
            |other: &&&Row| is_competitor(other) && other.round == row.round && other.counts();
        let other = rows.iter().find(beside).and_then(|other| other.get(name));
        if let (Some(own), Some(other)) = (row.get(name), other) {
            load.push(own);
            reference.push(other);
        }
    }
    paired_ratio(&load, &reference).filter(|ratio| ratio.pairs >= FEWEST)
}

/// The loads of these rows, the default first.
fn loads(rows: &[&Row]) -> Vec<Condition> {
    let loads = rows.iter().copied().filter(|row| !is_competitor(row));
    let mut loads: Vec<Condition> = grouped(loads, |row| row.condition.clone())
        .into_iter()
        .map(|(condition, _)| condition)
        .collect();
    loads.sort_by_key(Condition::name);
    loads
}

/// Of a load by its period and slice, without its level.
fn constants(condition: &Condition) -> String {
    match condition {
        Condition::Load { method, tuning, .. } => Condition::Load {
            method: method.clone(),
            pct: 0.0,
            tuning: *tuning,
        }
        .name()
        .replacen("0 % by ", "", 1),
        other => other.name(),
    }
}

pub fn sections(rows: &[Row], chosen: &Choices) -> Vec<Section> {
    let mut about = Table::of("program | what");
    let mut table = Table::of(
        "program | load, % | competitor's share, % | figure | competitor | by | beside it | pairs | / competitor | alike",
    );
    for (cell, own) in grouped(rows, |row| row.cell.clone()) {
        let (program, level) = cell.split_once('/').unwrap_or((&cell, ""));
        if !rows_have(&about, program) {
            let what = chosen.get(&format!("about {program}")).cloned();
            about.push(vec![program.to_owned(), what.unwrap_or_default()]);
        }
        let competitors: Vec<&Row> = own
            .iter()
            .copied()
            .filter(|row| is_competitor(row))
            .collect();
        let equal = is_equal(&cell, &own);
        let share = figure(&competitors, SHARE).map_or_else(String::new, |share| share.show(1));
        let mut compared_loads = loads(&own);
        compared_loads.retain(|load| SHOWN.contains(&&*constants(load)));
        for (name, load) in
            listed().flat_map(|name| compared_loads.iter().map(move |load| (name, load)))
        {
            let beside: Vec<&Row> = own
                .iter()
                .copied()
                .filter(|row| row.condition == *load)
                .collect();
            // Not of this program; if all trials failed, one row has the reason.
            let is_known = own.iter().any(|row| row.get(name).is_some());
            let stands_for_all = Some(name) == compared().next();
            if !is_known && (!stands_for_all || own.iter().any(|row| row.counts())) {
                continue;
            }
            let ratio = ratio(&own, load, name);
            let shown = |rows: &[&Row]| match figure(rows, name) {
                Some(value) => shown(name, value),
                None => Summary::of(rows).shown(None, 0),
            };
            table.push(vec![
                program.to_owned(),
                level.to_owned(),
                share.clone(),
                name.to_owned(),
                shown(&competitors),
                constants(load),
                shown(&beside),
                ratio.map_or(0, |ratio| ratio.pairs).to_string(),
                ratio.map_or_else(String::new, |r| interval(r.ratio, (r.low, r.high), 2)),
                ratio
                    .map_or("too few", |r| Likeness::of(r, equal).as_str())
                    .to_owned(),
            ]);
        }
    }
    vec![
        Section::new("Programs").table(about),
        Section::new("Beside pace, and beside an equal competitor")
            .text(
                "Medians over the rounds with their 95 % interval, and the ratio of pairs of one \
                 round with that of the mean of its logarithm. Latencies in us. A competitor that \
                 never sleeps has more than its level where the program leaves time.",
            )
            .table(table),
        Section::new("By period and slice")
            .text(
                "How many of the figures above are within 10 % of the competitor's, within the \
             interval of the pairs, or neither; and the error of the load.",
            )
            .table(by_constants(rows)),
    ]
}

fn rows_have(table: &Table, first: &str) -> bool {
    table.firsts().any(|cell| cell == first)
}

fn shown(name: &str, median: Median) -> String {
    median.show(if name == "seconds" { 2 } else { 0 })
}

/// Figures by how like the competitor's they are.
#[derive(Debug, Default)]
struct Count {
    near: usize,
    within: usize,
    other: usize,
    no_equal: usize,
    /// Factors by which figures differ, as logarithms without a sign.
    distances: Vec<f64>,
}

fn count(rows: &[Row], of: &str) -> Count {
    let mut count = Count::default();
    for (cell, own) in grouped(rows, |row| row.cell.clone()) {
        let equal = is_equal(&cell, &own);
        for load in loads(&own).iter().filter(|load| constants(load) == of) {
            for ratio in compared().filter_map(|name| ratio(&own, load, name)) {
                count.distances.push(ratio.ratio.ln().abs());
                match Likeness::of(ratio, equal) {
                    Likeness::Near => count.near += 1,
                    Likeness::WithinInterval => count.within += 1,
                    Likeness::Other => count.other += 1,
                    Likeness::NoEqual => count.no_equal += 1,
                }
            }
        }
    }
    count
}

fn by_constants(rows: &[Row]) -> Table {
    let mut table = Table::of(
        "load | within 10 % | within the interval | differ | no stable share | mean factor | mean abs. error 1 s, points | worst",
    );
    let all: Vec<&Row> = rows.iter().collect();
    let mut names: Vec<String> = loads(&all).iter().map(constants).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let own: Vec<&Row> = rows
            .iter()
            .filter(|row| constants(&row.condition) == name)
            .collect();
        let count = count(rows, &name);
        let n = count.distances.len().max(1) as f64;
        let worst = own
            .iter()
            .filter(|row| row.counts())
            .filter_map(|row| row.get("worst_points"));
        table.push(vec![
            name,
            count.near.to_string(),
            count.within.to_string(),
            count.other.to_string(),
            count.no_equal.to_string(),
            format!("{:.2}", (count.distances.iter().sum::<f64>() / n).exp()),
            figure(&own, "mean_abs_points").map_or_else(String::new, |m| m.show(3)),
            worst
                .reduce(f64::max)
                .map_or_else(String::new, |w| format!("{w:.2}")),
        ]);
    }
    table
}

pub fn summary(rows: &[Row]) -> Vec<Compared> {
    let of = |load: &str| {
        let count = count(rows, load);
        let all = count.distances.len();
        Compared::ours(
            format!("figures of programs beside {load} that are those beside an equal competitor"),
            format!(
                "{} of {all} within 10 %, {} within the interval, {} differ, {} without an equal \
                 competitor",
                count.near, count.within, count.other, count.no_equal
            ),
        )
    };
    SHOWN.map(of).into()
}

#[cfg(test)]
mod tests {
    use super::super::{competitor, loads as all_loads};
    use super::*;
    use sandbag_linux::CpuList;

    fn rows(p99: f64) -> Vec<Row> {
        let cpus = CpuList::from_iter([0]);
        let mut rows = Vec::new();
        for round in 0..4 {
            let drift = 1.0 + f64::from(round) / 4.0;
            let conditions = all_loads(50.0, true).into_iter().map(|load| (load, p99));
            for (condition, value) in conditions.chain([(competitor(50.0, 1.0), 100.0)]) {
                let mut row = Row::under("redis/50", round, "redis", &condition, &cpus);
                row.put("p99_us", value * drift);
                row.put(SHARE, 50.0);
                row.put("mean_abs_points", 0.01);
                rows.push(row);
            }
        }
        rows
    }

    #[test]
    fn figures_are_compared_round_by_round() {
        for (p99, expected) in [(105.0, "1 of 1 within 10 %"), (300.0, "1 differ")] {
            let rows = rows(p99);
            assert!(summary(&rows)[0].ours.contains(expected), "{p99}");
            let text = by_constants(&rows).markdown();
            assert!(text.contains("| pace "), "{text}");
            assert_eq!(sections(&rows, &Choices::new()).len(), 3);
        }
    }

    #[test]
    fn an_interval_that_holds_1_does_not_differ() {
        let of = |ratio, low, high, equal| {
            let pairs = 6;
            Likeness::of(
                PairedRatio {
                    pairs,
                    ratio,
                    low,
                    high,
                },
                equal,
            )
        };
        assert_eq!(of(1.05, 1.01, 1.09, true), Likeness::Near);
        assert_eq!(of(1.5, 0.8, 2.2, true), Likeness::WithinInterval);
        assert_eq!(of(1.5, 1.2, 1.8, true), Likeness::Other);
        assert_eq!(of(1.0, 0.9, 1.1, false), Likeness::NoEqual);
    }

    #[test]
    fn a_starved_competitor_is_no_reference() {
        let mut rows = rows(105.0);
        for row in &mut rows {
            row.put(SHARE, 10.0);
        }
        assert!(
            summary(&rows)[0]
                .ours
                .ends_with("1 without an equal competitor")
        );
    }
}
