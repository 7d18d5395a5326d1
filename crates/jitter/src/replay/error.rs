// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a trace cannot be replayed as asked.

use sandbag_ui::{ExitStatus, exit};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// See the module's text. Lower case, no final stop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing was recorded.
    #[error("the trace holds no time in which events were looked for: there is nothing to replay")]
    NothingKnown,
    /// CPUs that are to be replayed together were never looked at together.
    #[error(
        "there is no time in which all of the trace's CPUs were looked at: they cannot be \
         replayed together (a group of one CPU and no synchronisation need none)"
    )]
    NothingTogether,
    /// A CPU that the trace does not hold.
    #[error("the trace holds no CPU {cpu}; it holds {held}")]
    NoCpu {
        /// What was asked for.
        cpu: u32,
        /// Those there are.
        held: String,
    },
    /// An option is out of its range.
    #[error("{what} is {found}, expected {expected}")]
    Option {
        /// Its name.
        what: &'static str,
        /// What was given.
        found: String,
        /// What would do.
        expected: &'static str,
    },
    /// A group of more CPUs than were recorded together.
    #[error(
        "a group of {group} CPUs needs as many that were recorded together, and the trace holds \
         {held}"
    )]
    Group {
        /// CPUs of a group.
        group: u32,
        /// CPUs of the trace.
        held: usize,
    },
    /// The machine cannot do what was asked; nothing was changed.
    #[error("{what}: {remedy}")]
    NotPossible {
        /// The missing thing.
        what: String,
        /// The nearest that works here.
        remedy: String,
    },
    /// Something of the kernel's.
    #[error(transparent)]
    Kernel(#[from] sandbag_linux::Error),
    /// Recording beside the replay failed.
    #[error(transparent)]
    Collect(#[from] crate::Error),
    /// A process of ours did not do its part.
    #[error("the injector of CPU {cpu} {what}")]
    Injector {
        cpu: u32,
        /// What became of it.
        what: String,
    },
    /// A system call failed.
    #[error("{call}: {cause}")]
    Call {
        call: &'static str,
        /// What the system said.
        cause: std::io::Error,
    },
}

impl ExitStatus for Error {
    fn exit_code(&self) -> u8 {
        match self {
            Self::NotPossible { .. } => exit::NOT_POSSIBLE,
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
