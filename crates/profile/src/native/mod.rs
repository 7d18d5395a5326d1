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
//! docs/formats.md.

mod read;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use read::read;
pub use write::Writer;

/// First comment line, without the version.
pub(crate) const MAGIC: &str = "sandbag profile";
/// The version written, and the newest that is read.
pub(crate) const VERSION: u32 = 1;
