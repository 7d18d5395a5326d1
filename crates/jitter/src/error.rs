// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can be wrong with a trace, and where.

use sandbag_ui::{ExitStatus, exit};
use std::fmt;

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
        what: &'static str,
        /// What is wrong with it.
        cause: serde_json::Error,
    },
    #[error("the trace holds no time in which events were looked for")]
    NothingKnown,
    /// Nothing that is known here.
    #[error("this is no jitter trace, nor anything else that is read here: {0}")]
    UnknownFormat(String),
    /// Something else stands where a value was expected.
    #[error("expected {expected}, found {found}")]
    Syntax { expected: String, found: String },
    /// No line of a text is that long.
    #[error("a line of more than {0} bytes")]
    LongLine(usize),
    #[error("the file is UTF-16 text; save it as UTF-8")]
    Utf16,
    #[error("the file does not say the unit of its times: name it with --unit ns, us or ps")]
    NoUnit,
    /// Single events were asked for.
    #[error(
        "this holds a distribution, not events ({0}): it can be shown and compared, but nothing \
         can be made of it that needs each event's time"
    )]
    NotEvents(String),
    /// A table of which neither events nor their distribution can be made.
    #[error(
        "{0} holds quantiles only: neither events nor how they are distributed follow from them"
    )]
    OnlyQuantiles(&'static str),
    /// What two files hold cannot be held against each other.
    #[error("they cannot be compared: {0}")]
    NotComparable(String),
    /// More than memory is to be had for.
    #[error(
        "this would be {expected:.3e} events, and {most:.0e} is the most: a shorter trace, fewer \
         CPUs or longer periods"
    )]
    TooManyEvents {
        /// How many there would be.
        expected: f64,
        /// How many there may be.
        most: f64,
    },
    /// Nothing of the trace is left.
    #[error("nothing is left of the trace: {0}")]
    NothingSelected(String),
    /// The loop may not have the priority that it was to have.
    #[error(
        "the loop may not be a real-time task of priority {priority} ({cause}): that needs root, \
         CAP_SYS_NICE or a limit (ulimit -r), and in a group of cgroup v1 a budget (cpu.rt_runtime_us); \
         the nearest is an ordinary loop, without --real-time"
    )]
    NoRealTime {
        priority: u8,
        cause: sandbag_linux::Error,
    },
    /// The loop was not on its CPU.
    #[error(
        "CPU {0} went offline while it was recorded, or the loop was moved from it: what was \
         recorded before is kept. Record again, or the other CPUs (--cpus)"
    )]
    Displaced(u32),
    /// The clock of the loop cannot be used.
    #[error("the time stamp counter of this machine cannot be used: {0}")]
    NoCounter(String),
}

impl Fault {
    /// Something else was found; what stood there is shortened and escaped.
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

/// Characters of what was found that a message shows.
const SHOWN: usize = 40;

impl ExitStatus for Error {
    fn exit_code(&self) -> u8 {
        match &*self.fault {
            Fault::NoCounter(_) | Fault::NoRealTime { .. } => exit::NOT_POSSIBLE,
            Fault::Kernel(cause) if cause.errno() == Some(libc::EPERM) => exit::NOT_POSSIBLE,
            Fault::Kernel(_) | Fault::Displaced(_) => exit::FAILED,
            // A packed file that is damaged is bad input.
            Fault::Io(cause) if cause.kind() == std::io::ErrorKind::InvalidData => exit::USAGE,
            Fault::Io(cause) if cause.kind() != std::io::ErrorKind::NotFound => exit::FAILED,
            _ => exit::USAGE,
        }
    }
}
