// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can be wrong with a profile, and where.

use std::sync::Arc;

use sandbag_input::number::MAX_CPU;
use sandbag_input::{FileFault, LineFault, Located};
use sandbag_linux::CpuList;
use sandbag_ui::quantity::Seconds;
use sandbag_ui::{ExitStatus, exit};

use crate::Format;

/// A fault and, where there is one, its place.
pub type Error = Located<Fault>;

/// The result of everything here that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Fault {
    /// The fault at a line of a file.
    pub fn at(self, file: &Arc<str>, line: impl Into<Option<u64>>) -> Error {
        Located::at(self, file, line.into())
    }

    /// `found` stands where `expected` should.
    pub(crate) fn syntax(expected: impl Into<String>, found: &[u8]) -> Self {
        Self::unexpected(expected, printable(found))
    }

    /// A time of digits that are too many for seconds.
    pub(crate) fn too_great(stamp: &[u8]) -> Self {
        let expected = "a time in seconds (this is too great for them; it looks like milliseconds)";
        Self::syntax(expected, stamp)
    }

    /// As [`Fault::syntax`], with other words for what was found.
    pub(crate) fn unexpected(expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self::Syntax {
            expected: expected.into(),
            found: found.into(),
        }
    }

    /// A row of a table has another number of fields than its header.
    pub(crate) fn field_count(expected: usize, found: usize) -> Self {
        Self::unexpected(
            format!("{expected} fields as in the header"),
            format!("{found}; the file may be cut short"),
        )
    }

    /// What serde found, without its place, which messages have before it.
    pub(crate) fn json(error: &serde_json::Error) -> Self {
        let message = error.to_string();
        Self::Json(
            message
                .split(" at line ")
                .next()
                .unwrap_or_default()
                .to_owned(),
        )
    }

    pub(crate) fn lacks(format: Format, why: impl Into<String>) -> Self {
        Self::Lacks {
            format,
            why: why.into(),
        }
    }

    pub(crate) fn wrong_format(named: Format, why: impl Into<String>) -> Self {
        Self::WrongFormat {
            named,
            why: why.into(),
        }
    }

    pub(crate) fn out_of_range(what: impl Into<String>, value: impl ToString) -> Self {
        Self::OutOfRange {
            what: what.into(),
            value: value.to_string(),
        }
    }

    pub(crate) fn argument(what: &'static str, value: impl ToString, must: &'static str) -> Self {
        Self::Argument {
            what,
            value: value.to_string(),
            must,
        }
    }
}

impl FileFault for Fault {
    fn found(&self) -> Option<&str> {
        match self {
            Self::OutOfRange { value, .. } | Self::DecimalComma { value, .. } => Some(value),
            // As `shown` makes it; what it shortened or escaped is not found.
            Self::Syntax { found, .. } => found.strip_prefix('`')?.strip_suffix('`'),
            Self::UnknownColumn(name) | Self::Duplicate(name) => Some(name),
            _ => None,
        }
    }
}

impl From<LineFault> for Fault {
    fn from(fault: LineFault) -> Self {
        match fault {
            LineFault::Io(cause) => Self::Io(cause),
            LineFault::TooLong(most) => Self::LineTooLong(most),
            LineFault::Utf16 => Self::Utf16,
        }
    }
}

