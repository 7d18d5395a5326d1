// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two audits compared, on the terminal.

use crate::compare::{Change, Comparison, TestChange};
use crate::model::{AuditVerdict, Quantity};

use super::{TerminalRows, TerminalStyle, by_cpu, figure, legend};
use crate::report::words::{
    self, change_cpus, change_of_cpu, change_quantities, change_words, quantity, unit,
};

/// A comparison, ending in a newline, without colours.
#[must_use]
pub fn comparison(found: &Comparison, look: &TerminalStyle) -> String {
    let mut out = look.wrap(
        "",
        &format!(
            "the audit of {} against that of {}: changes from the first to the second, above 0: \
             it became slower",
            words::capitalize(&found.b_begun),
            words::capitalize(&found.a_begun)
        ),
    );
    for difference in &found.differences {
        out += &look.wrap("", &format!("not alike: {difference}"));
    }
    for lost in &found.lost {
        out += &look.wrap("", &format!("not known: {lost}"));
    }
    let wide = found.tests.iter().all(|test| {
        let all = change_quantities(test);
        look.holds(&table(test, &choose(test, look), &all, true))
    });
    for test in &found.tests {
        out.push('\n');
        out += &look.wrap(
            "",
            &format!("{}: {}", test.name, change_words(test.verdict)),
        );
        let rows = choose(test, look);
        let all = change_quantities(test);
        let fits = look.holds(&table(test, &rows, &all, wide));
        // As in the table of one audit: of what a narrow terminal has no room for
        // user time tells least.
        let shown: Vec<Quantity> = all
            .into_iter()
            .filter(|q| fits || *q != Quantity::User)
            .collect();
        out += &table(test, &rows, &shown, wide);
        out += &legend_of(test);
        let common: Vec<String> = test
            .common
            .iter()
            .map(|(q, pct)| {
                format!(
                    "{} {} {}",
                    quantity(*q),
                    words::signed(*pct).trim(),
                    unit(*q)
                )
            })
            .collect();
        if !common.is_empty() {
            out += &look.wrap(
                "  ",
                &format!("the middle of all CPUs: {}", common.join(", ")),
            );
        }
    }
    out.push('\n');
    let said = format!(
        "{}: {}",
        change_words(found.verdict),
        words::comparison(found)
    );
    out += &look.wrap("", &said);
    out
}

fn choose(test: &TestChange, look: &TerminalStyle) -> TerminalRows {
    let worst = |cpu: u32| {
        let here = test.changes.iter().filter(|change| change.cpu == cpu);
        here.map(|change| change.pct.abs()).fold(0.0, f64::max)
    };
    let odd = |cpu: u32| {
        let is_odd = change_of_cpu(test, cpu) == AuditVerdict::Unequal;
        is_odd.then(|| (true, worst(cpu)))
    };
    TerminalRows::of(&change_cpus(test), look, odd)
}

fn table(test: &TestChange, rows: &TerminalRows, quantities: &[Quantity], wide: bool) -> String {
    let find = |cpu: u32, q: Quantity| -> Option<&Change> {
        let mut all = test.changes.iter();
        all.find(|change| change.cpu == cpu && change.quantity == q)
    };
    let cell = |cpu: u32, q: Quantity| match find(cpu, q) {
        Some(change) if change.verdict != AuditVerdict::NotResolvable => {
            let found = Some(change.verdict);
            figure(q, change.pct, change.together_pct, found, wide)
        }
        _ => "- ~".to_owned(),
    };
    let pct = |cpu: u32, q: Quantity| find(cpu, q).map(|change| change.pct);
    let word = |cpus: &[u32]| {
        let worst = cpus.iter().map(|cpu| change_of_cpu(test, *cpu)).max();
        worst.map_or("", short)
    };
    by_cpu(rows, quantities, cell, pct, word)
}

/// The word of a verdict where there is little room.
fn short(verdict: AuditVerdict) -> &'static str {
    match verdict {
        AuditVerdict::NotResolvable => "no verdict",
        other => change_words(other),
    }
}

fn legend_of(test: &TestChange) -> String {
    let decided = |one: &&Change| one.verdict != AuditVerdict::NotResolvable;
    let mut decided = test.changes.iter().filter(decided);
    let few = decided.any(|one| one.together_pct.is_none());
    let verdicts = test.changes.iter().map(|one| one.verdict);
    legend(
        "* beyond chance",
        verdicts,
        few.then_some("±-: too few runs"),
    )
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
            text.contains("too few runs") && text.contains("undecided: "),
            "{text}"
        );
    }
}
