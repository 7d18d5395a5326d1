// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong before the program starts. Once it runs nothing here may
//! harm it, so there are no errors then, only counts.

use sandbag_ui::{ExitStatus, exit};
use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// An error of this crate.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A call on a file failed.
    #[error("{path}: {cause}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// No directory will do.
    #[error(
        "no directory holds the library and the plan from which programs load them (tried: \
         {tried}): TMPDIR names another; it must have room, must not be mounted noexec, must be \
         yours or root's, and its path must hold no space or colon"
    )]
    NoPlace {
        /// Directories and what is wrong with them.
        tried: String,
    },
    /// The program cannot be entered by a preloaded library.
    #[error("{program}: {why}; replay beside it instead (--cpus LIST)")]
    NotPreloadable {
        /// The program, or the interpreter of a script.
        program: PathBuf,
        /// Why not.
        why: String,
    },
    /// The plan is not one that the library takes.
    #[error("the plan cannot be made: {0}")]
    Plan(String),
}

/// Results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

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
