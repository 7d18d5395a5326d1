// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of two audits compared: production against dedicated, in one chart.

use crate::compare::{Comparison, TestChange};
use crate::model::{Audit, AuditVerdict, Quantity};
use maud::{Markup, html};
use sandbag_ui::chart::figure;
use sandbag_ui::page::{sentence, static_page};
use sandbag_ui::text::visible;

use super::{class, in_figures, minus, parts, range, style};
use crate::report::charts::{ChartSide, changes, times};
use crate::report::words::{
    self, change_cpus, change_of_cpu, change_quantities, change_words, probability, quantity,
    signed, unit, verdict,
};

/// The page; `names` are what the user calls the two.
#[must_use]
pub fn comparison(found: &Comparison, a: &Audit, b: &Audit, names: [&str; 2]) -> String {
    let title = format!("sandbag: {}", change_words(found.verdict));
    let [first, second] = names.map(visible);
    let body = html! {
        header {
            p .what { "two audits · " (first) ", " (visible(&words::capitalize(&a.begun))) " · " (second) ", " (visible(&words::capitalize(&b.begun))) }
            h1 {
                span .verdict.(class(found.verdict)) { (change_words(found.verdict)) }
                ": " (first) " to " (second)
            }
            p .reason { (sentence(&visible(&words::comparison(found)))) }
            p .reason {
                "By themselves: " (first) " " (verdict(a.verdict)) ", " (second) " "
                (verdict(b.verdict)) "."
            }
        }
        @if !found.differences.is_empty() {
            section .warnings {
                h2 { "Not alike, and compared anyway" }
                ul { @for one in &found.differences { li { (sentence(&visible(one))) } } }
            }
        }
        @if !found.lost.is_empty() {
            section .warnings {
                h2 { "Not known" }
                ul { @for one in &found.lost { li { (sentence(&visible(one))) } } }
            }
        }
        @for test in &found.tests { (test_section(found, test, [a, b], [&first, &second])) }
        (parts::suspects(&format!("Suspects of {first}"), &a.suspects))
        (parts::suspects(&format!("Suspects of {second}"), &b.suspects))
        div .columns { (parts::design(b)) (parts::machine(&b.machine)) (parts::cpus(b)) }
        (parts::footer(&found.sandbag))
    };
    static_page(&title, &style(), &body)
}

fn test_section(
    found: &Comparison,
    test: &TestChange,
    audits: [&Audit; 2],
    names: [&str; 2],
) -> Markup {
    let side = |audit: &'_ Audit| audit.tests.iter().position(|one| one.name == test.name);
    let tests = audits.map(|audit| side(audit).map(|at| &audit.tests[at]));
    let sides = || -> Vec<ChartSide<'_>> {
        let both = names.into_iter().zip(tests);
        let both = both.filter_map(|(name, test)| test.map(|test| ChartSide { name, test }));
        both.collect()
    };
    let quantities = change_quantities(test);
    html! {
        section .test {
            h2 {
                (visible(&test.name)) ": "
                span .verdict.(class(test.verdict)) { (change_words(test.verdict)) }
            }
            div .plots {
                @for q in quantities.iter().filter(|q| **q != Quantity::Cpu) {
                    (figure(&format!("{} by CPU", parts::name(*q)), times(&sides(), *q, true), &[]))
                }
                @for q in [Quantity::System, Quantity::Noise] {
                    @if quantities.contains(&q) {
                        (figure(
                            &format!("{}, magnified", parts::name(q)),
                            times(&sides(), q, false),
                            &[],
                        ))
                    }
                }
                (figure(
                    "Change from the first to the second",
                    changes(test, found.tolerance_pct),
                    &["bars: intervals for all comparisons at once; grey: what does not count"],
                ))
            }
            (table(test))
        }
    }
}

fn table(test: &TestChange) -> Markup {
    let common = test.common.iter().map(|(q, pct)| {
        format!(
            "{} {} {}",
            quantity(*q),
            minus(signed(*pct).trim()),
            unit(*q)
        )
    });
    let common: Vec<String> = common.collect();
    let below = html! {
        @if !common.is_empty() { p .note { "The middle of all CPUs: " (common.join(", ")) "." } }
    };
    let cells = |cpu: u32, q: Quantity| {
        let mut changes = test.changes.iter();
        let change = changes.find(|one| one.cpu == cpu && one.quantity == q)?;
        let interval = change
            .together_pct
            .map_or_else(|| "too few runs".to_owned(), |ends| range(q, ends));
        (change.verdict != AuditVerdict::NotResolvable).then(|| {
            [
                minus(signed(change.pct).trim()) + words::mark(change.verdict),
                interval,
                format!("p {}", probability(change.p_together)),
            ]
        })
    };
    let verdict = |cpu: u32| {
        let worst = change_of_cpu(test, cpu);
        (class(worst), change_words(worst).to_string())
    };
    let (all, quantities) = (change_cpus(test), change_quantities(test));
    in_figures(&all, &quantities, verdict, cells, "~", &below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{CompareOptions, compare};
    use crate::fixture::{Maker, eight};

    #[test]
    fn both_audits_stand_in_the_same_charts() {
        let (a, mut b) = (eight(), Maker::eight().slower(1.08).seed(2).make());
        b.machine[0].1 = "Other <CPU>".to_owned();
        let options = CompareOptions {
            confidence: 0.99,
            tolerance_pct: 0.5,
            anyway: true,
        };
        let found = compare(&a, &b, &options).unwrap();
        let text = comparison(&found, &a, &b, ["quiet.json", "<loaded>"]);
        assert_eq!(text.matches("<svg").count(), 3 * 6 + 3);
        for part in [
            "Not alike",
            "Other &lt;CPU&gt;",
            "&lt;loaded&gt;",
            "The middle of all CPUs",
        ] {
            assert!(text.contains(part), "{part}");
        }
        assert!(!text.contains("<script") && !text.contains("<loaded>"));
    }
}
