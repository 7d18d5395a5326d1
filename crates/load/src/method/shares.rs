// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `shares`: the formula of KRASH and Fracas as published (the layout of the
//! groups is ours). It is wrong on current kernels, and here to show by how much.
//!
//! A spinning burner in a group of its own has weight w = base * L/(1-L),
//! where base is the weight of the group that holds the program (Perarnau &
//! Huard 2010, section IV; Buchert et al. 2011, section III for Fracas). The
//! kernel divides a group's weight over the CPUs on which the group is busy
//! (`calc_group_shares` in kernel/sched/fair.c): the burner's group is busy
//! on one CPU and keeps all of it, the program's on N CPUs and has 1/N on
//! each. The burner gets N*r/(N*r + 1), r = L/(1-L): for 50 % asked 67 % on
//! 2 CPUs, 80 % on 4. Where the program is idle the burner takes everything.
//!
//! KRASH keeps all tasks of the machine in the base group; we move nobody
//! else's tasks, so base is the wrapped command's group.

use sandbag_linux::cgroup::Weight;

use super::{Demand, Method, MethodOptions};
use crate::burn::Duty;

#[derive(Debug, Clone, Copy)]
pub struct SharesMethod;

impl SharesMethod {
    /// With a user's constants.
    ///
    /// # Errors
    /// The reason, in words, where a constant cannot be that.
    pub fn with_options(options: &MethodOptions) -> Result<Self, String> {
        options.no_period("shares has no period")?;
        Ok(Self)
    }
}

impl Method for SharesMethod {
    fn name(&self) -> &'static str {
        "shares"
    }

    fn about(&self) -> &'static str {
        "the published weight formula (KRASH, Fracas), for comparison; too high on current kernels"
    }

    fn duty(&self) -> Duty {
        Duty::Spin
    }

    fn serves(&self, asked: f64) -> f64 {
        // KRASH silently makes 99 of 100.
        asked.min(0.99)
    }

    fn demand(&self, level: f64, _competition: f64) -> Demand {
        Demand {
            weight: Weight(level / (1.0 - level)),
            cap: None,
        }
    }

    fn settles(&self) -> bool {
        false
    }

    fn grouped(&self) -> bool {
        true
    }

    fn parameters(&self) -> Vec<(&'static str, String)> {
        vec![("base_weight", "1".into())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_is_the_weight_of_the_base_group() {
        assert_eq!(SharesMethod.demand(0.5, 7.0).weight, Weight(1.0));
        assert!((SharesMethod.demand(0.8, 1.0).weight.0 - 4.0).abs() < 1e-9);
    }
}
