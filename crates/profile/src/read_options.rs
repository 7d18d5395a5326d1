// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is asked of a reader besides the file.

use crate::{Gaps, Spread};

/// How a profile is read.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// What stands where the load is unknown; default [`Gaps::Keep`].
    pub gaps: Gaps,
    /// Steal counts as load: the load becomes the share of the *wall* time in
    /// which the CPU was not to be had (KRASH's first definition).
    pub steal_as_load: bool,
    /// The end, for formats that may lack one (KRASH without `kill`, a
    /// native file without end row). An end that the file names wins.
    pub end_ns: Option<u64>,
    /// Which machine of a file that holds several, by the name it has there;
    /// a file of one needs none, but is refused if it names another.
    pub machine: Option<String>,
    /// How a file that has one value per machine is laid on CPUs, and on how
    /// many the jobs of a job log are put. Default: what the file says, or
    /// one.
    pub spread: Option<Spread>,
}
