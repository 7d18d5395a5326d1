// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of two audits compared: production against dedicated, in one chart.

use maud::{Markup, html};
use sandbag_ui::chart::figure;
use sandbag_ui::page::{sentence, static_page};
use sandbag_ui::text::visible;

use super::{BARS, by_cpu, class, minus, parts, style, table};
use crate::compare::{Comparison, TestChange};
use crate::model::{Audit, Quantity};
use crate::report::charts::{ChartSide, differences};
use crate::report::figures::FigureTable;
use crate::report::words::{self, change_words, figure_words, to_second, verdict};

/// The page; `names` are what the user calls the two.
pub fn comparison(found: &Comparison, a: &Audit, b: &Audit, names: [&str; 2]) -> String {
    let title = format!("sandbag: {}", change_words(found.verdict));
    let [first, second] = names.map(visible);
    let body = html! {
        header {
            p .what { "two audits · " (first) ", " (visible(&to_second(&a.begun))) " · " (second) ", " (visible(&to_second(&b.begun))) }
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
        (parts::warnings("Not alike, and compared anyway", &found.differences))
        (parts::warnings("Not known", &found.lost))
        @for test in &found.tests { (test_section(found, test, [a, b], [&first, &second])) }
        (parts::suspects(&format!("Suspects of {first}"), &a.suspects))
        (parts::suspects(&format!("Suspects of {second}"), &b.suspects))
        div .columns { (parts::design(b)) (parts::machine(&b.machine)) (parts::cpus(b)) }
        (parts::footer(&found.sandbag))
    };
    static_page(&title, &style(), &body)
}

fn test_section<'a>(
    found: &Comparison,
    test: &TestChange,
    audits: [&'a Audit; 2],
    names: [&'a str; 2],
) -> Markup {
    let side = |(name, audit): (_, &'a Audit)| {
        let test = audit.tests.iter().find(|one| one.name == test.name)?;
        Some(ChartSide { name, test })
    };
    let sides: Vec<ChartSide<'_>> = names.into_iter().zip(audits).filter_map(side).collect();
    let figures = FigureTable::of_change(test);
    let words = ("changes from the first audit to the second", "change");
    let differences = differences(&figures, found.tolerance_pct, words);
    let mut shown = figures.quantities.clone();
    shown.retain(|quantity| *quantity != Quantity::Cpu);
    let common = test
        .common
        .iter()
        .map(|(q, pct)| minus(&figure_words(*q, *pct)));
    let common: Vec<String> = common.collect();
    let below = html! {
        @if !common.is_empty() { p .note { "The middle of all CPUs: " (common.join(", ")) "." } }
    };
    html! {
        section .test {
            h2 {
                (visible(&test.name)) ": "
                span .verdict.(class(test.verdict)) { (change_words(test.verdict)) }
            }
            div .plots {
                (by_cpu(&sides, &shown))
                (figure("Change from the first to the second", differences, &[BARS]))
            }
            (table(&figures, &below))
        }
    }
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
