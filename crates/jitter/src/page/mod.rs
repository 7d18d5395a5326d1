// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages of OS jitter: one of a trace, one of two traces compared. Figures in
//! the manner of De, Kothari and Mann's figures 1 to 4: densities of lengths
//! on logarithmic axes; and the events over time, their cumulative shares, the
//! spectrum, and what CPUs have in common.

mod data;
mod tables;
#[cfg(test)]
mod tests;

use crate::stats::{
    Correlation, FALSE_ALARM, Likeness, LikenessVerdict, Spectrum, correlations, likeness, spectrum,
};
use crate::tables as shared;
use crate::{JitterTrace, Span};
use maud::{Markup, html};

use data::{ComparedCharts, TraceCharts};
use sandbag_ui::page::{CREDIT, frame_around, sentence, to_json};
use sandbag_ui::quantity::time;
use sandbag_ui::text::{clock, visible};

const SCRIPT: &str = include_str!("jitter.js");

/// Up to this many CPUs each has a colour, and a chart of its events.
const MOST_CHARTS: usize = 8;
/// Pairs of CPUs whose lags are drawn.
const MOST_LAGS: usize = 6;

/// A trace with what was found in it.
pub struct TracePage<'a> {
    /// What the user calls it.
    pub name: &'a str,
    pub trace: &'a JitterTrace,
    /// In the order of its CPUs.
    pub spectra: &'a [Option<Spectrum>],
    /// All pairs.
    pub correlations: &'a [Correlation],
    /// How many of the longest events are listed.
    pub worst: usize,
}

/// The page of a trace.
#[must_use]
pub fn render(page: &TracePage<'_>) -> String {
    let trace = page.trace;
    let charts = TraceCharts::of(page);
    let colours = trace.cpus.len() <= MOST_CHARTS;
    let lines = html! {
        @if colours {
            @for (i, cpu) in trace.cpus.iter().enumerate() { (key(i, &format!("CPU {}", cpu.cpu))) }
        } @else {
            span { i .key.got {} "each CPU a line" }
        }
    };
    let unknown = trace.cpus.iter().any(|cpu| cpu.known.len() > 1);
    let body = html! {
        (headline(page))
        section { h2 { "Per CPU" } (shared::summary(trace).html()) }
        div .charts {
            section {
                h2 { "Density of lengths" }
                p .legend { (lines) }
                div .chart.small data-chart="density" {}
                p .note {
                    "Share of the events per decade of length, by a Gaussian kernel on the logarithm "
                    "(bandwidth by Silverman's rule). Below what can be detected there are none."
                }
            }
            section {
                h2 { "Cumulative shares" }
                p .legend { (lines) span .note { "line: of the events; dashed: of the noise" } }
                div .chart.small data-chart="cumulative" {}
                p .note { "Share of the events, and of the time that they took, up to this length." }
            }
        }
        section {
            h2 { "Events over time" }
            p .legend {
                span .note { "Each dot is an event, or several: the darker the more." }
                @if unknown { span { i .key.hole {} "nobody looked" } }
            }
            @if colours {
                div .charts {
                    @for (i, cpu) in trace.cpus.iter().enumerate() {
                        figure {
                            figcaption { "CPU " (cpu.cpu) }
                            div .chart.heat.events data-chart="events" data-line=(i) {}
                        }
                    }
                }
            } @else {
                figure { figcaption { "All CPUs" } div .chart.heat.events data-chart="events" data-line="0" {} }
            }
        }
        (periodic(page, colours))
        (in_common(page))
        @if let Some(all) = trace.attribution.as_deref().filter(|all| !all.cpus.is_empty()) {
            section { h2 { "Who took how much" } (tables::source_table(trace, all)) }
        }
        section { h2 { "The longest" } (shared::longest(trace, page.worst).html()) }
        (tables::method_table(trace))
        footer { "sandbag " (env!("CARGO_PKG_VERSION")) ". " (CREDIT) }
    };
    let title = format!("sandbag: jitter, {}", visible(page.name));
    frame_around(&title, &body, &to_json(&charts), SCRIPT).into_string()
}

