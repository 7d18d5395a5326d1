// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is known of a run before it begins.

use sandbag_run::machine::MachineFacts;
use sandbag_stats::Tolerance;

use crate::report::run::MethodUsed;

pub struct Facts {
    pub machine: MachineFacts,
    pub method: MethodUsed,
    pub profile: String,
    pub started_at: String,
    /// Loaded CPUs, in the order of the plan.
    pub cpus: Vec<u32>,
    pub command: Vec<String>,
    pub tolerance: Tolerance,
    pub node: Option<String>,
    pub length_ns: Option<u64>,
    /// The method takes its load as CPU time.
    pub burns: bool,
}
