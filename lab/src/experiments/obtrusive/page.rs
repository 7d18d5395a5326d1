// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the page of tables III to V shows: slowdowns beside the spinners', to
//! what they are known, and the papers'.

use super::about;
use crate::agreement::{Agreement, Compared, Published};
use crate::condition::Condition;
use crate::decide::Decision;
use crate::experiment::Choices;
use crate::page::Section;
use crate::published;
use crate::row::{Row, grouped};
use crate::summary::{Summary, slowdowns};
use crate::table::Table;

/// The papers give one decimal: the part of a slowdown within which ours is the same.
const WITHIN: f64 = 0.1;

pub fn sections(rows: &[Row], chosen: &Choices) -> Vec<Section> {
    let mut sections = Vec::new();
    for (name, own) in grouped(rows, |row| row.program.clone()) {
        let about = chosen.get(&about(&name)).map_or("", String::as_str);
        let section = Section::new(&name).text(about);
        sections.push(section.table(table(&own, &name)));
    }
    sections.push(
        Section::new("Where ours differ, and why")
            .text(published::WHAT_SPINNERS_ARE)
            .points(&published::WHY_LOADS_DIFFER),
    );
    sections
}

fn table(rows: &[&Row], program: &str) -> Table {
    let mut table = Table::of(
        "condition | slowdown, median (95 %) | known to | to the spinners' | unloaded, s | n | \
         the paper",
    );
    let conditions = grouped(rows.iter().copied(), |row| row.condition.clone());
    let spinners = conditions
        .iter()
        .find(|(condition, _)| *condition == Condition::Spinners);
    let spinners = spinners.map_or(&[][..], |(_, own)| own);
    let (reference, known) = (Summary::of(spinners).slowdown, decided(spinners));
    for (condition, own) in &conditions {
        let summary = Summary::of(own);
        let against = summary.slowdown.zip(reference);
        table.push(vec![
            condition.name(),
            summary.cell(),
            decided(own).map_or_else(String::new, Decision::shown),
            against.map_or_else(String::new, |(ours, reference)| {
                difference(
                    ours.value - reference.value,
                    decided(own).and_then(|known| known.half_width),
                    known.and_then(|known| known.half_width),
                )
            }),
            summary.unloaded_s.map_or_else(String::new, |m| m.show(2)),
            summary.n().to_string(),
            paper(program, condition).unwrap_or_default(),
        ]);
    }
    table
}

pub fn summary(rows: &[Row]) -> Vec<Compared> {
    let line = |((program, condition), own): ((String, Condition), Vec<&Row>)| {
        let summary = Summary::of(&own);
        let known = decided(&own).map_or_else(String::new, |d| format!(", {}", d.shown()));
        let published = published(&program, &condition);
        Compared {
            what: format!("slowdown of {program}, {}", condition.name()),
            paper: paper(&program, &condition).unwrap_or_else(|| "-".to_owned()),
            ours: summary.counted(summary.slowdown, 2) + &known,
            agreement: match published {
                None => Agreement::Ours,
                Some((_, slowdown)) if slowdown.is_infinite() => {
                    Published::between(100.0, slowdown).compare(summary.decided())
                }
                Some((_, slowdown)) => {
                    Published::around(slowdown, WITHIN * slowdown).compare(summary.decided())
                }
            },
        }
    };
    let cells = grouped(rows, |row| (row.program.clone(), row.condition.clone()));
    cells.into_iter().map(line).collect()
}

/// To what a slowdown is known; `None` where there is none.
fn decided(rows: &[&Row]) -> Option<Decision> {
    let summary = Summary::of(rows);
    let numbers = summary.over_limit_s.is_none() && summary.failed.is_none();
    numbers.then(|| Decision::by(&slowdowns(rows)))
}

/// Of two medians that were measured apart, with its interval where both have
/// one.
fn difference(value: f64, own: Option<f64>, reference: Option<f64>) -> String {
    match own.zip(reference) {
        Some((own, reference)) => format!("{value:+.2} ± {:.2}", own.hypot(reference)),
        None => format!("{value:+.2}"),
    }
}

/// The nearest generator to a condition, and its published slowdown.
fn published(program: &str, condition: &Condition) -> Option<(&'static str, f64)> {
    let Condition::Load { method, .. } = condition else {
        return None;
    };
    let mut programs = published::OBTRUSIVE.iter();
    let (_, slowdowns) = programs.find(|(name, _)| program.starts_with(name))?;
    let mut all = published::GENERATORS.iter().zip(slowdowns);
    let ((generator, _), slowdown) = all.find(|((_, ours), _)| ours == method)?;
    Some((generator, *slowdown))
}

fn paper(program: &str, condition: &Condition) -> Option<String> {
    let (generator, slowdown) = published(program, condition)?;
    Some(if slowdown.is_finite() {
        format!("{slowdown} ({generator})")
    } else {
        format!("> 100 ({generator})")
    })
}

#[cfg(test)]
mod tests {
    use super::super::LOAD_PCT;
    use super::*;
    use crate::row::tests::row;

    fn load(method: &str) -> Condition {
        Condition::load(method, LOAD_PCT)
    }

    #[test]
    fn the_papers_figure_is_that_of_the_nearest_generator() {
        assert_eq!(paper("copy-sync", &load("rt")).unwrap(), "3.6 (real time)");
        assert_eq!(paper("exchange", &load("shares")).unwrap(), "2.1 (KRASH)");
        assert_eq!(paper("exchange", &load("pace")), None);
        assert_eq!(paper("exchange", &Condition::Spinners), None);
    }

    #[test]
    fn a_slowdown_stands_beside_the_spinners() {
        let mut rows = vec![row(0, 1.0, 2.0), row(0, 1.0, 2.1)];
        rows[0].condition = Condition::Spinners;
        rows[1].condition = load("pace");
        for row in &mut rows {
            row.program = "copy".to_owned();
        }
        let chosen = Choices::from([("about copy".to_owned(), "dd of a file".to_owned())]);
        let sections = sections(&rows, &chosen);
        let html = sections[0].html().into_string();
        assert!(
            html.contains("+0.10") && html.contains("dd of a file"),
            "{html}"
        );
        let lines = summary(&rows);
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn few_pairs_are_undecided_and_say_how_many_it_takes() {
        let mut rows: Vec<Row> = (0..2)
            .map(|n| row(n, 1.0, 1.95 + 0.1 * f64::from(n)))
            .collect();
        for row in &mut rows {
            row.condition = load("pace");
        }
        let line = &summary(&rows)[0].ours;
        assert_eq!(
            line,
            "2.00 (1.95 .. 2.05), n = 2, undecided to 0.05: about 13 pairs needed"
        );
        let html = sections(&rows, &Choices::new())[0].html().into_string();
        assert!(html.contains("about 13 pairs needed"), "{html}");
        let many: Vec<Row> = (0..9).map(|n| row(n, 1.0, 2.0)).collect();
        assert_eq!(
            summary(&many)[0].ours,
            "2.00 (2.00 .. 2.00), n = 9, ± 0.000"
        );
    }

    #[test]
    fn a_program_that_hangs_is_not_asked_to_decide() {
        let mut hangs = row(0, 1.0, 0.0);
        hangs.end = crate::row::End::OverLimit { limit_s: 600.0 };
        assert_eq!(summary(&[hangs])[0].ours, "> limit (600 s), n = 0");
    }
}
