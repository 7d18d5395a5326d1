// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables in markdown, aligned so that they read well as plain text too.

use std::fmt::Write as _;

/// A table: the first column to the left, all others to the right.
#[derive(Debug)]
pub struct MarkdownTable {
    rows: Vec<Vec<String>>,
}

impl MarkdownTable {
    /// A table with these column heads.
    pub fn new(heads: &[&str]) -> Self {
        Self {
            rows: vec![heads.iter().map(|h| (*h).to_owned()).collect()],
        }
    }

    /// Adds a row of as many cells as there are heads.
    pub fn push(&mut self, row: Vec<String>) {
        debug_assert_eq!(row.len(), self.rows[0].len());
        self.rows.push(row);
    }

    /// Whether there is nothing below the heads.
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    /// The text, with a final newline.
    pub fn render(&self) -> String {
        let columns = self.rows[0].len();
        let widths: Vec<usize> = (0..columns)
            .map(|c| {
                let widest = self.rows.iter().map(|r| r[c].chars().count()).max();
                widest.unwrap_or(0).max(3)
            })
            .collect();
        let mut out = String::new();
        for (at, row) in self.rows.iter().enumerate() {
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
pub fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(
        || "-".to_owned(),
        |v| {
            let text = format!("{v:.decimals$}");
            // No minus before a zero.
            match text.strip_prefix('-') {
                Some(rest) if rest.chars().all(|c| matches!(c, '0' | '.')) => rest.to_owned(),
                _ => text,
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut t = MarkdownTable::new(&["what", "n"]);
        assert!(t.is_empty());
        t.push(vec!["a|b".to_owned(), "1000".to_owned()]);
        assert_eq!(
            t.render(),
            "| what |    n |\n| ---- | ---: |\n| a\\|b | 1000 |\n"
        );
    }

    #[test]
    fn zero_has_no_sign() {
        assert_eq!(number(Some(-0.001), 2), "0.00");
        assert_eq!(number(Some(-0.01), 2), "-0.01");
        assert_eq!(number(None, 2), "-");
    }
}
