// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a burner does with its level.

use serde::{Deserialize, Serialize};

use crate::pacing::LONGEST_NS;
use crate::throttle::Throttling;

/// What a burner does while its level is above zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Duty {
    /// Takes its level of every period by its own clock, from its beginning on.
    Pace {
        /// Length of the grid, ns; divides [`crate::board::BOUNDARY_NS`].
        period_ns: u64,
    },
    /// The same in bursts of about the length that the kernel lets an ordinary task run:
    /// the period [follows the level](crate::pacing::burst_period).
    Burst,
    /// Never sleeps: something else (a weight, a cap) limits it.
    Spin,
    /// Spins its level of a period, waits for the others, sleeps the rest.
    Barrier {
        /// Spinning and sleeping together, ns.
        period_ns: u64,
    },
    /// One busy interval, then short sleeps until its share is down to the level.
    Adapt {
        /// The busy interval is the level of this, ns.
        period_ns: u64,
    },
    /// Burns nothing: slows the node that the [`BurnerSetup`](crate::burn::BurnerSetup) names.
    Throttle(Throttling),
}

impl Duty {
    /// The longest period; 0 without one, ns.
    pub fn period_ns(self) -> u64 {
        match self {
            Self::Spin => 0,
            Self::Burst => LONGEST_NS,
            Self::Throttle(throttling) => throttling.period_ns(),
            Self::Pace { period_ns } | Self::Barrier { period_ns } | Self::Adapt { period_ns } => {
                period_ns
            }
        }
    }
}
