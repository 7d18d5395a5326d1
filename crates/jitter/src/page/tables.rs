// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of these pages.

use crate::Trace;
use crate::attribution::{self, Attribution, Row};
use crate::stats::{
    Correlation, FoundIn, Interval, Likeness, Measure, QUANTILES_PCT, Spectrum, Verdict, summarise,
};
use maud::{Markup, html};

use super::ComparisonPage;
use crate::attribution::cause as causes;
use sandbag_ui::quantity::{period, time};
use sandbag_ui::text::visible;

/// Tables with more lines scroll.
const LONG: usize = 16;
/// Causes that are listed; the others are summed.
const MOST_CAUSES: usize = 20;
/// Pairs of CPUs that are listed.
const MOST_PAIRS: usize = 40;

/// What is not there.
pub(super) fn none() -> String {
    "\u{2013}".to_owned()
}

fn table(rows: usize, head: &Markup, body: &Markup) -> Markup {
    html! {
        div .table.long[rows > LONG] { table { thead { tr { (head) } } tbody { (body) } } }
    }
}

fn quantile_name(part_pct: f64) -> String {
    match part_pct {
        100.0 => "longest".to_owned(),
        part => format!("{part} %"),
    }
}

pub(super) fn summary(trace: &Trace) -> Markup {
    let all: Vec<_> = trace.cpus.iter().map(summarise).collect();
    table(
        all.len(),
        &html! {
            th { "CPU" } th { "looked for" } th { "events" } th { "per s" } th { "noise" small { "%" } }
            @for part in QUANTILES_PCT { th { (quantile_name(part)) } }
        },
        &html! {
            @for s in &all {
                tr {
                    th { (s.cpu) }
                    td { (time(s.known_s * 1e9)) }
                    td { (s.events) }
                    td { (format!("{:.1}", s.rate_per_s)) }
                    td { (format!("{:.4}", s.noise_pct)) }
                    @for i in 0..QUANTILES_PCT.len() {
                        td { (s.quantiles_ns.map_or_else(none, |all| time(all[i] as f64))) }
                    }
                }
            }
        },
    )
}

pub(super) fn who(trace: &Trace, all: &Attribution) -> Markup {
    let rows = attribution::table(trace, all);
    let (shown, others) = attribution::foremost(&rows, MOST_CAUSES);
    let line = |cause: &str, kind: &str, row: &Row| {
        html! {
            tr {
                th .text { (visible(cause)) }
                td .text { (kind) }
                td { (row.events) }
                td { (row.times) }
                td { (time(row.gross_ns as f64)) }
                td { (time(row.net_ns as f64)) }
                td { (format!("{:.2}", row.share_pct)) }
                td { (time(row.longest_ns as f64)) }
            }
        }
    };
    html! {
        (table(
            shown.len() + others.iter().count(),
            &html! {
                th .text { "cause" } th .text { "kind" } th { "events" } th { "times" } th { "gross" }
                th { "net" } th { "noise" small { "%" } } th { "longest" }
            },
            &html! {
                @for row in &shown {
                    @let (cause, kind) = row.who.names();
                    (line(cause, kind, row))
                }
                @if let Some((count, row)) = &others { (line(&format!("{count} others"), "", row)) }
            },
        ))
        p .note {
            "Gross: from coming to leaving. Net: without what came in between; these add up to all the "
            "noise."
        }
    }
}

/// The processes behind the causes, with what /proc had of them.
pub(super) fn processes(trace: &Trace, all: &Attribution) -> Markup {
    let rows = attribution::processes(trace, all, MOST_CAUSES);
    let or_none = |text: Option<&String>| match text.filter(|text| !text.is_empty()) {
        Some(text) => visible(text),
        None => none(),
    };
    html! {
        @if !rows.is_empty() {
            (table(
                rows.len(),
                &html! {
                    th { "PID" } th .text { "name" } th { "net" } th { "noise" small { "%" } }
                    th .text { "unit or group" } th .text { "command" }
                },
                &html! {
                    @for row in &rows {
                        tr {
                            th { (row.pid) }
                            td .text { (visible(&row.name)) }
                            td { (time(row.net_ns as f64)) }
                            td { (format!("{:.2}", row.share_pct)) }
                            td .text { (or_none(row.details.as_ref().map(|one| &one.group))) }
                            td .text { (or_none(row.details.as_ref().map(|one| &one.command))) }
                        }
                    }
                },
            ))
        }
    }
}

pub(super) fn longest(trace: &Trace, count: usize) -> Markup {
    let all = causes::longest(trace, count);
    let has_causes = all.iter().any(|one| one.causes.is_some());
    table(
        all.len(),
        &html! {
            th { "CPU" } th { "at" small { "s" } } th { "length" }
            @if has_causes { th .text { "net of each cause" } }
        },
        &html! {
            @for one in &all {
                tr {
                    th { (one.cpu) }
                    td { (format!("{:.6}", one.event.start_ns as f64 / 1e9)) }
                    td { (time(one.event.length_ns as f64)) }
                    @if let Some(causes) = &one.causes { td .text { (causes) } }
                }
            }
        },
    )
}

