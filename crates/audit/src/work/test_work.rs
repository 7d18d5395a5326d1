// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every test is to the process that runs it.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkFault {
    /// The CPU went away, or is not for us.
    Displaced(String),
    Work(String),
}

/// A test that was taken up.
pub(crate) trait TestWork: Send {
    /// Does `units`; the same in each run.
    fn run(&mut self, units: u64) -> Result<(), String>;

    /// What it does, with its sizes.
    fn describe(&self) -> String;
}
