// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The early Wrekavoc loader (KRASH section II): a real-time process that
//! watches its own CPU time. It spins for one contiguous interval, then sleeps
//! a little at a time until its share of the time since the level began is
//! down to what was asked. The CPUs are not in
//! phase.

use std::sync::atomic::Ordering;

use sandbag_linux::Error;
use sandbag_linux::clock::{monotonic, sleep_until};

use super::worker::BurnWorker;
use crate::pacing::LevelPlan;

const NAP_NS: u64 = 1_000_000;

pub fn run(worker: &mut BurnWorker<'_>, period_ns: u64) -> Result<(), Error> {
    let mut plan = LevelPlan::default();
    let mut planned = monotonic();
    // Beginning of the level in force: time and CPU time.
    let mut since = (monotonic(), worker.held_ns());
    loop {
        let now = monotonic();
        worker.note_boundaries(now);
        if worker.board.is_paused() {
            worker.stand_still();
            planned = monotonic();
            since = (planned, worker.held_ns());
            continue;
        }
        if worker.stay_on_cpu() {
            since = (monotonic(), worker.held_ns());
            continue;
        }
        let before = plan.level();
        plan.due(worker.slot, planned, now);
        planned = now;
        let level = plan.level();
        if (level - before).abs() > f64::EPSILON {
            since = (now, worker.held_ns());
        }
        if level == 0.0 {
            worker.sleep_idle(&plan);
            continue;
        }
        let begin = worker.held_ns();
        let entitled = level * (now - since.0) as f64;
        let owed = entitled - (begin - since.1) as f64;
        if owed < 0.0 {
            sleep_until(now + NAP_NS);
            continue;
        }
        let busy = (level * period_ns as f64) as u64;
        // Who was stopped, or had no CPU, makes up for one interval.
        let lost = owed - level * period_ns as f64;
        if lost > 0.0 {
            since.0 += (lost / level) as u64;
            worker
                .slot
                .lost_ns
                .fetch_add(lost as u64, Ordering::Relaxed);
        }
        let waits = worker.waits();
        worker.spin_over_boundaries((now + busy).min(plan.end_ns(worker.slot, now)), waits);
        let held = worker.held_ns();
        worker.show(monotonic() - now, begin, held);
        // The interval is over: at least one nap, whatever the share is.
        sleep_until(monotonic() + NAP_NS);
    }
}
