// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why there is no audit. What goes wrong within one stands in it.

use std::path::PathBuf;
use std::{fmt, io};

use sandbag_ui::{ExitStatus, exit};

use crate::model::STOPPED;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// None of the CPUs that were asked for can be used.
    #[error("no CPU of {asked} can be tested: {why}")]
    NoCpus { asked: String, why: String },
    /// A directory for the tests that write cannot be used.
    #[error("--file {}: {source}; name a directory that is there", .path.display())]
    File { path: PathBuf, source: io::Error },
    /// The process that works could not be had.
    #[error("the process that runs the tests: {0}")]
    Worker(String),
    /// The kernel does not tell what must be known.
    #[error(transparent)]
    Kernel(#[from] sandbag_linux::Error),
}

/// Why a test does not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Halt {
    Stopped,
    Failed(String),
    /// A CPU went away; the test goes on without it.
    Displaced {
        cpu: u32,
        why: String,
    },
}

impl Halt {
    pub(crate) fn offline(cpu: u32) -> Self {
        Self::Displaced {
            cpu,
            why: "it went offline".to_owned(),
        }
    }
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str(STOPPED),
            Self::Failed(why) => f.write_str(why),
            Self::Displaced { cpu, why } => write!(f, "CPU {cpu}: {why}"),
        }
    }
}

impl ExitStatus for Error {
    fn exit_code(&self) -> u8 {
        match self {
            Self::NoCpus { .. } => exit::NOT_POSSIBLE,
            Self::File { .. } => exit::USAGE,
            _ => exit::FAILED,
        }
    }
}
