// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two audits compared, on the terminal.

use super::style::TerminalStyle;
use super::table::{are_wide, table_lines};
use crate::compare::Comparison;
use crate::report::figures::FigureTable;
use crate::report::words::{self, change_words, figure_words, to_second};

/// A comparison, ending in a newline, without colours.
pub fn comparison(found: &Comparison, look: &TerminalStyle) -> String {
    let (a, b) = (to_second(&found.a_begun), to_second(&found.b_begun));
    let verdict = change_words(found.verdict);
    let mut out = look.wrap("", &format!("{verdict}: {}", words::comparison(found)));
    out += &look.wrap(
        "",
        &format!(
            "the audit of {b} against that of {a}: changes from the first to the second, above 0: \
             it became slower"
        ),
    );
    for difference in &found.differences {
        out += &look.wrap("", &format!("not alike: {difference}"));
    }
    for lost in &found.lost {
        out += &look.wrap("", &format!("not known: {lost}"));
    }
    let tables: Vec<FigureTable> = found.tests.iter().map(FigureTable::of_change).collect();
    let wide = are_wide(&tables, look);
    for (test, figures) in found.tests.iter().zip(&tables) {
        out.push('\n');
        let verdict = change_words(test.verdict);
        out += &look.wrap("", &format!("{}: {verdict}", test.name));
        out += &table_lines(figures, look, wide);
        let common = test.common.iter().map(|(q, pct)| figure_words(*q, *pct));
        let common: Vec<String> = common.collect();
        if !common.is_empty() {
            let text = format!("the middle of all CPUs: {}", common.join(", "));
            out += &look.wrap("  ", &text);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{CompareOptions, compare};
    use crate::fixture::Maker;

    const USUAL: CompareOptions = CompareOptions {
        confidence: 0.99,
        tolerance_pct: 0.5,
        anyway: true,
    };

    #[test]
    fn many_cpus_are_summed_up_and_few_runs_have_no_interval() {
        let many = |odd, seed| Maker::eight().cpus(64).odd(odd).rounds(6).seed(seed).make();
        let found = compare(&many(None, 1), &many(Some(5), 2), &USUAL).unwrap();
        let text = comparison(&found, &TerminalStyle::default());
        insta::assert_snapshot!(text);
        let few = |seed| Maker::eight().rounds(1).seed(seed).make();
        let text = comparison(
            &compare(&few(1), &few(2), &USUAL).unwrap(),
            &TerminalStyle::default(),
        );
        assert!(
            text.starts_with("undecided: ") && text.contains("too few runs"),
            "{text}"
        );
    }
}
