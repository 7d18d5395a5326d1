// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figures of a test as a table.

use comfy_table::{CellAlignment, Table};
use sandbag_ui::table::plain;

use super::super::figures::{Figure, FigureTable};
use super::super::words::{difference, mark, signed, size, span};
use super::style::TerminalStyle;
use crate::model::{AuditVerdict, Quantity};

/// With more CPUs, only the odd ones have a row of their own.
const MOST_ROWS: usize = 16;
/// Rows of odd CPUs at most.
const MOST_ODD: usize = 12;

/// The CPUs that have a row of their own, and those that share one.
struct TerminalRows {
    own: Vec<u32>,
    others: Vec<u32>,
}

impl TerminalRows {
    /// All, or of many the odd ones: unequal before undecided, then by size.
    fn choose(figures: &FigureTable, look: &TerminalStyle) -> Self {
        let all = figures.rows.keys().copied();
        if look.all || all.len() <= MOST_ROWS {
            return Self {
                own: all.collect(),
                others: Vec::new(),
            };
        }
        let worst = |cpu| {
            figures
                .of_cpu(cpu)
                .map(|one| one.pct.abs())
                .fold(0.0, f64::max)
        };
        let odd = figures.rows.iter().filter(|(_, row)| row.is_odd);
        let odd = odd.map(|(cpu, row)| (*cpu, row.verdict == AuditVerdict::Unequal, worst(*cpu)));
        let mut odd: Vec<(u32, bool, f64)> = odd.collect();
        odd.sort_by(|a, b| b.1.cmp(&a.1).then(b.2.total_cmp(&a.2)));
        odd.truncate(MOST_ODD);
        let own: Vec<u32> = odd.iter().map(|(cpu, ..)| *cpu).collect();
        Self {
            others: all.filter(|cpu| !own.contains(cpu)).collect(),
            own,
        }
    }
}

/// One cell: the difference with its interval, both ends or half of it, and the mark
/// of its verdict. Half of it only where it lies about the difference, else a narrow
/// table has room for the ends only.
fn cell(of: Quantity, figure: Option<&Figure>, wide: bool) -> String {
    let Some(figure) = figure else {
        return "- ".to_owned();
    };
    let pct = figure.pct;
    let mark = match figure.verdict.map_or("", mark) {
        "" => " ",
        mark => mark,
    };
    // What cannot be resolved has no figure.
    if !figure.is_resolved() {
        return format!("- {mark}");
    }
    let end = |pct: f64| {
        if of.is_open(pct) {
            "?".to_owned()
        } else {
            signed(pct).trim().to_owned()
        }
    };
    match figure.together_pct {
        None => format!("{} ±-   {mark}", difference(of, pct)),
        Some((low, high)) if wide => {
            format!(
                "{} ({} to {}){mark}",
                difference(of, pct),
                end(low),
                end(high)
            )
        }
        Some((low, high)) if of.is_open(low) && of.is_open(high) => {
            format!("{} ±?   {mark}", difference(of, pct))
        }
        Some((low, high)) => {
            let (above, below) = (high - pct, pct - low);
            // Two ends with the same text would look like an exact figure.
            let is_narrow = end(low) == end(high);
            if is_narrow || above.min(below) >= EVEN * above.max(below) {
                format!("{} ±{}{mark}", difference(of, pct), size(above.max(below)))
            } else {
                format!("{}..{}{mark}", end(low), end(high))
            }
        }
    }
}

/// An interval lies about its difference if the shorter side has this part of the
/// longer one.
const EVEN: f64 = 0.7;

/// Whether all tables have room for both ends of intervals.
pub(super) fn are_wide(tables: &[FigureTable], look: &TerminalStyle) -> bool {
    tables.iter().all(|figures| {
        let rows = TerminalRows::choose(figures, look);
        look.holds(&table(figures, &rows, &figures.quantities, true))
    })
}

/// The table of a test with its legend. On a narrow terminal without user time, which
/// is the difference of two other columns.
pub(super) fn table_lines(figures: &FigureTable, look: &TerminalStyle, wide: bool) -> String {
    let rows = TerminalRows::choose(figures, look);
    let mut quantities = figures.quantities.clone();
    let mut text = table(figures, &rows, &quantities, wide);
    if !look.holds(&text) {
        quantities.retain(|quantity| *quantity != Quantity::User);
        text = table(figures, &rows, &quantities, wide);
    }
    text + &legend(figures)
}

/// A column for each quantity, and the verdict: a row for each CPU that has one,
/// and one for the others, with the range of their differences.
fn table(
    figures: &FigureTable,
    rows: &TerminalRows,
    quantities: &[Quantity],
    wide: bool,
) -> String {
    let heads = quantities
        .iter()
        .map(|q| format!("{} {} ", q.word(), q.unit()));
    let first = std::iter::once("CPU".to_owned());
    let mut table = plain(first.chain(heads).chain(["verdict".to_owned()]));
    for cpu in &rows.own {
        let cells = quantities
            .iter()
            .map(|q| cell(*q, figures.get(*cpu, *q), wide));
        let row = std::iter::once(cpu.to_string()).chain(cells);
        table.add_row(row.chain([figures.rows[cpu].word.to_owned()]));
    }
    let others = || rows.others.iter();
    let worst = others().map(|cpu| &figures.rows[cpu]);
    let worst = worst.max_by_key(|row| match row.verdict {
        AuditVerdict::NotResolvable => AuditVerdict::Equal,
        other => other,
    });
    if let Some(worst) = worst {
        let name = match (rows.others.len(), rows.own.is_empty()) {
            (n, true) => format!("all {n}"),
            (1, false) => "1 other".to_owned(),
            (n, false) => format!("{n} others"),
        };
        let figures = |q| others().filter_map(move |cpu| figures.get(*cpu, q));
        let cells = quantities
            .iter()
            .map(|q| span(*q, figures(*q).map(|figure| figure.pct)));
        let row = std::iter::once(name).chain(cells);
        table.add_row(row.chain([worst.word.to_owned()]));
    }
    lines(table)
}

/// Without the blanks at the end; figures to the right, the last column to the
/// left.
fn lines(mut table: Table) -> String {
    let columns = table.column_count();
    for column in table.column_iter_mut().take(columns - 1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let all = table.lines();
    all.map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// The marks that occur in a table.
fn legend(figures: &FigureTable) -> String {
    let all = || figures.figures.values();
    let has = |verdict| all().any(|one| one.verdict == Some(verdict));
    let beyond = if figures.is_designed {
        "* beyond chance (by design: no alarm)"
    } else {
        "* beyond chance"
    };
    let has_few = all().any(|one| one.is_resolved() && one.together_pct.is_none());
    let marks = [
        (has(AuditVerdict::Unequal), beyond),
        (has(AuditVerdict::Undecided), "? undecided"),
        (has(AuditVerdict::NotResolvable), "~ not resolvable here"),
        (has_few, "±-: too few runs"),
    ];
    let marks = marks.into_iter().filter(|(occurs, _)| *occurs);
    let marks: Vec<&str> = marks.map(|(_, mark)| mark).collect();
    if marks.is_empty() {
        String::new()
    } else {
        format!("  {}\n", marks.join("   "))
    }
}
