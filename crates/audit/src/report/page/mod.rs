// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of an audit, and that of two compared: one file, no network, no
//! script, light and dark, fit to print. The charts are those of Cardo's paper (user,
//! system and elapsed time by CPU, system time magnified, production against
//! dedicated), differences with their intervals, differences against length, noise.

mod comparison;
mod parts;

use maud::{Markup, html};
use sandbag_ui::chart::{self, figure};
use sandbag_ui::page::{sentence, static_page};
use sandbag_ui::text::{clock, visible};

use crate::model::{Audit, AuditVerdict, CpuVerdict, Quantity, Test};
use crate::report::charts::{ChartSide, by_length, differences, times};
use crate::report::figures::{Figure, FigureTable};
use crate::report::terminal::{middles, test_facts};
use crate::report::words::{self, confidence, detection, probability, signed, summary, verdict};
pub use comparison::comparison;

/// The style of charts and tests.
fn style() -> String {
    [chart::STYLE, include_str!("page.css")].concat()
}

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
        format!("audit of {}", words::count_cpus(audit.cpus.len())),
        visible(&words::to_second(&audit.begun)),
        format!("took {}", clock(audit.took_ns as f64 / 1e9)),
        format!("seed {}", audit.design.seed),
    ];
    let words = match audit.verdict {
        AuditVerdict::Equal => "no CPU charges more than the middle CPU of its kind",
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
    let figures = FigureTable::of_test(test);
    let words = ("differences from the middle CPU", "difference");
    let differences = differences(&figures, audit.design.tolerance_pct, words);
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
                    (by_cpu(&[ChartSide { name: "", test }], &figures.quantities))
                    (figure("Difference from the middle CPU", differences, &[BARS]))
                    @if let Some((chart, q)) = by_length(test) {
                        @let odd = chart.series.iter().any(|one| one.colour.is_some());
                        (figure(
                            &format!("{}: difference against length", parts::name(q)),
                            Some(chart),
                            &[if odd { "grey: the other CPUs" } else { "each line a CPU" }],
                        ))
                    }
                }
                (table(&figures, &below_table(test)))
            }
        }
    }
}

const BARS: &str = "bars: intervals for all comparisons at once; grey: what does not count";

/// Times of these quantities by CPU; system time and noise magnified, too.
fn by_cpu(sides: &[ChartSide<'_>], quantities: &[Quantity]) -> Markup {
    let magnified = [Quantity::System, Quantity::Noise];
    html! {
        @for q in quantities {
            (figure(&format!("{} by CPU", parts::name(*q)), times(sides, *q, true), &[]))
        }
        @for q in magnified.into_iter().filter(|q| quantities.contains(q)) {
            (figure(&format!("{}, magnified", parts::name(q)), times(sides, q, false), &[]))
        }
    }
}

/// All figures by CPU, and notes below. Folded where there are many.
fn table(figures: &FigureTable, below: &Markup) -> Markup {
    html! {
        details open[figures.rows.len() <= 16] {
            summary { "In figures" }
            div .table.long {
                table {
                    thead { tr {
                        th { "CPU" } th .text { "verdict" }
                        @for q in &figures.quantities {
                            th { (q.word()) small { (q.unit()) ", interval for all, p" } }
                        }
                    } }
                    tbody {
                        @for (cpu, row) in &figures.rows {
                            tr {
                                td { (cpu) }
                                td .text { span .verdict.(class(row.verdict)) { (row.word) } }
                                @for q in &figures.quantities { (cell(*q, figures.get(*cpu, *q))) }
                            }
                        }
                    }
                }
            }
            (below)
        }
    }
}

/// The difference, its interval, its probability.
fn cell(of: Quantity, figure: Option<&Figure>) -> Markup {
    let mark = figure.and_then(|one| one.verdict).map_or("", words::mark);
    let Some(figure) = figure.filter(|one| one.is_resolved()) else {
        return html! { td { (if mark.is_empty() { "–" } else { mark }) } };
    };
    let end = |pct: f64| {
        if of.is_open(pct) {
            "?".to_owned()
        } else {
            minus(signed(pct).trim())
        }
    };
    let interval = figure.together_pct.map_or_else(
        || "too few runs".to_owned(),
        |(low, high)| format!("{} to {}", end(low), end(high)),
    );
    html! {
        td {
            (minus(words::difference(of, figure.pct).trim())) (mark)
            small { (interval) }
            small { "p " (probability(figure.p)) }
        }
    }
}

fn below_table(test: &Test) -> Markup {
    let verdicts = test.verdicts.iter();
    let unequal = verdicts.filter(|one| one.verdict == AuditVerdict::Unequal);
    let unequal: Vec<&CpuVerdict> = unequal.collect();
    html! {
        @if !unequal.is_empty() {
            ul .said {
                @for one in unequal {
                    li {
                        "CPU " (one.cpu) ", " (one.quantity.word()) ": "
                        (sentence(&visible(&one.because)))
                    }
                }
            }
        }
        @for text in words::detection_of(test) { p .note { (sentence(&text)) } }
    }
}

fn minus(text: &str) -> String {
    text.replace('-', "\u{2212}")
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
