// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines of a text, each with its place.

use std::io::{BufReader, Read};

use sandbag_input::LineFault;

use crate::{Error, Fault, Result};

/// A line of a file, for messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinePlace<'a> {
    pub(crate) file: &'a str,
    /// From 1; 0: the file as a whole.
    pub(crate) line: u64,
}

impl LinePlace<'_> {
    /// The fault, there.
    pub(crate) fn fault(self, fault: Fault) -> Error {
        Error {
            file: Some(self.file.to_owned()),
            offset: None,
            line: (self.line > 0).then_some(self.line),
            fault: Box::new(fault),
        }
    }

    /// Something else was found, there.
    pub(crate) fn expected(self, expected: impl Into<String>, found: &str) -> Error {
        self.fault(Fault::expected(expected, found))
    }
}

/// Reads lines; bytes that are no UTF-8 are replaced, for names of tasks may
/// hold anything.
pub(crate) struct TextLines<'a> {
    from: sandbag_input::Lines<'a>,
    file: &'a str,
    text: String,
}

impl<'a> TextLines<'a> {
    pub(crate) fn new(from: Box<dyn Read + Send + 'a>, file: &'a str) -> Self {
        Self {
            from: sandbag_input::Lines::new(from, file.into()),
            file,
            text: String::new(),
        }
    }

    /// The next line without its end (LF or CR LF), and where it stands.
    pub(crate) fn next_line(&mut self) -> Result<Option<(LinePlace<'a>, &str)>> {
        let place = LinePlace {
            file: self.file,
            line: self.from.number() + 1,
        };
        let line = self.from.next_line().map_err(|error| {
            place.fault(match error.fault {
                LineFault::Io(cause) => Fault::Io(cause),
                LineFault::TooLong(most) => Fault::LongLine(most),
                LineFault::Utf16 => Fault::Utf16,
            })
        })?;
        let Some(line) = line else { return Ok(None) };
        self.text.clear();
        self.text.push_str(&String::from_utf8_lossy(line));
        Ok(Some((place, &self.text)))
    }

    /// The bytes, for what is not read by lines. Nothing must have been read.
    pub(crate) fn into_reader(self) -> impl Read {
        BufReader::new(self.from.into_parts().0)
    }

    /// The file as a whole.
    pub(crate) fn whole(&self) -> LinePlace<'a> {
        LinePlace {
            file: self.file,
            line: 0,
        }
    }
}
