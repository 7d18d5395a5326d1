// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two audits compared, on the terminal.

use crate::compare::{Change, Comparison, TestChange};
use crate::model::{Quantity, Verdict};

use super::{Look, MOST_ODD, MOST_ROWS, figure, headed, lines};
use crate::report::words::{
    self, change_cpus, change_of_cpu, change_quantities, changed, quantity, unit,
};

/// A comparison, ending in a newline, without colours.
#[must_use]
pub fn comparison(found: &Comparison, look: &Look) -> String {
    let mut out = look.wrapped(
        "",
        &format!(
            "the audit of {} against that of {}: changes from the first to the second, above 0: \
             it became slower",
            words::begun(&found.b_begun),
            words::begun(&found.a_begun)
        ),
    );
    for difference in &found.differences {
        out += &look.wrapped("", &format!("not alike: {difference}"));
    }
    for lost in &found.lost {
        out += &look.wrapped("", &format!("not known: {lost}"));
    }
    let wide = found.tests.iter().all(|test| {
        let all = change_quantities(test);
        look.holds(&table(test, &rows(test, look), &all, true))
    });
    for test in &found.tests {
        out.push('\n');
        out += &look.wrapped("", &format!("{}: {}", test.name, changed(test.verdict)));
        let rows = rows(test, look);
        let all = change_quantities(test);
        let fits = look.holds(&table(test, &rows, &all, wide));
        // As in the table of one audit: of what a narrow terminal has no room for
        // user time tells least.
        let shown: Vec<Quantity> = all
            .into_iter()
            .filter(|q| fits || *q != Quantity::User)
            .collect();
        out += &table(test, &rows, &shown, wide);
        out += &legend(test);
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
            out += &look.wrapped(
                "  ",
                &format!("the middle of all CPUs: {}", common.join(", ")),
            );
        }
    }
    out.push('\n');
    let said = format!("{}: {}", changed(found.verdict), words::comparison(found));
    out += &look.wrapped("", &said);
    out
}

/// The CPUs that have a row of their own.
fn rows(test: &TestChange, look: &Look) -> Vec<u32> {
    let all = change_cpus(test);
    if look.all || all.len() <= MOST_ROWS {
        return all;
    }
    let mut changed: Vec<(u32, f64)> = all
        .iter()
        .filter(|cpu| change_of_cpu(test, **cpu) == Verdict::Unequal)
        .map(|cpu| {
            let here = test.changes.iter().filter(|change| change.cpu == *cpu);
            (
                *cpu,
                here.map(|change| change.pct.abs()).fold(0.0, f64::max),
            )
        })
        .collect();
    changed.sort_by(|a, b| b.1.total_cmp(&a.1));
    changed.truncate(MOST_ODD);
    changed.into_iter().map(|(cpu, _)| cpu).collect()
}

fn table(test: &TestChange, rows: &[u32], quantities: &[Quantity], wide: bool) -> String {
    let find = |cpu: u32, q: Quantity| -> Option<&Change> {
        let mut all = test.changes.iter();
        all.find(|change| change.cpu == cpu && change.quantity == q)
    };
    let mut table = headed(quantities);
    for cpu in rows {
        let mut row = vec![cpu.to_string()];
        row.extend(quantities.iter().map(|q| match find(*cpu, *q) {
            Some(change) if change.verdict != Verdict::NotResolvable => figure(
                *q,
                change.pct,
                change.together_pct,
                Some(change.verdict),
                wide,
            ),
            _ => "- ~".to_owned(),
        }));
        row.push(short(change_of_cpu(test, *cpu)).to_owned());
        table.add_row(row);
    }
    let others: Vec<u32> = change_cpus(test);
    let others: Vec<u32> = others
        .into_iter()
        .filter(|cpu| !rows.contains(cpu))
        .collect();
    if !others.is_empty() {
        let mut row = vec![format!("{} others", others.len())];
        row.extend(quantities.iter().map(|q| {
            let all = others.iter().filter_map(|cpu| find(*cpu, *q));
            words::span(all.map(|change| change.pct))
        }));
        let worst = others.iter().map(|cpu| change_of_cpu(test, *cpu)).max();
        row.push(worst.map_or("", short).to_owned());
        table.add_row(row);
    }
    lines(table)
}

/// The word of a verdict where there is little room.
fn short(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::NotResolvable => "no verdict",
        other => changed(other),
    }
}

fn legend(test: &TestChange) -> String {
    let has = |verdict: Verdict| test.changes.iter().any(|one| one.verdict == verdict);
    let mut all = Vec::new();
    if has(Verdict::Unequal) {
        all.push("* beyond chance");
    }
    if has(Verdict::Undecided) {
        all.push("? undecided");
    }
    if has(Verdict::NotResolvable) {
        all.push("~ not resolvable here");
    }
    let decided = |one: &&Change| one.verdict != Verdict::NotResolvable;
    let mut decided = test.changes.iter().filter(decided);
    if decided.any(|one| one.together_pct.is_none()) {
        all.push("±-: too few runs");
    }
    if all.is_empty() {
        String::new()
    } else {
        format!("  {}\n", all.join("   "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Options, compare};
    use crate::fixture::{Maker, eight};

    const USUAL: Options = Options {
        confidence: 0.99,
        tolerance_pct: 0.5,
        anyway: true,
    };

    #[test]
    fn what_changed_is_marked_and_summed_up() {
        let loaded = Maker::eight().slower(1.08).seed(2).make();
        let found = compare(&eight(), &loaded, &USUAL).unwrap();
        let text = comparison(&found, &Look::default());
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 80, "{text}");
        assert!(
            text.contains("syscall: changed") && text.contains("* beyond chance"),
            "{text}"
        );
        assert!(
            text.contains("the middle of all CPUs: elapsed +8."),
            "{text}"
        );
        assert!(
            text.contains("changed: in compute on all 8 CPUs (elapsed up to +8."),
            "{text}"
        );
    }

    #[test]
    fn many_cpus_are_summed_up_and_few_runs_have_no_interval() {
        let many = |odd, seed| Maker::eight().cpus(64).odd(odd).rounds(6).seed(seed).make();
        let found = compare(&many(None, 1), &many(Some(5), 2), &USUAL).unwrap();
        let text = comparison(&found, &Look::default());
        assert!(
            text.contains("others") && text.lines().count() < 60,
            "{text}"
        );
        let few = |seed| Maker::eight().rounds(1).seed(seed).make();
        let text = comparison(
            &compare(&few(1), &few(2), &USUAL).unwrap(),
            &Look::default(),
        );
        assert!(
            text.contains("too few runs") && text.contains("undecided: "),
            "{text}"
        );
    }
}
