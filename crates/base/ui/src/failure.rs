// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors on their way to the user: each type says its own exit code and the
//! option that helps, and keeps them when context is added.

use std::fmt;

use sandbag_input::{Located, NameTaken};

use crate::exit;

/// An error that knows its exit code.
pub trait ExitStatus: std::error::Error + Send + Sync + 'static {
    /// The exit code where no command was to be run.
    fn exit_code(&self) -> u8 {
        exit::FAILED
    }

    /// What to do about it, for run.json.
    fn remedy(&self) -> Option<String> {
        self.option().map(advice)
    }

    /// The option that helps. Of profiles: some commands that take one have only its file.
    fn option(&self) -> Option<&'static str> {
        None
    }
}

fn advice(option: &str) -> String {
    format!("option {option}; sandbag convert has it, too")
}

/// Wrong input of the user: names it and the correction.
#[derive(Debug)]
pub struct BadInput(pub String);

impl ExitStatus for BadInput {
    fn exit_code(&self) -> u8 {
        exit::USAGE
    }
}

/// Something that this machine has not: says what, and what could be done instead.
#[derive(Debug)]
pub struct NotPossible(pub String);

impl ExitStatus for NotPossible {
    fn exit_code(&self) -> u8 {
        exit::NOT_POSSIBLE
    }
}

impl ExitStatus for std::io::Error {}
impl ExitStatus for std::fmt::Error {}
impl ExitStatus for std::num::ParseIntError {}
impl ExitStatus for std::num::TryFromIntError {}
impl ExitStatus for std::str::Utf8Error {}
impl ExitStatus for serde_json::Error {}
impl ExitStatus for nix::errno::Errno {}
impl ExitStatus for sandbag_linux::Error {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Missing { .. } => exit::NOT_POSSIBLE,
            _ => exit::FAILED,
        }
    }

    fn remedy(&self) -> Option<String> {
        match self {
            Self::Missing { remedy, .. } => Some(remedy.clone()),
            _ => None,
        }
    }
}

impl<F: ExitStatus> ExitStatus for Located<F> {
    fn exit_code(&self) -> u8 {
        self.fault.exit_code()
    }

    fn option(&self) -> Option<&'static str> {
        self.fault.option()
    }
}

impl ExitStatus for sandbag_linux::cpulist::BadCpuList {}

pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// An error of any type, with what was being done when it came.
pub struct Failure {
    /// The outermost last.
    context: Vec<String>,
    error: Box<dyn ExitStatus>,
}

impl Failure {
    /// An error that is only a text; exit code 1.
    pub fn text(text: impl Into<String>) -> Self {
        Self::from(Text(text.into()))
    }

    pub fn context(mut self, doing: impl fmt::Display) -> Self {
        self.context.push(doing.to_string());
        self
    }

    /// The exit code. With a command all that is not the command's own fault
    /// is one code: its other codes are the command's to use.
    pub fn exit_code(&self, with_command: bool) -> u8 {
        // The user has to choose another name, whichever code found it wrong.
        let code = if self.is_of_name() {
            exit::USAGE
        } else {
            self.error.exit_code()
        };
        match code {
            code @ (exit::NOT_FOUND | exit::NOT_EXECUTABLE) => code,
            _ if with_command => exit::OUR_FAILURE,
            code => code,
        }
    }

    pub fn remedy(&self) -> Option<String> {
        self.error.remedy()
    }

