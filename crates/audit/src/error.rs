// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why there is no audit. What goes wrong within one is told in it.

use sandbag_ui::{ExitStatus, exit};

pub type Result<T> = std::result::Result<T, Error>;

/// Why there is no audit.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// None of the CPUs that were asked for can be used.
    #[error("no CPU of {asked} can be tested: {why}")]
    NoCpus { asked: String, why: String },
    /// An option makes no sense.
    #[error("{what} is {found}: {expected}")]
    Option {
        what: &'static str,
        found: String,
        expected: &'static str,
    },
    /// The process that works could not be had.
    #[error("the process that runs the tests: {0}")]
    Worker(String),
    /// The kernel does not tell what must be known.
    #[error(transparent)]
    Kernel(#[from] sandbag_linux::Error),
}

impl ExitStatus for Error {
    fn exit_code(&self) -> u8 {
        match self {
            Self::NoCpus { .. } => exit::NOT_POSSIBLE,
            Self::Option { .. } => exit::USAGE,
            _ => exit::FAILED,
        }
    }
}
