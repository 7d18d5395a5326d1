// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A sweep on the terminal, as Markdown, as JUnit's XML, and as a page.

mod junit;
mod page;
mod text;

pub use junit::junit;
pub use page::page;
pub use text::{markdown, terminal};

use crate::answer::{Answer, Ratio};
pub use crate::figures::number;
use crate::figures::ratio_decimals;
use crate::record::Sweep;
use sandbag_load::report::same_load::SameLoad;
use sandbag_stats::Verdict;

/// The heads of a table of one metric; with a column for the other program if there is one.
fn heads(sweep: &Sweep) -> Vec<String> {
    let mut heads = vec!["condition".to_owned(), "program".to_owned()];
    heads.extend(["runs", "median", "least", "greatest"].map(str::to_owned));
    if sweep.conditions.len() > 1 {
        heads.push(format!("to {}", sweep.conditions[0].name));
        heads.push("95 % interval".to_owned());
    }
    if sweep.programs.len() > 1 {
        heads.push("B to A".to_owned());
        heads.push("95 % interval".to_owned());
    } else {
        heads.remove(1);
    }
    heads
}

/// The cells of an answer, under [`heads`].
fn cells(sweep: &Sweep, one: &Answer) -> Vec<String> {
    let value = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
    let mut runs = one.runs.to_string();
    if one.failed > 0 {
        runs += &format!(", {} failed", one.failed);
    }
    if one.spoilt > 0 {
        runs += &format!(", {} spoilt", one.spoilt);
    }
    let mut cells = vec![
        sweep.conditions[one.condition].name.clone(),
        sweep.programs[one.program].name.clone(),
        runs,
        value(one.median),
        value(one.least),
        value(one.greatest),
    ];
    let two = sweep.programs.len() > 1;
    if !two {
        cells.remove(1);
    }
    let ratios = [
        (sweep.conditions.len() > 1).then_some(one.to_baseline),
        two.then_some(one.to_first_program),
    ];
    for ratio in ratios.into_iter().flatten() {
        cells.extend(ratio_cells(ratio));
    }
    cells
}

fn ratio_cells(ratio: Option<Ratio>) -> [String; 2] {
    let Some(one) = ratio else {
        return ["-".to_owned(), String::new()];
    };
    let digits = ratio_decimals(&one, 3);
    let interval = match one.interval() {
        Some((low, high)) => format!("{low:.digits$} to {high:.digits$}"),
        None if one.pairs == 1 => "one pair".to_owned(),
        None => "no interval".to_owned(),
    };
    [format!("{:.digits$}", one.ratio), interval]
}

/// Whether the loads of a comparison were the same, and why.
fn same_load(same: &SameLoad) -> String {
    let was = match same.verdict {
        Verdict::Kept => "the same",
        Verdict::Missed => "not the same",
        Verdict::Undecided => "not known to be the same",
    };
    format!("The loads were {was}: {}", same.reason)
}

/// `p99, ms`; with what is better where that is more.
fn title(sweep: &Sweep, metric: &str) -> String {
    let about = sweep.metrics.iter().find(|one| one.name == metric);
    let mut title = metric.to_owned();
    if let Some(about) = about {
        if !about.unit.is_empty() {
            title += &format!(", {}", about.unit);
        }
        if about.higher_is_better {
            title += " (more is better)";
        }
    }
    title
}

/// The answers of each metric.
fn by_metric(sweep: &Sweep) -> Vec<(&str, Vec<&Answer>)> {
    let of = |name: &str| {
        sweep
            .answers
            .iter()
            .filter(|one| one.metric == name)
            .collect()
    };
    let metrics = sweep.metrics.iter();
    metrics.map(|one| (&*one.name, of(&one.name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::answers;
    use crate::record::fixture;
    use crate::threshold::Threshold;

    fn two_programs() -> Sweep {
        let mut sweep = fixture::sweep(&[
            [&[10.0, 11.0, 10.5], &[20.0, 22.5, 21.0]],
            [&[10.1, 10.9, 10.6], &[30.0, 31.0, 33.0]],
        ]);
        sweep.runs[4].exit_code = Some(1);
        sweep.runs[4].values.remove("p99");
        sweep.answers = answers(&sweep);
        let fail_if = ["p99@30 > 1.5 * p99@0", "p99@30 > 2 * p99@0", "p99@30 > 100"];
        let judge = |text: &&str| Threshold::parse(text, &sweep).unwrap().judge(&sweep);
        sweep.thresholds = fail_if.iter().map(judge).collect();
        sweep
    }

    #[test]
    fn a_sweep_is_shown() {
        let two = two_programs();
        let mut one = fixture::sweep(&[[&[10.0, 11.0], &[20.0, 22.5]]]);
        one.answers = answers(&one);
        insta::assert_snapshot!(format!(
            "{}\n== two programs\n{}\n== Markdown\n{}\n== JUnit\n{}",
            terminal(&one),
            terminal(&two),
            markdown(&two),
            junit(&two, false)
        ));
    }

    #[test]
    fn hostile_names_stay_text() {
        let mut sweep = two_programs();
        sweep.conditions[1].name = "<b>|\u{1b}[31m\"&".to_owned();
        let pages = [
            page(&sweep),
            junit(&sweep, true),
            markdown(&sweep),
            terminal(&sweep),
        ];
        for text in &pages {
            assert!(!text.contains('\u{1b}'), "{text}");
        }
        assert!(pages[..2].iter().all(|text| !text.contains("<b>")));
        assert!(!pages[2].contains(">|"), "{}", pages[2]);
    }

    #[test]
    fn a_page_has_a_chart_of_each_metric() {
        let page = page(&two_programs());
        for text in ["<svg", "p99, ms", "p99@30 &gt; 1.5", "./b"] {
            assert!(page.contains(text), "{text}");
        }
    }
}
