// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong at the kernel's interfaces.

use std::io;
use std::path::{Path, PathBuf};

pub type Result<T> = std::result::Result<T, Error>;

/// A failed access: path or call, value, cause. Messages are lower-case
/// fragments without a final stop, fit to follow "could not: ".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("read {path}: {cause}")]
    Read { path: PathBuf, cause: io::Error },
    #[error("write `{value}` to {path}: {cause}")]
    Write {
        path: PathBuf,
        value: String,
        cause: io::Error,
    },
    /// A file took a value but reads back another.
    #[error("{path} reads `{got}` after `{value}` was written")]
    ReadBack {
        path: PathBuf,
        value: String,
        got: String,
    },
    /// A file does not come to say what was asked for.
    #[error("{path} still says `{got}` and not `{wanted}` after {waited_ms} ms")]
    Late {
        path: PathBuf,
        wanted: String,
        got: String,
        waited_ms: u128,
    },
    #[error("make {path}: {cause}")]
    Make { path: PathBuf, cause: io::Error },
    #[error("remove {path}: {cause}")]
    Remove { path: PathBuf, cause: io::Error },
    /// A file's text is not what the kernel's documentation promises.
    #[error("{path}: expected {expected}, found `{found}`")]
    Parse {
        path: PathBuf,
        expected: &'static str,
        found: String,
    },
    #[error("{call}({arguments}): {cause}")]
    Call {
        call: &'static str,
        /// Its arguments, as far as they explain the failure.
        arguments: String,
        cause: io::Error,
    },
    #[error("{what} is missing: {remedy}")]
    Missing { what: String, remedy: String },
}

impl Error {
    /// The operating system's error number behind this error, if there is one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Read { cause, .. }
            | Self::Write { cause, .. }
            | Self::Make { cause, .. }
            | Self::Remove { cause, .. }
            | Self::Call { cause, .. } => cause.raw_os_error(),
            _ => None,
        }
    }

    /// The thing does not exist (ENOENT, ENODEV, ESRCH): for many callers
    /// that is an answer and not a failure.
    pub fn is_absent(&self) -> bool {
        let absent = [libc::ENOENT, libc::ENODEV, libc::ESRCH];
        self.errno().is_some_and(|errno| absent.contains(&errno))
    }

    /// An [`Error::Call`] from `errno` of the call that just failed.
    pub fn last_call(call: &'static str, arguments: impl std::fmt::Display) -> Self {
        Self::Call {
            call,
            arguments: arguments.to_string(),
            cause: io::Error::last_os_error(),
        }
    }

    pub fn read(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |cause| Self::Read {
            path: path.to_owned(),
            cause,
        }
    }

    pub fn make(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |cause| Self::Make {
            path: path.to_owned(),
            cause,
        }
    }

    pub fn parse(path: &Path, expected: &'static str, found: &str) -> Self {
        Self::Parse {
            path: path.to_owned(),
            expected,
            found: found.trim_end().chars().take(80).collect(),
        }
    }
}
