// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All experiments of a directory side by side: what, the paper's figure,
//! ours; as a page, as a table for a text file, and for programs.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::agreement::sentence;
use crate::page::{self, Frame, Section};
use crate::results::{PAGE, Report, SUMMARY, State, read_json};
use crate::table::Table;
use sandbag_linux::machine::lasting;
use sandbag_ui::text::visible;

pub const TEXT: &str = "summary.md";

/// Reads what the experiments in `dir` came to, in the order given; those that
/// were never begun are not among them.
pub fn reports(dir: &Path, names: &[&str]) -> Result<Vec<Report>> {
    let mut reports = Vec::new();
    for name in names {
        reports.extend(read_json(&dir.join(name).join(SUMMARY))?);
    }
    Ok(reports)
}

/// Writes page, text and JSON into `dir`; returns the text.
pub fn write(dir: &Path, reports: &[Report]) -> Result<String> {
    let (frame, sections) = content(reports);
    let text = page::markdown(&frame, &sections);
    let files = [
        (PAGE, page::render(&frame, &sections)),
        (TEXT, text.clone()),
        (SUMMARY, serde_json::to_string_pretty(reports)?),
    ];
    for (name, bytes) in files {
        let path = dir.join(name);
        fs::write(&path, bytes).with_context(|| path.display().to_string())?;
    }
    Ok(text)
}

/// How many were run, and how many were not.
fn counted(reports: &[Report]) -> String {
    let count = |is: fn(&State) -> bool| reports.iter().filter(|r| is(&r.state)).count();
    let skipped = count(|state| matches!(state, State::Skipped { .. }));
    let failed = count(|state| matches!(state, State::Failed { .. }));
    format!(
        "{} experiment{}: {} run, {skipped} skipped, {failed} failed.",
        reports.len(),
        if reports.len() == 1 { "" } else { "s" },
        reports.len() - skipped - failed
    )
}

/// On what an experiment was measured, or would have been.
fn machine_of(report: &Report) -> String {
    let what = match report.state {
        State::Skipped { .. } => "The machine",
        State::Run | State::Failed { .. } => "Measured on",
    };
    format!("{what}: {}.", visible(&lasting(&report.machine)))
}

fn content(reports: &[Report]) -> (Frame, Vec<Section>) {
    let sections: Vec<Section> = reports
        .iter()
        .map(|report| {
            let section = Section::new(&report.experiment);
            let about = format!("Repeats: {}; {}.", report.source, report.form());
            let details = format!("Figures and details: {}/{PAGE}", report.experiment);
            let state = report.state.shown();
            let verdict = Some(sentence(&report.lines)).filter(|text| !text.is_empty());
            let points = [Some(machine_of(report)), state, verdict, Some(details)];
            let points: Vec<&str> = points.iter().flatten().map(String::as_str).collect();
            let section = section.text(&about).points(&points);
            if report.lines.is_empty() {
                return section;
            }
            let mut table = Table::of("what | paper | ours | verdict");
            for line in &report.lines {
                table.push(line.cells());
            }
            section.table(table)
        })
        .collect();
    let frame = Frame {
        title: "Lab: the papers and this machine".to_owned(),
        progress: counted(reports),
        skipped: all_of(reports, |report| &report.left_out),
        notes: all_of(reports, |report| &report.notes),
        ..Frame::default()
    };
    (frame, sections)
}

/// Texts of all reports, each of them once.
fn all_of(reports: &[Report], of: fn(&Report) -> &Vec<String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for text in reports.iter().flat_map(of) {
        if !all.contains(text) {
            all.push(text.clone());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agreement::{Agreement, Compared};

    fn report(name: &str, cpu: &str) -> Report {
        Report {
            experiment: name.to_owned(),
            source: "KRASH, table II".to_owned(),
            machine: vec![("CPU".to_owned(), cpu.to_owned())],
            lines: vec![Compared {
                what: "EP".to_owned(),
                paper: "48.9".to_owned(),
                ours: "50.0".to_owned(),
                agreement: Agreement::Agrees,
            }],
            left_out: vec!["freq: no driver".to_owned()],
            ..Report::default()
        }
    }

    /// As text and as a page.
    fn texts(reports: &[Report]) -> [String; 2] {
        let (frame, sections) = content(reports);
        [
            page::markdown(&frame, &sections),
            page::render(&frame, &sections),
        ]
    }

    #[test]
    fn experiments_stand_side_by_side() {
        let dir = tempfile::tempdir().unwrap();
        let sub = dir.path().join("precision");
        fs::create_dir(&sub).unwrap();
        let one = serde_json::to_vec(&report("precision", "fast")).unwrap();
        fs::write(sub.join(SUMMARY), one).unwrap();
        let reports = reports(dir.path(), &["micro", "precision"]).unwrap();
        assert_eq!(reports.len(), 1);
        let text = write(dir.path(), &reports).unwrap();
        assert!(
            text.contains("| EP   |  48.9 | 50.0 |  agrees |")
                && text.contains("- freq: no driver")
        );
        assert!(dir.path().join(PAGE).is_file() && dir.path().join(TEXT).is_file());
        let all: Option<Vec<Report>> = read_json(&dir.path().join(SUMMARY)).unwrap();
        assert_eq!(all.unwrap().len(), 1);
    }

    #[test]
    fn each_has_the_machine_that_it_was_measured_on() {
        let reports = [report("precision", "fast"), report("micro", "slow")];
        for text in texts(&reports) {
            let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
            assert!(at("precision") < at("CPU: fast") && at("CPU: fast") < at("micro"));
            assert!(at("micro") < at("CPU: slow"));
        }
    }

    #[test]
    fn what_was_skipped_is_counted_and_has_its_reason() {
        let mut skipped = report("replay", "fast");
        skipped.lines.clear();
        skipped.state = State::Skipped {
            why: "no hpcc here".to_owned(),
        };
        let reports = [report("precision", "fast"), skipped];
        for text in texts(&reports) {
            assert!(text.contains("2 experiments: 1 run, 1 skipped, 0 failed."));
            assert!(text.contains("Skipped: no hpcc here."), "{text}");
        }
    }
}
