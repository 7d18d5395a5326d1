// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of an audit, and that of two compared: one file, no network, no
//! script, light and dark, fit to print. The charts are those of Cardo's paper:
//! user, system and elapsed time by CPU, system time by itself and magnified,
//! production against dedicated; and what came after: effects with their
//! intervals, effects against length, noise.

mod comparison;
mod parts;

use crate::model::{Audit, AuditVerdict, Quantity, Test};
use maud::{Markup, html};
use sandbag_ui::chart::{self, figure};
use sandbag_ui::page::{sentence, static_page};
use sandbag_ui::text::{clock, visible};

use crate::report::charts::{ChartSide, by_length, effects, times};
use crate::report::terminal::{middles, test_facts};
use crate::report::words::{
    self, confidence, cpus, detection, of_cpu, probability, quantities, quantity, signed, summary,
    unit, verdict, verdict_words, verdicts,
};
pub use comparison::comparison;

/// The style of charts and tests.
fn style() -> String {
    [chart::STYLE, include_str!("page.css")].concat()
}

/// The page of an audit.
#[must_use]
pub fn audit(audit: &Audit) -> String {
    let title = format!("sandbag: {} CPUs", verdict(audit.verdict));
    let body = html! {
        (headline(audit))
        (parts::notes(audit))
        (parts::suspects("Suspects", &audit.suspects))
        @for test in &audit.tests { (test_section(audit, test)) }
        div .columns { (parts::design(audit)) (parts::machine(&audit.machine)) (parts::cpus(audit)) }
        (parts::footer(&audit.sandbag))
    };
    static_page(&title, &style(), &body)
}

/// The class of the style sheet that colours a verdict.
fn class(verdict: AuditVerdict) -> &'static str {
    match verdict {
        AuditVerdict::Equal => "kept",
        AuditVerdict::Unequal => "missed",
        AuditVerdict::Undecided | AuditVerdict::NotResolvable => "undecided",
    }
}

fn headline(audit: &Audit) -> Markup {
    let what = [
        match audit.cpus.len() {
            1 => "audit of 1 CPU".to_owned(),
            n => format!("audit of {n} CPUs"),
        },
        visible(&words::capitalize(&audit.begun)),
        format!("took {}", clock(audit.took_ns as f64 / 1e9)),
        format!("seed {}", audit.design.seed),
    ];
    let words = match audit.verdict {
        AuditVerdict::Equal => "no CPU charges more than the others",
        AuditVerdict::NotResolvable => "this kernel's accounting cannot tell the CPUs apart",
        AuditVerdict::Undecided => "it cannot be said whether a CPU charges more",
        AuditVerdict::Unequal => "not all CPUs charge the same",
    };
    html! {
        header {
            p .what { (what.join(" · ")) }
            h1 { span .verdict.(class(audit.verdict)) { (verdict(audit.verdict)) } ": " (words) }
            p .reason { (sentence(&visible(&summary(audit)))) }
            p .reason { (visible(&detection(audit))) }
        }
    }
}

fn test_section(audit: &Audit, test: &Test) -> Markup {
    let side = || ChartSide { name: "", test };
    let tolerance = audit.design.tolerance_pct;
    html! {
        section .test {
            h2 {
                (visible(&test.name)) ": "
                span .verdict.(class(test.verdict)) { (verdict(test.verdict)) }
            }
            p .note { (sentence(&visible(&test_facts(test)))) " " (sentence(&middles(test))) }
            @if let Some(why) = &test.failure { p .warnings { (sentence(&visible(why))) } }
            @if !test.effects.is_empty() {
                div .plots {
                    @for q in quantities(test) {
                        (figure(
                            &format!("{} by CPU", parts::name(q)),
                            times(&[side()], q, true),
                            &[],
                        ))
                    }
                    @for q in [Quantity::System, Quantity::Noise] {
                        @if quantities(test).contains(&q) {
                            (figure(
                                &format!("{}, magnified", parts::name(q)),
                                times(&[side()], q, false),
                                &[],
                            ))
                        }
                    }
                    (figure(
                        "Difference from the middle CPU",
                        effects(test, tolerance),
                        &["bars: intervals for all comparisons at once; grey: what does not count"],
                    ))
                    @if let Some((chart, q)) = by_length(test) {
                        @let odd = chart.series.iter().any(|one| one.colour.is_some());
                        (figure(
                            &format!("{}: difference against length", parts::name(q)),
                            Some(chart),
                            &[if odd { "grey: the other CPUs" } else { "each line a CPU" }],
                        ))
                    }
                }
                (table(test))
            }
        }
    }
}

/// What stands for a CPU and a quantity: the difference, its interval, its
/// probability.
type Numerals = [String; 3];

