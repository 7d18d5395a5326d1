// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `report.html`: one file, no network, light and dark, fit to print.
//!
//! All text and tables are plain HTML; only the charts need JavaScript. The
//! page forbids itself every request (Content-Security-Policy), and text from
//! outside is escaped by the template.

mod data;
mod frame;
mod nodes;
mod tables;

use std::path::Path;

use maud::{Markup, html};
use sandbag_stats::{Verdict, verdict};

use crate::report::run::Run;
use crate::report::series::LoadSeries;
use crate::report::view::View;
use data::{Charts, MOST_CHARTS};
use frame::{frame, warning_list};
pub use nodes::render as render_nodes;
use sandbag_ui::page::{CREDIT, sentence, signed};
use sandbag_ui::text::{self, command_line, visible};

/// The page for `run` with the windows in `achieved`. It is always whole: if
/// the windows cannot be read, the page says why in the place of the charts.
pub fn render(run: &Run, achieved: &Path) -> String {
    let view = View::of(run);
    let series = view.series(achieved).map_err(|e| e.to_string());
    page(&view, &series).into_string()
}

fn page(view: &View<'_>, series: &Result<LoadSeries, String>) -> Markup {
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
        (warning_list(&run.warnings))
        section {
            h2 { (view.words.table) }
            (tables::cpus(view))
        }
        (tables::parts(run))
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
            @if let Some(watched) = &run.watched {
                p { "Beside the load: " (watched.text()) "." }
            }
            dl .figures { (figures(run)) }
        }
    }
}

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

fn over_time(view: &View<'_>, series: &Result<LoadSeries, String>) -> Markup {
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
                figure { figcaption { "Mean over all CPUs; the error is that of the worst" } div .chart.load data-chart="mean" {} }
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

#[cfg(test)]
mod tests;
