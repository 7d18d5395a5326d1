// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The native format: CSV that a person writes by hand and a spreadsheet
//! opens.
//!
//! ```text
//! # sandbag profile 1
//! time,cpu0,cpu1
//! 0,50,12.5
//! 10,80,
//! 20,end
//! ```
//!
//! A row is a step: it begins at its time and lasts until the time of the
//! next row. An empty cell is an unknown load. The last row is the end. See
//! docs/reference/file-formats.md.

mod read;
#[cfg(test)]
mod tests;
mod write;

use crate::Format;
use crate::reader::ImportReader;

pub use write::Writer;
pub(crate) use write::push_percent;

/// First comment line, without the version.
pub(crate) const MAGIC: &str = "sandbag profile";
/// The version written, and the newest that is read.
pub(crate) const VERSION: u32 = 1;

pub(crate) const READER: ImportReader = ImportReader {
    format: Format::Native,
    looks_like: |head| {
        let magic = head.first().strip_prefix(b"# ");
        magic.is_some_and(|first| first.starts_with(MAGIC.as_bytes()))
            || head.data().next().is_some_and(is_header)
    },
    open: |input| {
        let steps = read::read((input.lines)()?, input.options.end_ns)?;
        input.check_machine(steps.header().host.as_deref())?;
        Ok(steps)
    },
};

/// `time` and at least one column of ours; tables of other programs may begin
/// with `Time` as well.
fn is_header(line: &[u8]) -> bool {
    let lower = line.to_ascii_lowercase();
    let mut names = lower
        .split(|b| matches!(b, b',' | b';' | b'\t'))
        .map(crate::number::unquoted);
    names.next() == Some(b"time")
        && names.next().is_some_and(|name| {
            let number = name
                .strip_prefix(b"cpu")
                .or_else(|| name.strip_prefix(b"steal"));
            number.is_some_and(|n| n.first().is_some_and(u8::is_ascii_digit))
        })
}
