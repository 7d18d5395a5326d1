// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The weight and the cap of the groups of a CPU's burners, as they are written.

use std::sync::atomic::Ordering;

use sandbag_linux::cgroup::Weight;
use sandbag_linux::sched::{self, Attributes};
use sandbag_run::error::Result;

use super::LoadedCpu;
use crate::supervisor::burner::{Burner, Common};

/// Weight of all burners of a CPU while they are light, where a group cannot be idle: the
/// virtual deadline of their slice is a second away, so a task that wakes has an earlier one.
const LIGHT: Weight = Weight(0.1);

impl LoadedCpu {
    /// Writes weight and cap for the level and the competition, if they change.
    pub(super) fn apply(&mut self, common: &Common<'_>) -> Result<()> {
        if self.level <= 0.0 {
            return Ok(());
        }
        self.tell_light(common);
        let demand = common.method.demand(self.level, self.competition);
        let most = common.layout.most_weight().0;
        let groups = self.alive().count().max(1) as f64;
        let wanted = if self.lightness.is_light() {
            LIGHT
        } else {
            demand.weight
        };
        // Within the limits of one group: whole steps, so that a burner more
        // does not shuffle the others' weights.
        let weight = Weight((wanted.0 / groups).min(most));
        if self.weight != Some(weight) {
            let idle = self.may_be_idle && self.lightness.is_light();
            let was_idle = std::mem::replace(&mut self.idle, idle);
            for holder in self.burners.iter().filter_map(Burner::live_holder) {
                self.writes += 1;
                // As long as a group is idle the kernel refuses to change its weight.
                let done = (idle || was_idle) && holder.set_idle(idle);
                if !(idle && done) {
                    holder.set_weight(weight)?;
                }
            }
            self.weight_changes += u64::from(self.weight.is_some());
            self.weight = Some(weight);
        }
        if self.cap != demand.cap {
            for holder in self.burners.iter().filter_map(Burner::live_holder) {
                holder.set_cap(demand.cap)?;
                self.writes += 1;
            }
            self.cap = demand.cap;
        }
        Ok(())
    }

    /// Gives its groups their weight again if something outside, such as a reload of
    /// systemd, changed it.
    pub(super) fn weigh_again(&mut self, common: &Common<'_>) -> Result<()> {
        let Some(weight) = self.weight else {
            return Ok(());
        };
        let mut groups = self.burners.iter().filter_map(Burner::live_holder);
        let as_set = if self.idle {
            groups.all(|holder| holder.group().stays_idle())
        } else {
            groups.all(|holder| holder.group().has_weight(weight))
        };
        if as_set {
            return Ok(());
        }
        self.weight = None;
        self.apply(common)
    }

    /// Takes the burners off their queues and puts them back. Each entity of the queue keeps
    /// its place through a change of weight; only this brings it back to the mean.
    pub(super) fn place_again(&self, common: &Common<'_>) {
        let Attributes::Fair { nice, slice_ns } = common.method.attributes else {
            return;
        };
        // The kernel leaves alone what does not change.
        for slice_ns in [100_000, slice_ns] {
            for burner in self.alive() {
                let _ =
                    sched::set_attributes(burner.child.id(), Attributes::Fair { nice, slice_ns });
            }
        }
    }

    /// Tells the burners at which debt to call.
    fn tell_light(&self, common: &Common<'_>) {
        for burner in self.alive() {
            let light = u32::from(self.lightness.is_light());
            let slot = common.board.slot(burner.slot);
            slot.light.store(light, Ordering::Relaxed);
        }
    }

    /// Whether the groups there are can carry the weight for a competition.
    pub(super) fn fits(&self, common: &Common<'_>, competition: f64) -> bool {
        let groups = self.alive().count() as f64;
        let wanted = common.method.demand(self.level, competition).weight.0;
        wanted <= common.layout.most_weight().0 * groups
    }
}
