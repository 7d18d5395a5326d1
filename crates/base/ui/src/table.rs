// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables on the terminal without lines, as they all are.

use comfy_table::{Cell, CellAlignment, Row, Table, presets};

/// An empty one.
pub fn plain<T: Into<Cell>>(header: impl IntoIterator<Item = T>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(header.into_iter().map(Into::into).collect::<Vec<Cell>>());
    table
}

/// All columns as figures are read.
pub fn right(table: Table) -> Table {
    right_from(table, 0)
}

/// All but the first, which names what the figures are of.
pub fn name_columns(table: Table) -> Table {
    right_from(table, 1)
}

fn right_from(mut table: Table, first: usize) -> Table {
    for column in table.column_iter_mut().skip(first) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The text of a table of figures for a screen of `width` columns. Columns
/// that do not fit follow below, each part with the first `keys` columns again.
/// `None`: unlimited, for files and pipes.
pub fn fit(table: &Table, keys: usize, width: Option<usize>) -> String {
    let widths = widths(table);
    let Some(width) = width.filter(|width| widths.iter().sum::<usize>() > *width) else {
        return table.to_string();
    };
    let parts: Vec<String> = parts(&widths, keys, width)
        .iter()
        .map(|columns| {
            let cells = |row: &Row| -> Vec<String> {
                let all: Vec<String> = row.cell_iter().map(Cell::content).collect();
                let of = |column: &usize| all.get(*column).cloned().unwrap_or_default();
                columns.iter().map(of).collect()
            };
            let mut part = plain(table.header().map(cells).unwrap_or_default());
            for row in table.row_iter() {
                part.add_row(cells(row));
            }
            right(part).to_string()
        })
        .collect();
    parts.join("\n\n")
}

/// Of each column, with the blanks at both sides.
fn widths(table: &Table) -> Vec<usize> {
    let widths = table.column_max_content_widths();
    widths.into_iter().map(|n| usize::from(n) + 2).collect()
}

/// The columns of each part; one that is too wide has a part of its own.
fn parts(widths: &[usize], keys: usize, width: usize) -> Vec<Vec<usize>> {
    let keys = keys.min(widths.len());
    let of_keys: usize = widths[..keys].iter().sum();
    let begun = || (0..keys).collect::<Vec<usize>>();
    let mut parts = vec![begun()];
    let mut used = of_keys;
    for (column, wide) in widths.iter().enumerate().skip(keys) {
        if used + wide > width && used > of_keys {
            parts.push(begun());
            used = of_keys;
        }
        if let Some(last) = parts.last_mut() {
            last.push(column);
        }
        used += wide;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_table() -> Table {
        let mut table = plain(["CPU", "asked", "injected", "late"]);
        table.add_row(["0", "100", "99", "1.5 us"]);
        table.add_row(["1", "7", "7", "20 us"]);
        right(table)
    }

    #[test]
    fn a_table_that_fits_is_as_it_was() {
        let table = new_table();
        for width in [None, Some(80)] {
            assert_eq!(fit(&table, 1, width), table.to_string());
        }
    }

    #[test]
    fn what_does_not_fit_comes_below_with_its_name() {
        let text = fit(&new_table(), 1, Some(20));
        let mut lines = text.lines();
        assert!(lines.all(|line| line.chars().count() <= 20), "{text}");
        let heads: Vec<&str> = text.lines().filter(|l| l.contains("CPU")).collect();
        assert_eq!(heads.len(), 3, "{text}");
        let words: Vec<&str> = text.split_whitespace().collect();
        for word in ["asked", "injected", "late", "1.5", "20"] {
            assert_eq!(words.iter().filter(|w| **w == word).count(), 1, "{text}");
        }
    }

    #[test]
    fn no_width_is_too_little() {
        assert_eq!(parts(&[5, 9, 9], 1, 1), [vec![0, 1], vec![0, 2]]);
        assert_eq!(parts(&[5], 3, 1), [vec![0]]);
        assert_eq!(parts(&[], 1, 80), [Vec::<usize>::new()]);
    }
}
