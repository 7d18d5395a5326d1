// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables of text, for pages and for reports in markdown.

use std::fmt::Write as _;

use maud::{Markup, html};
use sandbag_stats::{median, range};

/// A table; the first of its rows has the column heads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table(Vec<Vec<String>>);

impl Table {
    /// With heads that are separated by ` | `.
    pub fn of(heads: &str) -> Self {
        Self::new(heads.split(" | "))
    }

    pub fn new<T: Into<String>>(heads: impl IntoIterator<Item = T>) -> Self {
        Self(vec![heads.into_iter().map(Into::into).collect()])
    }

    /// Adds a row; cells that are missing at its end are empty.
    pub fn push(&mut self, mut row: Vec<String>) {
        debug_assert!(row.len() <= self.0[0].len(), "more cells than heads");
        row.resize(self.0[0].len(), String::new());
        self.0.push(row);
    }

    /// The first cell of each row.
    pub fn firsts(&self) -> impl Iterator<Item = &str> {
        self.0[1..].iter().map(|row| row[0].as_str())
    }

    pub fn is_empty(&self) -> bool {
        self.0.len() == 1
    }

    pub fn html(&self) -> Markup {
        html! {
            div.table {
                table {
                    thead { tr { @for name in &self.0[0] { th { (name) } } } }
                    tbody {
                        @for row in &self.0[1..] {
                            tr { @for cell in row { td { (cell) } } }
                        }
                    }
                }
            }
        }
    }

    /// In markdown, aligned so that it reads well as plain text too: the first column
    /// to the left, all others to the right.
    pub fn markdown(&self) -> String {
        let widths: Vec<usize> = (0..self.0[0].len())
            .map(|c| {
                let widths = self.0.iter().map(|row| row[c].chars().count());
                widths.fold(3, usize::max)
            })
            .collect();
        let mut out = String::new();
        for (at, row) in self.0.iter().enumerate() {
            for (c, (cell, width)) in row.iter().zip(&widths).enumerate() {
                // A bar within a cell would end it.
                let cell = cell.replace('|', "\\|");
                let _ = match c {
                    0 => write!(out, "| {cell:<width$} "),
                    _ => write!(out, "| {cell:>width$} "),
                };
            }
            out += "|\n";
            if at == 0 {
                for (c, width) in widths.iter().enumerate() {
                    let end = if c == 0 { '-' } else { ':' };
                    let _ = write!(out, "| {}{end} ", "-".repeat(width - 1));
                }
                out += "|\n";
            }
        }
        out
    }
}

/// A number with some decimals; `-` where there is none.
pub fn number(value: impl Into<Option<f64>>, decimals: usize) -> String {
    let Some(value) = value.into() else {
        return "-".to_owned();
    };
    let text = format!("{value:.decimals$}");
    // No minus before a zero.
    match text.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| matches!(c, '0' | '.')) => rest.to_owned(),
        _ => text,
    }
}

/// Median, least and greatest, written by `show`; `-` of no values.
pub fn spread_by(values: &[f64], show: impl Fn(f64) -> String) -> String {
    match (median(values), range(values)) {
        (Some(middle), _) if values.len() == 1 => show(middle),
        (Some(middle), Some((least, most))) => {
            format!("{} ({}..{})", show(middle), show(least), show(most))
        }
        _ => "-".to_owned(),
    }
}

/// Median, least and greatest with some decimals.
pub fn spread(values: &[f64], decimals: usize) -> String {
    spread_by(values, |value| format!("{value:.decimals$}"))
}

pub fn interval(value: f64, (low, high): (f64, f64), decimals: usize) -> String {
    format!("{value:.decimals$} ({low:.decimals$}..{high:.decimals$})")
}

pub fn yes(is: bool) -> String {
    if is { "yes" } else { "no" }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::of("what | n");
        assert!(table.is_empty());
        table.push(vec!["a|b".to_owned(), "1000".to_owned()]);
        assert_eq!(
            table.markdown(),
            "| what |    n |\n| ---- | ---: |\n| a\\|b | 1000 |\n"
        );
    }

    #[test]
    fn zero_has_no_sign() {
        assert_eq!(number(-0.001, 2), "0.00");
        assert_eq!(number(-0.01, 2), "-0.01");
        assert_eq!(number(None, 2), "-");
    }

    #[test]
    fn figures_have_their_spread() {
        assert_eq!(spread(&[1.0, 3.0, 2.0], 1), "2.0 (1.0..3.0)");
        assert_eq!(spread(&[1.234], 2), "1.23");
        assert_eq!(spread(&[], 2), "-");
    }
}
