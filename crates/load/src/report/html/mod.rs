// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `report.html`: one file, no network, light and dark, fit to print.
//!
//! All text and tables are plain HTML; only the charts need JavaScript. The
//! page forbids itself every request (Content-Security-Policy), and text from
//! outside is escaped by the template.

mod data;
pub mod jitter;
mod nodes;
pub mod scale;
mod tables;

use std::path::Path;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use sandbag_measure::{Verdict, verdict};

use crate::run::Run;
use crate::series::Series;
use crate::text::{self, command_line, visible};
use crate::view::View;
use data::Charts;
pub use nodes::render as render_nodes;

const STYLE: &str = include_str!("page.css");
/// What the charts of all pages have in common.
const COMMON: &str = include_str!("common.js");
const SCRIPT: &str = include_str!("page.js");
const ECHARTS: &str = include_str!("../../vendor/echarts.min.js");

/// Whose work the charts are.
const CREDIT: &str = "Charts: Apache ECharts, Apache License 2.0.";

/// Up to this many CPUs each has a chart of its own; above, heat maps.
const MOST_CHARTS: usize = 8;

/// The page for `run` with the windows in `achieved`. It is always whole: if
/// the windows cannot be read, the page says why in the place of the charts.
#[must_use]
pub fn render(run: &Run, achieved: &Path) -> String {
    let view = View::of(run);
    let series = view.series(achieved).map_err(|e| e.to_string());
    page(&view, &series).into_string()
}

fn page(view: &View<'_>, series: &Result<Series, String>) -> Markup {
    let run = &*view.run;
    let charts = Charts::of_run(view, series.as_ref().ok());
    let title = format!(
        "sandbag: {}, {} on {}",
        run.verdict,
        view.subject(),
        visible(&run.machine.host)
    );
    let body = html! {
        (headline(view))
        (warnings(run))
        section {
            h2 { (view.words.table) }
            (tables::cpus(view))
        }
        @if let Some(node) = &run.node { (tables::node(node)) }
        (over_time(view, series))
        @if run.error_1s.is_some() { (distribution(run, &charts)) }
        @if let Some(command) = &run.command { (tables::program(view, command)) }
        div .columns {
            (tables::cost(view))
            (tables::method(run))
            (tables::machine(&run.machine))
        }
        (reproduce(run))
        footer {
            "sandbag " (visible(&run.sandbag)) ", run record format " (run.format) ". " (CREDIT)
        }
    };
    frame(&title, &body, std::slice::from_ref(&charts))
}

