// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables on the terminal without lines, as they all are.

use comfy_table::{Cell, CellAlignment, Table, presets};

/// An empty one.
#[must_use]
pub fn plain<T: Into<Cell>>(header: impl IntoIterator<Item = T>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(header.into_iter().map(Into::into).collect::<Vec<Cell>>());
    table
}

/// All columns as figures are read.
#[must_use]
pub fn right(table: Table) -> Table {
    right_from(table, 0)
}

/// All but the first, which names what the figures are of.
#[must_use]
pub fn named(table: Table) -> Table {
    right_from(table, 1)
}

fn right_from(mut table: Table, first: usize) -> Table {
    for column in table.column_iter_mut().skip(first) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
