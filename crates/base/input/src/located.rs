// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is wrong with a file, and where: the error of every importer.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::{LineError, LineFault, Lines, Place};

/// A fault and, where there is one, its place.
#[derive(Debug)]
pub struct Located<F> {
    /// Where; `None` for a fault of an argument.
    pub place: Option<Place>,
    pub fault: Box<F>,
}

impl<F> Located<F> {
    /// The fault at a line of a file.
    pub fn at(fault: F, file: &Arc<str>, line: Option<u64>) -> Self {
        let place = Place {
            file: Arc::clone(file),
            line,
            column: None,
        };
        Self {
            place: Some(place),
            fault: Box::new(fault),
        }
    }
}

impl<F: fmt::Display> fmt::Display for Located<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        self.fault.fmt(f)
    }
}

impl<F: Error> Error for Located<F> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.fault.source()
    }
}

impl<F> From<F> for Located<F> {
    fn from(fault: F) -> Self {
        Self {
            place: None,
            fault: Box::new(fault),
        }
    }
}

impl<F: From<LineFault>> From<LineError> for Located<F> {
    fn from(error: LineError) -> Self {
        Self {
            place: Some(error.place),
            fault: Box::new(error.fault.into()),
        }
    }
}

/// What can be wrong with a file.
pub trait FileFault {
    /// What stood there, as it was written, where the fault is of a single
    /// value.
    fn found(&self) -> Option<&str> {
        None
    }
}

impl Lines<'_> {
    /// The fault at the line last returned, and at its column where what was
    /// found stands in it once.
    pub fn here<F: FileFault>(&self, fault: F) -> Located<F> {
        Located {
            place: Some(self.place(fault.found())),
            fault: Box::new(fault),
        }
    }

    /// The fault of the file as a whole.
    pub fn nowhere<F>(&self, fault: F) -> Located<F> {
        Located::at(fault, self.file(), None)
    }
}
