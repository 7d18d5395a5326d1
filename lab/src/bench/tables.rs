// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables: rows of several rounds become one line per cell and cgroup
//! version, with the median over the rounds; the mean error with its range,
//! and of the worst errors the worst.

use std::collections::BTreeMap;

use sandbag_stats::{median, range};

use crate::bench::cells::{Cell, Factor};
use crate::bench::closing::{CLOSES_POINTS, worst};
use crate::bench::latency::{Round, ratios, times};
use crate::bench::markdown::{MarkdownTable, number};
use crate::bench::row::{LoadRow, key};

/// The runs of one cell on one cgroup version.
#[derive(Debug)]
pub struct TableGroup<'a> {
    cell: &'a Cell,
    cgroup: String,
    rows: Vec<&'a LoadRow>,
}

/// Groups the rows in the order of the cells; a cell's versions follow each
/// other.
pub fn groups<'a>(cells: &'a [Cell], rows: &'a [LoadRow]) -> Vec<TableGroup<'a>> {
    let mut found = Vec::new();
    for cell in cells {
        let id = cell.id();
        let mut versions = BTreeMap::<&str, Vec<&LoadRow>>::new();
        for row in rows.iter().filter(|r| r.cell == key(&r.cgroup, &id)) {
            versions.entry(&row.cgroup).or_default().push(row);
        }
        found.extend(versions.into_iter().map(|(cgroup, rows)| TableGroup {
            cell,
            cgroup: cgroup.to_owned(),
            rows,
        }));
    }
    found
}

impl TableGroup<'_> {
    fn all(&self, of: impl Fn(&LoadRow) -> Option<f64>) -> Vec<f64> {
        self.rows.iter().filter_map(|r| of(r)).collect()
    }

    fn median(&self, of: impl Fn(&LoadRow) -> Option<f64>) -> Option<f64> {
        median(&self.all(of))
    }

    fn worst(&self, of: impl Fn(&LoadRow) -> Option<f64>) -> Option<f64> {
        worst(self.all(of).into_iter())
    }

    fn failed(&self) -> usize {
        self.rows.iter().filter(|r| r.failed.is_some()).count()
    }

    fn verdicts(&self) -> [usize; 3] {
        ["kept", "missed", "undecided"].map(|v| self.rows.iter().filter(|r| r.verdict == v).count())
    }

    fn within_targets(&self) -> bool {
        (5.0..=95.0).contains(&self.cell.asked_pct)
            && (1..=200).contains(&self.cell.count)
            && self.cell.factor != Factor::Formula
    }
}

/// The error table of a factor; empty if nothing of it was run.
pub fn factor_table(groups: &[TableGroup<'_>], factor: Factor) -> Option<String> {
    let mut table = MarkdownTable::new(&[
        "case",
        "method",
        "cgroup",
        "runs",
        "mean abs 1 s (range)",
        "sd",
        "worst",
        "100 ms: mean abs",
        "sd",
        "worst",
        "resolution ms",
        "kept/missed/undecided",
        "steal/hole windows",
        "supervisor %",
        "wake-ups/s",
        "resident KiB",
        "burner KiB",
        "closing",
        "all",
        "unseen",
        "nobody's",
        "strangers",
        "claim",
        "mpstat",
    ]);
    let mut of_factor: Vec<&TableGroup<'_>> = groups
        .iter()
        .filter(|g| g.cell.factor == factor || g.cell.factor == Factor::Base)
        .collect();
    if !of_factor.iter().any(|g| g.cell.factor == factor) {
        return None;
    }
    // Methods side by side under each case, in the order of the cells.
    let place = |g: &TableGroup<'_>| {
        groups
            .iter()
            .position(|other| other.cell.label == g.cell.label)
    };
    of_factor.sort_by_key(|g| (place(g), g.cell.method, g.cgroup.clone()));
    for g in of_factor {
        table.push(line(g));
    }
    Some(table.render())
}

