// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines of a file, and faults at their places.

use std::io::Read;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use sandbag_input::{LineError, LineFault};

use crate::{Error, Fault};

pub(crate) struct Lines(sandbag_input::Lines<'static>);

impl Deref for Lines {
    type Target = sandbag_input::Lines<'static>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Lines {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// An empty file.
impl Default for Lines {
    fn default() -> Self {
        Self::new(Box::new(std::io::empty()), "".into())
    }
}

impl Lines {
    pub(crate) fn new(from: Box<dyn Read + Send>, file: Arc<str>) -> Self {
        Self(sandbag_input::Lines::new(from, file))
    }

    /// The bytes and the file's name, for what is not read by lines. Nothing
    /// must have been read.
    pub(crate) fn into_parts(self) -> (Box<dyn Read + Send>, Arc<str>) {
        self.0.into_parts()
    }

    /// The fault at the line last returned, and at its column where what was
    /// found stands in it once.
    pub(crate) fn here(&self, fault: Fault) -> Error {
        let place = self.0.place(fault.found());
        Error {
            place: Some(place),
            fault: Box::new(fault),
        }
    }

    /// The fault of the file as a whole.
    pub(crate) fn nowhere(&self, fault: Fault) -> Error {
        fault.at(self.file(), None)
    }
}

impl From<LineError> for Error {
    fn from(error: LineError) -> Self {
        let fault = match error.fault {
            LineFault::Io(cause) => Fault::Io(cause),
            LineFault::TooLong(most) => Fault::LineTooLong(most),
            LineFault::Utf16 => Fault::Utf16,
        };
        Self {
            place: Some(error.place),
            fault: Box::new(fault),
        }
    }
}
