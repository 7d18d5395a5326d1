// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong while producing a load.

use std::io;
use std::path::{Path, PathBuf};

use sandbag_linux::CpuList;
use sandbag_ui::{ExitStatus, exit};

pub type Result<T> = std::result::Result<T, Error>;

/// What tells CPUs that another run has from the other reasons of its exit code; the number of
/// its process follows.
pub const LOADED: &str = "already loaded by sandbag process";

/// Why a load cannot be produced, or ended early. Lower case, no final stop.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine cannot do what was asked; nothing was changed.
    #[error("{what}: {remedy}")]
    NotPossible {
        what: String,
        /// The nearest that works here, or what to do.
        remedy: String,
    },
    /// Another sandbag holds some of the CPUs.
    #[error("CPUs {cpus} are {} {pid}: {}", LOADED, busy_remedy(*pid))]
    Busy {
        /// The other supervisor.
        pid: u32,
        /// The CPUs that both want.
        cpus: CpuList,
    },
    /// A CPU that is not there or not online.
    #[error("CPU {cpu} is {state}: online here are {online}")]
    NoCpu {
        cpu: u32,
        /// `offline` or `not present`.
        state: &'static str,
        online: CpuList,
    },
    #[error(transparent)]
    Kernel(#[from] sandbag_linux::Error),
    /// What the run is fed with could not be read on.
    #[error("{0}")]
    Input(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Our own file could not be written or read.
    #[error("{path}: {cause}")]
    File { path: PathBuf, cause: io::Error },
    /// One of our own processes could not be started.
    #[error("start {what}: {cause}")]
    Start { what: String, cause: io::Error },
    #[error("{program}: {cause}")]
    Command { program: String, cause: io::Error },
    /// A system call of the supervisor failed.
    #[error("{call}: {cause}")]
    Call {
        call: &'static str,
        cause: io::Error,
    },
    /// One of our processes was killed more often than it is restarted.
    #[error("{what} ended {times} times ({how}): the load cannot be held")]
    Died {
        what: String,
        times: u32,
        /// How the last one ended.
        how: String,
    },
}

impl Error {
    /// What the run is fed with could not be read on.
    pub fn input(cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Input(Box::new(cause))
    }

    pub fn file(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |cause| Self::File {
            path: path.to_owned(),
            cause,
        }
    }

    /// An [`Error::NotPossible`].
    pub fn not_possible(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::NotPossible {
            what: what.into(),
            remedy: remedy.into(),
        }
    }

    /// An [`Error::Call`] from an `io::Error`-like cause.
    pub fn call(call: &'static str, cause: impl Into<io::Error>) -> Self {
        Self::Call {
            call,
            cause: cause.into(),
        }
    }
}

impl ExitStatus for Error {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Command { cause, .. } => match cause.kind() {
                io::ErrorKind::NotFound => exit::NOT_FOUND,
                _ => exit::NOT_EXECUTABLE,
            },
            Self::Kernel(error) => error.exit_code(),
            Self::NotPossible { .. } | Self::Busy { .. } => exit::NOT_POSSIBLE,
            Self::NoCpu { .. } | Self::Input(_) => exit::USAGE,
            _ => exit::FAILED,
        }
    }

    fn remedy(&self) -> Option<String> {
        match self {
            Self::Kernel(error) => error.remedy(),
            Self::NotPossible { remedy, .. } => Some(remedy.clone()),
            Self::Busy { pid, .. } => Some(busy_remedy(*pid)),
            _ => None,
        }
    }
}

fn busy_remedy(pid: u32) -> String {
    format!(
        "wait for it, or end it (sandbag stop {pid}); several conditions on the same CPUs are one \
         run of sandbag slow, with --load and --jitter"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exit code 5 has other reasons, too.
    #[test]
    fn python_knows_busy_cpus_by_these_words() {
        let module = include_str!("../../../../python/sandbag/_program.py");
        let mut lines = module.lines();
        let words = lines.find_map(|line| line.strip_prefix("LOADED = "));
        assert_eq!(words.unwrap().trim_matches('"'), LOADED);
        let cpus = CpuList::from_iter([0]);
        let busy = Error::Busy { pid: 7, cpus }.to_string();
        assert!(busy.contains(LOADED), "{busy}");
    }
}