fn line(g: &TableGroup<'_>) -> Vec<String> {
    let mae = g.all(|r| r.mae_1s);
    let spread = match (median(&mae), range(&mae)) {
        (Some(m), Some((low, high))) => format!("{m:.3} ({low:.3}-{high:.3})"),
        _ => "-".to_owned(),
    };
    let [kept, missed, undecided] = g.verdicts();
    let sum = |of: fn(&LoadRow) -> u64| g.rows.iter().map(|r| of(r)).sum::<u64>();
    let mut runs = g.rows.len().to_string();
    if g.failed() > 0 {
        runs += &format!(" ({} failed)", g.failed());
    }
    // A resolution that was not reached in every round is not one.
    let resolution = g
        .rows
        .iter()
        .filter(|r| r.windows_100ms > 0)
        .map(|r| r.resolution_ms)
        .collect::<Option<Vec<_>>>()
        .and_then(|all| all.into_iter().max());
    let resolution = match resolution {
        Some(ms) => ms.to_string(),
        None if g.rows.iter().any(|r| r.windows_100ms > 0) => "> 2000".to_owned(),
        None => "-".to_owned(),
    };
    vec![
        g.cell.label.clone(),
        g.cell.method.name().to_owned(),
        g.cgroup.clone(),
        runs,
        spread,
        number(g.median(|r| r.sd_1s), 3),
        number(g.worst(|r| r.worst_1s), 2),
        number(g.median(|r| r.mae_100ms), 3),
        number(g.median(|r| r.sd_100ms), 3),
        number(g.worst(|r| r.worst_100ms), 2),
        resolution,
        format!("{kept}/{missed}/{undecided}"),
        format!("{}/{}", sum(|r| r.stolen_1s), sum(|r| r.holes_1s)),
        number(g.median(|r| r.supervisor_pct), 4),
        number(g.median(|r| r.wakeups_per_s), 1),
        number(g.median(|r| r.resident_kib.map(|k| k as f64)), 0),
        number(g.median(|r| r.burner_kib.map(|k| k as f64)), 0),
        number(g.median(|r| r.closing), 2),
        number(g.median(|r| r.closing_all), 2),
        number(g.median(|r| r.unseen), 2),
        number(g.median(|r| r.nobody), 2),
        sum(|r| r.strangers.unwrap_or(0)).to_string(),
        number(g.median(|r| r.claim), 2),
        number(g.median(|r| r.mpstat), 2),
    ]
}

