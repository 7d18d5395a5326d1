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
//! - they start on a common grid of the clock, so no hog waits for another,
//!   every CPU may have another level, and hosts with synchronised clocks are
//!   in phase too;
//! - priority 1: any SCHED_FIFO task beats all ordinary ones, and 99 would
//!   delay the kernel's own threads by as much as L*P.

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

/// A program that is let go on for less finds its caches cold too often: some
/// 60 us of every gap are lost for its work (measured, docs/results).
const GAP_NS: f64 = 5e6;
/// Periods that fit into the boundaries of all methods, ns; the default first.
const PERIODS_NS: [u64; 4] = [10_000_000, 20_000_000, 50_000_000, 100_000_000];

/// What a real-time burner takes at most. Kernels stop real-time classes at
/// 95 % of a second (sched_rt_runtime_us), newer ones give ordinary tasks
/// 5 % by another mechanism (the fair server): below it neither is met. At just
/// that both are, now and then: 95 % was 3 points short, 94 % is exact (6.18).
pub const MOST_REAL_TIME: f64 = 0.94;

pub(super) fn method(options: &MethodOptions) -> Result<Method, String> {
    let period_ns = options.period_on_grid("hogs", PERIODS_NS[0])?;
    let (duty, own, sync) = match options.hogs.hog_sync.unwrap_or_default() {
        Sync::Clock => (Duty::Pace { period_ns }, 1, "clock"),
        Sync::Barrier => (Duty::Barrier { period_ns }, 99, "barrier"),
    };
    let priority = options.hogs.hog_priority.unwrap_or(own);
    if !(1..=99).contains(&priority) {
        return Err("a real-time priority lies between 1 and 99".to_owned());
    }
    Ok(Method {
        about: "a real-time task per CPU that takes its part of every period, all CPUs at the same time",
        duty,
        attributes: Attributes::Fifo { priority },
        most: MOST_REAL_TIME,
        parameters: vec![
            ("priority", priority.to_string()),
            ("sync", sync.to_owned()),
        ],
        ..Method::named("hogs")
    })
}

/// The period for a node that stands for at most this part of the time, ns: the
/// shortest that leaves gaps of 5 ms, or the longest there is.
pub fn period_for(level: f64) -> u64 {
    let leaves = |ns: &&u64| **ns as f64 * (1.0 - level) >= GAP_NS * (1.0 - 1e-9);
    let [.., longest] = PERIODS_NS;
    PERIODS_NS.iter().find(leaves).copied().unwrap_or(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_node_has_longer_periods() {
        let ms = |speed: f64| period_for(1.0 - speed) / 1_000_000;
        let speeds = [1.0, 0.5, 0.49, 0.25, 0.2, 0.1, 0.09, 0.05, 0.01];
        assert_eq!(speeds.map(ms), [10, 10, 20, 20, 50, 50, 100, 100, 100]);
        for ns in PERIODS_NS {
            assert!(crate::board::BOUNDARY_NS.is_multiple_of(ns));
        }
    }
}
