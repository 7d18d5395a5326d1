// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands: `load`, `replay`, `slow`, `record`, `compare`, `doctor`.

use indicatif::{ProgressBar, ProgressStyle};

pub mod compare;
pub mod doctor;
pub mod load;
pub mod record;
pub mod replay;
pub mod run;
pub mod show;
pub mod slow;

/// Of a known length, or one that only counts.
pub(crate) fn progress_bar(length_ns: Option<u64>) -> ProgressBar {
    let style = |template| {
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
    };
    match length_ns {
        Some(ns) => ProgressBar::new(ns / 1_000_000)
            .with_style(style("{elapsed_precise} [{wide_bar}] {msg}")),
        None => ProgressBar::new_spinner().with_style(style("{elapsed_precise} {msg}")),
    }
}
