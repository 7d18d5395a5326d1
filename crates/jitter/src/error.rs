// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can be wrong with a trace, and where.

use std::fmt;

/// A fault and, where there is one, its file and place.
#[derive(Debug)]
pub struct Error {
    /// The file as the user named it.
    pub file: Option<String>,
    /// Byte in the file at which the part begins that is wrong.
    pub offset: Option<u64>,
    /// What.
    pub fault: Box<Fault>,
}

/// The result of everything here that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The same, in a file.
    #[must_use]
    pub fn in_file(mut self, file: &str) -> Self {
        self.file.get_or_insert_with(|| file.to_owned());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}: ")?;
        }
        if let Some(offset) = self.offset {
            write!(f, "at byte {offset}: ")?;
        }
        self.fault.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.fault.source()
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self {
            file: None,
            offset: None,
            fault: Box::new(fault),
        }
    }
}

/// What is wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The operating system refused.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// Something of the kernel's.
    #[error("{0}")]
    Kernel(#[from] sandbag_kernel::Error),
    /// Nothing in it.
    #[error("the file is empty")]
    Empty,
    /// Another file.
    #[error("this is no jitter trace: it does not begin with `sandbagj`")]
    NoTrace,
    /// Written by a later version of this program.
    #[error("version {0} of the trace format is newer than this program, which reads version 1")]
    NewerVersion(u16),
    /// A block whose bytes are not those that were written.
    #[error("a block is damaged: its checksum does not fit")]
    Damaged,
    /// A block that says what cannot be.
    #[error("a block says what cannot be: {0}")]
    Impossible(&'static str),
    /// A part of the header or of the notes.
    #[error("{what}: {cause}")]
    Json {
        /// Which part.
        what: &'static str,
        /// What is wrong with it.
        cause: serde_json::Error,
    },
    /// Nothing was recorded.
    #[error("the trace holds no time in which events were looked for")]
    NothingKnown,
    /// The clock of the loop cannot be used.
    #[error("the time stamp counter of this machine cannot be used: {0}")]
    NoCounter(String),
}
