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

mod block;
mod causes;
mod read;
#[cfg(test)]
mod tests;
mod varint;
mod write;

pub(crate) use block::VERSION;
pub use block::{CauseBlock, EventBlock, FormatBlock};
pub(crate) use read::read_parts;
pub use read::{TraceReader, read};
pub use write::{Writer, write};

use block::MAGIC;

/// Whether a file that begins like this is a trace.
pub fn is_trace(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}
