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
        if let Attributes::Fair { slice_ns, .. } = common.method.attributes {
            let burners: Vec<u32> = self.alive().map(|burner| burner.child.id()).collect();
            place_tasks_again(&burners, slice_ns);
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

/// Takes ordinary tasks off their queues and puts them back, in the end with this slice.
fn place_tasks_again(tasks: &[u32], slice_ns: u64) {
    let with_nice = |task: &u32| match sched::attributes_of(*task) {
        Ok(Attributes::Fair { nice, .. }) => Some((*task, nice)),
        _ => None,
    };
    // Each keeps its nice value: a lower one takes privilege.
    let tasks: Vec<(u32, i32)> = tasks.iter().filter_map(with_nice).collect();
    // The kernel leaves alone what does not change, and before 6.12 another slice is no change.
    // Another class always is. This call leaves the nice value, too.
    let none = libc::sched_param { sched_priority: 0 };
    for (task, _) in &tasks {
        // SAFETY: the parameters are valid for reading.
        unsafe {
            libc::sched_setscheduler(task.cast_signed(), libc::SCHED_BATCH, &raw const none);
        }
    }
    for slice_ns in [100_000, slice_ns] {
        for (task, nice) in &tasks {
            let nice = *nice;
            let _ = sched::set_attributes(*task, Attributes::Fair { nice, slice_ns });
        }
    }
}

#[cfg(test)]
#[path = "../../../../base/linux/tests/support/skipped.rs"]
mod skipped;
#[cfg(test)]
#[path = "../../../../base/linux/tests/support/unprivileged.rs"]
mod unprivileged;

#[cfg(test)]
mod tests {
    use super::skipped::say_skipped;
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    #[test]
    fn a_task_is_placed_again_whatever_its_slice_and_keeps_its_nice_value() {
        // The slice by which it is placed.
        const SLICE_NS: u64 = 100_000;
        let placed = std::thread::spawn(|| {
            // A lower value than that of the test's caller takes privilege.
            let Attributes::Fair { nice, .. } = sched::attributes_of(0).unwrap() else {
                return None;
            };
            let niced = Attributes::Fair {
                nice: nice.max(5),
                slice_ns: SLICE_NS,
            };
            let before = sched::set_attributes(0, niced).unwrap();
            // SAFETY: no arguments; cannot fail.
            let task = unsafe { libc::gettid() }.cast_unsigned();
            let over = AtomicBool::new(false);
            let was_placed = std::thread::scope(|scope| {
                scope.spawn(|| {
                    unprivileged::give_up_nice();
                    while !over.load(Ordering::Acquire) {
                        place_tasks_again(&[task], SLICE_NS);
                    }
                });
                let give_up = Instant::now() + Duration::from_secs(100);
                // SAFETY: no pointers.
                let is_placed = || unsafe { libc::sched_getscheduler(0) } == libc::SCHED_BATCH;
                // It sees some of many.
                let was_placed = loop {
                    if is_placed() || Instant::now() > give_up {
                        break Instant::now() <= give_up;
                    }
                };
                over.store(true, Ordering::Release);
                was_placed
            });
            Some((was_placed, before, sched::attributes_of(0).unwrap()))
        });
        // None in SCHED_IDLE, which an ordinary user cannot leave.
        let Some((was_placed, before, after)) = placed.join().unwrap() else {
            let test = "a_task_is_placed_again_whatever_its_slice_and_keeps_its_nice_value";
            say_skipped(test, "not in SCHED_OTHER");
            return;
        };
        assert!(was_placed);
        assert_eq!(after, before);
    }
}
