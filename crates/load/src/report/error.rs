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
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        cause: std::io::Error,
    },
    /// A file could not be opened or read.
    #[error("cannot read {}: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        cause: std::io::Error,
    },
    /// `run.json` is not JSON, or lacks a field.
    #[error("{} is not a run record: {cause}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The parser's reason, with line and column.
        #[source]
        cause: serde_json::Error,
    },
    /// `run.json` has no format number.
    #[error("{} has no format number; give the run.json of a sandbag run", path.display())]
    NoFormat {
        /// The file.
        path: PathBuf,
    },
    /// `run.json` says why the run was not made.
    #[error("{}: the run failed: {message}", path.display())]
    Failed {
        /// The file.
        path: PathBuf,
        /// What it says.
        message: String,
    },
    /// `run.json` comes from a newer sandbag.
    #[error(
        "{} has format {found}, this sandbag reads up to {known}; \
         use the sandbag that wrote it ({writer}) or a later one",
        path.display()
    )]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        found: u64,
        /// The newest format known here.
        known: u32,
        /// The version of the sandbag that wrote the file, as it says.
        writer: String,
    },
    /// The first line of `achieved.csv` is not its header.
    #[error(
        "{} does not begin with the columns of an achieved.csv (found '{found}')",
        path.display()
    )]
    Header {
        /// The file.
        path: PathBuf,
        /// The first line.
        found: String,
    },
    /// A row of `achieved.csv` is malformed.
    #[error("{}:{line}: {cause}", path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        cause: String,
    },
}

impl sandbag_ui::ExitStatus for Error {}
