// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of the loads: rows of several rounds become one line per cell, with the
//! median over the rounds, the mean error with its range, and the worst of the worst
//! errors.

use std::collections::BTreeMap;

use sandbag_stats::{median, range};

use super::cells::{BASE, Cell, Disturbance, FORMULA, Method};
use super::closing::{CLOSES_POINTS, worst};
use crate::row::{End, Row, grouped};
use crate::table::{Table, number, spread};

/// The runs of one cell.
#[derive(Debug)]
pub struct TableGroup<'a> {
    cell: &'a Cell,
    rows: Vec<&'a Row>,
}

/// Groups the rows in the order of the cells.
pub fn groups<'a>(cells: &'a [Cell], rows: &'a [Row]) -> Vec<TableGroup<'a>> {
    let of_cell = |cell: &'a Cell| {
        let id = cell.id();
        let rows: Vec<&Row> = rows.iter().filter(|row| row.cell == id).collect();
        (!rows.is_empty()).then_some(TableGroup { cell, rows })
    };
    cells.iter().filter_map(of_cell).collect()
}

impl TableGroup<'_> {
    fn all(&self, name: &str) -> Vec<f64> {
        self.rows.iter().filter_map(|row| row.get(name)).collect()
    }

    /// Over the rounds: the worst of the worst errors, the sum of the strangers, the median
    /// of other figures; of those that a target is for, which may have either sign, that of their sizes.
    fn over(&self, name: &str) -> Option<f64> {
        match name {
            "strangers" => Some(self.sum(name)),
            _ if name.starts_with("worst") => worst(self.all(name).into_iter()),
            _ if name.starts_with("quiet_closing") => {
                let sizes: Vec<f64> = self.all(name).iter().map(|x| x.abs()).collect();
                median(&sizes)
            }
            _ => median(&self.all(name)),
        }
    }

    fn sum(&self, name: &str) -> f64 {
        self.all(name).iter().sum()
    }

    fn count(&self, is: impl Fn(&Row) -> bool) -> usize {
        self.rows.iter().filter(|row| is(row)).count()
    }

    fn has_finished_run(&self) -> bool {
        self.count(|row| row.end == End::Done) > 0
    }

    /// Whether a run of it that finishes has this figure of a target.
    fn is_for(&self, name: &str) -> bool {
        match name {
            WORST_STEP => self.cell.disturbance == Disturbance::Steps,
            // Only without foreign load, which a failed run does not tell.
            _ => !name.starts_with("quiet_"),
        }
    }

    fn within_targets(&self) -> bool {
        (5.0..=95.0).contains(&self.cell.asked_pct)
            && (1..=200).contains(&self.cell.count)
            && self.cell.factor != FORMULA
    }
}

/// Columns of errors, and of cost and verification: head, figure and decimals.
type Column = (&'static str, &'static str, usize);
const ERRORS: [Column; 5] = [
    ("sd", "sd_1s", 3),
    ("worst", "worst_1s", 2),
    ("100 ms: mean abs", "mean_abs_100ms", 3),
    ("sd", "sd_100ms", 3),
    ("worst", "worst_100ms", 2),
];
const COST: [Column; 10] = [
    ("supervisor %", "supervisor_pct", 4),
    ("wake-ups/s", "wakeups_per_s", 1),
    ("resident KiB", "resident_kib", 0),
    ("burner KiB", "burner_kib", 0),
    ("closing", "closing", 2),
    ("all", "closing_all", 2),
    ("unseen", "unseen", 2),
    ("nobody's", "nobody", 2),
    ("strangers", "strangers", 0),
    ("claim", "claim", 2),
];

