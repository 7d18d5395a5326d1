// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sandbag audit gather`.

use std::path::{Path, PathBuf};

use clap::Args;
use sandbag_ui::failure::Result;
use sandbag_ui::messages::Messages;
use sandbag_ui::report::{ReportArgs, files};
use sandbag_ui::{BadInput, exit};

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

    #[command(flatten)]
    report: ReportArgs,
}

pub(super) fn main(args: &GatherArgs, messages: &Messages) -> Result<u8> {
    args.report.check()?;
    let mut gatherer = Gatherer::default();
    let mut left_out = Vec::new();
    let mut used = 0;
    for path in files(&args.files, "json", messages)? {
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
    args.report.put(
        &cluster,
        || report::terminal(&cluster),
        || report::page(&cluster),
        || report::csv(&cluster),
        messages,
    )?;
    if !cluster.left_out.is_empty() {
        return Ok(exit::FAILED);
    }
    Ok(exit_codes::of_equality(cluster.verdict))
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
