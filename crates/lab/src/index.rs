// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All experiments of a directory side by side: what, the paper's figure,
//! ours; as a page and as a table for a text file.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::page::{self, Frame, Section, Table};
use crate::run::{PAGE, Report, SUMMARY};

/// The table as text.
pub const TEXT: &str = "summary.md";

/// Reads what the experiments in `dir` came to, in the order given; those that
/// have not been run are left out.
///
/// # Errors
/// A summary cannot be read.
pub fn reports(dir: &Path, names: &[&str]) -> Result<Vec<Report>> {
    let mut reports = Vec::new();
    for name in names {
        let path = dir.join(name).join(SUMMARY);
        if path.is_file() {
            let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
            let report = serde_json::from_slice(&bytes);
            reports.push(report.with_context(|| path.display().to_string())?);
        }
    }
    Ok(reports)
}

/// Writes both into `dir`; returns the text.
///
/// # Errors
/// They cannot be written.
pub fn write(dir: &Path, reports: &[Report]) -> Result<String> {
    let text = as_text(reports);
    let sections: Vec<Section> = reports
        .iter()
        .map(|report| {
            let mut table = Table::new(&["what", "paper", "ours"]);
            for line in &report.lines {
                table.push(line.to_vec());
            }
            Section::new(&report.experiment)
                .text(&format!(
                    "Repeats {}. Figures and details: {}/{PAGE}",
                    report.source, report.experiment
                ))
                .table(table)
        })
        .collect();
    let frame = Frame {
        title: "Lab: the papers and this machine".to_owned(),
        machine: reports
            .first()
            .map(|report| report.machine.clone())
            .unwrap_or_default(),
        left_out: left_out(reports),
        ..Frame::default()
    };
    for (name, bytes) in [
        (PAGE, page::render(&frame, &sections)),
        (TEXT, text.clone()),
    ] {
        let path = dir.join(name);
        fs::write(&path, bytes).with_context(|| path.display().to_string())?;
    }
    Ok(text)
}

fn left_out(reports: &[Report]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for reason in reports.iter().flat_map(|report| &report.left_out) {
        if !all.contains(reason) {
            all.push(reason.clone());
        }
    }
    all
}

fn as_text(reports: &[Report]) -> String {
    let mut text = String::from("# The papers' experiments on this machine\n");
    if let Some(first) = reports.first() {
        text.push('\n');
        for (name, value) in &first.machine {
            let _ = writeln!(text, "- {name}: {value}");
        }
    }
    for report in reports {
        let form = if report.quick {
            "short form"
        } else {
            "full form"
        };
        let _ = write!(
            text,
            "\n## {}\n\n{}; {form}, {} rounds.\n\n| what | paper | ours |\n| --- | --- | --- |\n",
            report.experiment, report.source, report.rounds
        );
        for line in &report.lines {
            let _ = writeln!(text, "| {} |", line.join(" | "));
        }
    }
    let left_out = left_out(reports);
    if !left_out.is_empty() {
        text += "\n## Left out, and notes\n\n";
        for reason in left_out {
            let _ = writeln!(text, "- {reason}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_stand_side_by_side() {
        let dir = tempfile::tempdir().unwrap();
        let report = Report {
            experiment: "precision".to_owned(),
            source: "KRASH, table II".to_owned(),
            rounds: 3,
            quick: true,
            machine: vec![("CPU".to_owned(), "fast".to_owned())],
            lines: vec![["EP".to_owned(), "48.9".to_owned(), "50.0".to_owned()]],
            left_out: vec!["freq: no driver".to_owned()],
        };
        let sub = dir.path().join("precision");
        fs::create_dir(&sub).unwrap();
        fs::write(sub.join(SUMMARY), serde_json::to_vec(&report).unwrap()).unwrap();
        let reports = reports(dir.path(), &["micro", "precision"]).unwrap();
        assert_eq!(reports.len(), 1);
        let text = write(dir.path(), &reports).unwrap();
        assert!(text.contains("| EP | 48.9 | 50.0 |") && text.contains("- freq: no driver"));
        assert!(dir.path().join(PAGE).is_file() && dir.path().join(TEXT).is_file());
    }
}
