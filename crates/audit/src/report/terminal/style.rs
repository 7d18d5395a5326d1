// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How wide a terminal is, and how much it is to show.

use sandbag_ui::text::visible;

/// No terminal is taken for narrower.
pub const COLUMNS: usize = 80;
#[derive(Debug, Clone, Copy)]
pub struct TerminalStyle {
    /// Columns of the terminal.
    pub columns: usize,
    /// Every CPU and every sentence, however many.
    pub all: bool,
}

impl Default for TerminalStyle {
    fn default() -> Self {
        Self {
            columns: COLUMNS,
            all: false,
        }
    }
}

impl TerminalStyle {
    pub(super) fn columns(&self) -> usize {
        self.columns.max(COLUMNS)
    }

    /// Whether no line is too long.
    pub(super) fn holds(&self, table: &str) -> bool {
        table
            .lines()
            .all(|line| line.chars().count() <= self.columns())
    }

    /// Wraps with a hanging indent.
    pub(super) fn wrap(&self, indent: &str, text: &str) -> String {
        let hanging = format!("{indent}  ");
        // Lines that are too long are hard to read.
        let options = textwrap::Options::new(self.columns().min(100))
            .initial_indent(indent)
            .subsequent_indent(&hanging)
            .word_splitter(textwrap::WordSplitter::NoHyphenation);
        textwrap::fill(&visible(text), options) + "\n"
    }
}
