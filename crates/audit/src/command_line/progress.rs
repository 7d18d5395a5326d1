// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far an audit is: a bar on a terminal, a line for each test that ends elsewhere.

use crate::AuditProgress;
use indicatif::{ProgressBar, ProgressStyle};

use sandbag_ui::text::visible;

use sandbag_ui::messages::Messages;

/// Parts of the bar; a test's share of its time is no more exact.
const PARTS: u64 = 1000;

/// What is shown while it runs.
pub(super) struct ProgressView<'a> {
    messages: &'a Messages,
    bar: Option<ProgressBar>,
}

impl<'a> ProgressView<'a> {
    pub(super) fn new(messages: &'a Messages) -> Self {
        let style = ProgressStyle::with_template("{elapsed_precise} [{wide_bar}] {msg}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = || ProgressBar::new(PARTS).with_style(style);
        Self {
            messages,
            bar: messages.interactive().then(bar),
        }
    }

    /// Tells what came.
    pub(super) fn update(&mut self, progress: &AuditProgress) {
        match progress {
            AuditProgress::Preparing { name } => {
                if let Some(bar) = &self.bar {
                    bar.set_message(format!("{}: getting ready", visible(name)));
                }
            }
            AuditProgress::Round {
                name,
                round,
                half_width_pct,
                done,
            } => {
                if let Some(bar) = &self.bar {
                    bar.set_position((done.clamp(0.0, 1.0) * PARTS as f64) as u64);
                    bar.set_message(format!(
                        "{}, round {round}{}",
                        visible(name),
                        half_width_text(*half_width_pct)
                    ));
                }
            }
            AuditProgress::Over {
                name,
                rounds,
                half_width_pct,
                failure,
            } => {
                let text = match failure {
                    Some(why) => format!("{name}: {why}"),
                    None => format!(
                        "{name}: {rounds} rounds{}",
                        half_width_text(*half_width_pct)
                    ),
                };
                match &self.bar {
                    Some(bar) => bar.suspend(|| self.messages.say(&text)),
                    None => self.messages.say(&text),
                }
            }
            AuditProgress::Remark(text) => match &self.bar {
                // Not through the bar.
                Some(bar) => bar.suspend(|| self.messages.warning(text)),
                None => self.messages.warning(text),
            },
        }
    }
}

fn half_width_text(half_width_pct: Option<f64>) -> String {
    half_width_pct.map_or_else(String::new, |pct| format!(", known to {pct:.2} %"))
}

impl Drop for ProgressView<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
