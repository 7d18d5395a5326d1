// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines of a byte stream, without a copy or an allocation per line.

use std::fmt;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use crate::unpack::is_cut_off;

/// Where in a file something was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file as the user named it; `standard input` for `-`.
    pub file: Arc<str>,
    /// Line, counted from 1; `None` where the whole file is meant.
    pub line: Option<u64>,
    /// Byte in the line, counted from 1; `None` where the whole line is meant
    /// or where it is not known.
    pub column: Option<u64>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        for number in [self.line, self.column].into_iter().flatten() {
            write!(f, ":{number}")?;
        }
        Ok(())
    }
}

/// Why there is no next line, and where.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {fault}")]
pub struct LineError {
    pub place: Place,
    pub fault: LineFault,
}

/// Why there is no next line.
#[derive(Debug, thiserror::Error)]
pub enum LineFault {
    #[error("{0}")]
    Io(#[source] io::Error),
    #[error("a line is longer than {0} bytes; this is no text")]
    TooLong(usize),
    #[error("the file is UTF-16 text; save it as UTF-8")]
    Utf16,
}

type Result<T> = std::result::Result<T, LineError>;

/// A line longer than this is no line. The longest honest one is a native
/// row of 8192 CPUs with steal, some 200 kB.
pub const MAX_LINE: usize = 4 << 20;
const CHUNK: usize = 128 << 10;

/// Reads lines; knows the file's name and the number of the line.
pub struct Lines<'a> {
    from: Box<dyn Read + Send + 'a>,
    file: Arc<str>,
    buffer: Vec<u8>,
    start: usize,
    filled: usize,
    line: u64,
    /// Where the line last returned stands in the buffer; empty once it is
    /// gone.
    current: Range<usize>,
    at_end: bool,
    whole: bool,
    /// Why a packed file ends before its end.
    cut_off: Option<io::Error>,
}

impl fmt::Debug for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} of {}", self.line, self.file)
    }
}

impl<'a> Lines<'a> {
    pub fn new(from: Box<dyn Read + Send + 'a>, file: Arc<str>) -> Self {
        Self {
            from,
            file,
            buffer: vec![0; CHUNK],
            start: 0,
            filled: 0,
            line: 0,
            current: 0..0,
            at_end: false,
            whole: true,
            cut_off: None,
        }
    }

