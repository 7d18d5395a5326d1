// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `rt`: the early Wrekavoc loader, a real-time process per CPU that watches
//! its own share (KRASH section II). For comparison.
//!
//! # Published flaws, kept
//! The CPUs are not in phase, so a program with fewer threads than CPUs gets
//! more than its speed; short sleeps round the share up.

use sandbag_linux::sched::Attributes;

use super::hogs::MOST_REAL_TIME;
use super::{Method, MethodOptions};
use crate::burn::Duty;

#[derive(Debug, Clone, Copy)]
pub struct Rt {
    /// The busy interval is the level of this, ns.
    pub period_ns: u64,
}

impl Default for Rt {
    fn default() -> Self {
        Self {
            period_ns: 100_000_000,
        }
    }
}

impl Rt {
    /// With a user's constants.
    ///
    /// # Errors
    /// The reason, in words, where a constant cannot be that.
    pub fn with_options(options: &MethodOptions) -> Result<Self, String> {
        let period_ns = options.period_on_grid("rt", Self::default().period_ns)?;
        Ok(Self { period_ns })
    }
}

impl Method for Rt {
    fn name(&self) -> &'static str {
        "rt"
    }

    fn about(&self) -> &'static str {
        "a real-time task per CPU that watches its own share; CPUs not in phase (early Wrekavoc)"
    }

    fn duty(&self) -> Duty {
        Duty::Adapt {
            period_ns: self.period_ns,
        }
    }

    fn attributes(&self) -> Attributes {
        Attributes::Fifo { priority: 1 }
    }

    fn serves(&self, asked: f64) -> f64 {
        asked.min(MOST_REAL_TIME)
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        vec![("priority", "1".to_owned())]
    }
}
