// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `run.json` of a run that was not made, or not to its end: why. A caller who
//! finds exit code 125 looks here.

use serde::{Deserialize, Serialize};

/// A run that failed by us and not by its command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// [`FORMAT`](crate::report::run::FORMAT) of the writer.
    pub format: u32,
    /// Version of sandbag.
    pub sandbag: String,
    /// When it failed, RFC 3339, UTC.
    pub failed_at: String,
    /// The arguments as given, without the program's own name.
    pub arguments: Vec<String>,
    /// Why. Its presence tells this record from that of a run.
    pub error: Reason,
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// `bad-input`, `not-possible` or `failed`.
    pub kind: String,
    /// What happened, with path, value and cause.
    pub message: String,
    /// What to do about it, where that is known apart from the message.
    pub remedy: Option<String>,
    /// The exit code that this has where there is no command to wrap.
    pub exit_code_alone: u8,
}