/// Looks for all that a page of this trace shows, and makes it.
#[must_use]
pub fn render_trace(name: &str, trace: &JitterTrace, worst: usize) -> String {
    let spectra: Vec<_> = trace.cpus.iter().map(spectrum).collect();
    render(&TracePage {
        name,
        trace,
        spectra: &spectra,
        correlations: &correlations(&trace.cpus),
        worst,
    })
}

fn key(i: usize, name: &str) -> Markup {
    html! { span { i .key.got style=(format!("background: var(--line-{i})")) {} (name) } }
}

fn headline(page: &TracePage<'_>) -> Markup {
    let header = &page.trace.header;
    let cpus = &page.trace.cpus;
    let known_ns: f64 = cpus.iter().map(|cpu| cpu.known_ns() as f64).sum();
    let noise_ns: f64 = cpus.iter().map(|cpu| cpu.noise_ns() as f64).sum();
    let events: usize = cpus.iter().map(|cpu| cpu.events.len()).sum();
    let longest = cpus.iter().flat_map(|cpu| &cpu.events);
    let longest = longest.map(|event| event.length_ns).max();
    let mut what = vec![match cpus.len() {
        1 => "1 CPU".to_owned(),
        n => format!("{n} CPUs"),
    }];
    what.push(clock(length_s(page.trace)));
    what.push(format!("recorded by {}", visible(&header.recorder)));
    what.extend(
        header
            .host
            .as_ref()
            .map(|host| format!("host {}", visible(host))),
    );
    what.extend(
        header
            .kernel
            .as_ref()
            .map(|kernel| format!("Linux {}", visible(kernel))),
    );
    what.extend(
        header
            .real_time
            .map(|priority| format!("real-time priority {priority}")),
    );
    let figure = |name: &str, value: String| html! { div { dt { (name) } dd { (value) } } };
    let part = |value: f64, by: f64| if by > 0.0 { value / by } else { 0.0 };
    html! {
        header {
            p .what { "OS jitter · " (what.join(" · ")) }
            h1 { (visible(page.name)) }
            dl .figures {
                (figure("noise", format!("{:.4} %", part(noise_ns, known_ns) * 100.0)))
                (figure("events per s and CPU", format!("{:.1}", part(events as f64 * 1e9, known_ns))))
                (figure("mean length", time(part(noise_ns, events as f64))))
                (figure("longest", longest.map_or_else(tables::empty_cell, |ns| time(ns as f64))))
                (figure("looked for", clock(known_ns / 1e9 / cpus.len().max(1) as f64)))
            }
            @if !page.trace.warnings.is_empty() {
                section .warnings {
                    ul { @for w in &page.trace.warnings { li { (sentence(&visible(w))) } } }
                }
            }
        }
    }
}

/// From the first moment known to the last, s.
fn length_s(trace: &JitterTrace) -> f64 {
    let spans = || trace.cpus.iter().flat_map(|cpu| &cpu.known);
    let begin = spans().map(|span: &Span| span.from_ns).min().unwrap_or(0);
    let end = spans().map(|span: &Span| span.until_ns).max().unwrap_or(0);
    end.saturating_sub(begin) as f64 / 1e9
}

fn periodic(page: &TracePage<'_>, colours: bool) -> Markup {
    let some = page.spectra.iter().flatten().next();
    let Some(some) = some else {
        return html! {};
    };
    html! {
        section {
            h2 { "Periodic components" }
            (tables::components(page.spectra))
            @if colours {
                p .legend {
                    span { i .key.got {} "starts of events" }
                    span { i .key.asked {} "noise" }
                    span .note { "dashed: what a peak of the starts needs" }
                }
                div .charts {
                    @for (i, found) in page.spectra.iter().enumerate() {
                        @if let Some(found) = found {
                            figure {
                                figcaption { "CPU " (found.cpu) }
                                div .chart.small data-chart="spectrum" data-line=(i) {}
                            }
                        }
                    }
                }
            }
            p .note {
                "Power relative to as many events at random times; events that have no period at all would "
                "show a peak on a CPU with a probability of " (FALSE_ALARM) ". Looked for: periods from "
                (time(some.shortest_ns)) " to " (time(some.longest_ns)) "."
            }
        }
    }
}