    /// The next line without its end (LF or CR LF); the byte order mark of
    /// the first one is taken off.
    /// # Errors
    /// The file cannot be read, is packed and has no end, is UTF-16 text or has
    /// a line of more than [`MAX_LINE`] bytes.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>> {
        let found = self.next_line_of_cut()?.is_some();
        if !(found && self.whole)
            && let Some(cause) = self.cut_off.take()
        {
            return Err(self.fault(LineFault::Io(cause)));
        }
        Ok(found.then(|| &self.buffer[self.current.clone()]))
    }

    /// The same, but a packed file that has no end is read as far as it goes.
    /// # Errors
    /// As [`Lines::next_line`].
    pub fn next_line_of_cut(&mut self) -> Result<Option<&[u8]>> {
        let mut searched = 0;
        let (end, next) = loop {
            let unread = &self.buffer[self.start + searched..self.filled];
            if let Some(n) = memchr::memchr(b'\n', unread) {
                let end = self.start + searched + n;
                break (end, end + 1);
            }
            searched = self.filled - self.start;
            if self.at_end {
                if searched == 0 {
                    return Ok(None);
                }
                self.whole = false;
                break (self.filled, self.filled);
            }
            self.fill()?;
        };
        let mut line = self.start..end;
        self.start = next;
        self.line += 1;
        if self.line == 1 {
            let first = &self.buffer[line.clone()];
            if first.starts_with(b"\xef\xbb\xbf") {
                line.start += 3;
            } else if first.starts_with(b"\xff\xfe") || first.starts_with(b"\xfe\xff") {
                return Err(self.fault(LineFault::Utf16));
            }
        }
        if self.buffer[line.clone()].ends_with(b"\r") {
            line.end -= 1;
        }
        self.current = line.clone();
        Ok(Some(&self.buffer[line]))
    }

    /// The same, but no last line without its end: it may be cut inside a number.
    /// [`Lines::cut_warning`] names both.
    /// # Errors
    /// As [`Lines::next_line`].
    pub fn next_whole_line(&mut self) -> Result<Option<&[u8]>> {
        let found = self.next_line_of_cut()?.is_some();
        Ok((found && self.whole).then(|| &self.buffer[self.current.clone()]))
    }

    /// A warning of what [`Lines::next_whole_line`] left out: the last line, or
    /// what a packed file without end lacks.
    pub fn cut_warning(&self) -> Option<String> {
        let is_blank = self.buffer[self.current.clone()].trim_ascii().is_empty();
        let last = (!self.whole && !is_blank).then(|| {
            format!(
                "line {}, the last one, has no line end: it may be cut short and is left out",
                self.line
            )
        });
        let cut = self
            .cut_off
            .as_ref()
            .map(|cause| format!("{cause}; what is there of it was read"));
        let all: Vec<String> = cut.into_iter().chain(last).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    fn fill(&mut self) -> Result<()> {
        self.current = 0..0;
        self.buffer.copy_within(self.start..self.filled, 0);
        self.filled -= self.start;
        self.start = 0;
        if self.filled == self.buffer.len() {
            if self.filled >= MAX_LINE {
                self.line += 1;
                return Err(self.fault(LineFault::TooLong(MAX_LINE)));
            }
            self.buffer.resize(self.filled * 2, 0);
        }
        loop {
            match self.from.read(&mut self.buffer[self.filled..]) {
                Ok(0) => self.at_end = true,
                Ok(n) => self.filled += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(e) if is_cut_off(&e) => {
                    self.at_end = true;
                    self.cut_off = Some(e);
                }
                Err(e) => return Err(self.fault(LineFault::Io(e))),
            }
            return Ok(());
        }
    }

    /// The bytes and the file's name, for what is not read by lines. Nothing
    /// must have been read.
    pub fn into_parts(self) -> (Box<dyn Read + Send + 'a>, Arc<str>) {
        (self.from, self.file)
    }

    pub fn file(&self) -> &Arc<str> {
        &self.file
    }

    /// Number of the line last returned, from 1.
    pub fn number(&self) -> u64 {
        self.line
    }

    /// Whether the line last returned had its end.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    fn fault(&self, fault: LineFault) -> LineError {
        LineError {
            place: self.place(None),
            fault,
        }
    }

    /// The line last returned, and the column of `found` where that stands in
    /// it once.
    pub fn place(&self, found: Option<&str>) -> Place {
        let line = &self.buffer[self.current.clone()];
        Place {
            file: Arc::clone(&self.file),
            line: Some(self.line),
            column: found.and_then(|found| single_value(line, found.as_bytes())),
        }
    }
}

/// An empty file.
impl Default for Lines<'_> {
    fn default() -> Self {
        Self::new(Box::new(io::empty()), "".into())
    }
}

