// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every format that can be read is to the rest: a way to recognise it
//! and a way to open it. All of them: [`crate::source`].

use crate::{BoxSteps, Format, ReadOptions, Result};
use sandbag_input::Head;

/// The lines of a file.
pub(crate) type Lines = sandbag_input::Lines<'static>;

/// How one format is recognised and read.
pub(crate) struct ImportReader {
    pub(crate) format: Format,
    /// Whether this is the beginning of such a file.
    pub(crate) looks_like: fn(&Head<'_>) -> bool,
    pub(crate) open: fn(&Input<'_>) -> Result<BoxSteps>,
}

pub(crate) struct Input<'a> {
    /// Opens the file anew.
    pub(crate) lines: &'a dyn Fn() -> Result<Lines>,
    pub(crate) options: &'a ReadOptions,
}
