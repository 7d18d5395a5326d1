// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a benchmark's figures go.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use sandbag_profile::NewFile;
use sandbag_scale_bench::{BenchOptions, Row, RowsFile};
use serde_json::Value;

use crate::output;

/// The files, there before anything is measured: a name that cannot be written to costs no
/// minutes.
pub(super) struct Files {
    rows: Option<(PathBuf, RowsFile)>,
    json: Json,
}

enum Json {
    Nowhere,
    /// In place of the text.
    OnStdout,
    To(PathBuf, NewFile),
}

impl Files {
    pub(super) fn create(options: &BenchOptions) -> Result<Self> {
        let rows = options.output.as_ref().map(|path| {
            let file = RowsFile::create(path).with_context(|| path.display().to_string())?;
            anyhow::Ok((path.clone(), file))
        });
        Ok(Self {
            rows: rows.transpose()?,
            json: match &options.json {
                None => Json::Nowhere,
                Some(path) if path.as_os_str() == "-" => Json::OnStdout,
                Some(path) => {
                    let file = NewFile::create(path).with_context(|| path.display().to_string())?;
                    Json::To(path.clone(), file)
                }
            },
        })
    }

    /// All of it, whatever becomes of one place; the first that failed is told.
    pub(super) fn write(
        self,
        text: &str,
        figures: &Value,
        rows: impl Iterator<Item = Row>,
    ) -> Result<()> {
        let json = serde_json::to_string_pretty(figures)? + "\n";
        let told = match self.json {
            Json::Nowhere => output::print(text).map_err(Into::into),
            Json::OnStdout => output::print(&json).map_err(Into::into),
            Json::To(path, mut file) => {
                let printed = output::print(text).map_err(Into::into);
                let written = file.write_all(json.as_bytes());
                let written = written.and_then(|()| file.finish());
                output::give_to_caller(&path);
                printed.and(written.with_context(|| path.display().to_string()))
            }
        };
        let kept = self.rows.map_or(Ok(()), |(path, file)| {
            let written = file.write(rows);
            output::give_to_caller(&path);
            written.with_context(|| path.display().to_string())
        });
        told.and(kept)
    }
}