fn in_common(page: &TracePage<'_>) -> Markup {
    if page.correlations.is_empty() {
        return html! {};
    }
    let many = page.trace.cpus.len() > 2;
    let lags = data::lag_pairs(page.correlations);
    html! {
        section {
            h2 { "What CPUs have in common" }
            (tables::correlations(page.correlations))
            div .charts {
                @if many {
                    figure {
                        figcaption { "Correlation of the noise in stretches of 10 ms" }
                        div .chart.heat.matrix data-chart="matrix" {}
                    }
                }
                @for (i, one) in lags.iter().enumerate() {
                    figure {
                        figcaption { "Events of CPU " (one.b) " after those of CPU " (one.a) }
                        div .chart.small data-chart="lag" data-line=(i) {}
                    }
                }
            }
            p .note {
                "Together: events of the CPU with fewer that begin within 20 us of one of the other. "
                "By chance: the same with one of the two moved in time, 199 times; the least and the "
                "greatest, which hold 99 in 100."
            }
        }
    }
}

/// Two traces, and what was found between them.
pub struct ComparisonPage<'a> {
    /// What the user calls the reference.
    pub a_name: &'a str,
    /// The reference.
    pub a: &'a JitterTrace,
    /// What the user calls the other.
    pub b_name: &'a str,
    /// The other.
    pub b: &'a JitterTrace,
    /// Between them.
    pub likeness: &'a Likeness,
}

/// The page of two traces.
#[must_use]
pub fn render_comparison(page: &ComparisonPage<'_>) -> String {
    let charts = ComparedCharts::of(page.a, page.b);
    let found = page.likeness;
    let (class, words) = match found.verdict {
        LikenessVerdict::Same => ("kept", "the same"),
        LikenessVerdict::Differs => ("missed", "they differ"),
        LikenessVerdict::Undecided => ("undecided", "undecided"),
    };
    let lines = html! {
        p .legend {
            span { i .key.asked {} "A " (visible(page.a_name)) }
            span { i .key.got {} "B " (visible(page.b_name)) }
        }
    };
    let body = html! {
        header {
            p .what { "OS jitter, two traces · A " (visible(page.a_name)) " · B " (visible(page.b_name)) }
            h1 { span .verdict.(class) { (words) } }
            p .reason { (sentence(&found.reason)) }
        }
        section {
            h2 { "What is judged" }
            (tables::verdict_table(found))
            p .note {
                "Limit: what 99 in 100 pairs of parts of the same trace do not exceed (block bootstrap; "
                (found.blocks[0]) " blocks of " (time(found.block_s[0] * 1e9)) " of A, "
                (found.blocks[1]) " of " (time(found.block_s[1] * 1e9)) " of B). A figure differs if "
                "its whole interval of 95 % is beyond the limit; it is the same if it is within, and the limit "
                "is below the resolution."
            }
        }
        div .charts {
            section { h2 { "Densities of lengths" } (lines) div .chart.small data-chart="density" {} }
            section {
                h2 { "Cumulative shares" }
                (lines)
                div .chart.small data-chart="cumulative" {}
                p .note { "Line: of the events; dashed: of the noise." }
            }
        }
        div .columns {
            section { h2 { "Quantiles" } (tables::quantiles(found)) }
            section { h2 { "Distances of the lengths" } (tables::distances(found)) }
        }
        section { h2 { "Both" } (tables::comparison_table(page)) }
        footer { "sandbag " (env!("CARGO_PKG_VERSION")) ". " (CREDIT) }
    };
    let title = format!(
        "sandbag: jitter, {} and {}: {words}",
        visible(page.a_name),
        visible(page.b_name)
    );
    frame_around(&title, &body, &to_json(&charts), SCRIPT).into_string()
}

/// Compares two traces and makes the page; `None` if one has no events.
#[must_use]
pub fn render_two(names: [&str; 2], a: &JitterTrace, b: &JitterTrace) -> Option<String> {
    let likeness = likeness(a, b)?;
    Some(render_comparison(&ComparisonPage {
        a_name: names[0],
        a,
        b_name: names[1],
        b,
        likeness: &likeness,
    }))
}
