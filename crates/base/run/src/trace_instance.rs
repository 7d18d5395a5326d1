// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An instance of the kernel's tracing that ends with us, however we end.

use std::process::Child;

use sandbag_linux::tracefs::{Instance, TraceFs};
use sandbag_linux::{CpuList, Root};

use crate::error::Result;
use crate::guardian;
use crate::journal::{Entry, Journal, RunInfo};
use crate::registry::{Registry, RestoreOutcome};
use crate::undo::{Leftovers, undo};

/// What undoes the instance: a journal that was there before it, and a guardian.
#[derive(Debug)]
pub struct TraceGuard {
    held: Option<(Journal, Child)>,
}

impl TraceGuard {
    /// Makes an instance for a run of this kind, after what dead runs left was undone.
    ///
    /// # Errors
    /// As of [`TraceFs::open`], [`Registry::register`] and [`TraceFs::make`].
    pub fn make(root: &Root, what: &str) -> Result<(Instance, Self, Vec<RestoreOutcome>)> {
        // First, so that no registry is made without permission to trace.
        let tree = TraceFs::open(root)?;
        let registry = Registry::open()?;
        let restored = registry.restore()?;
        let guardian = guardian::start(&registry.own_journal())?;
        let info = RunInfo::of_this_process(what);
        let journal = match registry.register(info, &CpuList::default()) {
            Ok(journal) => journal,
            Err(error) => {
                guardian::dismiss(guardian);
                return Err(error);
            }
        };
        let mut guard = Self {
            held: Some((journal, guardian)),
        };
        let name = format!("sandbag-{}", std::process::id());
        if let Some((journal, _)) = &mut guard.held {
            journal.note(Entry::TraceInstance { name: name.clone() })?;
        }
        Ok((tree.make(&name)?, guard, restored))
    }

    /// Removes the instance, whose files must be closed; returns what could not be undone.
    pub fn end(&mut self) -> Vec<String> {
        let Some((journal, guardian)) = self.held.take() else {
            return Vec::new();
        };
        let left = undo(journal, Leftovers::GoBack);
        if left.is_empty() {
            guardian::dismiss(guardian);
        } else {
            guardian::leave_to_it(guardian);
        }
        left
    }
}

impl Drop for TraceGuard {
    fn drop(&mut self) {
        self.end();
    }
}