/// The column, from 1, of a value that stands in the line once, and not as a
/// part of something longer.
fn single_value(line: &[u8], value: &[u8]) -> Option<u64> {
    let inside = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'.');
    let mut places = memchr::memmem::find_iter(line, value).filter(|at| {
        !inside(at.checked_sub(1).and_then(|before| line.get(before)))
            && !inside(line.get(at + value.len()))
    });
    let first = places.next().filter(|_| !value.is_empty())?;
    places.next().is_none().then_some(first as u64 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn lines(bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut lines = Lines::new(Box::new(std::io::Cursor::new(bytes.to_vec())), "x".into());
        let mut all = Vec::new();
        while let Some(line) = lines.next_line()? {
            all.push(line.to_vec());
        }
        assert_eq!(lines.number(), all.len() as u64);
        Ok(all)
    }

    #[test]
    fn marks_and_line_ends_are_taken_off() {
        let all = lines(b"\xef\xbb\xbfa\r\n\nb").unwrap();
        assert_eq!(all, [&b"a"[..], b"", b"b"]);
    }

    #[test]
    fn sixteen_bit_text_is_named() {
        let e = lines(b"\xff\xfet\0i\0").unwrap_err();
        assert!(matches!(e.fault, LineFault::Utf16));
    }

    #[test]
    fn a_value_has_a_column_where_it_stands_once() {
        assert_eq!(single_value(b"vm;10;50,00;60", b"50,00"), Some(7));
        assert_eq!(single_value(b"vm;10;150.00;50.00", b"50.00"), Some(14));
        assert_eq!(single_value(b"1;x;x", b"x"), None);
        assert_eq!(single_value(b"1;x", b""), None);
        assert_eq!(single_value(b"1;x", b"y"), None);
    }

    #[test]
    fn a_last_line_without_its_end_is_left_out() {
        for (text, rows, warns) in [
            ("1\n23", 1, true),
            ("1\n23\n", 2, false),
            ("1\n ", 1, false),
        ] {
            let mut lines = Lines::new(Box::new(text.as_bytes()), "x".into());
            let mut found = 0;
            while lines.next_whole_line().unwrap().is_some() {
                found += 1;
            }
            assert_eq!(found, rows, "{text:?}");
            assert_eq!(lines.cut_warning().is_some(), warns, "{text:?}");
        }
    }

    #[test]
    fn a_packed_file_without_end_is_read_as_far_as_it_goes() {
        for (text, rows) in [("1\n23\n", 2), ("1\n23\n4", 2)] {
            let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gz.write_all(text.as_bytes()).unwrap();
            gz.flush().unwrap();
            let bytes = gz.get_ref().clone();
            let open = || Lines::new(crate::unpack::unpack(&bytes[..]).unwrap(), "x".into());
            let mut lines = open();
            let mut found = 0;
            while lines.next_whole_line().unwrap().is_some() {
                found += 1;
            }
            assert_eq!(found, rows, "{text:?}");
            assert!(lines.next_whole_line().unwrap().is_none());
            let told = lines.cut_warning().unwrap();
            assert!(told.starts_with("the file is packed (gzip) and has no end"));
            assert_eq!(told.contains("line 3, the last one"), text.ends_with('4'));
            // What must be whole is refused.
            let mut lines = open();
            for _ in 0..rows {
                assert!(lines.next_line().unwrap().is_some());
            }
            assert!(matches!(
                lines.next_line().unwrap_err().fault,
                LineFault::Io(_)
            ));
        }
    }

    #[test]
    fn a_line_without_end_is_refused_in_bounded_memory() {
        let mut lines = Lines::new(Box::new(std::io::repeat(b'x')), "x".into());
        let e = lines.next_line().unwrap_err();
        assert!(matches!(e.fault, LineFault::TooLong(_)));
        assert!(lines.buffer.len() <= 2 * MAX_LINE);
    }

    #[test]
    fn a_place_is_a_line_and_a_column() {
        let mut lines = Lines::new(Box::new(&b"a\n1;x\n"[..]), "day.csv".into());
        lines.next_line().unwrap();
        lines.next_line().unwrap();
        assert_eq!(lines.place(Some("x")).to_string(), "day.csv:2:3");
        assert_eq!(lines.place(None).to_string(), "day.csv:2");
        let whole = lines.nowhere(io::Error::other("full"));
        assert_eq!(whole.to_string(), "day.csv: full");
    }

    #[test]
    fn long_lines_cross_the_buffer() {
        let sizes = [0, 1, CHUNK - 2, CHUNK, 3 * CHUNK + 7, 5, CHUNK / 2];
        let expected: Vec<Vec<u8>> = sizes.iter().map(|n| vec![b'a'; *n]).collect();
        let mut text = expected.join(&b'\n');
        text.push(b'\n');
        assert_eq!(lines(&text).unwrap(), expected);
    }
}
