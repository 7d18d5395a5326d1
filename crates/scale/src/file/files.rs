// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a benchmark's figures go.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use sandbag_input::{Existing, NewFile};
use sandbag_ui::failure::{Context as _, Result};
use serde_json::Value;

use crate::file::{BenchOptions, PhaseRow, RowsFile};

/// How the program that has the figures writes.
#[derive(Debug, Clone, Copy)]
pub struct OutputStyle {
    /// To standard output.
    pub print: fn(&str) -> io::Result<()>,
    /// A file is there.
    pub written: fn(&Path),
}

/// The files, there before anything is measured: a name that cannot be written to costs no
/// minutes.
#[derive(Debug)]
pub struct Files {
    rows: Option<(PathBuf, RowsFile)>,
    json: Json,
}

#[derive(Debug)]
enum Json {
    Nowhere,
    /// In place of the text.
    OnStdout,
    To(PathBuf, NewFile),
}

impl Files {
    /// All that were asked for.
    ///
    /// # Errors
    /// One cannot be made.
    pub fn create(options: &BenchOptions) -> Result<Self> {
        let existing = Existing::by_force(options.force);
        let rows = options.output.as_ref().map(|path| {
            let file =
                RowsFile::create(path, existing).with_context(|| path.display().to_string())?;
            Ok::<_, sandbag_ui::Failure>((path.clone(), file))
        });
        Ok(Self {
            rows: rows.transpose()?,
            json: match &options.json {
                None => Json::Nowhere,
                Some(path) if path.as_os_str() == "-" => Json::OnStdout,
                Some(path) => {
                    let file = NewFile::create(path, existing);
                    let file = file.with_context(|| path.display().to_string())?;
                    Json::To(path.clone(), file)
                }
            },
        })
    }

    /// All of it, whatever becomes of one place.
    ///
    /// # Errors
    /// Of the first place that could not be written.
    pub fn write(
        self,
        out: OutputStyle,
        text: &str,
        figures: &Value,
        rows: impl Iterator<Item = PhaseRow>,
    ) -> Result<()> {
        let json = serde_json::to_string_pretty(figures)? + "\n";
        let told = match self.json {
            Json::Nowhere => (out.print)(text).map_err(Into::into),
            Json::OnStdout => (out.print)(&json).map_err(Into::into),
            Json::To(path, mut file) => {
                let printed = (out.print)(text).map_err(Into::into);
                let written = file.write_all(json.as_bytes());
                let written = written.and_then(|()| file.finish());
                (out.written)(&path);
                printed.and(written.with_context(|| path.display().to_string()))
            }
        };
        let kept = self.rows.map_or(Ok(()), |(path, file)| {
            let written = file.write(rows);
            (out.written)(&path);
            written.with_context(|| path.display().to_string())
        });
        told.and(kept)
    }
}
