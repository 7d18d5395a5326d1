// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is on the CPU of a task that wakes up.

/// Beside what the sleeper wakes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Competitor {
    /// Nothing.
    Idle,
    /// One spinner.
    Spinner,
    /// The burner.
    Pace,
    /// Two spinners, each in a group (autogroup) of its own.
    Spinners,
    /// A spinner in the sleeper's own group and one in another, as the
    /// command's task and the burner are.
    SpinnersGrouped,
    /// The burner, and a spinner in the command.
    PaceAndSpinner,
}
