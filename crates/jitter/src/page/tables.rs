// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of these pages.

use crate::JitterTrace;
use crate::attribution::{self, Attribution};
use crate::stats::{Correlation, Interval, Likeness, LikenessVerdict, Measure, Spectrum};
use crate::tables::{self as shared, quantile_name};
use maud::{Markup, html};

use super::ComparisonPage;
use sandbag_ui::quantity::time;

/// Tables with more lines scroll.
const LONG: usize = 16;
/// Processes that are listed.
const MOST_PROCESSES: usize = 20;
/// Pairs of CPUs that are listed.
const MOST_PAIRS: usize = 40;

/// What is not there.
pub(super) fn empty_cell() -> String {
    "\u{2013}".to_owned()
}

fn table(rows: usize, head: &Markup, body: &Markup) -> Markup {
    html! {
        div .table.long[rows > LONG] { table { thead { tr { (head) } } tbody { (body) } } }
    }
}

/// Who took how much.
pub(super) fn source_table(trace: &JitterTrace, all: &Attribution) -> Markup {
    let processes = attribution::processes(trace, all, MOST_PROCESSES);
    html! {
        (shared::causes(&attribution::table(trace, all)).html())
        p .note {
            "Gross: from coming to leaving. Net: without what came in between; these add up to all the "
            "noise."
        }
        @if !processes.is_empty() { (shared::processes(&processes, usize::MAX).html()) }
    }
}

/// How the events were found; of an imported trace what could be detected, or nothing.
pub(super) fn method_table(trace: &JitterTrace) -> Markup {
    html! {
        @if let Some(notes) = trace.how_found() {
            section { h2 { "How they were found" } (shared::how_found(notes).html()) }
        }
    }
}

pub(super) fn components(spectra: &[Option<Spectrum>]) -> Markup {
    let table = shared::components(spectra);
    if table.rows() == 0 {
        return html! { p { "None stands out." } };
    }
    table.html()
}

pub(super) fn correlations(pairs: &[Correlation]) -> Markup {
    let shown = &pairs[..pairs.len().min(MOST_PAIRS)];
    html! {
        (shared::pairs(shown).html())
        @if shown.len() < pairs.len() { p .note { "The first " (shown.len()) " of " (pairs.len()) " pairs." } }
    }
}

/// A logarithm of a ratio, as the ratio.
fn ratio(ln: f64) -> String {
    format!("{:.3}", ln.exp())
}

pub(super) fn verdict_table(found: &Likeness) -> Markup {
    let row = |name: &str, one: &Measure, shown: fn(f64) -> String, limit: &str| {
        let (class, words) = match one.verdict {
            LikenessVerdict::Same => ("kept", "same"),
            LikenessVerdict::Differs => ("missed", "differs"),
            LikenessVerdict::Undecided => ("undecided", "undecided"),
        };
        let of = one.difference;
        html! {
            tr {
                th .text { (name) }
                td { (shown(of.value)) }
                td { (shown(of.low)) " to " (shown(of.high)) }
                td { (limit) (shown(one.limit)) }
                td { (limit) (shown(one.resolution)) }
                td .text { span .verdict.(class) { (words) } }
            }
        }
    };
    let bits: fn(f64) -> String = |value| format!("{value:.4}");
    table(
        3,
        &html! {
            th .text { "" } th { "measured" } th { "interval" small { "95 %" } } th { "limit" }
            th { "resolution" } th .text { "verdict" }
        },
        &html! {
            (row("lengths, Jensen-Shannon divergence, bits", &found.js, bits, ""))
            (row("rate, B / A", &found.rate, ratio, "\u{d7} or / "))
            (row("share of noise, B / A", &found.noise, ratio, "\u{d7} or / "))
        },
    )
}

pub(super) fn quantiles(found: &Likeness) -> Markup {
    let interval = |one: &Interval| format!("{} to {}", time(one.low), time(one.high));
    table(
        found.quantiles.len(),
        &html! {
            th { "" } th { "A" } th { "95 %" } th { "B" } th { "95 %" } th { "B / A" }
        },
        &html! {
            @for one in &found.quantiles {
                tr {
                    th { (quantile_name(one.part_pct)) }
                    td { (time(one.a.value)) } td { (interval(&one.a)) }
                    td { (time(one.b.value)) } td { (interval(&one.b)) }
                    td { (format!("{:.3}", one.b.value / one.a.value)) }
                }
            }
        },
    )
}

pub(super) fn distances(found: &Likeness) -> Markup {
    let rows = [
        ("Kullback-Leibler, B from A, bits", found.kl_bits),
        ("Kullback-Leibler, A from B, bits", found.kl_back_bits),
        ("Jensen-Shannon, bits", found.js.difference),
        ("Kolmogorov-Smirnov", found.ks),
        ("Wasserstein, decades", found.wasserstein_decades),
    ];
    table(
        rows.len(),
        &html! { th .text { "" } th { "measured" } th { "95 %" } },
        &html! {
            @for (name, one) in &rows {
                tr {
                    th .text { (name) }
                    td { (format!("{:.4}", one.value)) }
                    td { (format!("{:.4} to {:.4}", one.low, one.high)) }
                }
            }
        },
    )
}

/// The figures of both, all CPUs together.
pub(super) fn comparison_table(page: &ComparisonPage<'_>) -> Markup {
    let of = |trace: &JitterTrace| {
        let known: f64 = trace.cpus.iter().map(|cpu| cpu.known_ns() as f64).sum();
        let noise: f64 = trace.cpus.iter().map(|cpu| cpu.noise_ns() as f64).sum();
        let events: usize = trace.cpus.iter().map(|cpu| cpu.events.len()).sum();
        (trace.cpus.len(), known, events as f64, noise)
    };
    let row = |name: &str, (cpus, known, events, noise): (usize, f64, f64, f64)| {
        html! {
            tr {
                th .text { (name) }
                td { (cpus) } td { (time(known)) } td { (events) }
                td { (format!("{:.1}", events / known.max(1.0) * 1e9)) }
                td { (format!("{:.4}", noise / known.max(1.0) * 100.0)) }
                td { (time(noise / events.max(1.0))) }
            }
        }
    };
    table(
        2,
        &html! {
            th .text { "" } th { "CPUs" } th { "looked for" small { "all CPUs" } } th { "events" }
            th { "per s and CPU" } th { "noise" small { "%" } } th { "mean length" }
        },
        &html! { (row("A", of(page.a))) (row("B", of(page.b))) },
    )
}
