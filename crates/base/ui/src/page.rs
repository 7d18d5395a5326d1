// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The frame of every page: one file, no network, light and dark, fit to print.
//!
//! The page forbids itself every request (Content-Security-Policy), and text
//! from outside is escaped by the template.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::Serialize;

use crate::text;

pub const STYLE: &str = include_str!("page.css");
/// What the charts of all pages have in common.
pub const COMMON: &str = include_str!("common.js");
pub const ECHARTS: &str = include_str!("../vendor/echarts.min.js");

/// Whose work the charts are.
pub const CREDIT: &str = "Charts: Apache ECharts, Apache License 2.0.";

/// A whole page without any script: what is drawn is drawn already. `style` is
/// put below that of all pages.
pub fn static_page(title: &str, style: &str, body: &Markup) -> String {
    let policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
    whole(title, policy, style, body).into_string()
}

/// A whole page with data and a script; `json` must not be able to end its
/// element.
pub fn frame_around(title: &str, body: &Markup, json: &str, script: &str) -> Markup {
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                  img-src data:";
    let body = html! {
        (body)
        script type="application/json" id="data" { (PreEscaped(json)) }
        script { (PreEscaped(ECHARTS)) }
        script { (PreEscaped(COMMON)) (PreEscaped(script)) }
    };
    whole(title, policy, "", &body)
}

/// A page that loads nothing from anywhere, by its `policy`.
fn whole(title: &str, policy: &str, style: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(policy);
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(style)) }
            }
            body { (body) }
        }
    }
}

/// JSON that cannot end the element it stands in.
pub fn to_json(charts: &(impl Serialize + ?Sized)) -> String {
    // Numbers, strings and lists of them always serialise.
    serde_json::to_string(charts)
        .unwrap_or_else(|_| "[]".to_owned())
        .replace('<', "\\u003c")
}

/// Signed, with the page's minus; nothing is written as minus zero.
pub fn signed(value: f64, digits: usize) -> String {
    text::signed(value, digits).replace('-', "\u{2212}")
}

/// Starts like a sentence and ends with a full stop.
pub fn sentence(text: &str) -> String {
    // The page spells the word in capitals everywhere.
    if let Some(rest) = text.strip_prefix("cpu") {
        return sentence(&format!("CPU{rest}"));
    }
    let mut chars = text.chars();
    let mut out: String = chars
        .next()
        .map(|c| c.to_uppercase().collect())
        .unwrap_or_default();
    out.push_str(chars.as_str());
    if !out.is_empty() && !out.ends_with(['.', '!', '?']) {
        out.push('.');
    }
    out
}
