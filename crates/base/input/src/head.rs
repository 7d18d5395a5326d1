// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The beginning of a file, from which its format is recognised.

/// Some kilobytes of a file, unpacked and without byte order mark.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a>(&'a [u8]);

impl<'a> Head<'a> {
    pub fn new(text: &'a [u8]) -> Self {
        Self(text)
    }

    /// Lines that are not blank, without what surrounds them.
    pub fn lines(&self) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        self.0
            .split(|b| *b == b'\n')
            .map(<[u8]>::trim_ascii)
            .filter(|line| !line.is_empty())
    }

    /// The same without comments, lines that begin with `#`.
    pub fn data(&self) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        self.lines().filter(|line| !line.starts_with(b"#"))
    }

    /// Its text, up to the first byte that is no UTF-8.
    pub fn text(&self) -> &'a str {
        self.0
            .utf8_chunks()
            .next()
            .map_or("", |chunk| chunk.valid())
    }

    /// [`Head::lines`] of its text.
    pub fn text_lines(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let lines = self.text().lines().map(str::trim);
        lines.filter(|line| !line.is_empty())
    }

    /// [`Head::data`] of its text.
    pub fn text_data(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.text_lines().filter(|line| !line.starts_with('#'))
    }

    /// Whether a comment, a line that begins with `#`, begins like this.
    pub fn has_comment(&self, begin: &str) -> bool {
        let mut comments = self.text_lines().filter_map(|line| line.strip_prefix('#'));
        comments.any(|comment| comment.trim_start().starts_with(begin))
    }

    /// The first line that is not blank.
    pub fn first(&self) -> &'a [u8] {
        self.lines().next().unwrap_or_default()
    }

    /// Whether it is a JSON object or, with `[`, an array.
    pub fn opens_with(&self, bracket: u8) -> bool {
        self.0.trim_ascii_start().first() == Some(&bracket)
    }

    /// What follows the first place where this stands; nothing without one.
    pub fn after(&self, text: &[u8]) -> &'a [u8] {
        let at = memchr::memmem::find(self.0, text).map(|at| at + text.len());
        at.and_then(|at| self.0.get(at..)).unwrap_or_default()
    }

    /// Whether this stands somewhere in it.
    pub fn holds(&self, text: &[u8]) -> bool {
        memchr::memmem::find(self.0, text).is_some()
    }
}

/// What blanks separate.
pub fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    line.split(u8::is_ascii_whitespace)
        .filter(|field| !field.is_empty())
}
