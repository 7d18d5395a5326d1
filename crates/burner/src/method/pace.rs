// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pace`: an ordinary task that paces itself. The default.
//!
//! # Approach
//! The burner is a SCHED_OTHER task in a group whose weight gives it
//! *headroom*: the share it would get if it never slept lies above the asked
//! level. It takes L*P of CPU time in every period P of the clock and sleeps
//! for the rest. The level is held by the burner's own clock; weight, number
//! of competitors and number of CPUs do not enter.
//!
//! # Constants, and what was tried
//! Measured on 2 CPUs, Linux 6.18 (EEVDF, HZ 250), cgroup v1; wake-up latency
//! in us (p50 / p90 / p99) of a task that sleeps 1 ms, beside a load of 50 %.
//! Beside an ordinary pinned spinner it is 4 / 5-7 / 13-22.
//!
//! | weight | P ms | slice | p50 / p90 / p99 |
//! |---|---|---|---|
//! | 3 | 20 | kernel's (1.4 ms) | 10 / 30 / 3876 |
//! | 3 | 20 | 0.1 ms | 11 / 25 / 3858 |
//! | 3 | 4 | kernel's | 14 / 1702 / 2007 |
//! | 3 | 20 | 5 ms | 10 / 21 / 47 |
//! | 3 | 20 | 20 ms | 10 / 22 / 42 |
//! | 3 | 20 | 100 ms | 11 / 29 / 44 |
//! | 256 | 20 | kernel's | 19 / 3526 / 5665 |
//! | 256 | 20 | 100 ms | 30 / 3778 / 5984 |
//!
//! A *long* slice, not a short one, makes the burner a good neighbour: its
//! virtual deadline is slice/weight away, so whoever wakes has the earlier
//! deadline and is served at once. That works while slice/weight exceeds the
//! others' 1.4 ms, hence moderate weight and the longest slice the kernel
//! takes (100 ms). At the maximum weight nothing helps.
//!
//! The error does not depend on any of this while there is headroom: mean
//! absolute .001, worst .007 points per 1 s window at 50 and 95 % beside 2
//! and 40 spinners. Without it (weight 10 for 95 %, kernel's slice) it was
//! 1.3 to 2.5 points.
//!
//! # In phase
//! For a virtual node the burners of all CPUs must be done at the same time,
//! or the program moves to the CPU that is free first and gets more than its
//! speed. A burner with moderate weight shares its part of the period with
//! whoever is there; with the maximum weight it takes it in one piece at the
//! beginning ([`Pace::in_phase`]).
//!
//! P = 20 ms divides every window and is not a multiple of a 4 ms tick's
//! aliasing partners that matter here: the claims are made on CPU clocks, not
//! on sampled ticks. Shorter periods wake more often and gain nothing at 1 s.

use sandbag_kernel::cgroup::Weight;
use sandbag_kernel::sched::Attributes;

use super::{Demand, Method, headroom_weight};
use crate::burn::Duty;

/// See the module's text.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Length of the grid, ns.
    pub period_ns: u64,
    /// Custom slice, ns; 0 for the kernel's own.
    pub slice_ns: u64,
    /// Take the level in one piece at the beginning of the period.
    pub in_phase: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            period_ns: 20_000_000,
            slice_ns: 100_000_000,
            in_phase: false,
        }
    }
}

/// Above this a paced burner has no time left to make up for anything.
const MOST: f64 = 0.995;

impl Method for Pace {
    fn name(&self) -> &'static str {
        "pace"
    }

    fn about(&self) -> &'static str {
        "an ordinary task with headroom that paces itself by its own CPU clock"
    }

    fn duty(&self) -> Duty {
        Duty::Pace {
            period_ns: self.period_ns,
        }
    }

    fn attributes(&self) -> Attributes {
        Attributes::Fair {
            nice: 0,
            slice_ns: self.slice_ns,
        }
    }

    fn serves(&self, asked: f64) -> f64 {
        asked.min(MOST)
    }

    fn demand(&self, level: f64, competition: f64) -> Demand {
        Demand {
            weight: match self.in_phase {
                true => Weight(f64::MAX),
                false => headroom_weight(level, competition),
            },
            cap: None,
        }
    }

    fn wants_headroom(&self) -> bool {
        !self.in_phase
    }

    fn grouped(&self) -> bool {
        true
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        let mut all = vec![("slice_ms", format!("{}", self.slice_ns as f64 / 1e6))];
        if self.in_phase {
            all.push(("weight", "maximum, in phase".to_owned()));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_of_the_range_is_said() {
        let pace = Pace::default();
        assert!((pace.serves(1.0) - MOST).abs() < 1e-12);
        assert!((pace.serves(0.99) - 0.99).abs() < 1e-12);
    }

    #[test]
    fn the_period_divides_the_boundaries() {
        assert_eq!(crate::board::BOUNDARY_NS % Pace::default().period_ns, 0);
    }
}
