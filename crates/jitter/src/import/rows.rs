// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines of a text file with their positions.

use std::cell::Cell;
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

impl<'a> LinePlace<'a> {
    /// The file as a whole.
    pub(crate) const fn file(file: &'a str) -> Self {
        Self { file, line: 0 }
    }

    pub(crate) fn fault(self, fault: Fault) -> Error {
        Error {
            file: Some(self.file.to_owned()),
            offset: None,
            line: (self.line > 0).then_some(self.line),
            fault: Box::new(fault),
        }
    }

    /// A syntax error at this line.
    pub(crate) fn expected(self, expected: impl Into<String>, found: &str) -> Error {
        self.fault(Fault::expected(expected, found))
    }
}

/// A line without surrounding blanks.
pub(crate) enum Row<'a> {
    /// What follows the `#`.
    Comment(&'a str),
    Data(&'a str),
}

/// Reads lines. Bytes that are not UTF-8 are replaced: names of tasks may hold any byte.
///
/// A last line without its end may be cut inside a number: it is left out.
pub(crate) struct TextLines<'a> {
    from: sandbag_input::Lines<'a>,
    file: &'a str,
    text: String,
    /// For a warning of the line that was left out.
    cut: &'a Cell<Option<String>>,
}

impl<'a> TextLines<'a> {
    pub(crate) fn new(
        from: Box<dyn Read + Send + 'a>,
        file: &'a str,
        cut: &'a Cell<Option<String>>,
    ) -> Self {
        let from = sandbag_input::Lines::new(from, file.into());
        let text = String::new();
        Self {
            from,
            file,
            text,
            cut,
        }
    }

    /// Reads a line into `self.text`; `None` at the end of the file.
    fn advance(&mut self) -> Result<Option<LinePlace<'a>>> {
        let (file, line) = (self.file, self.from.number() + 1);
        let place = LinePlace { file, line };
        let line = self.from.next_whole_line().map_err(|error| {
            place.fault(match error.fault {
                LineFault::Io(cause) => Fault::Io(cause),
                LineFault::TooLong(most) => Fault::LongLine(most),
                LineFault::Utf16 => Fault::Utf16,
            })
        })?;
        let Some(line) = line else {
            self.cut.set(self.from.cut_warning());
            return Ok(None);
        };
        self.text.clear();
        self.text.push_str(&String::from_utf8_lossy(line));
        Ok(Some(place))
    }

    /// The next line without its end (LF or CR LF).
    pub(crate) fn next_line(&mut self) -> Result<Option<(LinePlace<'a>, &str)>> {
        Ok(self.advance()?.map(|place| (place, self.text.as_str())))
    }

    /// The next line that is not blank.
    pub(crate) fn next_row(&mut self) -> Result<Option<(LinePlace<'a>, Row<'_>)>> {
        let place = loop {
            match self.advance()? {
                Some(_) if self.text.trim().is_empty() => {}
                Some(place) => break place,
                None => return Ok(None),
            }
        };
        let line = self.text.trim();
        let row = match line.strip_prefix('#') {
            Some(comment) => Row::Comment(comment.trim()),
            None => Row::Data(line),
        };
        Ok(Some((place, row)))
    }

    /// The bytes, for formats that are not read by lines. Nothing must have been read.
    pub(crate) fn into_reader(self) -> impl Read {
        BufReader::new(self.from.into_parts().0)
    }

    pub(crate) fn whole(&self) -> LinePlace<'a> {
        LinePlace::file(self.file)
    }
}

#[cfg(test)]
mod tests {
    use crate::import::{ImportOptions, read};

    #[test]
    fn a_packed_file_without_end_is_read_as_far_as_it_goes() {
        let read = |text: &[u8]| {
            // gzip of one block, not packed further, that is not the last one.
            let length = u16::try_from(text.len()).unwrap();
            let mut bytes = b"\x1f\x8b\x08\0\0\0\0\0\0\xff\0".to_vec();
            bytes.extend(length.to_le_bytes());
            bytes.extend((!length).to_le_bytes());
            bytes.extend(text);
            read(&bytes[..], "in", &ImportOptions::default())
        };
        let read_in = read(b"cpu,start_ns,length_ns\n0,100,50\n0,1000,7\n0,20").unwrap();
        let told = read_in.warnings().join("; ");
        assert!(told.contains("packed (gzip) and has no end"), "{told}");
        let error = read(b"").unwrap_err().to_string();
        assert!(error.contains("has no end"), "{error}");
    }
}
