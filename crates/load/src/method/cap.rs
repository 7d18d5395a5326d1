// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cap`: the node's group may use the sum of its speeds per period (cpu.max,
//! v1 cpu.cfs_quota_us), without burst. It is what containers do.
//!
//! # Published flaws, kept
//! An aggregate budget is not a slower CPU. One thread on two CPUs at speed
//! 0.5 runs as on one CPU at full speed; two threads run at full speed until
//! the budget is used, and then not at all for the rest of the period. Where
//! the governor lowers the frequency of CPUs that are idle for most of a
//! period, the budget buys less work: users report 250 s at 20 % where 75 s
//! were expected.

use super::{Method, MethodOptions, Scope};
use crate::burn::Duty;
use crate::throttle::Throttling;

#[derive(Debug, Clone, Copy)]
pub struct NodeCap {
    /// Period, us.
    pub period_us: u64,
}

impl Default for NodeCap {
    fn default() -> Self {
        Self { period_us: 100_000 }
    }
}

/// Lowest speed, 0.01: a quota shorter than 1 ms is refused by the kernel.
const MOST: f64 = 0.99;

impl NodeCap {
    /// With a user's constants.
    ///
    /// # Errors
    /// The reason, in words, where a constant cannot be that.
    pub fn with_options(options: &MethodOptions) -> Result<Self, String> {
        // A period that no boundary cuts: what was taken is known at its end.
        let own_ns = Self::default().period_us * 1000;
        Ok(Self {
            period_us: options.period_on_grid("cap", own_ns)? / 1000,
        })
    }
}

impl Method for NodeCap {
    fn name(&self) -> &'static str {
        "cap"
    }

    fn about(&self) -> &'static str {
        "a limit on the CPU time of the node's group, as containers have it"
    }

    fn duty(&self) -> Duty {
        Duty::Throttle(Throttling::Cap {
            period_us: self.period_us,
        })
    }

    fn serves(&self, asked: f64) -> f64 {
        asked.min(MOST)
    }

    fn scope(&self) -> Scope {
        Scope::Node
    }

    fn settles(&self) -> bool {
        false
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        vec![
            ("period_ms", format!("{}", self.period_us as f64 / 1e3)),
            ("burst", "0".to_owned()),
        ]
    }
}
