// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `hogs`: CPU-Hogs (Buchert, Nussbaum & Gustedt 2011, section III).
//!
//! One real-time burner per CPU takes its level of every period; all CPUs are
//! taken, and free, at the same time. Without that a program with fewer
//! threads than CPUs moves to whichever CPU is free and gets more than its
//! speed (the paper's figure 3).
//!
//! As published the hogs have the highest priority and meet at a barrier
//! before each sleep ([`Sync::Barrier`]). The default differs in two things:
//! - they start on a common grid of the clock, so nobody waits for anybody,
//!   every CPU may have another level, and hosts with synchronised clocks are
//!   in phase too;
//! - priority 1: any SCHED_FIFO task beats all ordinary ones, and 99 would
//!   delay the kernel's own threads by as much as L*P.
//!
//! # Published flaws, kept
//! Whatever else runs on these CPUs is stopped for L*P in every period: input
//! and output, too. A process that wakes in the busy part waits for its end.

use clap::{Args, ValueEnum};
use sandbag_linux::sched::Attributes;

use super::{Method, MethodOptions, OptionGroup};
use crate::burn::Duty;

/// Options of `hogs`.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct HogsOptions {
    /// hogs: in phase by the clock, or at a barrier as published
    #[arg(long, value_name = "HOW")]
    pub hog_sync: Option<Sync>,

    /// hogs: real-time priority, 1 to 99 [default: 1; at a barrier 99]
    #[arg(long, value_name = "N")]
    pub hog_priority: Option<u32>,
}

impl HogsOptions {
    pub(super) fn option_group(&self) -> OptionGroup {
        let given = self.hog_sync.is_some() || self.hog_priority.is_some();
        (given, &["hogs"], "neither phase nor priority")
    }
}

/// What keeps hogs in phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Sync {
    /// The grid of the clock.
    #[default]
    Clock,
    /// A barrier before each sleep, as published.
    Barrier,
}

/// See the module's text.
#[derive(Debug, Clone, Copy)]
pub struct Hogs {
    /// Length of a period, ns.
    pub period_ns: u64,
    /// What keeps them in phase.
    pub sync: Sync,
    /// SCHED_FIFO priority, 1 to 99.
    pub priority: u32,
}

impl Default for Hogs {
    fn default() -> Self {
        Self {
            period_ns: 10_000_000,
            sync: Sync::Clock,
            priority: 1,
        }
    }
}

/// A program that is let go on for less finds its caches cold too often: some
/// 60 us of every gap are lost for its work (measured, docs/results).
const GAP_NS: f64 = 5e6;
/// Periods that fit into the boundaries of all methods, ns.
const PERIODS_NS: [u64; 4] = [10_000_000, 20_000_000, 50_000_000, 100_000_000];

impl Hogs {
    /// With a user's constants.
    ///
    /// # Errors
    /// The reason, in words, where a constant cannot be that.
    pub fn with_options(options: &MethodOptions) -> Result<Self, String> {
        let sync = options.hogs.hog_sync.unwrap_or_default();
        let own = match sync {
            Sync::Clock => 1,
            Sync::Barrier => 99,
        };
        let priority = options.hogs.hog_priority.unwrap_or(own);
        if !(1..=99).contains(&priority) {
            return Err("a real-time priority lies between 1 and 99".to_owned());
        }
        Ok(Self {
            period_ns: options.period_on_grid("hogs", Self::default().period_ns)?,
            sync,
            priority,
        })
    }

    /// The period for a node that stands for at most this part of the time: the
    /// shortest that leaves gaps of 5 ms, or the longest there is.
    #[must_use]
    pub fn period_for(level: f64) -> u64 {
        let leaves = |ns: &&u64| **ns as f64 * (1.0 - level) >= GAP_NS * (1.0 - 1e-9);
        let [.., longest] = PERIODS_NS;
        PERIODS_NS.iter().find(leaves).copied().unwrap_or(longest)
    }
}

/// What a real-time burner takes at most. Kernels stop real-time classes at
/// 95 % of a second (sched_rt_runtime_us), newer ones give ordinary tasks
/// 5 % by another mechanism (the fair server): below it neither is met. At just
/// that both are, now and then: 95 % was 3 points short, 94 % is exact (6.18).
pub const MOST_REAL_TIME: f64 = 0.94;

impl Method for Hogs {
    fn name(&self) -> &'static str {
        "hogs"
    }

    fn about(&self) -> &'static str {
        "a real-time task per CPU that takes its part of every period, all CPUs at the same time"
    }

    fn duty(&self) -> Duty {
        let period_ns = self.period_ns;
        match self.sync {
            Sync::Clock => Duty::Pace { period_ns },
            Sync::Barrier => Duty::Barrier { period_ns },
        }
    }

    fn attributes(&self) -> Attributes {
        Attributes::Fifo {
            priority: self.priority,
        }
    }

    fn serves(&self, asked: f64) -> f64 {
        asked.min(MOST_REAL_TIME)
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        vec![
            ("priority", self.priority.to_string()),
            (
                "sync",
                match self.sync {
                    Sync::Clock => "clock",
                    Sync::Barrier => "barrier",
                }
                .to_owned(),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_never_taken_for_good() {
        let hogs = Hogs::default();
        assert!((hogs.serves(1.0) - MOST_REAL_TIME).abs() < 1e-12);
        assert!((hogs.serves(0.3) - 0.3).abs() < 1e-12);
        assert_eq!(hogs.demand(0.5, 1.0).cap, None);
    }

    #[test]
    fn a_slow_node_has_longer_periods() {
        let ms = |speed: f64| Hogs::period_for(1.0 - speed) / 1_000_000;
        let speeds = [1.0, 0.5, 0.49, 0.25, 0.2, 0.1, 0.09, 0.05, 0.01];
        assert_eq!(speeds.map(ms), [10, 10, 20, 20, 50, 50, 100, 100, 100]);
        assert_eq!(Hogs::period_for(0.0), Hogs::default().period_ns);
        for ns in PERIODS_NS {
            assert!(crate::board::BOUNDARY_NS.is_multiple_of(ns));
        }
    }

    #[test]
    fn boundaries_lie_on_the_grid() {
        assert_eq!(crate::board::BOUNDARY_NS % Hogs::default().period_ns, 0);
    }
}
