// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors before the program starts. Once it runs nothing here may harm it: what
//! fails then is counted.

use sandbag_ui::{ExitStatus, exit};
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{path}: {cause}", path = path.display())]
    File {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    /// `tried`: directories and what is wrong with them.
    #[error(
        "no directory holds the library and the plan from which programs load them (tried: \
         {tried}): TMPDIR names another; it must have room, must not be mounted noexec, must be \
         yours or root's, and its path must hold no space or colon"
    )]
    NoPlace { tried: String },
    /// No library can be preloaded into the program, or the interpreter of a script.
    #[error("{program}: {why}; replay beside it instead (--cpus LIST)")]
    NotPreloadable { program: PathBuf, why: String },
    #[error("the plan cannot be made: {0}")]
    Plan(String),
    #[error("{0}")]
    Collector(String),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |cause| Self::File { path, cause }
    }
}

impl ExitStatus for Error {
    fn exit_code(&self) -> u8 {
        match self {
            Self::NotPreloadable { .. } | Self::NoPlace { .. } => exit::NOT_POSSIBLE,
            _ => exit::FAILED,
        }
    }
}