/// A whole page: what the browser needs around `body`. Each chart draws from
/// the entry of `charts` that its `data-of` names, else from the first.
fn frame(title: &str, body: &Markup, charts: &[Charts<'_>]) -> Markup {
    frame_around(title, body, &data::to_json(charts), SCRIPT)
}

/// A whole page without any script: what is drawn is drawn already. `style` is
/// put below that of all pages.
#[must_use]
pub fn still(title: &str, style: &str, body: &Markup) -> String {
    let policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
    whole(title, policy, style, body).into_string()
}

/// The same with the data and the script of another kind of page; `json` must
/// not be able to end its element.
fn frame_around(title: &str, body: &Markup, json: &str, script: &str) -> Markup {
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

fn headline(view: &View<'_>) -> Markup {
    let run = &*view.run;
    let held = view.held();
    let (class, words) = match run.verdict {
        Verdict::Kept => ("kept", format!("the {held} was what was asked")),
        Verdict::Missed => ("missed", format!("the {held} was not what was asked")),
        Verdict::Undecided => (
            "undecided",
            "the machine was too disturbed to tell".to_owned(),
        ),
    };
    let mut what = vec![match run.cpus.len() {
        1 => "1 CPU".to_owned(),
        n => format!("{n} CPUs"),
    }];
    what.push(text::clock(run.length_s));
    if let Some(began) = run.load_began_s {
        what.push(format!("load begun {began:.1} s after the program"));
    }
    if run.paused_s > 0.0 {
        what.push(format!("paused for {}", text::clock(run.paused_s)));
    }
    what.push(format!("method {}", visible(&run.method.name)));
    what.push(format!("host {}", visible(&run.machine.host)));
    what.push(visible(&run.started_at));
    html! {
        header {
            p .what { (view.subject()) " · " (what.join(" · ")) }
            h1 { span .verdict.(class) { (run.verdict) } ": " (words) }
            p .reason { (sentence(&visible(&run.reason))) }
            dl .figures { (figures(run)) }
        }
    }
}

/// The few figures a reader compares first.
fn figures(run: &Run) -> Markup {
    let figure = |name: &str, value: String| html! { div { dt { (name) } dd { (value) } } };
    let steal = run.cpus.iter().map(|c| c.steal_pct).sum::<f64>() / run.cpus.len().max(1) as f64;
    html! {
        @if let Some(e) = run.error_1s {
            (figure("mean abs. error", format!("{:.2} points", e.mean_abs_points)))
            (figure("99 % of windows within", format!("{:.2} points", e.p99_abs_points)))
            (figure("worst window, 1 s", format!("{} points", signed(e.worst_points, 2))))
        }
        @if let Some(e) = run.error_100ms {
            (figure("mean abs., 100 ms", format!("{:.2} points", e.mean_abs_points)))
        }
        @if !run.cpus.is_empty() { (figure("steal", format!("{steal:.1} %"))) }
        (figure("disturbed windows", format!("{:.1} %", run.noisy_share * 100.0)))
        @if let Some(efficiency) = run.command.as_ref().and_then(|c| c.efficiency) {
            (figure("program's efficiency", format!("{:.1} %", efficiency * 100.0)))
        }
        (figure("own cost per CPU", format!("{:.3} %", run.supervisor.pct_per_cpu)))
    }
}

fn warnings(run: &Run) -> Markup {
    html! {
        @if !run.warnings.is_empty() {
            section .warnings {
                h2 { @if run.warnings.len() == 1 { "Warning" } @else { "Warnings" } }
                ul { @for w in &run.warnings { li { (sentence(&visible(w))) } } }
            }
        }
    }
}

fn over_time(view: &View<'_>, series: &Result<Series, String>) -> Markup {
    let words = view.words;
    let series = match series {
        Ok(series) if series.cpus.is_empty() => {
            return html! { section { h2 { "Over time" } p { "The run has no windows." } } };
        }
        Ok(series) => series,
        Err(why) => {
            return html! {
                section { h2 { "Over time" } p { "No charts over time: " (visible(why)) "." } }
            };
        }
    };
    let lines = series.cpus.len() <= MOST_CHARTS;
    let window = match (series.thinned, lines) {
        (false, _) => format!("One step per window of {} s.", series.width_s),
        (true, true) => format!(
            "Thinned to steps of {} s: lines are means, bands reach from the least to the \
             greatest window, errors are those of the worst window.",
            series.width_s
        ),
        (true, false) => format!(
            "Thinned to steps of {} s: {}s are means, the errors of single CPUs those of the \
             worst window.",
            series.width_s, words.quantity
        ),
    };
    let holes = series.cpus.iter().any(|(_, t)| !t.holes.is_empty());
    html! {
        section {
            h2 { "Over time" }
            p .legend {
                span { i .key.asked {} "asked" }
                span { i .key.got {} "got" }
                @if holes { span { i .key.hole {} (words.absent) } }
                span .note { (words.charts) " " (window) }
            }
            @if lines {
                div .charts {
                    @for (i, (cpu, _)) in series.cpus.iter().enumerate() {
                        figure { figcaption { "CPU " (cpu) } div .chart.load data-chart="load" data-line=(i) {} }
                    }
                }
            } @else {
                figure { figcaption { "Mean over all CPUs" } div .chart.load data-chart="mean" {} }
                figure { figcaption { "Got, " (words.of_what) } div .chart.heat data-chart="got" {} }
                figure { figcaption { "Error (got minus asked), points" } div .chart.heat data-chart="error" {} }
            }
            noscript { p { "The charts need JavaScript; the tables are complete without it." } }
        }
    }
}

fn distribution(run: &Run, charts: &Charts<'_>) -> Markup {
    let beyond = charts.histogram.as_ref().map_or(0, |h| h.beyond);
    html! {
        div .charts {
            section {
                h2 { "Errors of the 1 s windows" }
                div .chart.small data-chart="distribution" {}
                @if let Some(e) = run.error_1s {
                    p .note {
                        (e.windows) " windows: mean " (signed(e.mean_points, 3))
                        ", standard deviation " (format!("{:.3}", e.sd_points))
                        ", 95 % within " (format!("{:.2}", e.p95_abs_points))
                        ", 99 % within " (format!("{:.2}", e.p99_abs_points)) " points."
                        @if beyond > 0 {
                            " Beyond the axis: " (beyond) ", the worst " (signed(e.worst_points, 2)) "."
                        }
                    }
                }
            }
            section {
                h2 { "Steal" }
                @if charts.steal_seen() {
                    div .chart.small data-chart="steal" {}
                    p .note {
                        "Percent of the wall time: mean over the CPUs (area) and the greatest window of one CPU (line). "
                        "Above " (verdict::NOISY_STEAL_PCT) " % a window counts as disturbed."
                    }
                } @else {
                    p { "The hypervisor withheld no time, or the machine does not say." }
                }
            }
        }
    }
}

fn reproduce(run: &Run) -> Markup {
    html! {
        section {
            h2 { "How to reproduce" }
            pre { code { "sandbag " (command_line(&run.arguments)) } }
            p .note {
                "sandbag " (visible(&run.sandbag)) ", profile " (visible(&run.profile))
                @if let Some(seed) = run.seed { ", seed " (seed) }
                ". All figures are in run.json and can be computed again from achieved.csv."
            }
        }
    }
}

/// Signed, with the page's minus; nothing is written as minus zero.
fn signed(value: f64, digits: usize) -> String {
    text::signed(value, digits).replace('-', "\u{2212}")
}

/// Starts like a sentence and ends with a full stop.
#[must_use]
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

#[cfg(test)]
mod tests;