/// What is wrong; its message says what to do where the user can do something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    #[error("{0}")]
    Io(#[source] std::io::Error),
    #[error("the file is empty")]
    Empty,
    #[error("{what} {value} is not between 0 and 100 (percent of one CPU)")]
    OutOfRange {
        /// `load of cpu3`, `%idle` ...
        what: String,
        value: String,
    },
    #[error("`{value}` is written with a decimal comma; {remedy}")]
    DecimalComma { value: String, remedy: &'static str },
    #[error("expected {expected}, found {found}")]
    Syntax { expected: String, found: String },
    #[error("time {now} does not come after {last}, the time before it{remedy}")]
    TimesGoBack {
        now: String,
        last: String,
        /// What to do; begins with `; ` or is empty.
        remedy: &'static str,
    },
    #[error("the profile has no end; {0}")]
    NoEnd(&'static str),
    #[error("the first row is at {0}; a profile begins at time 0: add a row for it")]
    LateStart(Seconds),
    #[error("column `{0}` is unknown; expected time, cpu<N> or steal<N>")]
    UnknownColumn(String),
    #[error("`{0}` stands twice")]
    Duplicate(String),
    #[error(
        "the row has {found} cells, the header names {expected} columns \
         (write fractions with a point, as in 12.5; leave a cell empty where the load is unknown)"
    )]
    RowLength { expected: usize, found: usize },
    #[error("there is a row after the end row; the end row is the last one")]
    AfterEnd,
    #[error("version {0} of the native format is newer than this program, which reads version 1")]
    NewerVersion(String),
    #[error("a line is longer than {0} bytes; this is no text profile")]
    LineTooLong(usize),
    #[error(
        "it holds more than {0} bytes, the most that is kept (in TMPDIR) of what can be read \
         only once: write it to a file, and name that"
    )]
    PipeTooLong(u64),
    #[error("the file is UTF-16 text; save it as UTF-8 (in a spreadsheet: \"CSV UTF-8\")")]
    Utf16,
    /// The named format is not what the file holds.
    #[error("this does not look like {named}: {why}")]
    WrongFormat {
        named: Format,
        /// What is not there that all files of the format have.
        why: String,
    },
    /// It is of the format, but cannot be used as it is.
    #[error("{format}: {why}")]
    Lacks {
        format: Format,
        /// What is missing or odd, and what to do.
        why: String,
    },
    #[error("the format is not recognised: {found}; name it, one of {known}")]
    UnknownFormat { found: String, known: String },
    /// The daily files that sysstat itself reads.
    #[error(
        "this is a binary file of sysstat, which its own programs alone read: {remedy} makes a \
         recording of it that can be read here"
    )]
    SysstatBinary {
        /// The commands.
        remedy: String,
    },
    #[error("the file is packed by bzip2, which is not read here: `bzip2 -dc FILE > COPY`")]
    Bzip2,
    #[error("{0} can only be written, not read")]
    NotReadable(Format),
    #[error("{0} can only be read, not written")]
    NotWritable(Format),
    #[error("there is no line for a single CPU; {0}")]
    NoSingleCpu(&'static str),
    #[error("JSON: {0}")]
    Json(String),
    #[error("this line is of host {found}, those before of {expected}; give one file per host")]
    OtherHost { expected: String, found: String },
    #[error("{known}; choose one{}", asked.as_ref().map_or(String::new(), |name| format!(
        " (there is no `{name}`)"
    )))]
    WhichMachine {
        /// How many there are and what the first are called.
        known: String,
        asked: Option<String>,
        /// All of them, as `--machine` takes them.
        names: Vec<String>,
    },
    #[error("{of} stands twice, as {first} and as {second}; choose one by its labels")]
    SeveralSeries {
        of: String,
        first: String,
        second: String,
    },
    #[error(
        "that would be more than 100 million pieces: the profile reaches to {0} at least; take \
         longer pieces or a part (--cut), and look whether its first stamp is 0"
    )]
    TooManyPieces(Seconds),
    #[error(
        "it holds more than {0} values of one machine, which are held in memory; \
         take a shorter time or a longer step"
    )]
    TooManyValues(usize),
    #[error(
        "the jobs run on {0} processors, and a profile has at most {MAX_CPU} CPUs; \
         give the number of CPUs that run them"
    )]
    TooManyCpus(u64),
    /// A server has no data for us. Says what it said, or that it said
    #[error("{0}")]
    Server(String),
    /// Rates need two samples.
    #[error("one snapshot holds no load; at least two are needed")]
    OneSnapshot,
    #[error(
        "the load of cpu{cpu} is unknown from {from} to {to}; choose what stands there: \
         hold (the last value), zero, cut (leave the time out)"
    )]
    Hole {
        cpu: u32,
        from: Seconds,
        to: Seconds,
    },
    #[error("the profile has no cpu{0}")]
    NoSuchCpu(u32),
    #[error(
        "the first is of CPUs {}, the second of {}; select or map them first",
        cpu_list(first),
        cpu_list(second)
    )]
    OtherCpus { first: Vec<u32>, second: Vec<u32> },
    #[error(
        "the profile is for {profile} CPUs and there are {target}; choose how to map them: first \
         (the others are left out), mean or max (of neighbours), or wrap (the loads of several \
         CPUs are added and clipped at 100 %)"
    )]
    MapNeeded { profile: usize, target: usize },
    #[error("`{0}` is not a rule; known are first, mean, max and wrap")]
    NoSuchRule(String),
    #[error("`{0}` is not a treatment of unknown loads; known are keep, hold, zero, cut and error")]
    NoSuchGaps(String),
    #[error("{what} {value} is no use; it must be {must}")]
    Argument {
        what: &'static str,
        value: String,
        must: &'static str,
    },
    #[error("nothing of the profile is left: it ends at {end}")]
    NothingLeft { end: Seconds },
}

