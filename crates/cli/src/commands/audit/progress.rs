// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far an audit is: a bar on a terminal, a line for each test elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use sandbag_audit::Progress;

use crate::messages::Messages;

/// Parts of the bar; a test's share of its time is no more exact.
const PARTS: u64 = 1000;

/// What is shown while it runs.
pub(super) struct Shown<'a> {
    messages: &'a Messages,
    bar: Option<ProgressBar>,
    /// The test that runs, and how many there are.
    at: (usize, usize),
}

impl<'a> Shown<'a> {
    pub(super) fn new(messages: &'a Messages) -> Self {
        let style = ProgressStyle::with_template("{elapsed_precise} [{wide_bar}] {msg}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = || ProgressBar::new(PARTS).with_style(style);
        Self {
            messages,
            bar: messages.interactive().then(bar),
            at: (0, 1),
        }
    }

    /// Tells what came.
    pub(super) fn told(&mut self, progress: &Progress) {
        match progress {
            Progress::Test { name, number, of } => {
                self.at = (*number, (*of).max(1));
                self.set(0.0);
                match &self.bar {
                    Some(bar) => bar.set_message(format!("{name}, test {number} of {of}")),
                    None => self.messages.say(&format!("[{number}/{of}] {name}")),
                }
            }
            Progress::Round {
                name,
                round,
                half_width_pct,
                done,
                ..
            } => {
                self.set(*done);
                let known =
                    half_width_pct.map_or_else(String::new, |pct| format!(", known to {pct:.2} %"));
                if let Some(bar) = &self.bar {
                    let (number, of) = self.at;
                    bar.set_message(format!("{name}, {number} of {of}: round {round}{known}"));
                }
            }
            Progress::Remark(text) => match &self.bar {
                // Not through the bar.
                Some(bar) => bar.suspend(|| self.messages.warning(text)),
                None => self.messages.warning(text),
            },
        }
    }

    fn set(&self, done: f64) {
        if let Some(bar) = &self.bar {
            let (number, of) = self.at;
            let share = (number.saturating_sub(1) as f64 + done.clamp(0.0, 1.0)) / of as f64;
            bar.set_position((share * PARTS as f64) as u64);
        }
    }
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
