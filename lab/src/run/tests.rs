// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A fake experiment: what is measured, gone on with, and shown.

use super::*;
use crate::agreement::Compared;
use crate::experiment::{About, Measurements, Paper, Remarks};
use crate::page::Section;
use crate::results::{CSV, PAGE, SUMMARY, again};
use crate::row::tests::row;
use crate::row::{End, Row};
use crate::setup::tests::setup;
use crate::summary::Summary;
use crate::table::Table;

/// Notes what is measured; its fields decide how each trial ends.
#[derive(Default)]
struct FakeExperiment {
    measured: Vec<(String, u32)>,
    /// Trials after which it fails.
    fails_after: Option<usize>,
    not_here: bool,
    end: Option<End>,
    steal_pct: f64,
    /// Rounds after which a cell has enough: `b` never has.
    enough: usize,
}

impl Experiment for FakeExperiment {
    type Setup = Setup;

    fn name(&self) -> &'static str {
        "fake"
    }

    fn cells(&self, _setup: &Setup) -> Vec<String> {
        ["a", "b", "c"].map(str::to_owned).into()
    }

    fn enough(&self, rows: &[&Row]) -> bool {
        rows[0].cell != "b" && rows.len() >= self.enough
    }

    fn measure(&mut self, _setup: &Setup, cell: &str, round: u32) -> Result<Vec<Row>> {
        if self.fails_after == Some(self.measured.len()) {
            bail!("no more");
        }
        self.measured.push((cell.to_owned(), round));
        let mut row = row(round, 1.0, 2.0);
        row.cell = cell.to_owned();
        row.end = self.end.clone().unwrap_or(End::Done);
        row.steal_pct = self.steal_pct;
        Ok(vec![row])
    }
}

impl Paper for FakeExperiment {
    fn about(&self) -> &'static About {
        &About {
            name: "fake",
            paper: "no paper",
            what: "a fake",
            source: "no paper",
            rounds: [2, 2],
            most_rounds: 5,
            minutes: [1, 1],
            page,
            summary,
        }
    }

    fn prepare(&mut self, _setup: &Setup, chosen: &mut Choices) -> Result<Remarks> {
        if self.not_here {
            return Err(NotHere("no fakes; apt-get install fake".to_owned()).into());
        }
        chosen
            .entry("n".to_owned())
            .or_insert_with(|| "1".to_owned());
        Ok(Remarks {
            skipped: vec!["d: no d here".to_owned()],
            notes: vec!["a: large".to_owned()],
        })
    }
}

fn page(measured: &Measurements<'_>) -> Result<Vec<Section>> {
    let mut table = Table::of("slowdown | n");
    let own: Vec<&Row> = measured.rows.iter().collect();
    let summary = Summary::of(&own);
    table.push(vec![summary.cell(), summary.n().to_string()]);
    let section = Section::new("x").figure("<svg></svg>".to_owned());
    Ok(vec![section.text(&measured.chosen["n"]).table(table)])
}

fn summary(rows: &[Row]) -> Vec<Compared> {
    vec![Compared::ours("rows".to_owned(), rows.len().to_string())]
}

fn run_in(fake: &mut FakeExperiment, dir: &Path) -> Report {
    run_as(fake, dir, Repeat::default())
}

fn run_as(fake: &mut FakeExperiment, dir: &Path, repeat: Repeat) -> Report {
    run(fake, &setup(dir), dir, repeat, &Messages::new(true, 0)).unwrap()
}

fn page_in(dir: &Path) -> String {
    fs::read_to_string(dir.join(PAGE)).unwrap()
}