fn cpu_list(cpus: &[u32]) -> CpuList {
    cpus.iter().copied().collect()
}

/// At most 40 characters of what was found, printable, for a message.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out: String = text.trim().chars().take(40).collect();
    if text.trim().chars().count() > 40 {
        out.push_str("...");
    }
    format!("`{}`", out.escape_debug())
}

impl ExitStatus for Fault {
    fn exit_code(&self) -> u8 {
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull, WriteZero};
        // A file that could not be written is not bad input.
        let full = |cause: &std::io::Error| {
            matches!(
                cause.kind(),
                FileTooLarge | QuotaExceeded | StorageFull | WriteZero
            )
        };
        match self {
            Fault::Io(cause) if full(cause) => exit::FAILED,
            _ => exit::USAGE,
        }
    }

    fn option(&self) -> Option<&'static str> {
        Some(match self {
            Fault::Hole { .. } => "--gaps",
            Fault::MapNeeded { .. } => "--map",
            Fault::WhichMachine { .. } => "--machine",
            Fault::NoEnd(_) => "--end",
            Fault::TooManyCpus(_) => "--spread",
            Fault::TooManyPieces(_) => "--resample",
            Fault::UnknownFormat { .. } | Fault::WrongFormat { .. } => "--from",
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_file_line_value_and_remedy() {
        let file: Arc<str> = "day.csv".into();
        let e = Fault::DecimalComma {
            value: "12,5".into(),
            remedy: "write 12.5",
        }
        .at(&file, 7);
        assert_eq!(
            e.to_string(),
            "day.csv:7: `12,5` is written with a decimal comma; write 12.5"
        );
        assert_eq!(
            Fault::Empty.at(&file, None).to_string(),
            "day.csv: the file is empty"
        );
    }

    #[test]
    fn what_is_of_the_format_is_not_said_to_be_of_another() {
        let why = || "it holds counts".to_owned();
        let format = Format::CollectlPlot;
        let lacks = Fault::Lacks { format, why: why() };
        assert_eq!(lacks.to_string(), "collectl-plot: it holds counts");
        let wrong = Fault::WrongFormat {
            named: format,
            why: why(),
        };
        assert_eq!(
            wrong.to_string(),
            "this does not look like collectl-plot: it holds counts"
        );
    }

    #[test]
    fn many_cpus_are_ranges() {
        let (first, second) = ((0..1024).collect(), (0..1023).collect());
        assert_eq!(
            Fault::OtherCpus { first, second }.to_string(),
            "the first is of CPUs 0-1023, the second of 0-1022; select or map them first"
        );
    }

    #[test]
    fn what_was_found_is_shortened_and_printable() {
        assert_eq!(printable(b"a\x00b"), "`a\\0b`");
        assert_eq!(printable(&[b'x'; 100]).len(), 45);
    }
}