/// The error table of a factor; `None` if nothing of it was run.
pub fn factor_table(groups: &[TableGroup<'_>], factor: &str) -> Option<String> {
    let heads = |columns: &[Column]| columns.iter().map(|(head, ..)| *head).collect::<Vec<_>>();
    let mut table = Table::new(
        "case | method | runs | mean abs 1 s (range)"
            .split(" | ")
            .chain(heads(&ERRORS))
            .chain("resolution ms | kept/missed/undecided | steal/hole windows".split(" | "))
            .chain(heads(&COST)),
    );
    let mut of_factor: Vec<&TableGroup<'_>> = groups
        .iter()
        .filter(|g| g.cell.factor == factor || g.cell.factor == BASE)
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
    of_factor.sort_by_key(|g| (place(g), g.cell.method));
    for g in of_factor {
        table.push(line(g));
    }
    Some(table.markdown())
}

fn line(g: &TableGroup<'_>) -> Vec<String> {
    let columns = |columns: &[Column]| -> Vec<String> {
        let shown = columns.iter();
        let shown = shown.map(|(_, name, decimals)| number(g.over(name), *decimals));
        shown.collect()
    };
    let [kept, missed, undecided] = ["kept", "missed", "undecided"]
        .map(|verdict| g.count(|row| row.text("verdict") == verdict));
    let mut runs = g.rows.len().to_string();
    let failed = g.count(|row| row.why_failed().is_some());
    if failed > 0 {
        runs += &format!(" ({failed} failed)");
    }
    let mut line = vec![
        g.cell.label.clone(),
        g.cell.method.name().to_owned(),
        runs,
        spread(&g.all("mean_abs_1s"), 3),
    ];
    line.extend(columns(&ERRORS));
    // A resolution that was not reached in every round is not one.
    let with_windows = g.all("windows_100ms").len();
    let resolved = g.all("resolution_ms");
    line.push(match resolved.iter().copied().reduce(f64::max) {
        Some(ms) if resolved.len() == with_windows => ms.to_string(),
        _ if with_windows > 0 => "> 2000".to_owned(),
        _ => "-".to_owned(),
    });
    line.push(format!("{kept}/{missed}/{undecided}"));
    line.push(format!("{}/{}", g.sum("stolen_1s"), g.sum("holes_1s")));
    line.extend(columns(&COST));
    line
}

/// The step response: errors of the seconds that begin 100 ms after a change.
pub fn step_table(groups: &[TableGroup<'_>]) -> Option<String> {
    let mut table = Table::of("method | seconds | mean abs | sd | worst");
    for g in groups {
        let seconds = g.sum("windows_step");
        if seconds > 0.0 {
            table.push(vec![
                g.cell.method.name().to_owned(),
                seconds.to_string(),
                number(g.over("mean_abs_step"), 3),
                number(g.over("sd_step"), 3),
                number(g.over(WORST_STEP), 2),
            ]);
        }
    }
    (!table.is_empty()).then(|| table.markdown())
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
    let mut table = Table::of("busy CPUs | asked % | predicted % | got % (range)");
    for g in groups.iter().filter(|g| g.cell.factor == FORMULA) {
        let busy = if g.cell.one_cpu { 1 } else { cpus };
        table.push(vec![
            busy.to_string(),
            g.cell.asked_pct.to_string(),
            number(published_pct(g.cell.asked_pct, busy), 1),
            spread(&g.all("got_pct"), 1),
        ]);
    }
    (!table.is_empty()).then(|| table.markdown())
}

/// Targets: what, the limit, the figure.
const TARGETS: [(&str, f64, &str); 10] = [
    ("mean abs per 1 s <= 0.1 points", 0.1, "mean_abs_1s"),
    ("sd per 1 s <= 0.1 points", 0.1, "sd_1s"),
    ("worst 1 s <= 0.5 points", 0.5, "worst_1s"),
    ("mean abs per 100 ms <= 0.5 points", 0.5, "mean_abs_100ms"),
    ("second after a step: worst <= 0.5", 0.5, WORST_STEP),
    (SUPERVISOR, 0.02, "supervisor_pct"),
    ("resident <= 10 MB", 10.0, "resident_mb"),
    ("burner private <= 0.5 MB", 0.5, "burner_mb"),
    (CLOSES_EACH, CLOSES_POINTS, "quiet_closing"),
    (CLOSES_ALL, CLOSES_POINTS, "quiet_closing_all"),
];
/// Only cells with steps have it.
const WORST_STEP: &str = "worst_step";
const SUPERVISOR: &str = "supervisor <= 0.02 % of a core per CPU";
const CLOSES_EACH: &str = "books close to 0.3 points, each CPU";
const CLOSES_ALL: &str = "books close to 0.3 points, all CPUs";

/// Each target beside what was found, per method, over the cells to which the
/// targets apply: 5 to 95 % asked, 1 to 200 competitors. A cell without a finished run meets
/// no target.
pub fn target_table(groups: &[TableGroup<'_>]) -> String {
    let mut table = Table::of("target | method | cells that meet it | largest");
    let mut methods: Vec<Method> = groups.iter().map(|g| g.cell.method).collect();
    methods.sort_unstable();
    methods.dedup();
    for (what, limit, name) in TARGETS {
        for method in &methods {
            let own = groups.iter();
            let own = own.filter(|g| g.cell.method == *method && g.within_targets());
            let (finished, failed): (Vec<_>, Vec<_>) = own.partition(|g| g.has_finished_run());
            let figures = finished.iter().filter_map(|g| g.over(name));
            let figures: Vec<f64> = figures.map(f64::abs).collect();
            let all = figures.len() + failed.iter().filter(|g| g.is_for(name)).count();
            if all == 0 {
                continue;
            }
            let met = figures.iter().filter(|figure| **figure <= limit).count();
            table.push(vec![
                what.to_owned(),
                method.name().to_owned(),
                format!("{met}/{all}"),
                number(range(&figures).map(|(_, largest)| largest), 3),
            ]);
        }
    }
    table.markdown()
}

/// Verdicts per method.
pub fn verdict_table(rows: &[Row]) -> String {
    let mut table = Table::of("method | runs | kept | missed | undecided | undecided % | failed");
    let mut methods = grouped(rows, |row| row.text("method").to_owned());
    methods.sort_by(|a, b| a.0.cmp(&b.0));
    for (method, own) in methods {
        let of = |verdict: &str| own.iter().filter(|r| r.text("verdict") == verdict).count();
        let [kept, missed, undecided, failed] = ["kept", "missed", "undecided", ""].map(of);
        let decided = kept + missed + undecided;
        let share = 100.0 * undecided as f64 / decided as f64;
        table.push(vec![
            method,
            own.len().to_string(),
            kept.to_string(),
            missed.to_string(),
            undecided.to_string(),
            number((decided > 0).then_some(share), 1),
            failed.to_string(),
        ]);
    }
    table.markdown()
}

/// How many runs the machine was too noisy for; `None` without a verdict. At most a
/// fifth of them is wanted.
pub fn undecided(rows: &[Row]) -> Option<String> {
    let decided = rows
        .iter()
        .filter(|r| !r.text("verdict").is_empty())
        .count();
    let undecided = rows.iter().filter(|r| r.text("verdict") == "undecided");
    let undecided = undecided.count();
    (decided > 0).then(|| {
        format!(
            "Undecided: {undecided} of {decided} runs, {:.1} % (target: at most 20 %).",
            100.0 * undecided as f64 / decided as f64
        )
    })
}

/// The runs without figures, one line per cell and reason.
pub fn failures(rows: &[Row]) -> Vec<String> {
    let mut reasons = BTreeMap::<(&str, &str), usize>::new();
    for row in rows {
        let some = "some competitors could not run as they should";
        let some = row
            .get("competitors_failed")
            .filter(|n| *n > 0.0)
            .map(|_| some);
        if let Some(reason) = row.why_failed().or(some) {
            *reasons.entry((&row.cell, reason)).or_insert(0) += 1;
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
    use crate::bench::cells::matrix;
    use crate::bench::row::new;

    fn rows(cells: &[Cell], errors: &[f64]) -> Vec<Row> {
        let row = |(round, error): (usize, &f64)| {
            let mut row = new(&cells[0], round as u32);
            row.put("mean_abs_1s", *error);
            row.put("worst_1s", -3.0 * error);
            row.say("verdict", "kept");
            row
        };
        errors.iter().enumerate().map(row).collect()
    }

    #[test]
    fn rounds_become_a_median_with_its_range() {
        let cells = matrix(true, &[Method::Pace], 2);
        let all = rows(&cells, &[0.1, 0.5, 0.2]);
        let groups = groups(&cells, &all);
        assert_eq!(groups.len(), 1);
        let line = line(&groups[0]);
        assert_eq!(line[2], "3");
        assert_eq!(line[3], "0.200 (0.100..0.500)");
        assert_eq!(line[5], "-1.50");
        assert_eq!(line[10], "3/0/0");
    }

    #[test]
    fn the_base_case_is_in_the_table_of_every_factor_that_was_run() {
        let cells = matrix(true, &[Method::Pace], 2);
        let base = rows(&cells, &[0.1]);
        let all: Vec<Row> = cells.iter().map(|cell| new(cell, 0)).collect();
        for factor in ["asked", "competitors", "place"] {
            assert!(factor_table(&groups(&cells, &base), factor).is_none());
            let table = factor_table(&groups(&cells, &all), factor).unwrap();
            assert!(table.contains("base: 50 %"), "{table}");
        }
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
    fn a_cell_without_a_finished_run_meets_no_target() {
        let cells = matrix(true, &[Method::Pace], 2);
        let mut all = rows(&cells, &[0.05]);
        let mut failed = new(&cells[1], 0);
        let why = "no".to_owned();
        failed.end = End::Failed { why };
        all.push(failed);
        let shown = |rows: &[Row], what: &str| {
            let text = target_table(&groups(&cells, rows));
            let line = text.lines().find(|line| line.contains(what));
            line.map(|line| line.split('|').map(str::trim).collect::<Vec<_>>().join(","))
        };
        let shown_of = |rows: &[Row]| shown(rows, "mean abs per 1 s").unwrap();
        assert!(shown_of(&all).ends_with(",pace,1/2,0.050,"));
        assert!(shown_of(&all[1..]).ends_with(",pace,0/1,-,"));
        // The cell has no steps.
        assert_eq!(shown(&all, "second after a step"), None);
    }

    #[test]
    fn each_reason_is_listed_once() {
        let cells = matrix(true, &[Method::Pace], 2);
        let mut all = rows(&cells, &[0.1, 0.1, 0.1]);
        for row in &mut all[..2] {
            let why = "no".to_owned();
            row.end = End::Failed { why };
        }
        all[2].put("competitors_failed", 1.0);
        let said = failures(&all);
        assert_eq!(said.len(), 2);
        assert!(said.iter().any(|l| l.ends_with("no (2 x)")));
    }

    #[test]
    fn a_fifth_undecided_is_shown() {
        let cells = matrix(true, &[Method::Pace], 2);
        let mut all = rows(&cells, &[0.1; 5]);
        all[0].say("verdict", "undecided");
        assert!(verdict_table(&all).contains("20.0"));
        let line = undecided(&all).unwrap();
        assert!(line.contains("1 of 5 runs, 20.0 %"), "{line}");
        assert_eq!(undecided(&[]), None);
    }
}