#[test]
fn a_stopped_matrix_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let mut fake = FakeExperiment {
        fails_after: Some(2),
        ..FakeExperiment::default()
    };
    let report = run_in(&mut fake, dir.path());
    assert_eq!(report.lines[0].ours, "2");
    assert!(matches!(&report.state, State::Failed { why } if why.contains("no more")));
    assert!(page_in(dir.path()).contains("Failed: "));
    fake.fails_after = None;
    let report = run_in(&mut fake, dir.path());
    assert_eq!(report.state, State::Run);
    let mut measured = fake.measured.clone();
    measured.sort();
    measured.dedup();
    assert_eq!((fake.measured.len(), measured.len()), (6, 6));
    assert_eq!(report.lines[0].ours, "6");
    for file in [ROWS, CSV, SUMMARY, PAGE, "figure-1.svg"] {
        assert!(dir.path().join(file).is_file(), "{file}");
    }
    // Nothing is left to do.
    run_in(&mut fake, dir.path());
    assert_eq!(fake.measured.len(), 6);
    // What was skipped is on the page, and is no result.
    let page = page_in(dir.path());
    assert!(page.contains("d: no d here") && page.contains("a: large"));
}

#[test]
fn an_experiment_that_cannot_be_here_says_so_on_its_page_and_in_its_summary() {
    let dir = tempfile::tempdir().unwrap();
    let mut fake = FakeExperiment {
        not_here: true,
        ..FakeExperiment::default()
    };
    let report = run_in(&mut fake, dir.path());
    let why = "no fakes; apt-get install fake".to_owned();
    assert_eq!(report.state, State::Skipped { why });
    assert!(page_in(dir.path()).contains("Skipped: no fakes; apt-get install fake."));
    let kept: Report = read_json(&dir.path().join(SUMMARY)).unwrap().unwrap();
    assert_eq!(kept.state, report.state);
    // Once it can be, it is run.
    fake.not_here = false;
    assert_eq!(run_in(&mut fake, dir.path()).state, State::Run);
    assert!(!page_in(dir.path()).contains("Skipped: "));
    assert_eq!(fake.measured.len(), 6);
}

#[test]
fn a_program_that_hangs_is_over_the_limit_on_the_page() {
    let dir = tempfile::tempdir().unwrap();
    let mut fake = FakeExperiment {
        end: Some(End::OverLimit { limit_s: 60.0 }),
        ..FakeExperiment::default()
    };
    assert_eq!(run_in(&mut fake, dir.path()).state, State::Run);
    assert!(page_in(dir.path()).contains("&gt; limit (60 s)"));
    let csv = fs::read_to_string(dir.path().join(CSV)).unwrap();
    assert!(csv.contains("> 60 s"), "{csv}");
    // It is not tried again.
    run_in(&mut fake, dir.path());
    assert_eq!(fake.measured.len(), 6);
}

#[test]
fn an_experiment_with_a_cell_of_which_every_trial_failed_has_failed() {
    let dir = tempfile::tempdir().unwrap();
    let mut fake = FakeExperiment {
        end: Some(End::Failed {
            why: "wrong sums".to_owned(),
        }),
        ..FakeExperiment::default()
    };
    let report = run_in(&mut fake, dir.path());
    assert_eq!(fake.measured.len(), 6, "the other cells go on");
    let State::Failed { why } = &report.state else {
        panic!("{:?}", report.state);
    };
    assert!(why.starts_with("3 of 3 cells") && why.contains("wrong sums"));
    assert!(page_in(dir.path()).contains("Failed: 3 of 3 cells"));
}

#[test]
fn figures_of_a_noisy_machine_are_undecided_and_have_their_n() {
    let dir = tempfile::tempdir().unwrap();
    let mut fake = FakeExperiment::default();
    run_in(&mut fake, dir.path());
    let page = page_in(dir.path());
    assert!(
        page.contains("<td>2.00 (2.00 .. 2.00)</td><td>6</td>"),
        "{page}"
    );
    let dir = tempfile::tempdir().unwrap();
    let mut fake = FakeExperiment {
        steal_pct: 20.0,
        ..FakeExperiment::default()
    };
    run_in(&mut fake, dir.path());
    let page = page_in(dir.path());
    assert!(page.contains("<td>undecided</td><td>0</td>"), "{page}");
}

