// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replay of a phase at a random position of the trace, with the measured work of each rank
//! and with the calibrated quantum. Pure.

use sandbag_jitter::replay::{PlanColumn, Portion, ReplayPlan, Sync};

use super::meets::{WorkStart, is_inside, met_ns};
use crate::chance::Chance;

/// Random positions that are tried for one outside events.
const TRIES: u32 = 64;

/// One replay of a phase.
pub(super) struct Draw {
    chance: Chance,
    /// The position, as a share of the column.
    at: f64,
    /// The group of ranks that has it, where ranks are not synchronised.
    group: Option<u32>,
    /// The slowest rank so far with the measured work, ns.
    pub with_host_ns: u64,
    /// The slowest rank so far with the calibrated quantum, ns.
    pub alone_ns: u64,
}

impl Draw {
    /// The same for a seed and a number.
    pub(super) fn new(seed: u64, number: u64) -> Self {
        let mut chance = Chance::new(seed, number);
        Self {
            at: chance.uniform(),
            chance,
            group: None,
            with_host_ns: 0,
            alone_ns: 0,
        }
    }

    /// Replays the next rank. A synchronised rank begins where `start` puts it, given the
    /// common position.
    pub(super) fn add(
        &mut self,
        plan: &ReplayPlan,
        rank: u32,
        start: impl Fn(u64) -> WorkStart,
        (measured_ns, calibrated_ns): (u64, u64),
    ) {
        let column = plan.column(u64::from(rank));
        let options = plan.options();
        let begin = match options.sync {
            Sync::None => WorkStart::After(self.of_group(rank / options.group.max(1), column)),
            Sync::Once | Sync::Phases(_) => start(self.position(column)),
        };
        let took_ns = |work_ns| work_ns + met_ns(column, begin, work_ns);
        self.with_host_ns = self.with_host_ns.max(took_ns(measured_ns));
        self.alone_ns = self.alone_ns.max(took_ns(calibrated_ns));
    }

    fn position(&self, column: &PlanColumn) -> u64 {
        (self.at * column.known_ns as f64) as u64
    }

    /// The position of a group that is not synchronised: a random one outside events.
    fn of_group(&mut self, group: u32, column: &PlanColumn) -> u64 {
        if self.group != Some(group) {
            self.group = Some(group);
            for _ in 0..TRIES {
                self.at = self.chance.uniform();
                if !is_inside(column, self.position(column)) {
                    break;
                }
            }
        }
        self.position(column)
    }
}

/// The way of a rank through its portion of the trace, phase by phase.
pub(super) struct Way {
    portion: Portion,
    /// Duration of its phases since the begin of the portion, ns.
    passed_ns: u64,
    /// No phase has ended since then.
    first: bool,
}

impl Way {
    pub(super) fn new(portion: Portion) -> Self {
        Self {
            portion,
            passed_ns: 0,
            first: true,
        }
    }

    /// Begins a phase, which may set the rank to a common position.
    pub(super) fn begin(&mut self, phase: u64) {
        if let Some(portion) = self.portion.at_phase(phase) {
            *self = Self::new(portion);
        }
    }

    /// Ends a phase.
    pub(super) fn pass(&mut self, ns: u64) {
        self.passed_ns += ns;
        self.first = false;
    }

    /// Where the rank would be if its portion had begun there, ns.
    pub(super) fn from(&self, begin_ns: u64) -> WorkStart {
        self.start(begin_ns + self.passed_ns)
    }

    /// Where the rank is. A benchmark's portion is not stretched, and repeats.
    pub(super) fn here(&self) -> WorkStart {
        self.start(self.portion.position_ns(self.passed_ns))
    }

    fn start(&self, at_ns: u64) -> WorkStart {
        if self.first {
            WorkStart::At(at_ns)
        } else {
            WorkStart::After(at_ns)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::plan;
    use super::*;

    #[test]
    fn ranks_are_set_back_as_their_synchronisation_says() {
        for (sync, expected) in [
            (Sync::None, [true, false, false, false, false, false, false]),
            (Sync::Once, [true, false, false, false, false, false, false]),
            (
                Sync::Phases(3),
                [true, false, false, true, false, false, true],
            ),
        ] {
            let mut rank = Way::new(plan(sync).rank(5));
            let begins = [0, 1, 2, 3, 4, 5, 6].map(|phase| {
                rank.begin(phase);
                let first = rank.first;
                rank.pass(10);
                first
            });
            assert_eq!(begins, expected, "{sync:?}");
        }
    }
}
