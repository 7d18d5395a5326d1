// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong with the files of a run.

use std::io;
use std::path::{Path, PathBuf};

/// A failure to write or read a run's files. Messages are fragments that fit
/// behind "failed: ".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot write {}: {cause}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("cannot read {}: {cause}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    /// `run.json` is not JSON, or lacks a field.
    #[error("{} is not a run record: {cause}", path.display())]
    Json {
        path: PathBuf,
        #[source]
        cause: serde_json::Error,
    },
    #[error("{} has no format number; give the run.json of a sandbag run", path.display())]
    NoFormat { path: PathBuf },
    /// `run.json` says why the run was not made.
    #[error("{}: the run failed: {message}", path.display())]
    Failed { path: PathBuf, message: String },
    #[error(
        "{} has format {found}, this sandbag reads up to {known}; \
         use the sandbag that wrote it ({writer}) or a later one",
        path.display()
    )]
    NewerFormat {
        path: PathBuf,
        found: u64,
        known: u32,
        /// Version of the sandbag that wrote the file.
        writer: String,
    },
    #[error(
        "{} does not begin with the columns of an achieved.csv (found '{found}')",
        path.display()
    )]
    Header { path: PathBuf, found: String },
    /// A row of `achieved.csv` is malformed.
    #[error("{}: {cause}", path.display())]
    Row {
        path: PathBuf,
        #[source]
        cause: csv::Error,
    },
}

impl Error {
    pub(crate) fn write(path: &Path, cause: io::Error) -> Self {
        let path = path.to_owned();
        Self::Write { path, cause }
    }
}

impl sandbag_ui::ExitStatus for Error {}
