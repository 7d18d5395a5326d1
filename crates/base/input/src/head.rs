// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The beginning of a file, from which its format is told.

/// Some kilobytes of a file, unpacked and without byte order mark.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head<'a>(&'a [u8]);

impl<'a> Head<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self(text)
    }

    /// Lines that are not blank, without what surrounds them.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        self.0
            .split(|b| *b == b'\n')
            .map(<[u8]>::trim_ascii)
            .filter(|line| !line.is_empty())
    }

    /// The same without comments, lines that begin with `#`.
    pub(crate) fn data(&self) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        self.lines().filter(|line| !line.starts_with(b"#"))
    }

    /// The first line that is not blank.
    pub(crate) fn first(&self) -> &'a [u8] {
        self.lines().next().unwrap_or_default()
    }

    /// Whether it is a JSON object or, with `[`, an array.
    pub(crate) fn opens_with(&self, bracket: u8) -> bool {
        self.0.trim_ascii_start().first() == Some(&bracket)
    }

    /// What follows the first place where this stands; nothing without one.
    pub(crate) fn after(&self, text: &[u8]) -> &'a [u8] {
        let at = memchr::memmem::find(self.0, text).map(|at| at + text.len());
        at.and_then(|at| self.0.get(at..)).unwrap_or_default()
    }

    /// Whether this stands somewhere in it.
    pub(crate) fn holds(&self, text: &[u8]) -> bool {
        memchr::memmem::find(self.0, text).is_some()
    }
}

/// What blanks separate.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    line.split(u8::is_ascii_whitespace)
        .filter(|field| !field.is_empty())
}
