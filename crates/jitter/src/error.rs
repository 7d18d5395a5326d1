// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of traces, with their file and position.

use sandbag_linux::counter::CounterError;
use sandbag_ui::{ExitStatus, exit};
use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;

/// A fault and, where there is one, its file and place.
#[derive(Debug)]
pub struct Error {
    /// The file as the user named it.
    pub file: Option<String>,
    /// Byte in the file at which the part begins that is wrong.
    pub offset: Option<u64>,
    /// Line, counted from 1, in files that are text.
    pub line: Option<u64>,
    pub fault: Box<Fault>,
}

/// The result of everything here that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The same, in a file.
    pub fn in_file(mut self, file: &str) -> Self {
        self.file.get_or_insert_with(|| file.to_owned());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => write!(f, "{file}:{line}: ")?,
            (Some(file), None) => write!(f, "{file}: ")?,
            (None, Some(line)) => write!(f, "line {line}: ")?,
            (None, None) => {}
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
            line: None,
            fault: Box::new(fault),
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Kernel(#[from] sandbag_linux::Error),
    #[error("the file is empty")]
    Empty,
    #[error("this is no jitter trace: it does not begin with `sandbagj`")]
    NoTrace,
    #[error(
        "version {0} of the trace format is newer than this program, which reads up to version \
         {known}: a newer sandbag reads it",
        known = crate::format::VERSION
    )]
    NewerVersion(u16),
    #[error("a block is damaged: its checksum does not fit")]
    Damaged,
    #[error("a block says what cannot be: {0}")]
    Impossible(&'static str),
    #[error("{what}: {cause}")]
    Json {
        what: &'static str,
        cause: serde_json::Error,
    },
    #[error("the trace holds no time in which events were looked for")]
    NothingKnown,
    #[error("the trace was cut off before its first block of events ended: nothing of it is known")]
    CutOffAtOnce,
    #[error(
        "sandbag was stopped, or the machine was suspended, while it recorded: nothing is known \
         of such a round, and there was no other. Record again, or in shorter rounds (--round)"
    )]
    Absent,
    #[error("this is no jitter trace, nor anything else that is read here: {0}")]
    UnknownFormat(String),
    #[error("expected {expected}, found {found}")]
    Syntax { expected: String, found: String },
    #[error("a line of more than {0} bytes")]
    LongLine(usize),
    #[error("the file is UTF-16 text; save it as UTF-8")]
    Utf16,
    #[error("the file does not say the unit of its times: name it with --unit ns, us or ps")]
    NoUnit,
    #[error(
        "this holds a distribution, not events ({0}): it can be shown and compared, but nothing \
         can be made of it that needs each event's time"
    )]
    NotEvents(String),
    #[error(
        "{0} holds quantiles only: neither events nor how they are distributed follow from them"
    )]
    OnlyQuantiles(&'static str),
    #[error("they cannot be compared: {0}")]
    NotComparable(String),
    #[error(
        "this would be {expected:.3e} events, and {most:.0e} is the most: a shorter trace, fewer \
         CPUs or longer periods"
    )]
    TooManyEvents { expected: f64, most: f64 },
    #[error("nothing is left of the trace: {0}")]
    NothingSelected(String),
    #[error(
        "the loop may not be a real-time task of priority {priority} ({cause}): that needs root, \
         CAP_SYS_NICE or a limit (ulimit -r), and in a group of cgroup v1 a budget (cpu.rt_runtime_us); \
         the nearest is an ordinary loop, without --real-time"
    )]
    NoRealTime {
        priority: u8,
        cause: sandbag_linux::Error,
    },
    #[error(
        "{} leaves real-time tasks {runtime_us} us of {period_us}, and the loops look for 800 ms \
         of every second: write at least {needed_us} to it, or record without --real-time",
        file.display()
    )]
    SmallBudget {
        file: PathBuf,
        runtime_us: i64,
        period_us: i64,
        needed_us: i64,
    },
    #[error(
        "CPU {0} went offline while it was recorded, or the loop was moved from it: what was \
         recorded before is kept. Record again, or the other CPUs (--cpus)"
    )]
    Displaced(u32),
    #[error("the time stamp counter of this machine cannot be used: {0}")]
    NoCounter(String),
}

impl Fault {
    /// A syntax error; `found` is shortened and escaped.
    pub(crate) fn expected(expected: impl Into<String>, found: &str) -> Self {
        let text = found.trim();
        let mut shown: String = text.chars().take(SHOWN).collect();
        if text.chars().nth(SHOWN).is_some() {
            shown.push_str("...");
        }
        let found = if shown.is_empty() {
            "nothing".to_owned()
        } else {
            format!("`{}`", shown.escape_debug())
        };
        Self::Syntax {
            expected: expected.into(),
            found,
        }
    }
}

impl From<CounterError> for Error {
    fn from(error: CounterError) -> Self {
        Self::from(match error {
            CounterError::Kernel(cause) => Fault::Kernel(cause),
            CounterError::Unusable(why) => Fault::NoCounter(why),
        })
    }
}

/// Characters of what was found that a message shows.
const SHOWN: usize = 40;

impl ExitStatus for Error {
    fn exit_code(&self) -> u8 {
        match &*self.fault {
            Fault::NoCounter(_) | Fault::NoRealTime { .. } | Fault::SmallBudget { .. } => {
                exit::NOT_POSSIBLE
            }
            Fault::Kernel(cause) if cause.errno() == Some(libc::EPERM) => exit::NOT_POSSIBLE,
            Fault::Kernel(_) | Fault::Displaced(_) | Fault::Absent => exit::FAILED,
            Fault::Io(cause) => match cause.kind() {
                // A packed file that is damaged is bad input.
                ErrorKind::InvalidData | ErrorKind::NotFound | ErrorKind::IsADirectory => {
                    exit::USAGE
                }
                _ => exit::FAILED,
            },
            _ => exit::USAGE,
        }
    }
}