/// All figures by CPU, and what there is to say below; `none` stands where there is
/// none. Folded where there are many.
fn in_figures(
    all: &[u32],
    quantities: &[Quantity],
    verdict: impl Fn(u32) -> (&'static str, String),
    cells: impl Fn(u32, Quantity) -> Option<Numerals>,
    none: &str,
    below: &Markup,
) -> Markup {
    html! {
        details open[all.len() <= 16] {
            summary { "In figures" }
            div .table.long {
                table {
                    thead { tr {
                        th { "CPU" } th .text { "verdict" }
                        @for q in quantities {
                            th { (quantity(*q)) small { (unit(*q)) ", interval for all, p" } }
                        }
                    } }
                    tbody {
                        @for cpu in all {
                            @let (class, told) = verdict(*cpu);
                            tr {
                                td { (cpu) }
                                td .text { span .verdict.(class) { (told) } }
                                @for q in quantities {
                                    @if let Some([value, interval, p]) = cells(*cpu, *q) {
                                        td { (value) small { (interval) } small { (p) } }
                                    } @else { td { (none) } }
                                }
                            }
                        }
                    }
                }
            }
            (below)
        }
    }
}

fn table(test: &Test) -> Markup {
    let found = verdicts(test);
    let below = html! {
            @let said = test.verdicts.iter().filter(|one| one.verdict == AuditVerdict::Unequal);
            @let said: Vec<_> = said.collect();
            @if !said.is_empty() {
                ul .said {
                    @for one in said {
                        li {
                            "CPU " (one.cpu) ", " (quantity(one.quantity)) ": "
                            (sentence(&visible(&one.because)))
                        }
                    }
                }
            }
            @for text in words::detection_of(test) {
                p .note { (sentence(&text)) }
            }
    };
    let cells = |cpu: u32, q: Quantity| {
        let mut effects = test.effects.iter();
        let effect = effects.find(|one| one.cpu == cpu && one.quantity == q)?;
        let mark = found.get(&(cpu, q)).map(|one| one.verdict);
        // What cannot be told has no figure.
        if mark == Some(AuditVerdict::NotResolvable) {
            return Some([
                words::mark(AuditVerdict::NotResolvable).to_owned(),
                String::new(),
                String::new(),
            ]);
        }
        Some([
            minus(signed(effect.pct).trim()) + mark.map_or("", words::mark),
            range(q, effect.together_pct),
            format!("p {}", probability(effect.p_together)),
        ])
    };
    let verdict = |cpu: u32| {
        let found = of_cpu(test, cpu);
        (class(found.0), verdict_words(found).to_string())
    };
    let (all, quantities) = (cpus(test), quantities(test));
    in_figures(&all, &quantities, verdict, cells, "–", &below)
}

/// With the page's minus.
fn minus(text: &str) -> String {
    text.replace('-', "\u{2212}")
}

fn range(of: Quantity, (low, high): (f64, f64)) -> String {
    let end = |value: f64| {
        if of.is_open(value) {
            "?".to_owned()
        } else {
            minus(signed(value).trim())
        }
    };
    format!("{} to {}", end(low), end(high))
}

/// Of the design: `99 %`.
fn sure(audit: &Audit) -> String {
    confidence(audit.design.confidence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Maker, eight};
    use crate::model::LeftOut;

    #[test]
    fn the_charts_and_the_figures_are_there_without_a_script() {
        let text = audit(&eight());
        // Elapsed, user, system, system magnified, effects, against length; of noise four.
        assert_eq!(text.matches("<svg").count(), 3 * 6 + 4, "{text}");
        assert!(!text.contains("<script") && !text.contains("://"));
    }

    #[test]
    fn text_from_outside_cannot_become_markup() {
        let mut found = eight();
        found.tests[1].name = "<script>a</script>".to_owned();
        found.tests[1].about = "<b>".to_owned();
        found.machine[0].1 = "<i>\u{1b}".to_owned();
        found.suspects[0].who = "<u>".to_owned();
        found.remarks = vec!["<em>".to_owned()];
        found.left_out = vec![LeftOut {
            cpu: 9,
            why: "<s>".to_owned(),
        }];
        let text = audit(&found);
        for markup in ["<script", "<b>", "<i>", "<u>", "<em>", "<s>", "\u{1b}"] {
            assert!(!text.contains(markup), "{markup}");
        }
    }

    #[test]
    fn whatever_the_figures_are_there_is_a_page() {
        let mut wild = eight();
        for (i, effect) in wild.tests[0].effects.iter_mut().enumerate() {
            effect.pct = if i % 2 == 0 { 1e308 } else { -1e308 };
            effect.together_pct = (f64::MIN, f64::MAX);
            effect.interval_pct = (f64::MIN, f64::MAX);
        }
        for sample in &mut wild.tests[0].samples {
            sample.elapsed_ns = u64::MAX;
            sample.user_ns = u64::MAX;
        }
        let mut empty = eight();
        empty.tests.clear();
        empty.cpus.clear();
        empty.machine.clear();
        for found in [&wild, &empty, &Maker::eight().cpus(1).rounds(1).make()] {
            assert!(audit(found).contains("</html>"));
        }
        let many = audit(&Maker::eight().cpus(128).rounds(3).make());
        assert!(
            many.contains("127") && many.len() < 4 << 20,
            "{}",
            many.len()
        );
    }
}
