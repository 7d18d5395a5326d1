// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong with the files of a run.

use std::path::PathBuf;

/// A failure to write or read a run's files. Messages are fragments that fit
/// behind "failed: ".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory could not be created, written or renamed.
    #[error("cannot write {}: {cause}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        cause: std::io::Error,
    },
    /// A file could not be opened or read.
    #[error("cannot read {}: {cause}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        cause: std::io::Error,
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
        /// The version of the sandbag that wrote the file, as it says.
        writer: String,
    },
    /// The first line of `achieved.csv` is not its header.
    #[error(
        "{} does not begin with the columns of an achieved.csv (found '{found}')",
        path.display()
    )]
    Header { path: PathBuf, found: String },
    #[error("{}:{line}: {cause}", path.display())]
    Row {
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        cause: String,
    },
}

impl sandbag_ui::ExitStatus for Error {}
