// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parts that the pages of an audit and of a comparison have in common.

use crate::model::{Audit, Quantity, Suspect};
use maud::{Markup, html};
use sandbag_ui::page::sentence;
use sandbag_ui::text::{clock, visible};

use super::sure;
use crate::report::words::{size, to_second};

/// A quantity at the beginning of a heading.
pub(super) fn name(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Elapsed => "Elapsed time",
        Quantity::User => "User time",
        Quantity::System => "System time",
        Quantity::Cpu => "User and system time",
        Quantity::Waiting => "Time without the CPU",
        Quantity::Noise => "Noise",
    }
}

/// Remarks, failures and CPUs that were left out.
pub(super) fn notes(audit: &Audit) -> Markup {
    let failed = audit.tests.iter().filter_map(|test| {
        let why = test.failure.as_ref()?;
        Some(format!("test {}: {why}", test.name))
    });
    let left = audit.left_out.iter();
    let left = left.map(|one| format!("left out: CPU {}, {}", one.cpu, one.why));
    let all: Vec<String> = audit
        .remarks
        .iter()
        .cloned()
        .chain(failed)
        .chain(left)
        .collect();
    warnings(if all.len() == 1 { "Note" } else { "Notes" }, &all)
}

/// A list that stands out; nothing of none.
pub(super) fn warnings(title: &str, all: &[String]) -> Markup {
    html! {
        @if !all.is_empty() {
            section .warnings {
                h2 { (title) }
                ul { @for one in all { li { (sentence(&visible(one))) } } }
            }
        }
    }
}

/// Suspects with evidence and remedy, likeliest first.
pub(super) fn suspects(title: &str, all: &[Suspect]) -> Markup {
    html! {
        @if !all.is_empty() {
            section {
                h2 { (title) ", likeliest first" }
                ol .suspects {
                    @for one in all {
                        li {
                            strong { "CPU " (one.cpu) ", " (visible(&one.kind)) ": " (visible(&one.who)) }
                            p {
                                (sentence(&visible(&one.evidence)))
                                @if let Some(pct) = one.explains_pct {
                                    " It would explain " (size(pct)) " %."
                                }
                                @if !one.tests.is_empty() {
                                    " Seen in " (visible(&one.tests.join(", "))) "."
                                }
                            }
                            p .remedy { "Remedy: " (visible(&one.remedy)) }
                        }
                    }
                }
            }
        }
    }
}

fn facts(title: &str, all: &[(String, String)]) -> Markup {
    html! {
        section {
            h2 { (title) }
            dl .facts {
                @for (name, value) in all { div { dt { (visible(name)) } dd { (visible(value)) } } }
            }
        }
    }
}

pub(super) fn design(audit: &Audit) -> Markup {
    let design = &audit.design;
    let fact = |name: &str, value: String| (name.to_owned(), value);
    facts(
        "Design",
        &[
            fact("confidence, for all comparisons", sure(audit)),
            fact(
                "differences that do not count",
                format!("up to {} %", design.tolerance_pct),
            ),
            fact(
                "precision asked for",
                format!("± {} %", design.precision_pct),
            ),
            fact(
                "rounds",
                format!("{} to {}", design.rounds.0, design.rounds.1),
            ),
            fact("limit for a test", clock(design.limit_ns as f64 / 1e9)),
            fact("user and system time", design.accounting.clone()),
            fact("seed of the order of CPUs", design.seed.to_string()),
            fact("begun", to_second(&audit.begun)),
            fact("took", clock(audit.took_ns as f64 / 1e9)),
        ],
    )
}

pub(super) fn machine(machine: &[(String, String)]) -> Markup {
    facts("Machine", machine)
}

/// CPUs that differ by their kind, their place or their settings.
pub(super) fn cpus(audit: &Audit) -> Markup {
    let all = audit.cpus.iter().filter_map(|cpu| {
        let mut words: Vec<String> = cpu.kind.iter().cloned().collect();
        let node = cpu.node.filter(|node| *node > 0);
        words.extend(node.map(|node| format!("NUMA node {node}")));
        if !cpu.siblings.is_empty() {
            let siblings: Vec<String> = cpu.siblings.iter().map(u32::to_string).collect();
            words.push(format!("shares its core with {}", siblings.join(", ")));
        }
        words.extend(cpu.settings.iter().cloned());
        (!words.is_empty()).then(|| (format!("CPU {}", cpu.cpu), words.join(", ")))
    });
    let all: Vec<(String, String)> = all.collect();
    html! { @if !all.is_empty() { (facts("CPUs", &all)) } }
}

/// What all pages end with.
pub(super) fn footer(sandbag: &str) -> Markup {
    html! {
        footer {
            "sandbag " (visible(sandbag)) ". Points are single runs, circles their middle. After "
            "Cardo, “Measuring Performance Degradation by CPU”. "
            "Marks: * beyond chance, ? undecided, ~ not resolvable by this kernel's accounting."
        }
    }
}
