// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The samples of a JSON document, one at a time.
//!
//! Not the document but each element at the end of a path (sysstat's is
//! `sysstat.hosts[].statistics`) is parsed; this walks to them through the text and holds one at a time,
//! however long the file and whether or not it has line ends.

use std::io::Read;
use std::sync::Arc;

use crate::{Error, Fault, Result};

use super::host::Host;

/// One element: all activities of one stamp. Some hundred kilobytes on a
/// large machine.
const MAX_ELEMENT: usize = 64 << 20;
const CHUNK: usize = 128 << 10;

/// What leads to the samples, from the outside in. Objects are entered by
/// this key, arrays by each element. It ends with an array.
pub(super) type Path = [Option<&'static [u8]>];

pub(super) struct Elements {
    path: &'static Path,
    from: Box<dyn Read + Send>,
    file: Arc<str>,
    buffer: Vec<u8>,
    at: usize,
    filled: usize,
    /// Line ends passed, up to `counted` in the buffer.
    lines: u64,
    counted: usize,
    depth: usize,
    done: bool,
    /// Line in which the element last returned begins.
    element_line: u64,
    /// The `nodename` or `@host` of the host whose samples follow.
    pub(super) host: Host,
    /// The `date` of the host, where it has one; a further host has none.
    pub(super) host_date: Option<String>,
    /// How many `boot` entries were passed over.
    pub(super) restarts: u64,
    /// The `@timezone` of the host, which stands behind its samples.
    pub(super) zone: Option<String>,
    /// Whether one document may follow another.
    several: bool,
}

impl Elements {
    pub(super) fn new(path: &'static Path, (from, file): (Box<dyn Read + Send>, Arc<str>)) -> Self {
        Self {
            path,
            from,
            file,
            buffer: vec![0; CHUNK],
            at: 0,
            filled: 0,
            lines: 0,
            counted: 0,
            depth: 0,
            done: false,
            element_line: 0,
            host: Host::default(),
            host_date: None,
            restarts: 0,
            zone: None,
            several: false,
        }
    }

    /// Of all documents of the file, however many follow each other. What
    /// does not lead along the path is passed over.
    pub(super) fn of_several_documents(self) -> Self {
        Self {
            several: true,
            ..self
        }
    }

    /// Puts the text of the next sample into `into`; false at the end.
    pub(super) fn next_element(&mut self, into: &mut Vec<u8>) -> Result<bool> {
        if self.depth == 0 && !self.done {
            self.skip_mark()?;
            self.expect(b'{')?;
            self.depth = 1;
        }
        while self.depth > 0 || self.next_document()? {
            let wanted = self.path[self.depth - 1];
            match (self.peek()?, wanted) {
                (b',', _) => self.at += 1,
                (b'}', Some(_)) | (b']', None) => {
                    self.at += 1;
                    self.depth -= 1;
                }
                (b'"', Some(key)) => self.member(key, into)?,
                (_, Some(_)) => return Err(self.syntax("a key")),
                (_, None) if self.depth == self.path.len() => {
                    into.clear();
                    self.count_lines();
                    self.element_line = self.lines + 1;
                    self.value(Some(into))?;
                    return Ok(true);
                }
                (b'{', None) => {
                    self.at += 1;
                    self.depth += 1;
                }
                (_, None) => return Err(self.syntax("an object")),
            }
        }
        if !self.done && !self.several {
            self.nothing_follows()?;
        }
        self.done = true;
        Ok(false)
    }

    /// A second document would be left out without a word.
    fn nothing_follows(&mut self) -> Result<()> {
        let text = "something follows the document; give one document per file";
        match self.next_byte()? {
            Some(_) => Err(self.here(Fault::Json(text.into()))),
            None => Ok(()),
        }
    }

    /// Enters the document that follows the last, if there may be one and is.
    fn next_document(&mut self) -> Result<bool> {
        if self.done || !self.several || self.next_byte()?.is_none() {
            return Ok(false);
        }
        self.expect(b'{')?;
        self.depth = 1;
        Ok(true)
    }

    /// A key and its value; enters the value if it is on the path.
    fn member(&mut self, wanted: &[u8], scratch: &mut Vec<u8>) -> Result<()> {
        scratch.clear();
        self.value(Some(scratch))?;
        let key = crate::number::unquoted(scratch);
        let is_date = key == b"date" && self.depth == 4;
        let (enter, is_restarts) = (key == wanted, key == b"restarts");
        let is_host = matches!(key, b"nodename" | b"@host");
        let is_zone = key == b"@timezone";
        self.expect(b':')?;
        if enter {
            let open = if self.path[self.depth].is_some() {
                b'{'
            } else {
                b'['
            };
            self.expect(open)?;
            self.depth += 1;
        } else if is_zone && self.depth == 4 {
            self.zone = Some(self.text(scratch)?);
        } else if is_host && self.depth == 4 {
            let name = self.text(scratch)?;
            let is = self.host.is(name.as_bytes());
            is.map_err(|fault| self.here(fault))?;
        } else if is_date {
            scratch.clear();
            self.value(Some(scratch))?;
            let date = serde_json::from_slice(scratch).ok();
            if self.host_date.is_some() {
                return Err(self.here(Fault::Duplicate("date".into())));
            }
            self.host_date = date;
        } else if is_restarts {
            scratch.clear();
            self.value(Some(scratch))?;
            self.restarts += memchr::memmem::find_iter(scratch, b"\"boot\"").count() as u64;
        } else {
            self.value(None)?;
        }
        Ok(())
    }

    /// A value that is a text.
    fn text(&mut self, scratch: &mut Vec<u8>) -> Result<String> {
        scratch.clear();
        self.value(Some(scratch))?;
        serde_json::from_slice(scratch).map_err(|e| self.here(Fault::Json(e.to_string())))
    }

    /// Passes over one value, keeping its text where that is wanted.
    fn value(&mut self, mut keep: Option<&mut Vec<u8>>) -> Result<()> {
        self.peek()?;
        let mut nesting = 0usize;
        let mut in_string = false;
        loop {
            let mut end = None;
            let mut i = self.at;
            while i < self.filled {
                let b = self.buffer[i];
                i += 1;
                if in_string {
                    match b {
                        b'"' => in_string = false,
                        // The byte after a backslash may be in the next
                        // chunk; then it is looked at from the backslash on.
                        b'\\' if i < self.filled => {
                            i += 1;
                            continue;
                        }
                        b'\\' => {
                            i -= 1;
                            break;
                        }
                        _ => continue,
                    }
                } else {
                    match b {
                        b'"' => in_string = true,
                        b'{' | b'[' => nesting += 1,
                        b'}' | b']' if nesting > 0 => nesting -= 1,
                        // The end of what holds this value.
                        b'}' | b']' | b',' | b':' if nesting == 0 => {
                            end = Some(i - 1);
                            break;
                        }
                        _ => continue,
                    }
                }
                if nesting == 0 && !in_string {
                    end = Some(i);
                    break;
                }
            }
            let until = end.unwrap_or(i);
            if let Some(keep) = keep.as_deref_mut() {
                keep.extend_from_slice(&self.buffer[self.at..until]);
                if keep.len() > MAX_ELEMENT {
                    let message = format!("one value is longer than {MAX_ELEMENT} bytes");
                    return Err(self.here(Fault::Json(message)));
                }
            }
            self.at = until;
            if end.is_some() {
                return Ok(());
            }
            self.fill()?;
        }
    }

    fn skip_mark(&mut self) -> Result<()> {
        self.fill()?;
        while self.filled - self.at < 3 && self.buffer[..self.filled].first() == Some(&0xef) {
            self.fill()?;
        }
        if self.buffer[..self.filled].starts_with(b"\xef\xbb\xbf") {
            self.at += 3;
        }
        Ok(())
    }

    /// The next byte that is not blank; it stays. `None` at the end.
    fn next_byte(&mut self) -> Result<Option<u8>> {
        loop {
            while let Some(b) = self.buffer[self.at..self.filled].first() {
                if !b.is_ascii_whitespace() {
                    return Ok(Some(*b));
                }
                self.at += 1;
            }
            if !self.read()? {
                return Ok(None);
            }
        }
    }

    fn peek(&mut self) -> Result<u8> {
        let next = self.next_byte()?;
        next.ok_or_else(|| self.cut_short())
    }

    fn expect(&mut self, wanted: u8) -> Result<()> {
        if self.peek()? == wanted {
            self.at += 1;
            Ok(())
        } else {
            Err(self.syntax(&format!("`{}`", char::from(wanted))))
        }
    }

    /// Reads more, and fails at the end.
    fn fill(&mut self) -> Result<()> {
        if self.read()? {
            Ok(())
        } else {
            Err(self.cut_short())
        }
    }

    fn cut_short(&self) -> Error {
        let text = "the document ends in the middle; the file was cut short";
        self.here(Fault::Json(text.into()))
    }

    /// Reads more, dropping what was passed; false at the end.
    fn read(&mut self) -> Result<bool> {
        self.count_lines();
        self.buffer.copy_within(self.at..self.filled, 0);
        self.filled -= self.at;
        self.at = 0;
        self.counted = 0;
        loop {
            match self.from.read(&mut self.buffer[self.filled..]) {
                Ok(n) => {
                    self.filled += n;
                    return Ok(n > 0);
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.here(Fault::Io(e))),
            }
        }
    }

    fn count_lines(&mut self) {
        let passed = &self.buffer[self.counted..self.at];
        self.lines += memchr::memchr_iter(b'\n', passed).count() as u64;
        self.counted = self.at;
    }

    fn syntax(&self, expected: &str) -> Error {
        let found = &self.buffer[self.at..self.filled.min(self.at + 60)];
        self.here(Fault::syntax(expected, found))
    }

    /// The line that is being read, from 1.
    fn line(&self) -> u64 {
        let passed = &self.buffer[self.counted..self.at];
        self.lines + memchr::memchr_iter(b'\n', passed).count() as u64 + 1
    }

    /// The fault at the line that is being read.
    fn here(&self, fault: Fault) -> Error {
        fault.at(&self.file, self.line())
    }

    /// The fault in the element last returned, `line` counted from 1 in it.
    pub(super) fn in_element(&self, fault: Fault, line: u64) -> Error {
        fault.at(&self.file, self.element_line + line.saturating_sub(1))
    }

    /// The fault of the file as a whole.
    pub(super) fn nowhere(&self, fault: Fault) -> Error {
        fault.at(&self.file, None)
    }
}
