// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every format that can be read is to the rest: a way to recognise it
//! and a way to open it. All of them: [`crate::source`].

use crate::{BoxSteps, Fault, Format, ReadOptions, Result};
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

impl Input<'_> {
    /// Refuses a file of this machine where another was asked for. One that
    /// names none may be of any.
    pub(crate) fn check_machine(&self, host: Option<&str>) -> Result<()> {
        match (self.options.machine.as_deref(), host) {
            (Some(asked), Some(host)) if asked != host => {
                Err((self.lines)()?.nowhere(Fault::WhichMachine {
                    known: format!("it is of one machine, {host}"),
                    asked: Some(asked.to_owned()),
                    names: vec![host.to_owned()],
                }))
            }
            _ => Ok(()),
        }
    }
}
