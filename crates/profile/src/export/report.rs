// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What exporters report.

use std::io;
use std::path::PathBuf;

use crate::{Error, Fault};

/// What was written and what was lost.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExportReport {
    /// Steps or entries written, per CPU where the format lists by CPU.
    pub steps: u64,
    /// The largest change of a load by rounding, points.
    pub rounding_points: f64,
    /// What the format could not hold, one sentence each.
    pub lost: Vec<String>,
    /// The files written, where the format takes one per CPU.
    pub files: Vec<PathBuf>,
}

pub(super) fn io(e: io::Error) -> Error {
    Fault::Io(e).into()
}
