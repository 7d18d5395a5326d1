// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages of OS jitter: one of a trace, one of two traces compared. Figures in
//! the manner of De, Kothari and Mann's figures 1 to 4: densities of lengths
//! on logarithmic axes; and the events over time, their cumulative shares, the
//! spectrum, and what CPUs have in common.

mod data;
#[cfg(test)]
mod tests;

use crate::JitterTrace;
use crate::attribution::{self};
use crate::causes::Attribution;
use crate::spans::extent;
use crate::stats::{Correlation, FALSE_ALARM, Likeness, Spectrum};
use crate::tables::{self, TextTable};
use maud::{Markup, html};

use sandbag_ui::page::{CREDIT, frame_around, sentence, to_json};
use sandbag_ui::quantity::time;
use sandbag_ui::text::{clock, visible};

const SCRIPT: &str = include_str!("jitter.js");

/// Up to this many CPUs each has a colour, and a chart of its events.
const MOST_CHARTS: usize = 8;
/// Pairs of CPUs whose lags are drawn.
const MOST_LAGS: usize = 6;
/// Processes that are listed.
const MOST_PROCESSES: usize = 20;
/// Pairs of CPUs that are listed.
const MOST_PAIRS: usize = 40;

/// A trace with what was found in it.
pub struct TracePage<'a> {
    /// What the user calls it.
    pub name: &'a str,
    pub trace: &'a JitterTrace,
    /// In the order of its CPUs.
    pub spectra: &'a [Option<Spectrum>],
    pub correlations: &'a [Correlation],
    /// How many of the longest events are listed.
    pub worst: usize,
}

/// The page of a trace.
pub fn render(page: &TracePage<'_>) -> String {
    let trace = page.trace;
    let charts = data::of_trace(page);
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
        (table("Per CPU", &tables::summary(trace)))
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
                @if unknown { span { i .key.hole {} "not recorded" } }
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
            (causes(trace, all))
        }
        (table("Longest events", &tables::longest(trace, page.worst)))
        @if let Some(notes) = trace.how_found() { (table("How events were found", &tables::how_found(notes))) }
        footer { "sandbag " (env!("CARGO_PKG_VERSION")) ". " (CREDIT) }
    };
    let title = format!("sandbag: jitter, {}", visible(page.name));
    frame_around(&title, &body, &to_json(&charts), SCRIPT).into_string()
}

fn table(title: &str, table: &TextTable) -> Markup {
    html! { section { h2 { (title) } (table.html()) } }
}

fn causes(trace: &JitterTrace, all: &Attribution) -> Markup {
    let processes = attribution::processes(trace, all, MOST_PROCESSES);
    html! {
        section {
            h2 { "Time per cause" }
            (tables::causes(&attribution::table(trace, all)).html())
            p .note {
                "Gross: from entry to exit. Net: without other causes inside; the net times of all rows "
                "are the whole noise."
            }
            @if !processes.is_empty() { (tables::processes(&processes, usize::MAX).html()) }
        }
    }
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
    let count = match cpus.len() {
        1 => "1 CPU".to_owned(),
        n => format!("{n} CPUs"),
    };
    let length = extent(cpus.iter().flat_map(|cpu| cpu.known.clone())).unwrap_or_default();
    let length = clock(length.length_ns() as f64 / 1e9);
    let mut what = vec![
        count,
        length,
        format!("recorded by {}", visible(&header.recorder)),
    ];
    let named = |name: &str, text: &Option<String>| {
        text.as_ref()
            .map(|text| format!("{name} {}", visible(text)))
    };
    what.extend(named("host", &header.host));
    what.extend(named("Linux", &header.kernel));
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
                (figure("longest", longest.map_or_else(|| "\u{2013}".to_owned(), |ns| time(ns as f64))))
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

fn periodic(page: &TracePage<'_>, colours: bool) -> Markup {
    let some = page.spectra.iter().flatten().next();
    let Some(some) = some else {
        return html! {};
    };
    let components = tables::components(page.spectra);
    html! {
        section {
            h2 { "Periodic components" }
            @if components.is_empty() { p { "None found." } } @else { (components.html()) }
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
    let all = page.correlations;
    let shown = &all[..all.len().min(MOST_PAIRS)];
    html! {
        section {
            h2 { "Correlation of CPUs" }
            (tables::pairs(shown).html())
            @if shown.len() < all.len() { p .note { "The first " (shown.len()) " of " (all.len()) " pairs." } }
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
                "Together: events of the CPU with fewer events that begin within 20 us of one of the other. "
                "By chance: range of 199 trials in which one of the two is shifted in time; it covers 99 %."
            }
        }
    }
}

/// Two traces, and what was found between them.
pub struct ComparisonPage<'a> {
    /// What the user calls the reference.
    pub a_name: &'a str,
    pub a: &'a JitterTrace,
    /// What the user calls the other.
    pub b_name: &'a str,
    pub b: &'a JitterTrace,
    pub likeness: &'a Likeness,
}

/// The page of two traces.
pub fn render_comparison(page: &ComparisonPage<'_>) -> String {
    let charts = data::of_two(page.a, page.b);
    let found = page.likeness;
    let (class, words) = tables::verdict_words(found.verdict);
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
            (tables::verdicts(found).html())
            p .note {
                "Limit: " (tables::limits(found)) " ("
                @if found.lengths.is_some() { "block bootstrap; " }
                (found.blocks[0]) " blocks of " (time(found.block_s[0] * 1e9)) " of A, "
                (found.blocks[1]) " of " (time(found.block_s[1] * 1e9)) " of B). A figure differs if "
                "its whole interval is beyond the limit; it is the same if it is within, and the limit "
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
        (table("All CPUs", &tables::compared(page.a, page.b, found)))
        @if let Some(lengths) = &found.lengths { (table("Distances", &tables::distances(lengths))) }
        footer { "sandbag " (env!("CARGO_PKG_VERSION")) ". " (CREDIT) }
    };
    let title = format!(
        "sandbag: jitter, {} and {}: {words}",
        visible(page.a_name),
        visible(page.b_name)
    );
    frame_around(&title, &body, &to_json(&charts), SCRIPT).into_string()
}
