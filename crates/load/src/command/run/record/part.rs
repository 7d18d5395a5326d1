// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs that cover a part of their profile.

use crate::board::BOUNDARY_NS;
use crate::supervisor::{RunEnd, RunOutcome};

use super::facts::Facts;

/// A run that ended before its profile did.
pub(super) struct PartialRun {
    why: &'static str,
    run_s: f64,
    length_s: f64,
}

impl PartialRun {
    pub fn of(facts: &Facts, outcome: &RunOutcome) -> Option<Self> {
        let length_ns = facts.length_ns?;
        // Not for what a command takes to be waited for.
        (outcome.run_ns + BOUNDARY_NS < length_ns).then(|| Self {
            why: match outcome.end {
                RunEnd::CommandOver => "the command ended",
                RunEnd::TimedOut => "the time limit came",
                RunEnd::Stopped | RunEnd::Interrupted | RunEnd::ProfileOver => {
                    "the run was stopped"
                }
            },
            run_s: outcome.run_ns as f64 / 1e9,
            length_s: length_ns as f64 / 1e9,
        })
    }

    pub fn span(&self) -> String {
        format!("the first {:.1} of {:.1} s", self.run_s, self.length_s)
    }

    pub fn warning(&self) -> String {
        format!(
            "{} {:.1} s before the profile: the verdict is about {} only",
            self.why,
            self.length_s - self.run_s,
            self.span()
        )
    }
}
