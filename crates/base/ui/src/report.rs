// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports that are made of many records: a page, CSV, JSON, or a table on the terminal.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use crate::BadInput;
use crate::failure::{Context as _, Failure, Result};
use crate::messages::Messages;
use crate::output::{JsonArgs, Overwrite, ending, print, put, put_json, refuse_ending};

/// A report of many records: `-o FILE` in a form by its ending, `--json`, or a table.
#[derive(Debug, Clone, Default, Args)]
pub struct ReportArgs {
    /// Write the report: .html, .csv or .json; - for JSON on standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    json: JsonArgs,

    #[command(flatten)]
    overwrite: Overwrite,
}

impl ReportArgs {
    /// Refuses names that cannot be written, before anything is read for them.
    pub fn check(&self) -> Result<()> {
        self.overwrite.check(self.output.as_deref())?;
        self.json.check(self.overwrite)?;
        let Some(path) = self
            .output
            .as_deref()
            .filter(|path| path.as_os_str() != "-")
        else {
            return Ok(());
        };
        let endings = ["html", "csv", "json"];
        refuse_ending(path, &endings)?;
        match ending(path).filter(|ending| endings.contains(ending)) {
            Some(_) => Ok(()),
            None => Err(BadInput(format!(
                "{}: name a file that ends in .html, .csv or .json",
                path.display()
            ))
            .into()),
        }
    }

    /// Writes it where it is asked for, and the table where standard output has no record.
    pub fn put(
        &self,
        record: &impl Serialize,
        table: impl FnOnce() -> String,
        page: impl FnOnce() -> String,
        csv: impl FnOnce() -> Result<String>,
        messages: &Messages,
    ) -> Result<()> {
        let existing = self.overwrite.existing();
        if let Some(path) = self.json.path() {
            put_json(path, record, existing)?;
        }
        let on_stdout = |path: &Path| path.as_os_str() == "-";
        let Some(path) = self.output.as_deref() else {
            if !self.json.path().is_some_and(on_stdout) {
                print(table())?;
            }
            return Ok(());
        };
        match ending(path) {
            Some("html") => put(path, page(), existing)?,
            Some("csv") => put(path, csv()?, existing)?,
            _ => put_json(path, record, existing)?,
        }
        if !on_stdout(path) {
            messages.say(&format!("Report: {}", path.display()));
        }
        Ok(())
    }
}

/// The record of an experiment on many hosts, which is none of a host.
pub const HOSTS_JSON: &str = "hosts.json";

/// The names of files of the hosts of an experiment; those of others are of an earlier one.
fn members(record: &Path) -> Option<BTreeSet<String>> {
    let record: serde_json::Value = serde_json::from_slice(&fs::read(record).ok()?).ok()?;
    let members = record.get("members")?.as_array()?.iter();
    let hosts = members.filter_map(|one| one.get("host")?.as_str());
    Some(hosts.map(|host| host.replace('/', "_")).collect())
}

/// Files that were named, and those with this ending in directories that were, by their names.
pub fn files(named: &[PathBuf], wanted: &str, messages: &Messages) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in named {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let hosts = members(&path.join(HOSTS_JSON));
        let entries = fs::read_dir(path).with_context(|| path.display().to_string())?;
        let files = entries.flatten().map(|entry| entry.path());
        let is_wanted = |path: &PathBuf| {
            let is_hosts = path.file_name().is_some_and(|name| name == HOSTS_JSON);
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let is_member = hosts.as_ref().is_none_or(|hosts| hosts.contains(&*stem));
            let is_wanted = ending(path) == Some(wanted) && !is_hosts;
            if is_wanted && !is_member {
                messages.warning(&format!(
                    "{} is left out: {HOSTS_JSON} beside it names no such host, so it is of an \
                     earlier experiment",
                    path.display()
                ));
            }
            is_wanted && is_member
        };
        let mut files: Vec<PathBuf> = files.filter(is_wanted).collect();
        files.sort();
        all.extend(files);
    }
    Ok(all)
}

/// A table as CSV.
pub fn csv_text<'h>(
    heads: impl IntoIterator<Item = &'h str>,
    rows: impl IntoIterator<Item = Vec<String>>,
) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let failed = |error: csv::Error| Failure::text(error.to_string());
    writer.write_record(heads).map_err(failed)?;
    for row in rows {
        writer.write_record(row).map_err(failed)?;
    }
    let bytes = writer.into_inner();
    let bytes = bytes.map_err(|error| Failure::text(error.to_string()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
