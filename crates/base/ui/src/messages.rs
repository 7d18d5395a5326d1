// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Our own words: to stderr, so that a command's output stays its own.

use std::io::{IsTerminal as _, Write as _, stderr};

use crate::text::{visible, visible_lines};

#[derive(Debug, Clone, Copy)]
pub struct Messages {
    quiet: bool,
    verbose: u8,
}

impl Messages {
    pub fn new(quiet: bool, verbose: u8) -> Self {
        Self { quiet, verbose }
    }

    /// A line of ordinary importance.
    pub fn say(&self, text: &str) {
        if !self.quiet {
            line(text);
        }
    }

    /// A text of several lines, such as a table.
    pub fn show(&self, text: &str) {
        if !self.quiet {
            lines(text);
        }
    }

    /// A line for those who asked for more.
    pub fn detail(&self, text: &str) {
        if !self.quiet && self.verbose > 0 {
            line(text);
        }
    }

    pub fn is_verbose(&self) -> bool {
        self.verbose > 0
    }

    pub fn warning(&self, text: &str) {
        if !self.quiet {
            line(&format!("sandbag: warning: {text}"));
        }
    }

    /// An error; said even when quiet.
    pub fn error(text: &str) {
        line(&format!("sandbag: {text}"));
    }

    /// Columns of the terminal on which we say it, if it is one.
    pub fn width() -> Option<usize> {
        crate::output::width_of(&stderr())
    }

    /// Whether standard error is a terminal: progress is for terminals only.
    pub fn interactive(&self) -> bool {
        !self.quiet && stderr().is_terminal()
    }
}

/// Some of it is from commands and files of others, who forge no line of ours.
fn line(text: &str) {
    lines(&visible(text.trim_end()));
}

/// A reader who went away is no reason to fail.
fn lines(text: &str) {
    let _ = writeln!(stderr(), "{}", visible_lines(text.trim_end()));
}
