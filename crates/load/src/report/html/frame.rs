// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the pages of a run and of several nodes share.

use maud::{Markup, html};
use sandbag_ui::page::{frame_around, sentence, to_json};
use sandbag_ui::text::visible;

use super::data::Charts;

pub(super) const SCRIPT: &str = include_str!("page.js");

/// A whole page: what the browser needs around `body`. Each chart draws from
/// the entry of `charts` that its `data-of` names, else from the first.
pub(super) fn frame(title: &str, body: &Markup, charts: &[Charts<'_>]) -> Markup {
    frame_around(title, body, &to_json(charts), SCRIPT)
}

pub(super) fn warning_list(texts: &[String]) -> Markup {
    html! {
        @if !texts.is_empty() {
            section .warnings {
                h2 { @if texts.len() == 1 { "Warning" } @else { "Warnings" } }
                ul { @for text in texts { li { (sentence(&visible(text))) } } }
            }
        }
    }
}
