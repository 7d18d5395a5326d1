// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where in the trace ranks are, by chance. Pure.

use sandbag_jitter::replay::PlanColumn;

use super::meets::is_inside;
use crate::chance::Chance;

/// Positions that are tried for one between events.
const TRIES: u32 = 64;

/// A position of all ranks that are synchronised, or of the ranks of a group.
pub(super) struct Position {
    chance: Chance,
    /// 0 to 1 of the column.
    at: f64,
    /// The group that has it.
    group: Option<u64>,
}

impl Position {
    /// The same for a seed and a number.
    pub(super) fn new(seed: u64, number: u64) -> Self {
        let mut chance = Chance::new(seed, number);
        Self {
            at: chance.uniform(),
            chance,
            group: None,
        }
    }

    /// Where on its column all ranks are that are synchronised, ns.
    pub(super) fn common(&self, column: &PlanColumn) -> u64 {
        (self.at * column.known_ns as f64) as u64
    }

    /// Where a rank of a group is that is not: anywhere in the time of its own work.
    pub(super) fn of_group(&mut self, group: u64, column: &PlanColumn) -> u64 {
        if self.group != Some(group) {
            self.group = Some(group);
            for _ in 0..TRIES {
                self.at = self.chance.uniform();
                if !is_inside(column, self.common(column)) {
                    break;
                }
            }
        }
        self.common(column)
    }
}
