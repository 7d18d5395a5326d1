// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag audit gather`.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use sandbag_ui::BadInput;
use sandbag_ui::failure::{Context as _, Result};
use sandbag_ui::messages::Messages;
use sandbag_ui::output::{JsonArgs, Overwrite, print, put, put_json, refuse_ending};

use super::{exit_codes, read_audit};
use crate::gather::{Gatherer, report};
use crate::model::Audit;

/// Compare the audits of many hosts: which host, and which CPU of which host, is slower
///
/// Hosts are compared with the middle of all, CPUs with the middle CPU of their host; the
/// correction is that for all comparisons.
#[derive(Debug, Args)]
pub(super) struct GatherArgs {
    /// A directory of audits as `sandbag audit run -o HOST.json` wrote them, or the files
    #[arg(value_name = "DIR|FILE", required = true)]
    files: Vec<PathBuf>,

    /// Write the report: .html, .csv or .json; - for JSON on standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    json: JsonArgs,

    #[command(flatten)]
    overwrite: Overwrite,
}

pub(super) fn main(args: &GatherArgs, messages: &Messages) -> Result<u8> {
    args.overwrite.check(args.output.as_deref())?;
    args.json.check(args.overwrite)?;
    let written = args
        .output
        .as_deref()
        .filter(|path| path.as_os_str() != "-");
    if let Some(path) = written {
        refuse_ending(path, &["html", "csv", "json"])?;
    }
    let mut gatherer = Gatherer::default();
    let mut left_out = Vec::new();
    let mut used = 0;
    for path in files(&args.files)? {
        let added = read_audit(&path)
            .map_err(|error| error.line())
            .and_then(|audit| {
                let host = host(&audit, &path);
                gatherer.add(&host, &audit)
            });
        match added {
            Ok(()) => used += 1,
            Err(why) => left_out.push((path.display().to_string(), why)),
        }
    }
    if used == 0 {
        let why = left_out.first().map(|(_, why)| format!(": {why}"));
        return Err(BadInput(format!("no audit of a host{}", why.unwrap_or_default())).into());
    }
    let cluster = gatherer.finish(left_out);
    let existing = args.overwrite.existing();
    if let Some(path) = args.json.path() {
        put_json(path, &cluster, existing)?;
    }
    match (args.output.as_deref(), written) {
        (Some(_), Some(path)) => {
            match path.extension().and_then(|ending| ending.to_str()) {
                Some("csv") => put(path, report::csv(&cluster)?, existing)?,
                Some("json") => put_json(path, &cluster, existing)?,
                _ => put(path, report::page(&cluster), existing)?,
            }
            messages.say(&format!("Report: {}", path.display()));
        }
        (Some(path), None) => put_json(path, &cluster, existing)?,
        (None, _) if args.json.path().is_some_and(|path| path.as_os_str() == "-") => {}
        (None, _) => print(report::terminal(&cluster))?,
    }
    Ok(exit_codes::of_equality(cluster.verdict))
}

/// The files, and of directories the .json files in them, in the order of their names.
fn files(named: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in named {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let entries = fs::read_dir(path).with_context(|| path.display().to_string())?;
        let files = entries.flatten().map(|entry| entry.path());
        let is_audit = |path: &PathBuf| {
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            name.ends_with(".json") && name != "hosts.json"
        };
        let mut files: Vec<PathBuf> = files.filter(is_audit).collect();
        files.sort();
        all.extend(files);
    }
    Ok(all)
}

/// The name of the file is the host's, where the launcher gave it that; else as the audit says.
fn host(audit: &Audit, path: &Path) -> String {
    let said = audit.machine.iter().find(|(name, _)| name == "host");
    match said {
        Some((_, host)) if host != "unknown" => host.clone(),
        _ => path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
    }
}
