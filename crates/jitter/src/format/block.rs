// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Blocks of a trace file.

use crate::causes::Cause;
use crate::{Span, TraceEvent};

pub(super) const MAGIC: &[u8; 8] = b"sandbagj";
pub(crate) const VERSION: u16 = 2;
/// In this one lengths of our own events reached from reading to reading.
pub(super) const WITH_LEAST: u16 = 1;
pub(super) const HEADER: u8 = b'H';
pub(super) const EVENTS: u8 = b'E';
pub(super) const NOTES: u8 = b'N';
pub(super) const CAUSES: u8 = b'C';
pub(super) const ABOUT: u8 = b'A';
/// Nothing that is written comes near to it, packed or not.
pub(super) const MAX_BLOCK: usize = 64 << 20;
/// Events of a block: some 200 kB before compression.
pub(super) const EVENTS_PER_BLOCK: usize = 1 << 16;

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
