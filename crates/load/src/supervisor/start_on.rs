// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run whose command says when the load begins. The command runs already,
//! the burners wait without orders.

use sandbag_linux::clock;

use super::SupervisedRun;
use super::burner::Common;
use super::outcome::{LoadStart, RunEnd};
use super::trigger::Trigger;
use crate::board::BOUNDARY_NS;
use sandbag_run::error::Result;

/// Nothing is due while we wait.
const LONG_NS: u64 = 10_000_000_000;

impl SupervisedRun<'_> {
    /// Waits for the command's word; `Some` if the run ends without it.
    pub(super) fn await_word(&mut self, common: &Common<'_>) -> Result<Option<RunEnd>> {
        while !self.trigger.as_mut().is_none_or(Trigger::is_given) {
            let now = clock::monotonic();
            if let Some(end) = self.keep_limit(now) {
                return Ok(Some(end));
            }
            self.wait_until(self.limit.wake_ns(now).unwrap_or(now + LONG_NS));
            if let Some(end) = self.answer(common)? {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    /// The load begins at the next boundary that leaves time to say so.
    pub(super) fn start_time() -> u64 {
        (clock::monotonic() + BOUNDARY_NS / 5).next_multiple_of(BOUNDARY_NS)
    }

    /// The load is to begin now. `Some` if the run has ended meanwhile: the
    /// end of a command closes its descriptors before we hear of it.
    pub(super) fn begin_load(&mut self, common: &Common<'_>) -> Result<Option<RunEnd>> {
        let Some(running) = self.command.as_ref().filter(|_| self.trigger.is_some()) else {
            return Ok(None);
        };
        let after_ns = clock::monotonic() - running.started_ns();
        let end = self.answer(common)?;
        if end.is_none() {
            self.load_start = LoadStart::After(after_ns);
        }
        Ok(end)
    }

    pub(super) fn never_began(&mut self) {
        let Some(trigger) = &self.trigger else {
            return;
        };
        self.load_start = LoadStart::Never;
        self.observer.warning(format!(
            "the run ended before the command began the load (by {}): nothing was asked of any CPU",
            trigger.by()
        ));
    }
}
