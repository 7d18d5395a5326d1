// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far an audit is: a bar on a terminal, a line for each test that ends elsewhere.

use crate::AuditProgress;
use sandbag_ui::messages::Messages;
use sandbag_ui::progress::Progress;

/// What is shown while it runs.
pub(super) struct ProgressView<'a> {
    messages: &'a Messages,
    bar: Option<Progress>,
}

impl<'a> ProgressView<'a> {
    pub(super) fn new(messages: &'a Messages) -> Self {
        Self {
            messages,
            bar: Progress::start(messages, true),
        }
    }

    /// Tells what came.
    pub(super) fn update(&mut self, progress: &AuditProgress) {
        match progress {
            AuditProgress::Preparing { name } => {
                if let Some(bar) = &mut self.bar {
                    bar.set_message(&format!("{name}: getting ready"));
                }
            }
            AuditProgress::Round {
                name,
                round,
                half_width_pct,
                done,
            } => {
                if let Some(bar) = &mut self.bar {
                    let known = half_width_text(*half_width_pct);
                    bar.update(*done, &format!("{name}, round {round}{known}"));
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
                match &mut self.bar {
                    Some(bar) => bar.print_above(|| self.messages.say(&text)),
                    None => self.messages.say(&text),
                }
            }
            AuditProgress::Remark(text) => match &mut self.bar {
                // Not through the bar.
                Some(bar) => bar.print_above(|| self.messages.warning(text)),
                None => self.messages.warning(text),
            },
        }
    }
}

fn half_width_text(half_width_pct: Option<f64>) -> String {
    half_width_pct.map_or_else(String::new, |pct| format!(", known to {pct:.2} %"))
}
