// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The trace format, `.sbj`: blocks, each with its length and checksum, so
//! that a file that was cut off is whole up to its last block.
//!
//! ```text
//! "sandbagj", version (u16)
//! block*: kind (u8), length (u32), CRC-32 of kind, length and payload (u32),
//!         payload
//! ```
//!
//! All numbers are little-endian. Kinds: `H`, the header, JSON, first; `E`,
//! events of one CPU, zstd; `N`, notes, JSON, last. The payload of `E`, before
//! it is compressed, is a row of LEB128 numbers: columns (0; others are of a
//! later version), CPU, from, length of the stretch, number of events, and
//! for each event the time since the end of the one before (the first: since
//! `from`) and its length; ns. Two blocks of a CPU of which one begins where
//! the other ends have nothing unknown between them. Kinds that are not known
//! are passed over.
//!
//! `C`, causes of one CPU, zstd, likewise a row: columns (0), CPU, from, length
//! of the stretch in which the kernel was watched, number of sources that no
//! block before this one named, for each its kind (place in
//! [`SourceKind::ALL`](crate::causes::SourceKind::ALL)), number plus one (0: none),
//! bytes of its name, and the name; then the number of causes, and for each
//! the time since the begin of the one before (the first: since `from`), its
//! length, and the place of its source among all. `A`, JSON: how causes were
//! found, once, before `N`.

mod causes;
mod read;
#[cfg(test)]
mod tests;
mod varint;
mod write;

pub(crate) use read::read_parts;
pub use read::{TraceReader, read};
pub use write::{Writer, write};

use crate::causes::Cause;
use crate::{Span, TraceEvent};

const MAGIC: &[u8; 8] = b"sandbagj";
const VERSION: u16 = 2;
/// In this one lengths of our own events reached from reading to reading.
const WITH_LEAST: u16 = 1;
const HEADER: u8 = b'H';
const EVENTS: u8 = b'E';
const NOTES: u8 = b'N';
const CAUSES: u8 = b'C';
const ABOUT: u8 = b'A';
/// Nothing that is written comes near to it, packed or not.
const MAX_BLOCK: usize = 64 << 20;
/// Events of a block: some 200 kB before compression.
const EVENTS_PER_BLOCK: usize = 1 << 16;

/// Whether a file that begins like this is a trace.
pub fn is_trace(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

/// Events of one CPU in a stretch of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventBlock {
    pub cpu: u32,
    /// When events were looked for.
    pub span: Span,
    /// Those that were found, ascending.
    pub events: Vec<TraceEvent>,
}

/// Causes of events of one CPU in a stretch of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CauseBlock {
    pub cpu: u32,
    /// When the kernel was watched.
    pub span: Span,
    /// Those that were found; they begin within the stretch and ascend.
    pub causes: Vec<Cause>,
}

/// A block of whatever kind a reader hands out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FormatBlock {
    Events(EventBlock),
    Causes(CauseBlock),
}
