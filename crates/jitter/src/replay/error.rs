// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of replays.

use sandbag_ui::{ExitStatus, exit};

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("the trace holds no time in which events were looked for: there is nothing to replay")]
    NothingKnown,
    /// CPUs that are to be replayed together have no known time in common.
    #[error(
        "there is no time in which all of the trace's CPUs were looked at: they cannot be \
         replayed together (a group of one CPU and no synchronisation need none)"
    )]
    NothingTogether,
    #[error("the trace holds no CPU {cpu}; it holds {held}")]
    NoCpu { cpu: u32, held: String },
    /// An option is out of its range.
    #[error("{what} is {found}, expected {expected}")]
    Option {
        what: &'static str,
        found: String,
        expected: &'static str,
    },
    #[error(
        "a group of {group} CPUs needs as many that were recorded together, and the trace holds \
         {held}"
    )]
    Group { group: u32, held: usize },
    /// The machine cannot do what was asked; nothing was changed.
    #[error("{what}: {remedy}")]
    NotPossible { what: String, remedy: String },
    #[error(transparent)]
    Kernel(#[from] sandbag_linux::Error),
    /// Recording beside the replay failed.
    #[error(transparent)]
    Collect(#[from] crate::Error),
    /// A signal asked to end.
    #[error("interrupted before the replay began")]
    Interrupted,
    #[error("the injector of CPU {cpu} {what}")]
    Injector { cpu: u32, what: String },
    #[error("{call}: {cause}")]
    Call {
        call: &'static str,
        cause: std::io::Error,
    },
}

impl ExitStatus for Error {
    fn exit_code(&self) -> u8 {
        match self {
            Self::NotPossible { .. } => exit::NOT_POSSIBLE,
            Self::Interrupted => exit::INTERRUPTED,
            Self::NothingKnown
            | Self::NothingTogether
            | Self::NoCpu { .. }
            | Self::Option { .. }
            | Self::Group { .. } => exit::USAGE,
            _ => exit::FAILED,
        }
    }

    fn remedy(&self) -> Option<String> {
        match self {
            Self::NotPossible { remedy, .. } => Some(remedy.clone()),
            _ => None,
        }
    }
}