/// The step response: errors of the seconds that begin 100 ms after a change.
pub fn step_table(groups: &[TableGroup<'_>]) -> Option<String> {
    let mut table = MarkdownTable::new(&["method", "cgroup", "seconds", "mean abs", "sd", "worst"]);
    for g in groups {
        let seconds: u64 = g.rows.iter().map(|r| r.step_windows).sum();
        if seconds > 0 {
            table.push(vec![
                g.cell.method.name().to_owned(),
                g.cgroup.clone(),
                seconds.to_string(),
                number(g.median(|r| r.step_mae), 3),
                number(g.median(|r| r.step_sd), 3),
                number(g.worst(|r| r.step_worst), 2),
            ]);
        }
    }
    (!table.is_empty()).then(|| table.render())
}

/// The load that the published formula gives a burner on one of `busy` busy
/// CPUs, percent: its group keeps its whole weight there while the other
/// group's is divided, N r / (N r + 1) with r = L / (1 - L).
pub fn published_pct(asked_pct: f64, busy: usize) -> f64 {
    let r = asked_pct / (100.0 - asked_pct);
    let n = busy as f64;
    100.0 * n * r / (n * r + 1.0)
}

/// The published formula: asked, predicted, got.
pub fn formula_table(groups: &[TableGroup<'_>], cpus: usize) -> Option<String> {
    let mut table = MarkdownTable::new(&[
        "busy CPUs",
        "cgroup",
        "asked %",
        "predicted %",
        "got % (range)",
    ]);
    for g in groups.iter().filter(|g| g.cell.factor == Factor::Formula) {
        let busy = if g.cell.one_cpu { 1 } else { cpus };
        let got = g.all(|r| r.got_pct);
        let got = match (median(&got), range(&got)) {
            (Some(m), Some((low, high))) => format!("{m:.1} ({low:.1}-{high:.1})"),
            _ => "-".to_owned(),
        };
        table.push(vec![
            busy.to_string(),
            g.cgroup.clone(),
            g.cell.asked_pct.to_string(),
            number(Some(published_pct(g.cell.asked_pct, busy)), 1),
            got,
        ]);
    }
    (!table.is_empty()).then(|| table.render())
}

/// Wake-up delays, and what each is in relation to another.
pub fn latency_tables(rounds: &[Round], cgroup: &str) -> String {
    let mut times_table =
        MarkdownTable::new(&["median delay, us, beside", "cgroup", "p50", "p90", "p99"]);
    for (name, quantiles) in times(rounds) {
        let mut row = vec![name.to_owned(), cgroup.to_owned()];
        row.extend(quantiles.map(|us| number(us, 1)));
        times_table.push(row);
    }
    let mut ratio_table = MarkdownTable::new(&[
        "ratio (95 % interval; least-greatest round)",
        "cgroup",
        "p50",
        "p90",
        "p99",
    ]);
    for (name, quantiles) in ratios(rounds) {
        let mut row = vec![name.to_owned(), cgroup.to_owned()];
        row.extend(quantiles.map(|ratio| {
            ratio.map_or("-".to_owned(), |r| {
                let (m, (least, greatest)) = (r.mean, r.range);
                format!(
                    "{:.2} ({:.2}-{:.2}; {least:.2}-{greatest:.2})",
                    m.ratio, m.low, m.high
                )
            })
        }));
        ratio_table.push(row);
    }
    let active: Vec<f64> = rounds.iter().map(|r| r.active_pct).collect();
    format!(
        "{}\n{}\n{} rounds; the burner was active at {} % of the wake-ups.\n",
        times_table.render(),
        ratio_table.render(),
        rounds.len(),
        number(median(&active), 0)
    )
}

/// From 1024 bytes to a million.
fn megabytes(kib: u64) -> f64 {
    kib as f64 * 1024.0 / 1e6
}

/// Each target beside what was found, per method and cgroup version, over the
/// cells that the targets speak of: 5 to 95 % asked, 1 to 200 competitors.
pub fn target_table(groups: &[TableGroup<'_>]) -> String {
    let mut table = MarkdownTable::new(&[
        "target",
        "method",
        "cgroup",
        "cells that meet it",
        "largest",
    ]);
    type Figure = fn(&TableGroup<'_>) -> Option<f64>;
    let targets: [(&str, f64, Figure); 10] = [
        ("mean abs per 1 s <= 0.1 points", 0.1, |g| {
            g.median(|r| r.mae_1s)
        }),
        ("sd per 1 s <= 0.1 points", 0.1, |g| g.median(|r| r.sd_1s)),
        ("worst 1 s <= 0.5 points", 0.5, |g| g.worst(|r| r.worst_1s)),
        ("mean abs per 100 ms <= 0.5 points", 0.5, |g| {
            g.median(|r| r.mae_100ms)
        }),
        ("second after a step: worst <= 0.5", 0.5, |g| {
            g.worst(|r| r.step_worst)
        }),
        ("supervisor <= 0.02 % of a core per CPU", 0.02, |g| {
            g.median(|r| r.supervisor_pct)
        }),
        ("resident <= 10 MB", 10.0, |g| {
            g.median(|r| r.resident_kib.map(megabytes))
        }),
        ("burner private <= 0.5 MB", 0.5, |g| {
            g.median(|r| r.burner_kib.map(megabytes))
        }),
        ("books close to 0.3 points, each CPU", CLOSES_POINTS, |g| {
            g.median(LoadRow::quiet_closing)
        }),
        ("books close to 0.3 points, all CPUs", CLOSES_POINTS, |g| {
            g.median(LoadRow::quiet_closing_all)
        }),
    ];
    let mut versions: Vec<_> = groups
        .iter()
        .map(|g| (g.cell.method, g.cgroup.as_str()))
        .collect();
    versions.sort_unstable();
    versions.dedup();
    for (name, limit, figure) in targets {
        for (method, cgroup) in &versions {
            let figures: Vec<f64> = groups
                .iter()
                .filter(|g| g.cell.method == *method && g.cgroup == *cgroup && g.within_targets())
                .filter_map(figure)
                .map(f64::abs)
                .collect();
            let Some((_, largest)) = range(&figures) else {
                continue;
            };
            let met = figures.iter().filter(|f| **f <= limit).count();
            table.push(vec![
                name.to_owned(),
                method.name().to_owned(),
                (*cgroup).to_owned(),
                format!("{met}/{}", figures.len()),
                number(Some(largest), 3),
            ]);
        }
    }
    table.render()
}

/// Verdicts per method and version; the share of undecided runs is to be at
/// most a fifth.
pub fn verdict_table(rows: &[LoadRow]) -> String {
    let mut table = MarkdownTable::new(&[
        "method",
        "cgroup",
        "runs",
        "kept",
        "missed",
        "undecided",
        "undecided %",
        "failed",
    ]);
    let mut versions: Vec<_> = rows
        .iter()
        .map(|r| (r.method.as_str(), r.cgroup.as_str()))
        .collect();
    versions.sort_unstable();
    versions.dedup();
    for (method, cgroup) in versions {
        let of = |verdict: &str| {
            rows.iter()
                .filter(|r| r.method == method && r.cgroup == cgroup && r.verdict == verdict)
                .count()
        };
        let [kept, missed, undecided, failed] = ["kept", "missed", "undecided", ""].map(of);
        let decided = kept + missed + undecided;
        table.push(vec![
            method.to_owned(),
            cgroup.to_owned(),
            (decided + failed).to_string(),
            kept.to_string(),
            missed.to_string(),
            undecided.to_string(),
            number(
                (decided > 0).then(|| 100.0 * undecided as f64 / decided as f64),
                1,
            ),
            failed.to_string(),
        ]);
    }
    table.render()
}

/// How many runs the machine was too noisy for; `None` without a verdict.
pub fn undecided(rows: &[LoadRow]) -> Option<String> {
    let decided = rows.iter().filter(|r| !r.verdict.is_empty()).count();
    let undecided = rows.iter().filter(|r| r.verdict == "undecided").count();
    (decided > 0).then(|| {
        format!(
            "Undecided: {undecided} of {decided} runs, {:.1} % (target: at most 20 %).",
            100.0 * undecided as f64 / decided as f64
        )
    })
}

/// The runs without figures, one line per cell and reason.
pub fn failures(rows: &[LoadRow]) -> Vec<String> {
    let mut reasons = BTreeMap::<(String, &str), usize>::new();
    for row in rows {
        let cell = row.cell.clone();
        if let Some(reason) = &row.failed {
            *reasons.entry((cell, reason)).or_insert(0) += 1;
        } else if row.competitors_failed > 0 {
            *reasons
                .entry((cell, "some competitors could not run as they should"))
                .or_insert(0) += 1;
        }
    }
    reasons
        .into_iter()
        .map(|((cell, reason), runs)| format!("{cell}: {reason} ({runs} x)"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::cells::{Method, matrix};

    fn rows(cells: &[Cell], maes: &[f64]) -> Vec<LoadRow> {
        maes.iter()
            .enumerate()
            .map(|(round, mae)| LoadRow {
                mae_1s: Some(*mae),
                worst_1s: Some(-3.0 * mae),
                verdict: "kept".to_owned(),
                ..LoadRow::new(&cells[0], "v1", round as u32)
            })
            .collect()
    }

    #[test]
    fn rounds_become_a_median_with_its_range() {
        let cells = matrix(true, &[Method::Pace], 2);
        let all = rows(&cells, &[0.1, 0.5, 0.2]);
        let groups = groups(&cells, &all);
        assert_eq!(groups.len(), 1);
        let line = line(&groups[0]);
        assert_eq!(line[3], "3");
        assert_eq!(line[4], "0.200 (0.100-0.500)");
        assert_eq!(line[6], "-1.50");
        assert_eq!(line[11], "3/0/0");
    }

    #[test]
    fn a_factor_that_was_not_run_has_no_table() {
        let cells = matrix(true, &[Method::Pace], 2);
        let all = rows(&cells, &[0.1]);
        assert!(factor_table(&groups(&cells, &all), Factor::Asked).is_none());
    }

    #[test]
    fn the_base_case_is_in_every_table() {
        let cells = matrix(true, &[Method::Pace], 2);
        let all: Vec<LoadRow> = cells.iter().map(|c| LoadRow::new(c, "v1", 0)).collect();
        let groups = groups(&cells, &all);
        for factor in [Factor::Asked, Factor::Competitors, Factor::Place] {
            assert!(
                factor_table(&groups, factor)
                    .unwrap()
                    .contains("base: 50 %")
            );
        }
    }

    #[test]
    fn latency_tables_have_a_line_for_each_comparison() {
        let text = latency_tables(&[Round::default()], "v1");
        assert!(text.contains("mixture: half idle, half spinner"), "{text}");
        // Without delays there is no ratio.
        assert!(text.contains("pace / mixture") && text.contains(" - |"));
        assert!(text.contains("1 rounds"));
    }

    #[test]
    fn figures_of_the_published_formula() {
        // Two busy CPUs and 50 %: two thirds; one CPU: as asked.
        assert!((published_pct(50.0, 2) - 200.0 / 3.0).abs() < 1e-9);
        assert!((published_pct(80.0, 4) - 1600.0 / 17.0).abs() < 1e-9);
        assert!((published_pct(20.0, 1) - 20.0).abs() < 1e-9);
    }

    #[test]
    fn targets_are_counted_by_cell() {
        let cells = matrix(true, &[Method::Pace], 2);
        let text = target_table(&groups(&cells, &rows(&cells, &[0.05, 0.07])));
        let line = text
            .lines()
            .find(|l| l.contains("mean abs per 1 s"))
            .unwrap();
        assert!(line.contains("1/1") && line.contains("0.060"), "{line}");
    }

    #[test]
    fn reasons_are_told_once() {
        let cells = matrix(true, &[Method::Pace], 2);
        let mut all = rows(&cells, &[0.1, 0.1, 0.1]);
        all[0].failed = Some("no".to_owned());
        all[1].failed = Some("no".to_owned());
        all[2].competitors_failed = 1;
        let said = failures(&all);
        assert_eq!(said.len(), 2);
        assert!(said.iter().any(|l| l.ends_with("no (2 x)")));
    }

    #[test]
    fn a_fifth_undecided_is_shown() {
        let cells = matrix(true, &[Method::Pace], 2);
        let mut all = rows(&cells, &[0.1; 5]);
        all[0].verdict = "undecided".to_owned();
        assert!(verdict_table(&all).contains("20.0"));
        let line = undecided(&all).unwrap();
        assert!(line.contains("1 of 5 runs, 20.0 %"), "{line}");
        assert_eq!(undecided(&[]), None);
    }
}