/// How the events were found; of an imported trace what could be detected, or nothing.
pub(super) fn how(trace: &Trace) -> Markup {
    let Some(notes) = trace.how_found() else {
        return html! {};
    };
    let body = html! {
        @for cpu in &notes.cpus {
            tr {
                th { (cpu.cpu) }
                td { (time(cpu.detectable_ns())) }
                @if cpu.is_own() {
                    td { (time(cpu.least_ns)) }
                    td { (time(cpu.loop_ns)) }
                    td { (time(cpu.store_ns)) }
                    td { (format!("{:.2}", cpu.drift_ppm)) }
                    td { (cpu.dropped) }
                    td { (cpu.faults) }
                } @else {
                    td { "-" } td { "-" } td { "-" } td { "-" } td { "-" } td { "-" }
                }
            }
        }
    };
    let head = html! {
        th { "CPU" } th { "detectable above" } th { "least difference" } th { "loop" } th { "storing" }
        th { "drift" small { "ppm" } } th { "dropped" } th { "page faults" }
    };
    html! {
        section { h2 { "How they were found" } (table(notes.cpus.len(), &head, &body)) }
    }
}

pub(super) fn components(spectra: &[Option<Spectrum>]) -> Markup {
    let all = || {
        let found = spectra.iter().flatten();
        found.flat_map(|one| one.components.iter().map(|component| (one.cpu, component)))
    };
    let count = all().count();
    if count == 0 {
        return html! { p { "None stands out." } };
    }
    table(
        count,
        &html! {
            th { "CPU" } th { "period" } th { "phase jitter" small { "sd" } } th { "events" }
            th { "of the periods" small { "%" } } th { "of the noise" small { "%" } }
            th { "harmonics" } th { "power" small { "times the floor" } } th { "keeps its phase for" }
            th .text { "found in" }
        },
        &html! {
            @for (cpu, one) in all() {
                tr {
                    th { (cpu) }
                    td { (period(one.period_ns)) }
                    td { (time(one.jitter_ns)) }
                    td { (one.events) }
                    td { (format!("{:.1}", one.share_of_periods * 100.0)) }
                    td { (format!("{:.1}", one.noise_pct)) }
                    td { (one.harmonics) }
                    td { (format!("{:.0}", one.power)) }
                    td { (time(one.coherent_ns)) }
                    td .text {
                        (match one.found_in {
                            FoundIn::Starts => "starts",
                            FoundIn::Noise => "noise",
                            FoundIn::Both => "both",
                        })
                    }
                }
            }
        },
    )
}

pub(super) fn correlations(pairs: &[Correlation]) -> Markup {
    let judged = |by: i8| match by {
        1 => "more",
        -1 => "less",
        _ => "as chance",
    };
    let shown = &pairs[..pairs.len().min(MOST_PAIRS)];
    let body = html! {
        @for one in shown {
            @let noise = one.noise.iter().find(|noise| noise.bin_ns == 10_000_000).or(one.noise.last());
            tr {
                th { (one.a) ", " (one.b) }
                td { (format!("{:.2}", one.together_pct)) }
                td { (format!("{:.2} to {:.2}", one.chance_pct.least, one.chance_pct.most)) }
                td .text { (judged(one.chance_pct.judge(one.together_pct))) }
                td { (one.lag_ns.map_or_else(none, |ns| time(ns as f64))) }
                td { (noise.map_or_else(none, |noise| time(noise.bin_ns as f64))) }
                td { (noise.map_or_else(none, |noise| format!("{:.3}", noise.r))) }
                td {
                    (noise.map_or_else(none, |noise| {
                        format!("{:.3} to {:.3}", noise.chance.least, noise.chance.most)
                    }))
                }
                td .text { (noise.map_or_else(none, |noise| judged(noise.chance.judge(noise.r)).to_owned())) }
            }
        }
    };
    let head = html! {
        th { "CPUs" } th { "together" small { "%" } } th { "by chance" small { "%" } } th .text { "" }
        th { "lag" } th { "stretch" } th { "correlation" } th { "by chance" } th .text { "" }
    };
    html! {
        (table(shown.len(), &head, &body))
        @if shown.len() < pairs.len() { p .note { "The first " (shown.len()) " of " (pairs.len()) " pairs." } }
    }
}

/// A logarithm of a ratio, as the ratio.
fn ratio(ln: f64) -> String {
    format!("{:.3}", ln.exp())
}

pub(super) fn judged(found: &Likeness) -> Markup {
    let row = |name: &str, one: &Measure, shown: fn(f64) -> String, limit: &str| {
        let (class, words) = match one.verdict {
            Verdict::Same => ("kept", "same"),
            Verdict::Differs => ("missed", "differs"),
            Verdict::Undecided => ("undecided", "undecided"),
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
pub(super) fn both(page: &ComparisonPage<'_>) -> Markup {
    let of = |trace: &Trace| {
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