#[test]
fn cells_that_are_not_decided_go_on_until_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let mut fake = FakeExperiment {
        enough: 3,
        ..FakeExperiment::default()
    };
    let repeat = Repeat {
        decide: true,
        ..Repeat::default()
    };
    let often = |fake: &FakeExperiment, key: &str| {
        let measured = fake.measured.iter();
        measured.filter(|(cell, _)| cell == key).count()
    };
    run_as(&mut fake, dir.path(), repeat);
    assert_eq!(["a", "b", "c"].map(|key| often(&fake, key)), [3, 5, 3]);
    // Also when it goes on.
    run_as(&mut fake, dir.path(), repeat);
    assert_eq!(fake.measured.len(), 11);
}

#[test]
fn the_time_bounds_all_rounds_but_the_first_and_those_asked_for() {
    let late = Repeat {
        decide: true,
        time: Some(Duration::ZERO),
        ..Repeat::default()
    };
    let dir = tempfile::tempdir().unwrap();
    let mut fake = FakeExperiment::default();
    let report = run_as(&mut fake, dir.path(), late);
    assert_eq!(fake.measured.len(), 3);
    assert_eq!(report.form(), "quick, 1 of 2 rounds");
    let dir = tempfile::tempdir().unwrap();
    let mut fake = FakeExperiment::default();
    let rounds = Some(2);
    run_as(&mut fake, dir.path(), Repeat { rounds, ..late });
    assert_eq!(fake.measured.len(), 6);
}

#[test]
fn a_page_is_made_again_without_measuring() {
    let dir = tempfile::tempdir().unwrap();
    let mut fake = FakeExperiment::default();
    assert!(again(&fake, dir.path()).unwrap().is_none());
    run_in(&mut fake, dir.path());
    let files = [PAGE, SUMMARY, CSV, "figure-1.svg"].map(|name| {
        let path = dir.path().join(name);
        (path.clone(), fs::read(&path).unwrap())
    });
    fs::remove_file(dir.path().join(PAGE)).unwrap();
    let stale = dir.path().join("figure-2.svg");
    fs::write(&stale, "of an earlier version").unwrap();
    let report = again(&FakeExperiment::default(), dir.path())
        .unwrap()
        .unwrap();
    assert_eq!(report.lines[0].ours, "6");
    for (path, bytes) in &files {
        assert_eq!(&fs::read(path).unwrap(), bytes, "{}", path.display());
    }
    assert!(!stale.exists());
    // Without its summary, too.
    fs::remove_file(dir.path().join(SUMMARY)).unwrap();
    again(&fake, dir.path()).unwrap().unwrap();
    assert!(page_in(dir.path()).contains("2.00 (2.00 .. 2.00)"));
    assert_eq!(fake.measured.len(), 6);
}

#[test]
fn rows_without_the_choices_of_their_beginning_are_not_gone_on_with() {
    let dir = tempfile::tempdir().unwrap();
    run_in(&mut FakeExperiment::default(), dir.path());
    fs::remove_file(dir.path().join(CHOICES)).unwrap();
    let error = run(
        &mut FakeExperiment::default(),
        &setup(dir.path()),
        dir.path(),
        Repeat::default(),
        &Messages::new(true, 0),
    )
    .unwrap_err();
    assert!(error.to_string().contains("--fresh"), "{error}");
}

#[test]
fn rounds_have_orders_of_their_own() {
    let cells: Vec<String> = (0..20).map(|n: u32| n.to_string()).collect();
    let first = order(&cells, 7, 0);
    assert_eq!(first, order(&cells, 7, 0));
    assert_ne!(first, order(&cells, 7, 1));
    assert_eq!(first.len(), 20);
    // Also where there are two only.
    let two = &cells[..2];
    let begins = |round| order(two, 7, round)[0] == "0";
    let often = (0..100).filter(|round| begins(*round)).count();
    assert!((30..70).contains(&often), "{often} of 100");
}