    pub fn option(&self) -> Option<&'static str> {
        self.error.option()
    }

    fn causes(&self) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
        let error: &(dyn std::error::Error + 'static) = &*self.error;
        std::iter::successors(Some(error), |error| error.source())
    }

    fn io_errors(&self) -> impl Iterator<Item = &std::io::Error> {
        self.causes().filter_map(|cause| cause.downcast_ref())
    }

    /// The kind of the error of input or output that caused it.
    pub fn io_kind(&self) -> Option<std::io::ErrorKind> {
        self.io_errors().next().map(std::io::Error::kind)
    }

    /// Whether a file exists that was not to be replaced, or a directory has the name.
    fn is_of_name(&self) -> bool {
        let is_dir = |error: &std::io::Error| error.kind() == std::io::ErrorKind::IsADirectory;
        self.io_errors()
            .any(|error| NameTaken::is_cause(error) || is_dir(error))
    }

    /// The context, the error and its causes, the outermost first.
    fn chain(&self) -> impl Iterator<Item = String> + '_ {
        let context = self.context.iter().rev().cloned();
        context.chain(self.causes().map(ToString::to_string))
    }

    /// One line: the error and its causes, nothing twice, and the option that
    /// helps.
    pub fn line(&self) -> String {
        let mut text = String::new();
        for cause in self.chain() {
            // Many of our errors already say what their cause says.
            if !text.contains(&cause) {
                let joint = if text.is_empty() { "" } else { ": " };
                text = format!("{text}{joint}{cause}");
            }
        }
        match self.option() {
            Some(option) => format!("{text} ({})", advice(option)),
            None => text,
        }
    }
}

impl<E: ExitStatus> From<E> for Failure {
    fn from(error: E) -> Self {
        Self {
            context: Vec::new(),
            error: Box::new(error),
        }
    }
}

/// The outermost text; with `{:#}` all of them.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            f.write_str(&self.chain().collect::<Vec<_>>().join(": "))
        } else {
            f.write_str(&self.chain().next().unwrap_or_default())
        }
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#}")
    }
}

/// An error that is only a text.
#[derive(Debug)]
struct Text(String);

impl ExitStatus for Text {}

/// Errors that are their text.
macro_rules! text_errors {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl std::error::Error for $name {}
    )*};
}

text_errors!(BadInput, NotPossible, Text);

/// Adds what was being done to an error.
pub trait Context<T> {
    fn context(self, doing: impl fmt::Display) -> Result<T>;

    /// Adds a text that is made only for an error.
    fn with_context<D: fmt::Display>(self, doing: impl FnOnce() -> D) -> Result<T>;
}

impl<T, E: Into<Failure>> Context<T> for std::result::Result<T, E> {
    fn context(self, doing: impl fmt::Display) -> Result<T> {
        self.map_err(|error| error.into().context(doing))
    }

    fn with_context<D: fmt::Display>(self, doing: impl FnOnce() -> D) -> Result<T> {
        self.map_err(|error| error.into().context(doing()))
    }
}

impl<T> Context<T> for Option<T> {
    fn context(self, doing: impl fmt::Display) -> Result<T> {
        self.ok_or_else(|| Failure::text(doing.to_string()))
    }

    fn with_context<D: fmt::Display>(self, doing: impl FnOnce() -> D) -> Result<T> {
        self.ok_or_else(|| Failure::text(doing().to_string()))
    }
}

/// An error that is only a text.
#[macro_export]
macro_rules! failure {
    ($($text:tt)*) => { $crate::failure::Failure::text(format!($($text)*)) };
}

/// Returns with an error that is only a text.
#[macro_export]
macro_rules! bail {
    ($($text:tt)*) => { return Err($crate::failure::Failure::text(format!($($text)*))) };
}

/// Returns with an error that is only a text, unless the condition holds.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($text:tt)*) => { if !$condition { $crate::bail!($($text)*) } };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_its_exit_code_under_context() {
        let failure = Failure::from(BadInput("x".to_owned())).context("read day.csv");
        assert_eq!(failure.exit_code(false), exit::USAGE);
        assert_eq!(failure.exit_code(true), exit::OUR_FAILURE);
        assert_eq!(failure.line(), "read day.csv: x");
        let failure = Failure::from(NotPossible("no v2".to_owned()));
        assert_eq!(failure.exit_code(false), exit::NOT_POSSIBLE);
        assert_eq!(Failure::text("x").exit_code(false), exit::FAILED);
        assert_eq!(Failure::text("x").exit_code(true), exit::OUR_FAILURE);
    }

    #[test]
    fn a_line_says_nothing_twice() {
        let failure = Failure::text("read a: no room")
            .context("no room")
            .context("a");
        assert_eq!(failure.line(), "a: no room: read a: no room");
        let failure = Failure::text("no room").context("read a: no room");
        assert_eq!(failure.line(), "read a: no room");
        assert_eq!(format!("{failure:#}"), "read a: no room: no room");
    }
}
