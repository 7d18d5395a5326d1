// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong at the kernel's interfaces.

use std::io;
use std::path::{Path, PathBuf};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed access: path or call, value, cause. Messages are lower-case
/// fragments without a final stop, fit to follow "could not: ".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read.
    #[error("read {path}: {cause}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        cause: io::Error,
    },
    /// A value was not accepted by a file.
    #[error("write `{value}` to {path}: {cause}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What was written.
        value: String,
        /// What the kernel said.
        cause: io::Error,
    },
    /// A file took a value but reads back another.
    #[error("{path} reads `{got}` after `{value}` was written")]
    ReadBack {
        /// The file.
        path: PathBuf,
        /// What was written.
        value: String,
        /// What it reads afterwards.
        got: String,
    },
    /// A file does not come to say what was asked for.
    #[error("{path} still says `{got}` and not `{wanted}` after {waited_ms} ms")]
    Late {
        /// The file.
        path: PathBuf,
        /// What it was to say.
        wanted: String,
        /// What it says.
        got: String,
        /// How long was waited, milliseconds.
        waited_ms: u128,
    },
    /// A directory (a group) could not be made.
    #[error("make {path}: {cause}")]
    Make {
        /// The directory.
        path: PathBuf,
        /// What the kernel said.
        cause: io::Error,
    },
    /// A directory (a group) could not be removed.
    #[error("remove {path}: {cause}")]
    Remove {
        /// The directory.
        path: PathBuf,
        /// What the kernel said.
        cause: io::Error,
    },
    /// A file's text is not what the kernel's documentation promises.
    #[error("{path}: expected {expected}, found `{found}`")]
    Parse {
        /// The file.
        path: PathBuf,
        /// What should be there.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// A system call failed.
    #[error("{call}({arguments}): {cause}")]
    Call {
        /// Name of the call.
        call: &'static str,
        /// Its arguments, as far as they explain the failure.
        arguments: String,
        /// What the kernel said.
        cause: io::Error,
    },
    /// Something that must exist does not.
    #[error("{what} is missing: {remedy}")]
    Missing {
        /// The thing, by the name its users know.
        what: String,
        /// What to do about it.
        remedy: String,
    },
}

impl Error {
    /// The operating system's error number behind this error, if there is one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Read { cause, .. }
            | Self::Write { cause, .. }
            | Self::Make { cause, .. }
            | Self::Remove { cause, .. }
            | Self::Call { cause, .. } => cause.raw_os_error(),
            Self::ReadBack { .. }
            | Self::Late { .. }
            | Self::Parse { .. }
            | Self::Missing { .. } => None,
        }
    }

    /// The thing does not exist (ENOENT, ENODEV, ESRCH): for many callers
    /// that is an answer and not a failure.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(
            self.errno(),
            Some(libc::ENOENT | libc::ENODEV | libc::ESRCH)
        )
    }

    /// An [`Error::Call`] from `errno` of the call that just failed.
    #[must_use]
    pub fn last_call(call: &'static str, arguments: impl std::fmt::Display) -> Self {
        Self::Call {
            call,
            arguments: arguments.to_string(),
            cause: io::Error::last_os_error(),
        }
    }

    /// An [`Error::Parse`] for `path`.
    #[must_use]
    pub fn parse(path: &Path, expected: &'static str, found: &str) -> Self {
        Self::Parse {
            path: path.to_owned(),
            expected,
            found: found.trim_end().chars().take(80).collect(),
        }
    }
}
