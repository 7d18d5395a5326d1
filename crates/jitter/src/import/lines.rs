// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines of a text, each with its place.

use std::io::{BufRead, Read};

use crate::{Error, Fault, Result};

/// A line longer than this is no line.
const MAX_LINE: usize = 1 << 20;

/// A line of a file, for messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) file: &'a str,
    /// From 1; 0: the file as a whole.
    pub(crate) line: u64,
}

impl Place<'_> {
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
pub(crate) struct Lines<'a> {
    from: Box<dyn BufRead + 'a>,
    file: &'a str,
    line: u64,
    bytes: Vec<u8>,
    text: String,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(from: Box<dyn BufRead + 'a>, file: &'a str) -> Self {
        Self {
            from,
            file,
            line: 0,
            bytes: Vec::new(),
            text: String::new(),
        }
    }

    /// The next line without its end (LF or CR LF), and where it stands.
    pub(crate) fn next_line(&mut self) -> Result<Option<(Place<'a>, &str)>> {
        self.bytes.clear();
        self.line += 1;
        let place = Place {
            file: self.file,
            line: self.line,
        };
        let mut limited = self.from.by_ref().take(MAX_LINE as u64 + 2);
        let read = limited.read_until(b'\n', &mut self.bytes);
        if read.map_err(|cause| place.fault(Fault::Io(cause)))? == 0 {
            return Ok(None);
        }
        if self.bytes.last() == Some(&b'\n') {
            self.bytes.pop();
            if self.bytes.last() == Some(&b'\r') {
                self.bytes.pop();
            }
        }
        if self.bytes.len() > MAX_LINE {
            return Err(place.fault(Fault::LongLine(MAX_LINE)));
        }
        self.text.clear();
        self.text.push_str(&String::from_utf8_lossy(&self.bytes));
        Ok(Some((place, &self.text)))
    }

    /// The bytes, for what is not read by lines. Nothing must have been read.
    pub(crate) fn into_reader(self) -> Box<dyn BufRead + 'a> {
        self.from
    }

    /// The file as a whole.
    pub(crate) fn whole(&self) -> Place<'a> {
        Place {
            file: self.file,
            line: 0,
        }
    }
}
